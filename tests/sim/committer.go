package sim

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/transaction"
)

// The client side of Kafka's transactions: what package connector/kafka does with a broker, on the model.

var errUnclear = errors.New("the broker's answers do not decide yet")

// endTries is how often a client asks again while a transaction is being completed.
const endTries = 20

// commit drives one prepared transaction until the answer is definitive; an error: not known yet.
func (p *proc) commit(t checkpoint.Transaction) (transaction.Outcome, error) {
	c, err := p.endTxn(t, true)
	switch {
	case err != nil:
		return 0, err
	case c == ok:
		return transaction.Committed, nil
	}
	return p.refused(t)
}

// abort ends one prepared transaction the other way.
func (p *proc) abort(t checkpoint.Transaction) (transaction.Outcome, error) {
	c, err := p.endTxn(t, false)
	switch {
	case err != nil:
		return 0, err
	case c == ok:
		return transaction.Lost, nil
	case c == invalidTxnState:
		return p.commit(t)
	}
	return p.refused(t)
}

func (p *proc) endTxn(t checkpoint.Transaction, commit bool) (code, error) {
	b := p.w.kafka
	label := "EndTxn abort"
	if commit {
		label = "EndTxn commit"
	}
	for range endTries {
		c, err := ask(p, &b.service, label, func() code { return b.end(t.ID, t.ProducerID, t.ProducerEpoch, commit) })
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", label, t.ID, err)
		}
		if c != concurrentTransactions {
			return c, nil
		}
		p.sleep(2)
	}
	return 0, fmt.Errorf("%s of %s: %w", label, t.ID, errUnclear)
}

// refused finds out what became of a transaction that the broker does not end.
func (p *proc) refused(t checkpoint.Transaction) (transaction.Outcome, error) {
	for range endTries {
		d, err := p.describe(t.ID)
		if err != nil {
			return 0, err
		}
		if !d.known || d.pid != t.ProducerID {
			return transaction.Lost, nil
		}
		ours := d.epoch == t.ProducerEpoch || t.Protocol >= 2 && d.epoch == t.ProducerEpoch+1
		switch {
		case ours && d.state == completeCommit:
			return transaction.Committed, nil
		case ours && d.state == prepareCommit, d.epoch == t.ProducerEpoch && d.state == ongoing:
			p.sleep(2)
		default:
			return transaction.Lost, nil
		}
	}
	return 0, fmt.Errorf("describe %s: %w", t.ID, errUnclear)
}

func (p *proc) describe(id string) (description, error) {
	b := p.w.kafka
	d, err := ask(p, &b.service, "DescribeTransactions", func() description { return b.describe(id) })
	if err != nil {
		return d, fmt.Errorf("describe %s: %w", id, err)
	}
	return d, nil
}

// openTransactions lists the ongoing transactions. forGood: the sinks are being brought to rest, and nobody
// will look again.
func (p *proc) openTransactions(forGood bool) ([]checkpoint.Transaction, error) {
	b := p.w.kafka
	ids, err := ask(p, &b.service, "ListTransactions", func() []listed {
		p.w.audit.atRest = p.w.audit.atRest || forGood
		return b.list()
	})
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var out []checkpoint.Transaction
	for _, l := range ids {
		out = append(out, checkpoint.Transaction{ID: l.id, ProducerID: l.pid, ProducerEpoch: l.epoch})
	}
	return out, nil
}

// abortOpen aborts and fences a transaction that openTransactions found, if it is still the same.
func (p *proc) abortOpen(t checkpoint.Transaction) error {
	b := p.w.kafka
	for range endTries {
		d, err := p.describe(t.ID)
		if err != nil {
			return err
		}
		ending := d.state == prepareCommit || d.state == prepareAbort
		same := d.epoch == t.ProducerEpoch && (d.state == ongoing || ending) || d.epoch == t.ProducerEpoch+1 && ending
		if !d.known || d.pid != t.ProducerID || !same {
			return nil
		}
		g, err := ask(p, &b.service, "fence", func() grant { return b.initProducer(t.ID) })
		if err != nil {
			return fmt.Errorf("fence %s: %w", t.ID, err)
		}
		if g.code == ok {
			return nil
		}
		p.sleep(2)
	}
	return fmt.Errorf("fence %s: %w", t.ID, errUnclear)
}
