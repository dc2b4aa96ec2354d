package activities

import "go.temporal.io/sdk/worker"

// RegisterControl registers the activities of ControlQueue with a worker that polls it.
func RegisterControl(r worker.ActivityRegistry, c *Control) { r.RegisterActivity(c) }

// RegisterNode registers the node's own activities with a worker that polls NodeQueue of that node and
// nothing else (worker.Options.DisableWorkflowWorker).
func RegisterNode(r worker.ActivityRegistry, n *NodeBound) { r.RegisterActivity(n) }
