package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/watermark"
)

// eventTime computes the event times of a chunk from the time branch, gives them to every branch and moves
// the split's watermark. Records without one, or too far ahead of the clock, become bad.
func (h *sourceHead) eventTime(sp *sourceSplit, rs *format.Records, from int, batches []*batch.Batch) error {
	tb := batches[h.spec.TimeBranch]
	var col *batch.Column
	for {
		var err error
		col, err = h.time(tb)
		if err == nil {
			break
		}
		if err := h.badRow(tb, from, err); err != nil {
			return err
		}
	}
	ahead := int64(watermark.Max)
	if h.spec.MaxAhead > 0 {
		ahead = watermark.Add(time.Now().UnixMicro(), h.spec.MaxAhead.Microseconds())
	}
	times, cloned := col.Ints, false
	newest := int64(watermark.None)
	for i, n := 0, tb.Len(); i < n; i++ {
		r := tb.Row(i)
		switch {
		case col.Null(r):
			h.bad = append(h.bad, format.Bad{Record: from + r, Err: errNoTime})
			continue
		case times[r] > ahead && !h.spec.ClampAhead:
			h.bad = append(h.bad, format.Bad{Record: from + r, Err: fmt.Errorf("event time %s is more than %s ahead of the clock",
				time.UnixMicro(times[r]).UTC().Format(time.RFC3339), h.spec.MaxAhead)})
			continue
		case times[r] > ahead:
			if !cloned { // the column may be one of the record's own
				times, cloned = slices.Clone(times), true
			}
			times[r] = ahead
		}
		newest = max(newest, times[r])
	}
	if newest != watermark.None {
		h.gen.Observe(sp.partition, newest)
	}
	for _, b := range batches {
		b.Time = times[:b.Rows]
	}
	return nil
}

// badRow turns a row error of the time expression into a bad record and takes the row out of the branch.
func (h *sourceHead) badRow(tb *batch.Batch, from int, err error) error {
	re, ok := rowError(err)
	if !ok {
		return err
	}
	h.bad = append(h.bad, format.Bad{Record: from + re.Row, Err: re})
	tb.Sel = without(tb, []int32{int32(re.Row)})
	return nil
}

func rowError(err error) (re *batch.RowError, ok bool) {
	ok = errors.As(err, &re)
	return re, ok
}

// refuse deals with the bad records of a chunk by the source's policy and takes them out of every branch.
func (h *sourceHead) refuse(rs *format.Records, from int, batches []*batch.Batch) error {
	slices.SortFunc(h.bad, func(a, b format.Bad) int { return a.Record - b.Record })
	h.bad = slices.CompactFunc(h.bad, func(a, b format.Bad) bool { return a.Record == b.Record })
	if h.spec.OnError == operator.Fail {
		b := h.bad[0]
		return job.AsFatal(fmt.Errorf("source %s: bad record at %s offset %d: %w", h.spec.UID, rs.Split, rs.Offsets[b.Record], b.Err))
	}
	h.s.bad.Skipped.Add(int64(len(h.bad)))
	h.drop = h.drop[:0]
	for _, b := range h.bad {
		h.drop = append(h.drop, int32(b.Record-from))
	}
	for _, b := range batches {
		b.Sel = without(b, h.drop)
	}
	if h.spec.OnError == operator.Divert {
		return h.errors.Emit(h.diverted(rs))
	}
	return nil
}

// without is b's selection less the rows in drop (ascending).
func without(b *batch.Batch, drop []int32) []int32 {
	sel := make([]int32, 0, b.Len())
	for i, n := 0, b.Len(); i < n; i++ {
		r := int32(b.Row(i))
		if _, gone := slices.BinarySearch(drop, r); !gone {
			sel = append(sel, r)
		}
	}
	return sel
}

// diverted makes the batch of the side output "errors" out of the bad records.
func (h *sourceHead) diverted(rs *format.Records) *batch.Batch {
	n := len(h.bad)
	b := &batch.Batch{Schema: ErrorsSchema, Rows: n, Watermark: batch.NoWatermark, Cols: make([]batch.Column, len(ErrorsSchema.Fields))}
	for c := range b.Cols {
		b.Cols[c] = batch.NewColumn(ErrorsSchema.Fields[c].Type, n)
	}
	now := time.Now().UnixMicro()
	for i, bad := range h.bad {
		b.Cols[0].Ints[i] = now
		b.Cols[1].SetBytes(i, fmt.Appendf(nil, "%s: %s offset %d", h.spec.UID, rs.Split, rs.Offsets[bad.Record]))
		b.Cols[2].SetBytes(i, []byte(bad.Err.Error()))
		setOrNull(&b.Cols[3], i, n, rs.Key(bad.Record))
		setOrNull(&b.Cols[4], i, n, rs.Value(bad.Record))
	}
	return b
}

func setOrNull(c *batch.Column, i, n int, v []byte) {
	if v == nil {
		c.SetNull(i, n)
		return
	}
	c.SetBytes(i, v)
}

// metadata widens the decoded batches by the columns that the connector knows and fills them.
func (h *sourceHead) metadata(batches []*batch.Batch, rs *format.Records, from, to int) error {
	for i, b := range batches {
		if s := h.spec.Schemas[i]; len(s.Fields) > len(b.Cols) {
			cols := make([]batch.Column, len(s.Fields))
			copy(cols, b.Cols)
			for c := len(b.Cols); c < len(cols); c++ {
				cols[c].Type = s.Fields[c].Type
			}
			b.Cols = cols
		}
		b.Schema = h.spec.Schemas[i]
	}
	for _, m := range h.spec.Metadata {
		if err := fillMetadata(&batches[m.Branch].Cols[m.Column], m.Kind, rs, from, to); err != nil {
			return err
		}
	}
	return nil
}

// fillMetadata fills a column with a property of the records [from, to).
func fillMetadata(c *batch.Column, kind MetadataKind, rs *format.Records, from, to int) error {
	n := to - from
	c.Grow(n)
	for i := range n {
		r := from + i
		switch kind {
		case MetaKey:
			setOrNull(c, i, n, rs.Key(r))
		case MetaTimestamp:
			if rs.Times == nil {
				c.SetNull(i, n)
				continue
			}
			c.Ints[i] = rs.Times[r]
		case MetaPartition:
			c.Ints[i] = int64(rs.Partition)
		case MetaOffset:
			c.Ints[i] = rs.Offsets[r]
		default:
			return fmt.Errorf("metadata kind %d is unknown", kind)
		}
	}
	return nil
}
