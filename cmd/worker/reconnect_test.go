package worker

import (
	"context"
	"net"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// frontend answers polls with the token "task".
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (frontend) PollActivityTaskQueue(context.Context, *workflowservice.PollActivityTaskQueueRequest) (*workflowservice.PollActivityTaskQueueResponse, error) {
	return &workflowservice.PollActivityTaskQueueResponse{TaskToken: []byte("task")}, nil
}

// TestPollsOutliveAnOutage polls while no server is there: the poll waits, and is answered when one is. Another
// request fails meanwhile.
func TestPollsOutliveAnOutage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	var o client.Options
	resumeAtOnce(&o)
	conn, err := grpc.NewClient(addr, append(o.ConnectionOptions.DialOptions, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	service := workflowservice.NewWorkflowServiceClient(conn)
	type answer struct {
		token string
		err   error
	}
	polled := make(chan answer, 1)
	go func() {
		r, err := service.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{})
		polled <- answer{string(r.GetTaskToken()), err}
	}()
	if _, err := service.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("another request without a server: %v, want unavailable", err)
	}
	// The request above has seen the failed connection, so that a poll that fails with it has done so.
	select {
	case a := <-polled:
		t.Fatalf("the poll ended without a server: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, frontend{})
	go server.Serve(l)
	defer server.Stop()
	back := time.Now()
	if a := <-polled; a.err != nil || a.token != "task" {
		t.Fatalf("got %+v, want the task", a)
	}
	if took := time.Since(back); took > 5*reconnectWithin {
		t.Errorf("the poll was answered %v after the server's return", took)
	}
}
