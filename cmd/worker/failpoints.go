package worker

import (
	"context"
	"sync"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"google.golang.org/grpc"

	"github.com/weirstream/weir/dataplane/failpoint"
)

// FailAtCompletions makes the workers of a client pass the fail points around the completion of each activity:
// before its result, or failure, is sent to the server, and after the server has it. For processes that have
// fail points armed.
func FailAtCompletions(o *client.Options) {
	c := &completions{}
	o.Interceptors = append(o.Interceptors, c)
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(c.call))
}

// completions knows which activity a task token belongs to.
type completions struct {
	interceptor.InterceptorBase
	byToken sync.Map // task token → name of the activity
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (c *completions) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &completed{interceptor.ActivityInboundInterceptorBase{Next: next}, c}
}

type completed struct {
	interceptor.ActivityInboundInterceptorBase
	c *completions
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *completed) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	out, err := a.Next.ExecuteActivity(ctx, in)
	a.c.byToken.Store(string(info.TaskToken), info.ActivityType.Name)
	failpoint.HitEach("activity.before-completion", info.ActivityType.Name)
	return out, err
}

// call is around every request of the client.
func (c *completions) call(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if err != nil {
		return err
	}
	var token []byte
	switch r := req.(type) {
	case *workflowservice.RespondActivityTaskCompletedRequest:
		token = r.TaskToken
	case *workflowservice.RespondActivityTaskFailedRequest:
		token = r.TaskToken
	case *workflowservice.RespondActivityTaskCanceledRequest:
		token = r.TaskToken
	}
	if name, ok := c.byToken.LoadAndDelete(string(token)); ok {
		failpoint.HitEach("activity.after-completion", name.(string))
	}
	return nil
}
