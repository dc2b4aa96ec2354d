package worker

import (
	"context"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// reconnectWithin bounds the pause between two tries to connect to a Temporal server that is away.
const reconnectWithin = time.Second

// resumeAtOnce makes the workers of a client go on as soon as the server is back. By themselves the SDK's
// connection and its pollers both back off, ten seconds each after an outage of half a minute, and all that time no
// checkpoint is taken. Here the connection tries every second, and a poll waits for it rather than failing.
func resumeAtOnce(o *client.Options) {
	back := backoff.DefaultConfig
	back.BaseDelay, back.MaxDelay = 100*time.Millisecond, reconnectWithin
	// Options given last win. The user's stay: they are appended before.
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: back, MinConnectTimeout: 5 * time.Second}),
		grpc.WithChainUnaryInterceptor(pollsWait),
	)
}

// pollsWait lets long polls wait for a connection; other requests fail, and their callers know what to do.
func pollsWait(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, name, _ := strings.Cut(method, "WorkflowService/Poll"); strings.HasSuffix(name, "TaskQueue") {
		opts = append(opts, grpc.WaitForReady(true))
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}
