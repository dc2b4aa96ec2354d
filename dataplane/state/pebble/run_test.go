package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// operation is a record in words.
type operation struct {
	op       table.Op
	key, val string
}

func appendRecord(chunk []byte, o operation) []byte {
	chunk = append(chunk, byte(o.op))
	for _, s := range []string{o.key, o.val} {
		chunk = binary.AppendUvarint(chunk, uint64(len(s)))
		chunk = append(chunk, s...)
	}
	return chunk
}

func drawOperation(t *rapid.T) operation {
	key := func(name string) string {
		group := job.KeyGroup(rapid.IntRange(0, 3).Draw(t, name+" group"))
		return string(table.AppendHeader(nil, group, 7)) + rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00")), 0, 10, -1).Draw(t, name)
	}
	switch o := (operation{op: table.OpSet, key: key("key")}); rapid.IntRange(0, 9).Draw(t, "operation") {
	case 0:
		to := key("to")
		return operation{table.OpDeleteRange, min(o.key, to), max(o.key, to) + "c"}
	case 1, 2:
		o.op = table.OpDelete
		return o
	default:
		o.val = rapid.StringN(0, 4, -1).Draw(t, "value")
		return o
	}
}

// apply is what an operation means.
func (o operation) apply(m map[string]string) {
	switch o.op {
	case table.OpSet:
		m[o.key] = o.val
	case table.OpDelete:
		delete(m, o.key)
	case table.OpDeleteRange:
		maps.DeleteFunc(m, func(k, _ string) bool { return o.key <= k && k < o.val })
	}
}

// Runs against a map: whatever comes in which order, a key has its newest value.
func TestRunModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		b, err := openOn(vfs.Default, state.Config{
			Dir: fmt.Sprintf("%s/%d", dir, n), KeyRange: job.KeyGroupRange{To: 4}, MaxParallelism: 4,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		want := map[string]string{}
		f := &frozen{b: b}
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			r := &run{groups: b.cfg.KeyRange}
			for range rapid.IntRange(1, 3).Draw(t, "chunks") {
				var chunk []byte
				for range rapid.IntRange(1, 40).Draw(t, "records") {
					o := drawOperation(t)
					o.apply(want)
					chunk = appendRecord(chunk, o)
				}
				if err := r.add(chunk); err != nil {
					t.Fatalf("add: %v", err)
				}
			}
			if err := f.settle(context.Background(), r); err != nil {
				t.Fatalf("settle: %v", err)
			}
		}
		got := map[string]string{}
		err = scan(b.db, nil, nil, func(it *pebble.Iterator) error {
			got[string(it.Key())] = string(it.Value())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
