package row_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/operatortest"
	"github.com/weirstream/weir/dataplane/operator/row"
	"pgregory.net/rapid"
)

var at = operatortest.At

var in = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "a", Type: batch.Type{Kind: batch.Int64}}, {Name: "s", Type: batch.Type{Kind: batch.String}}, {Name: "unused", Type: batch.Type{Kind: batch.Int64}},
}}

// config makes the operator's configuration of a filter ("" for none) and output expressions; a column's bare
// name is passed through.
func config(t testing.TB, where string, columns ...string) row.Config {
	cfg := row.Config{Out: &batch.Schema{HasTime: true}}
	if where != "" {
		cfg.Where = operatortest.Predicate(t, in, where)
	}
	for _, c := range columns {
		if i := in.Index(c); i >= 0 {
			cfg.Columns = append(cfg.Columns, row.Column{Index: i})
			cfg.Out.Fields = append(cfg.Out.Fields, in.Fields[i])
			continue
		}
		p := operatortest.Program(t, in, c)
		cfg.Columns = append(cfg.Columns, row.Column{Program: p})
		cfg.Out.Fields = append(cfg.Out.Fields, batch.Field{Name: c, Type: p.Type(), Nullable: p.Nullable()})
	}
	return cfg
}

func start(t testing.TB, policy operator.OnError, cfg row.Config) *operatortest.Run {
	return operatortest.Start(t, operatortest.Setup{New: func() (operator.Operator, error) { return row.New(cfg) }, OnError: policy}, nil)
}

func want(t *testing.T, r *operatortest.Run, rows ...string) {
	t.Helper()
	if got := r.Rows(); !slices.Equal(got, rows) {
		t.Errorf("emitted\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(rows, "\n  "))
	}
}

func numbers(t testing.TB, wm int64, n int) *batch.Batch {
	var rows []operatortest.Row
	for i := range n {
		rows = append(rows, at(int64(i), i, "a text that is longer than a view", i))
	}
	return operatortest.Batch(t, in, wm, rows...)
}

func TestFilterAndProject(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a % 2 = 1", "s", "a * 10"))
	b := numbers(t, 7, 5)
	b.Change = []batch.Change{0, 3, 0, 1, 0}
	r.Must(b)
	want(t, r, `-D "a text that is longer than a view" 10 @1`, `-U "a text that is longer than a view" 30 @3`)
	if got := r.Watermark(); got != 7 {
		t.Errorf("watermark=%d, want 7", got)
	}
}

// Columns that pass through share the input's memory, and a filter that takes all leaves no selection.
func TestPassThrough(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a >= 0", "a", "s"))
	b := numbers(t, 1, 4)
	r.Must(b)
	out := r.Batches()[0]
	if &out.Cols[0].Ints[0] != &b.Cols[0].Ints[0] || &out.Cols[1].Views[0] != &b.Cols[1].Views[0] {
		t.Error("columns were copied")
	}
	if out.Sel != nil {
		t.Errorf("selection %v of all rows, want none", out.Sel)
	}
}

// Few rows of many are gathered: what is emitted does not hold on to long columns.
func TestSparse(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a = 77 or a = 3", "s", "a + 1"))
	r.Must(numbers(t, 1, 1000))
	out := r.Batches()
	if len(out) != 1 || out[0].Rows != 2 || out[0].Sel != nil {
		t.Fatalf("got %d batches, the first with %d rows and selection %v; want 2 dense rows", len(out), out[0].Rows, out[0].Sel)
	}
	if got, w := operatortest.Text(out[0]), []string{`+I "a text that is longer than a view" 4 @3`, `+I "a text that is longer than a view" 78 @77`}; !slices.Equal(got, w) {
		t.Errorf("emitted %q, want %q", got, w)
	}
}

func TestSparseConstants(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a = 77", "1 + 1"))
	r.Must(numbers(t, 1, 1000))
	want(t, r, "+I 2 @77")
}

// The emitted selection is not the operator's scratch memory.
func TestSelectionIsKept(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a % 2 = 0", "a"))
	r.Must(numbers(t, 1, 6))
	first := r.Batches()[0]
	r2 := numbers(t, 2, 6)
	for i := range r2.Cols[0].Ints {
		r2.Cols[0].Ints[i] += 1
	}
	r.Must(r2)
	if got, w := operatortest.Text(first), []string{"+I 0 @0", "+I 2 @2", "+I 4 @4"}; !slices.Equal(got, w) {
		t.Errorf("first batch reads %q after the second, want %q", got, w)
	}
}

func TestNothingLeft(t *testing.T) {
	r := start(t, operator.Fail, config(t, "a > 100", "a"))
	r.Must(numbers(t, batch.NoWatermark, 5))
	if got := len(r.Batches()); got != 0 {
		t.Errorf("%d batches that say nothing, want none", got)
	}
	r.Must(numbers(t, 5, 5))
	if got := r.Batches(); len(got) != 1 || got[0].Len() != 0 || got[0].Watermark != 5 {
		t.Errorf("want a lone watermark, got %v", got)
	}
}

func TestFail(t *testing.T) {
	r := start(t, operator.Fail, config(t, "", "10 / a"))
	var re *batch.RowError
	if err := r.Process(numbers(t, 1, 3)); !errors.As(err, &re) || re.Row != 0 {
		t.Errorf("10 / 0: %v, want an error of row 0", err)
	}
}

func TestSkipAndDivert(t *testing.T) {
	for _, c := range []struct {
		where string
		bad   []int // in the order of the filter, then of the projection
		kept  int
	}{
		{"", []int{2}, 7},
		{"100 / (a - 4) > 0 or true", []int{4, 2}, 6},
		{"a <> 5 and 100 / (a - 4) <> 0", []int{4, 2}, 5},
	} {
		cfg := config(t, c.where, "a", "10 / (a - 2)")
		var diverted []int
		cfg.Divert = func(b *batch.Batch, r int, err error) error {
			diverted = append(diverted, int(b.Cols[2].Ints[r])) // a column that the output does not read
			return nil
		}
		r := start(t, operator.Divert, cfg)
		r.Must(numbers(t, 9, 8))
		if !slices.Equal(diverted, c.bad) {
			t.Errorf("where %q diverted %v, want %v", c.where, diverted, c.bad)
		}
		if got := r.Counters.Skipped.Load(); got != int64(len(c.bad)) {
			t.Errorf("where %q counted %d rows, want %d", c.where, got, len(c.bad))
		}
		if got := len(r.Rows()); got != c.kept {
			t.Errorf("where %q kept %d rows, want %d", c.where, got, c.kept)
		}
	}
	if err := openError(t, config(t, "", "a")); err == nil {
		t.Error("divert without a taker was accepted")
	}
}

func openError(t *testing.T, cfg row.Config) error {
	op, err := row.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return op.Open(t.Context(), &operator.Env{OnError: operator.Divert}, nil)
}

// Whatever rows fail, exactly they are left out.
func TestSkipModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := start(t, operator.Skip, config(t, "7 / (a + 1) >= 0 or a < -1", "a", "10 / (a - 2)"))
		var rows []operatortest.Row
		var wanted []int64
		for _, v := range rapid.SliceOfN(rapid.IntRange(-2, 3), 0, 40).Draw(rt, "values") {
			rows = append(rows, at(0, v, "", 0))
			if v != -1 && v != 2 {
				wanted = append(wanted, int64(v))
			}
		}
		r.Must(operatortest.Batch(t, in, 1, rows...))
		var got []int64
		for _, b := range r.Batches() {
			for i := range b.Len() {
				got = append(got, b.Cols[0].Ints[b.Row(i)])
			}
		}
		if !slices.Equal(got, wanted) || r.Counters.Skipped.Load() != int64(len(rows)-len(wanted)) {
			rt.Fatalf("kept %v and skipped %d, want %v of %d", got, r.Counters.Skipped.Load(), wanted, len(rows))
		}
	})
}
