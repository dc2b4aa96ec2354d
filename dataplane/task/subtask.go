package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/barrier"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/state"
)

// Listener is what a subtask tells its node. Called on the subtask's goroutine; must not block.
type Listener interface {
	// Heard says that a barrier of a checkpoint reached this subtask for the first time: the node injects it
	// into its own sources unless it has done so, and opens its book.
	Heard(b checkpoint.Barrier)
	// Snapshotted hands over what the subtask left behind at a barrier.
	Snapshotted(s *Snapshot)
	// Declined says that the subtask does not take part in checkpoint n.
	Declined(n job.CheckpointID, id job.SubtaskID, why string)
	// SourceEnded says that the source has been read to its end.
	SourceEnded(id job.SubtaskID)
}

// Config is everything that one subtask is made of.
type Config struct {
	Ref            job.Ref
	ID             job.SubtaskID
	Vertex         *Vertex
	Parallelism    int
	MaxParallelism int
	// Restored is the checkpoint that the attempt starts from; States are all its operator states.
	Restored     job.CheckpointID
	States       []checkpoint.OperatorState
	Transactions []checkpoint.Transaction
	// Gate reads the channels; ChannelInput maps a channel to its edge (index into Vertex.Inputs). Unused by
	// sources.
	Gate         Gate
	ChannelInput []int
	// Outputs are parallel to the vertex's outgoing edges.
	Outputs []Output
	// Backends are the keyed states, empty, by the operator's uid; Download restores them. The subtask closes
	// them.
	Backends map[string]state.Backend
	Download state.Downloader
	Listener Listener
	Log      *slog.Logger
}

// Subtask is one running instance of a vertex.
type Subtask struct {
	cfg     Config
	keys    job.KeyGroupRange
	chain   *chain
	mail    mailbox
	aligner *barrier.Aligner
	source  *sourceHead // nil for vertices with inputs
	inputs  *inputHead  // nil for sources
	// alignStart is when the first barrier of the alignment in progress came.
	alignStart time.Time
	deadline   *time.Timer
	failed     chan error
	stateBytes atomic.Int64      // memory of the keyed states, as of the last snapshot
	records    operator.Counters // of the source or the inputs
	bytes      atomic.Int64      // read by the source
	bad        operator.Counters // of the source
}

// New wires a subtask. Nothing runs or is opened before Run.
func New(cfg Config) *Subtask {
	s := &Subtask{cfg: cfg, failed: make(chan error, 1)}
	s.keys = job.RangeOf(cfg.ID.Index, cfg.Parallelism, cfg.MaxParallelism)
	if cfg.Vertex.Source != nil {
		s.source = newSourceHead(s)
		s.mail.wake = s.source.wakeUp
	} else {
		s.inputs = newInputHead(s)
		s.mail.wake = cfg.Gate.Wake
		s.aligner = barrier.New(cfg.Ref, len(cfg.ChannelInput), cfg.Restored)
	}
	return s
}

// ID names the subtask.
func (s *Subtask) ID() job.SubtaskID { return s.cfg.ID }

// IsSource reports whether the subtask reads a source.
func (s *Subtask) IsSource() bool { return s.source != nil }

// Inject asks a source subtask to take a barrier into its output. Any goroutine.
func (s *Subtask) Inject(b checkpoint.Barrier) { s.mail.put(letter{kind: inject, barrier: b}) }

// GiveUp tells that the node has declined checkpoint n: alignment is released. Any goroutine.
func (s *Subtask) GiveUp(n job.CheckpointID) { s.mail.put(letter{kind: giveUp, id: n}) }

// CheckpointDurable tells a source that checkpoint n is durable, for monitoring positions outside. Any
// goroutine.
func (s *Subtask) CheckpointDurable(n job.CheckpointID) { s.mail.put(letter{kind: committed, id: n}) }

// Run opens the chain, restores its state and works until ctx is done or something fails. It never returns
// nil: an ended subtask stays and passes barriers until it is told to stop. ready is called once when the
// subtask is restored; Run waits there for start to be closed. Close comes afterwards, whatever happened.
func (s *Subtask) Run(ctx context.Context, ready func(), start <-chan struct{}) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	ready()
	select {
	case <-start:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.source != nil {
		return s.source.run(ctx)
	}
	return s.inputs.run(ctx)
}

func (s *Subtask) open(ctx context.Context) (err error) {
	v := s.cfg.Vertex
	if s.chain, err = newChain(ctx, v, s.cfg.Outputs); err != nil {
		return err
	}
	if s.source != nil {
		s.source.wire()
	} else {
		s.inputs.wire()
	}
	s.chain.seal()
	for _, st := range s.chain.stages {
		if err := s.openStage(ctx, st); err != nil {
			return fmt.Errorf("open %s: %w", st.spec.UID, err)
		}
	}
	for i, k := range s.chain.sinks {
		cfg := connector.WriterConfig{Ref: s.cfg.Ref, Operator: k.uid, Index: s.cfg.ID.Index, Failed: s.fail}
		for _, t := range s.cfg.Transactions {
			if t.Sink == k.uid && t.Subtask == s.cfg.ID.Index {
				cfg.Restored = append(cfg.Restored, t)
			}
		}
		if k.writer, err = v.Sinks[i].Connector.Open(ctx, cfg); err != nil {
			return fmt.Errorf("open sink %s: %w", k.uid, err)
		}
	}
	if s.source != nil {
		return s.source.openReader(ctx)
	}
	return nil
}

func (s *Subtask) openStage(ctx context.Context, st *stage) error {
	st.env = operator.Env{
		UID: st.spec.UID, Index: s.cfg.ID.Index, Parallelism: s.cfg.Parallelism,
		MaxParallelism: s.cfg.MaxParallelism, KeyRange: s.keys,
		Counters: new(operator.Counters), OnError: st.spec.OnError,
	}
	if st.spec.Keyed {
		b, ok := s.cfg.Backends[st.spec.UID]
		if !ok {
			return errors.New("keyed operator without a state backend")
		}
		st.backend, st.env.State = b, b
	}
	if err := st.op.Open(ctx, &st.env, &st.out); err != nil {
		return err
	}
	var inline, files []checkpoint.OperatorState
	for _, o := range s.cfg.States {
		if o.Operator != st.spec.UID {
			continue
		}
		if len(o.Inline) > 0 {
			inline = append(inline, o)
		}
		if len(o.Files) > 0 && o.KeyRange.Overlaps(s.keys) {
			files = append(files, o)
		}
	}
	if r, ok := st.backend.(state.Restorer); ok && len(files) > 0 {
		if err := r.Restore(ctx, files, s.cfg.Download); err != nil {
			return fmt.Errorf("restore state: %w", err)
		}
	}
	if len(inline) > 0 {
		return st.op.Restore(inline)
	}
	return nil
}

// fail is called by sinks that fail in the background.
func (s *Subtask) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
	s.mail.wake()
}

func (s *Subtask) failure() error {
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// Close releases everything that the subtask has, also if Run was never called. Snapshots that are still being
// persisted are waited for, and what they wait for does not come any more: their context must have ended.
func (s *Subtask) Close(ctx context.Context) {
	if s.deadline != nil {
		s.deadline.Stop()
	}
	if s.source != nil {
		s.source.close()
	}
	// The attempt is over: give the sinks a moment of their own to abort what is not prepared.
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if s.chain != nil {
		for _, k := range s.chain.sinks {
			if k.writer != nil {
				if err := k.writer.Close(bye); err != nil {
					s.cfg.Log.Warn("close sink", "subtask", s.cfg.ID.String(), "sink", k.uid, "err", err)
				}
			}
		}
		for _, st := range s.chain.stages {
			if err := st.op.Close(); err != nil {
				s.cfg.Log.Warn("close operator", "subtask", s.cfg.ID.String(), "operator", st.spec.UID, "err", err)
			}
		}
	}
	for uid, b := range s.cfg.Backends {
		if err := b.Close(); err != nil {
			s.cfg.Log.Warn("close state", "subtask", s.cfg.ID.String(), "operator", uid, "err", err)
		}
	}
}

// closeTimeout bounds how long a subtask's end may take for the sake of its open transactions.
const closeTimeout = 5 * time.Second

// freeze takes the snapshot of everything in the chain and forwards the barrier: the synchronous part of a
// checkpoint. It is O(operators), whatever the size of the state.
func (s *Subtask) freeze(b checkpoint.Barrier, snap *Snapshot) error {
	t := time.Now()
	snap.Subtask, snap.Barrier = s.cfg.ID, b
	var refused error
	var bytes int64
	for _, st := range s.chain.stages {
		c := captured{operator: st.spec.UID, inline: st.op.Freeze()}
		if st.backend != nil {
			bytes += st.backend.Bytes()
			c.keyRange = s.keys
			if c.keyed, refused = st.backend.Freeze(b.ID); refused != nil {
				break
			}
		}
		if c.keyed != nil || c.inline != nil {
			snap.states = append(snap.states, c)
		}
	}
	// Sinks pre-commit even if a state refuses: the barrier ends the transaction's input in any case, and
	// what is prepared commits with the next checkpoint.
	for _, k := range s.chain.sinks {
		snap.sinks = append(snap.sinks, k.writer.Prepare(b))
	}
	s.stateBytes.Store(bytes)
	snap.Sync = time.Since(t) // what follows may wait for room in the channels, as any batch does
	for _, o := range s.chain.outputs {
		if err := o.Barrier(s.chain.ctx, b); err != nil {
			snap.Drop()
			return err
		}
	}
	if refused != nil {
		snap.Drop()
		s.cfg.Listener.Declined(b.ID, s.cfg.ID, refused.Error())
		return nil
	}
	s.cfg.Listener.Snapshotted(snap)
	return nil
}

// Figures are the counters of a subtask.
type Figures struct {
	Records, Emitted, Late, Skipped int64
	// Bytes are those of the values of the records read; sources only.
	Bytes int64
	Lag   int64 // −1 unknown; sources only
	// StateBytes is the memory of the keyed states as of the last snapshot.
	StateBytes int64
}

// Figures reads the subtask's counters. Any goroutine, after Run has called ready.
func (s *Subtask) Figures() Figures {
	f := Figures{Records: s.records.Rows.Load(), Bytes: s.bytes.Load(), Skipped: s.bad.Skipped.Load(), StateBytes: s.stateBytes.Load()}
	if s.source != nil {
		f.Lag = s.source.lag.Load()
	}
	for _, st := range s.chain.stages {
		f.Late += st.env.Counters.Late.Load()
		f.Skipped += st.env.Counters.Skipped.Load()
	}
	for _, k := range s.chain.sinks {
		f.Emitted += k.counters.Rows.Load()
		f.Skipped += k.counters.Skipped.Load()
	}
	return f
}
