package cluster

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
)

// output is what transactional sinks wrote, outside of the cluster: it survives the nodes.
type output struct {
	mu       sync.Mutex
	prepared map[string][]line
	lines    []line // committed
	commits  map[string]bool
	wait     error // what the next Wait returns
	// stuck, if set, holds every call of stuckIn ("Open" or "Close" of a writer) until it is closed, whatever its
	// context says.
	stuck   chan struct{}
	stuckIn string
	failed  []func(error)
}

// line is a row as text. key is its first column.
type line struct {
	sink   string
	change batch.Change
	text   string
}

func newOutput() *output {
	return &output{prepared: map[string][]line{}, commits: map[string]bool{}}
}

// commit commits transactions of a manifest; those that were committed before stay so.
func (o *output) commit(txns []checkpoint.Transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range txns {
		if o.commits[t.ID] {
			continue
		}
		rows, ok := o.prepared[t.ID]
		if !ok {
			panic(fmt.Sprintf("transaction %s is lost", t.ID))
		}
		o.lines = append(o.lines, rows...)
		o.commits[t.ID] = true
		delete(o.prepared, t.ID)
	}
}

// abort drops what is prepared and in no manifest.
func (o *output) abort() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.prepared)
}

// refuse makes the next pre-commit fail.
func (o *output) refuse(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wait = err
}

// hang makes every call of op hang from now on, until release is called.
func (o *output) hang(op string) (release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stuck := make(chan struct{})
	o.stuck, o.stuckIn = stuck, op
	return sync.OnceFunc(func() {
		o.mu.Lock()
		o.stuckIn = ""
		o.mu.Unlock()
		close(stuck)
	})
}

func (o *output) call(op string) {
	o.mu.Lock()
	stuck, in := o.stuck, o.stuckIn
	o.mu.Unlock()
	if in == op {
		<-stuck
	}
}

// recover lets calls from now on through; those that hang stay.
func (o *output) recover() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stuckIn = ""
}

// breakDown makes the writer that was opened last fail in the background.
func (o *output) breakDown(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed[len(o.failed)-1](err)
}

// rows are the committed rows of a sink, sorted.
func (o *output) rows(sink string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, l := range o.lines {
		if l.sink == sink {
			out = append(out, l.text)
		}
	}
	slices.Sort(out)
	return out
}

// table is the committed rows of a sink after all updates, sorted: of each key (the first columns) the newest.
func (o *output) table(sink string, columns int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := map[string]string{}
	for _, l := range o.lines {
		if l.sink != sink {
			continue
		}
		key := strings.Join(strings.SplitN(l.text, "\t", columns+1)[:columns], "\t")
		if l.change == batch.Delete {
			delete(last, key)
			continue
		}
		last[key] = l.text
	}
	var out []string
	for _, text := range last {
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// collector is a transactional sink that writes to an output.
type collector struct{ out *output }

// Open implements connector.Sink.
func (c *collector) Open(_ context.Context, cfg connector.WriterConfig) (connector.Writer, error) {
	c.out.call("Open")
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.failed = append(c.out.failed, cfg.Failed)
	return &writer{out: c.out, cfg: cfg}, nil
}

type writer struct {
	out     *output
	cfg     connector.WriterConfig
	current []line
	n       int
	pending []checkpoint.Transaction
}

// Write implements connector.Writer.
func (w *writer) Write(_ context.Context, b *batch.Batch) error {
	for i := range b.Len() {
		r := b.Row(i)
		w.current = append(w.current, line{w.cfg.Operator, b.ChangeAt(r), text(b, r)})
	}
	return nil
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(b checkpoint.Barrier) connector.Prepared {
	w.pending = slices.DeleteFunc(w.pending, func(t checkpoint.Transaction) bool { return t.Checkpoint <= b.Committed })
	if len(w.current) > 0 {
		w.n++
		id := fmt.Sprintf("%s/%s/%d/%d", w.cfg.Ref, w.cfg.Operator, w.cfg.Index, w.n)
		w.out.mu.Lock()
		w.out.prepared[id] = w.current
		w.out.mu.Unlock()
		w.pending = append(w.pending, checkpoint.Transaction{
			Sink: w.cfg.Operator, Connector: "collect", Subtask: w.cfg.Index, ID: id, Checkpoint: b.ID, Records: int64(len(w.current)),
		})
		w.current = nil
	}
	return prepared{w.out, slices.Clone(w.pending)}
}

// Close implements connector.Writer.
func (w *writer) Close(context.Context) error {
	w.out.call("Close")
	return nil
}

type prepared struct {
	out  *output
	txns []checkpoint.Transaction
}

// Wait implements connector.Prepared.
func (p prepared) Wait(context.Context) ([]checkpoint.Transaction, error) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	err := p.out.wait
	p.out.wait = nil
	if err != nil {
		return nil, err
	}
	return p.txns, nil
}

// text is a row as Flink's oracle prints it.
func text(b *batch.Batch, r int) string {
	var s strings.Builder
	for c := range b.Cols {
		if c > 0 {
			s.WriteByte('\t')
		}
		s.WriteString(value(&b.Cols[c], r))
	}
	return s.String()
}

func value(c *batch.Column, r int) string {
	if c.Null(r) {
		return "null"
	}
	switch c.Type.Kind {
	case batch.Bool:
		return strconv.FormatBool(c.Bools.Get(r))
	case batch.Float64:
		return javaDouble(c.Floats[r])
	case batch.Decimal:
		return c.Decs[r].Text(c.Type.Scale)
	case batch.Timestamp:
		return time.UnixMicro(c.Ints[r]).UTC().Format("2006-01-02 15:04:05.000")
	case batch.String, batch.Bytes:
		return c.Text(r)
	}
	return strconv.FormatInt(c.Ints[r], 10)
}

// javaDouble prints numbers of ordinary size as Java does.
func javaDouble(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// tap lets fetches of all sources through.
type tap struct {
	permits chan struct{}
	all     chan struct{}
	once    sync.Once
}

func newTap() *tap { return &tap{permits: make(chan struct{}), all: make(chan struct{})} }

// let lets n more fetches through and returns when the last of them is on its way.
func (t *tap) let(n int) {
	timeout := time.After(20 * time.Second)
	for i := range n {
		select {
		case t.permits <- struct{}{}:
		case <-timeout:
			panic(fmt.Sprintf("nobody took fetch %d of %d", i+1, n))
		}
	}
}

// open lets everything through from now on.
func (t *tap) open() { t.once.Do(func() { close(t.all) }) }

// tapped is a source behind a tap.
type tapped struct {
	connector.Source
	tap *tap
}

// Open implements connector.Source.
func (s *tapped) Open(ctx context.Context, index, p int, splits []connector.Split) (connector.Reader, error) {
	r, err := s.Source.Open(ctx, index, p, splits)
	if err != nil {
		return nil, err
	}
	t := &reader{Reader: r, tap: s.tap, out: make(chan connector.Fetch), closing: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t, nil
}

type reader struct {
	connector.Reader
	tap           *tap
	out           chan connector.Fetch
	closing, done chan struct{}
}

func (r *reader) run() {
	defer close(r.done)
	defer close(r.out)
	for f := range r.Reader.Fetches() {
		select {
		case <-r.tap.permits:
		case <-r.tap.all:
		case <-r.closing:
			return
		}
		select {
		case r.out <- f:
		case <-r.closing:
			return
		}
	}
}

// Fetches implements connector.Reader.
func (r *reader) Fetches() <-chan connector.Fetch { return r.out }

// Close implements connector.Reader.
func (r *reader) Close() error {
	close(r.closing)
	err := r.Reader.Close()
	<-r.done
	return err
}
