package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/watermark"
)

// Snapshot is what a subtask leaves behind at a barrier. It belongs to the node, which either persists or
// drops it, once.
type Snapshot struct {
	Subtask job.SubtaskID
	Barrier checkpoint.Barrier
	// Source says that the subtask reads a source; Ended that it had ended before this barrier.
	Source, Ended bool
	// Records and Lag are the source's figures at the barrier (Lag −1: unknown).
	Records, Lag int64
	// Align is how long the first barrier waited for the last, Sync how long the subtask stood still.
	Align, Sync time.Duration

	states []captured
	sinks  []connector.Prepared
}

type captured struct {
	operator string
	keyRange job.KeyGroupRange
	keyed    state.Frozen
	inline   operator.Frozen
}

// Persist makes the snapshot durable: state files through up, sinks flushed. It returns the subtask's share
// of the checkpoint.
func (s *Snapshot) Persist(ctx context.Context, up state.Uploader) ([]checkpoint.OperatorState, []checkpoint.Transaction, error) {
	failpoint.Hit("snapshot.frozen")
	var states []checkpoint.OperatorState
	var errs []error
	for _, c := range s.states {
		st, err := c.persist(ctx, up)
		if err != nil {
			errs = append(errs, fmt.Errorf("persist state of %s: %w", c.operator, err))
			continue
		}
		st.Operator, st.Subtask = c.operator, s.Subtask.Index
		states = append(states, st)
	}
	var txns []checkpoint.Transaction
	for _, p := range s.sinks {
		t, err := p.Wait(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("pre-commit of %s: %w", s.Subtask, err))
			continue
		}
		txns = append(txns, t...)
	}
	return states, txns, errors.Join(errs...)
}

func (c captured) persist(ctx context.Context, up state.Uploader) (st checkpoint.OperatorState, err error) {
	if c.keyed != nil {
		if st, err = c.keyed.Persist(ctx, up); err != nil {
			return st, err
		}
	}
	st.KeyRange = c.keyRange
	if c.inline != nil {
		st.Inline, err = c.inline.Inline()
	}
	return st, err
}

// Drop gives the snapshot up.
func (s *Snapshot) Drop() {
	for _, c := range s.states {
		if c.keyed != nil {
			c.keyed.Drop()
		}
	}
}

// sourceState is the inline state of a source: its splits with their positions.
type sourceState struct {
	Splits []savedSplit `json:"splits"`
}

// savedSplit is a split and the newest event time seen in it, so that the watermark goes on where it was.
type savedSplit struct {
	connector.Split
	Newest int64 `json:"newest"`
}

// Inline implements operator.Frozen.
func (s sourceState) Inline() ([]byte, error) { return json.Marshal(s) }

// savedSplits reads the splits out of a source's inline states, of all subtasks.
func savedSplits(states []checkpoint.OperatorState, uid string) ([]savedSplit, error) {
	var out []savedSplit
	for i := range states {
		if states[i].Operator != uid {
			continue
		}
		var s sourceState
		if err := json.Unmarshal(states[i].Inline, &s); err != nil {
			return nil, fmt.Errorf("source %s: read offsets of subtask %d: %w", uid, states[i].Subtask, err)
		}
		out = append(out, s.Splits...)
	}
	return out, nil
}

// StartState is the state of a source before attempt 1: chk-0 consists of these.
func StartState(uid string, splits []connector.Split) (checkpoint.OperatorState, error) {
	var s sourceState
	for _, sp := range splits {
		s.Splits = append(s.Splits, savedSplit{Split: sp, Newest: watermark.None})
	}
	b, err := s.Inline()
	return checkpoint.OperatorState{Operator: uid, Inline: b}, err
}
