package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/dataplane/job"
)

func transactionList(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List Weir's open transactions, those that block readers first", Args: exactly(0, "no arguments"),
		Long: `List Weir's open transactions, of all jobs, those that block read-committed readers first.

BLOCKS names the partitions whose readers wait for this transaction, and how many offsets wait there. A
transaction behind another one blocks nobody until that has ended. PROMISED says whether the newest checkpoint
in the storage still promises to commit it: then the job does so when it is started again (weir job start
--from latest), or: weir transaction commit. Without storage that is unknown.`,
	}
	open := systemFlags(s, c)
	asJSON := c.Flags().Bool("json", false, "print the answer as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		sys, err := open(c.Context())
		if err != nil {
			return err
		}
		defer sys.close()
		all, err := sys.find(c.Context())
		if err != nil {
			return err
		}
		now := time.Now()
		rows := make([]transactionRow, len(all))
		for i, f := range all {
			rows[i] = rowOf(f, now)
		}
		if *asJSON {
			e := json.NewEncoder(s.out)
			e.SetIndent("", "  ")
			return e.Encode(rows)
		}
		if len(rows) == 0 {
			fmt.Fprintf(s.out, "no transaction of Weir is open on %s\n", fromEnvironment(c))
			return nil
		}
		return printTransactions(s.out, rows)
	}
	return c
}

// transactionRow is one open transaction for people and their scripts.
type transactionRow struct {
	ID       string      `json:"id"`
	UID      job.UID     `json:"uid"`
	Job      string      `json:"job,omitempty"`
	Sink     string      `json:"sink"`
	Attempt  job.Attempt `json:"attempt"`
	Subtask  int         `json:"subtask"`
	Slot     int         `json:"slot"`
	State    string      `json:"state"`
	Age      string      `json:"age"`
	TimeLeft string      `json:"time_left"`
	// Promised is "checkpoint n", "none" or "unknown".
	Promised   string           `json:"promised"`
	Blocks     bool             `json:"blocks_readers"`
	Partitions []partitionOfRow `json:"partitions"`
}

type partitionOfRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Waiting is how many offsets readers cannot read yet, whoever holds them up.
	Waiting int64 `json:"waiting"`
	Blocks  bool  `json:"blocks_readers"`
}

func rowOf(f found, now time.Time) transactionRow {
	r := transactionRow{
		ID: f.ID.String(), UID: f.ID.UID, Job: f.promise.job, Sink: f.ID.Sink, Attempt: f.ID.Attempt,
		Subtask: f.ID.Subtask, Slot: f.ID.Slot, State: f.State, Age: rough(now.Sub(f.Began)), TimeLeft: rough(f.Left(now)),
		Promised: f.promise.String(), Blocks: f.Blocks(), Partitions: []partitionOfRow{},
	}
	if f.Left(now) <= 0 {
		r.TimeLeft = "over"
	}
	if f.State != "Ongoing" {
		r.TimeLeft = "ending"
	}
	for _, p := range f.Partitions {
		r.Partitions = append(r.Partitions, partitionOfRow{p.Topic, p.Partition, max(p.End-p.Stable, 0), p.Blocks()})
	}
	return r
}

// blocks is the row's column of what it holds up.
func (r transactionRow) blocks() string {
	var parts []string
	for _, p := range r.Partitions {
		if p.Blocks {
			parts = append(parts, fmt.Sprintf("%s/%d (%d)", p.Topic, p.Partition, p.Waiting))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// name is the job's name, or its uid where no name is known.
func (r transactionRow) name() string {
	if r.Job != "" {
		return r.Job
	}
	return string(r.UID)
}

func printTransactions(out io.Writer, rows []transactionRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSINK\tATTEMPT\tSUBTASK\tSLOT\tSTATE\tAGE\tLEFT\tPROMISED\tBLOCKS\tID")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.name(), r.Sink, r.Attempt, r.Subtask, r.Slot, r.State, r.Age, r.TimeLeft, r.Promised, r.blocks(), r.ID)
	}
	return w.Flush()
}

// rough is a duration for people: no finer than it needs to be.
func rough(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
