package activities

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/dataplane/job"
)

// Executions is what activities ask of Temporal itself.
type Executions interface {
	// Open reports whether workflow id has an open run that belongs to the chain which began with run ("":
	// any). An unknown id is not open.
	Open(ctx context.Context, id, run string) (bool, error)
	// Await returns when workflow id is closed, with its failure in words ("" if it did not fail).
	Await(ctx context.Context, id string) (string, error)
	// Cancel asks workflow id to end; one that is closed or unknown is no error.
	Cancel(ctx context.Context, id string) error
	// Attributes lists the search attributes that the namespace has: name to type.
	Attributes(ctx context.Context) (map[string]string, error)
}

// Temporal implements Executions on a client. It may be used concurrently.
type Temporal struct {
	Client    client.Client
	Namespace string
}

var _ Executions = Temporal{}

// AttemptOpen reports whether the Attempt workflow of ref, of the job called name, is still open. A node
// whose tasks have no watcher asks it and stops them when the answer is no; an error (Temporal cannot be
// reached) is no answer.
func AttemptOpen(ctx context.Context, x Executions, name string, ref job.Ref) (bool, error) {
	return x.Open(ctx, AttemptID(name, ref), "")
}

// Open implements Executions.
func (t Temporal) Open(ctx context.Context, id, run string) (bool, error) {
	d, err := t.Client.DescribeWorkflow(ctx, id, "")
	if err != nil {
		if absent(err) {
			return false, nil
		}
		return false, fmt.Errorf("describe workflow %s: %w", id, err)
	}
	info := d.RawResponse.GetWorkflowExecutionInfo()
	if first := info.GetFirstRunId(); run != "" && first != "" && first != run {
		return false, nil
	}
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return false, nil
	}
	return true, nil
}

// Await implements Executions.
func (t Temporal) Await(ctx context.Context, id string) (string, error) {
	err := t.Client.GetWorkflow(ctx, id, "").Get(ctx, nil)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var failed *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return "", nil
	case absent(err):
		return "workflow " + id + " does not exist", nil
	case errors.As(err, &failed):
		return Cut(failed.Unwrap().Error()), nil
	default:
		return "", fmt.Errorf("await workflow %s: %w", id, err)
	}
}

// Cancel implements Executions.
func (t Temporal) Cancel(ctx context.Context, id string) error {
	if err := t.Client.CancelWorkflow(ctx, id, ""); err != nil && !absent(err) {
		return fmt.Errorf("cancel workflow %s: %w", id, err)
	}
	return nil
}

// Attributes implements Executions.
func (t Temporal) Attributes(ctx context.Context) (map[string]string, error) {
	r, err := t.Client.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: t.Namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	out := make(map[string]string, len(r.GetCustomAttributes()))
	for name, kind := range r.GetCustomAttributes() {
		out[name] = kind.String()
	}
	return out, nil
}

func absent(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
