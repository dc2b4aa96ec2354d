package activities

import (
	"fmt"
	"time"
)

// perNode is the checkpoint interval that one more node costs: writes on one workflow are serial, some
// twenty a second is healthy.
const perNode = 50 * time.Millisecond

// checkOptions returns what is wrong with the settings on this cluster. nodes is how many nodes the job
// can spread over at the moment.
func checkOptions(o Options, nodes int) []string {
	var problems []string
	if o.Storage == "" {
		problems = append(problems, "checkpoint.storage: the job names no storage and the workers have no default; "+
			`set it, such as "s3://bucket/prefix"`)
	}
	if o.Interval <= 0 {
		problems = append(problems, fmt.Sprintf("checkpoint.interval: %v is not above zero", o.Interval))
	}
	if o.Timeout <= 0 {
		problems = append(problems, fmt.Sprintf("checkpoint.timeout: %v is not above zero", o.Timeout))
	}
	if least := time.Duration(nodes) * perNode; o.Interval > 0 && o.Interval < least {
		problems = append(problems, fmt.Sprintf("checkpoint.interval: %v is too short for %d nodes; at least %v", o.Interval, nodes, least))
	}
	if o.TxTimeout > 0 && o.Interval+o.Timeout > o.TxTimeout*4/5 {
		problems = append(problems, fmt.Sprintf("checkpoint.interval + checkpoint.timeout (%v + %v) must be well below the sink's "+
			"transaction timeout (%v, so at most %v): a transaction that expires before its checkpoint is committed loses its records",
			o.Interval, o.Timeout, o.TxTimeout, o.TxTimeout*4/5))
	}
	return problems
}
