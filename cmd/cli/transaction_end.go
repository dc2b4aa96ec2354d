package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/transaction"
)

// byHand is one of the two ways to end a transaction.
type byHand struct {
	verb, short, long string
	// refuse is why it must not be done, or nil; --force overrules that.
	refuse func(found) error
	// then says what follows from it, for whoever confirms.
	then func(found) string
	do   func(context.Context, found) (string, error)
}

var commitByHand = byHand{
	verb: "commit", short: "Commit an open transaction: readers are shown its records",
	long: `Commit an open transaction, so that readers are shown its records.

That is right where a durable checkpoint promises it (PROMISED in weir transaction list): the job counts these
records as written. Where none does it is refused: the job, restored, writes the same records again, and readers
would be shown them twice. --force overrules that, for a job that never runs again.`,
	refuse: func(f found) error {
		switch {
		case f.promise.held():
			return nil
		case !f.promise.known:
			return errors.New("without a storage it cannot be seen whether a checkpoint promises it; give --storage, or --force if the job never runs again")
		}
		return errors.New("no durable checkpoint promises it: the job, restored, would write its records again, and readers would be shown them twice; " +
			"abort it, or --force if the job never runs again")
	},
	then: func(f found) string {
		if f.promise.held() {
			return fmt.Sprintf("Readers are shown its %d records. That is what checkpoint %d promises, and what the job does itself when it is restored.",
				f.promise.entry.Records, f.promise.by)
		}
		return "Readers are shown its records. If the job is restored it writes them again: they are doubled then."
	},
	do: commitFound,
}

var abortByHand = byHand{
	verb: "abort", short: "Abort an open transaction: readers never see its records",
	long: `Abort an open transaction and fence its producer, so that readers never see its records.

That is right where no durable checkpoint promises it (PROMISED in weir transaction list): the job, restored,
writes these records again. Where one does it is refused: the job counts them as written, and they would be lost.
--force overrules that. A job that still runs may be about to promise the transaction: stop it first.`,
	refuse: func(f found) error {
		switch {
		case f.promise.held():
			return fmt.Errorf("checkpoint %d promises to commit it: its %d records would be lost, since the job counts them as written; "+
				"commit it, or start the job again, or --force", f.promise.by, f.promise.entry.Records)
		case !f.promise.known:
			return errors.New("without a storage it cannot be seen whether a checkpoint promises it; give --storage, or --force")
		}
		return nil
	},
	then: func(f found) string {
		if f.promise.held() {
			return fmt.Sprintf("Its %d records are lost, unless all transactions of checkpoint %d are: then the job, restored, falls back to the "+
				"checkpoint before. Else it refuses to go on and names them.", f.promise.entry.Records, f.promise.by)
		}
		text := "Its records are dropped; the job, restored, writes them again."
		if !f.promise.known {
			text = "Its records are dropped. If a checkpoint promises it they are lost, and the job refuses to go on."
		}
		if f.promise.known && f.ID.Attempt >= f.promise.survey.MaxAttempt {
			text += fmt.Sprintf(" Attempt %d is the newest of its job: if it still runs it fails and is restarted, and if a checkpoint is "+
				"being taken at this moment the records may be lost. Stop the job first.", f.ID.Attempt)
		}
		return text
	},
	do: abortFound,
}

func transactionEnd(s streams, h byHand) *cobra.Command {
	c := &cobra.Command{Use: h.verb + " ID", Short: h.short, Long: h.long, Args: exactly(1, "one transactional id, as weir transaction list prints it")}
	open := systemFlags(s, c)
	yes := c.Flags().Bool("yes", false, "do it without asking")
	force := c.Flags().Bool("force", false, "do it even where that loses or doubles records")
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := transaction.Parse(args[0]); err != nil {
			return usageError{fmt.Errorf("%w; only transactions of Weir are touched", err)}
		}
		sys, err := open(c.Context())
		if err != nil {
			return err
		}
		defer sys.close()
		f, err := sys.one(c, args[0])
		if err != nil {
			return err
		}
		if why := h.refuse(f); why != nil && !*force {
			return fmt.Errorf("%s %s: %w", h.verb, args[0], why)
		}
		r := rowOf(f, time.Now())
		fmt.Fprintf(s.err, "%s: sink %s of job %s, attempt %d, subtask %d, open for %s, blocks %s\n%s\n",
			r.ID, r.Sink, r.name(), r.Attempt, r.Subtask, r.Age, r.blocks(), h.then(f))
		if !*yes && !confirmed(s, h.verb) {
			return usageError{fmt.Errorf("%s %s: not confirmed; nothing was done", h.verb, args[0])}
		}
		return h.finish(c, s, sys, f, *force)
	}
	return c
}

// finish does it, after a second look: while somebody thought about it a checkpoint may have become durable.
func (h byHand) finish(c *cobra.Command, s streams, sys *system, before found, force bool) error {
	id := before.ID.String()
	f, err := sys.one(c, id)
	if err != nil {
		return err
	}
	if why := h.refuse(f); why != nil && !force {
		return fmt.Errorf("%s %s: the situation has changed: %w", h.verb, id, why)
	}
	if f.ProducerID != before.ProducerID || f.ProducerEpoch != before.ProducerEpoch {
		return fmt.Errorf("%s %s: it has ended meanwhile, and another one was begun under the id: the job runs", h.verb, id)
	}
	ctx, cancel := context.WithTimeout(c.Context(), askWithin)
	defer cancel()
	done, err := h.do(ctx, f)
	if err != nil {
		return fmt.Errorf("%s %s: %w", h.verb, id, err)
	}
	fmt.Fprintf(s.out, "%s %s\n", done, id)
	return nil
}

// one finds the open transaction called id.
func (s *system) one(c *cobra.Command, id string) (found, error) {
	all, err := s.find(c.Context())
	if err != nil {
		return found{}, err
	}
	i := slices.IndexFunc(all, func(f found) bool { return f.ID.String() == id })
	if i < 0 {
		return found{}, fmt.Errorf("no open transaction %s on %s; see: weir transaction list", id, fromEnvironment(c))
	}
	return all[i], nil
}

// confirmed asks, and reads the answer from standard input.
func confirmed(s streams, verb string) bool {
	fmt.Fprintf(s.err, "Type %s to go on: ", verb)
	line, _ := bufio.NewReader(s.in).ReadString('\n')
	fmt.Fprintln(s.err)
	return strings.TrimSpace(line) == verb
}

// commitFound commits a transaction as the manifest knows it, or else as the broker does.
func commitFound(ctx context.Context, f found) (string, error) {
	t := f.promise.entry
	if !f.promise.held() {
		// Ended with the older protocol, which every coordinator understands.
		t = checkpoint.Transaction{ID: f.ID.String(), ProducerID: f.ProducerID, ProducerEpoch: f.ProducerEpoch, Protocol: 1}
	}
	o, err := f.cluster.Commit(ctx, t)
	if err != nil {
		return "", err
	}
	if o != connector.Committed {
		return "", errors.New("too late: the coordinator has aborted it")
	}
	return "committed", nil
}

// abortFound aborts a transaction and fences its producer.
func abortFound(ctx context.Context, f found) (string, error) {
	return "aborted", f.cluster.AbortOpen(ctx, connector.Open{
		Attempt:     f.ID.Attempt,
		Transaction: checkpoint.Transaction{ID: f.ID.String(), ProducerID: f.ProducerID, ProducerEpoch: f.ProducerEpoch},
	})
}
