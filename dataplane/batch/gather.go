package batch

// Builder accumulates rows gathered from other batches of the same schema into one open batch. It is owned
// by one goroutine. The zero value is not usable; see NewBuilder.
type Builder struct {
	schema *Schema
	b      *Batch
	n      int
	// bufBase[c] is, per column, the buffers already adopted from the source that was gathered last.
	lastSrc *Batch
	base    []int32
}

// NewBuilder returns an empty builder.
func NewBuilder(s *Schema) *Builder {
	return &Builder{schema: s, base: make([]int32, len(s.Fields))}
}

// Len is the number of rows gathered so far.
func (g *Builder) Len() int { return g.n }

// Gather appends the rows (physical indices) of src: columns, event time, changes and hashes. String values
// are shared with src, not copied.
func (g *Builder) Gather(src *Batch, rows []int32) {
	if len(rows) == 0 {
		return
	}
	if g.b == nil {
		g.b = &Batch{Schema: g.schema, Watermark: NoWatermark, Cols: emptyColumns(g.schema)}
	}
	n := g.n + len(rows)
	for c := range g.b.Cols {
		g.gatherColumn(c, src, rows, n)
	}
	if src.Time != nil {
		g.b.Time = grow(g.b.Time, n)
		take(g.b.Time[g.n:], src.Time, rows)
	}
	if src.Hash != nil {
		g.b.Hash = grow(g.b.Hash, n)
		take(g.b.Hash[g.n:], src.Hash, rows)
	}
	if src.Change != nil || g.b.Change != nil {
		g.b.Change = grow(g.b.Change, n)
		if src.Change != nil {
			take(g.b.Change[g.n:], src.Change, rows)
		}
	}
	g.lastSrc, g.n, g.b.Rows = src, n, n
}

func (g *Builder) gatherColumn(c int, src *Batch, rows []int32, n int) {
	d, s := &g.b.Cols[c], &src.Cols[c]
	d.Grow(n)
	switch {
	case d.Type.Kind == Bool:
		for i, r := range rows {
			d.Bools.SetTo(g.n+i, s.Bools.Get(int(r)))
		}
	case d.Type.IsInt64():
		take(d.Ints[g.n:], s.Ints, rows)
	case d.Type.Kind == Float64:
		take(d.Floats[g.n:], s.Floats, rows)
	case d.Type.Kind == Decimal:
		take(d.Decs[g.n:], s.Decs, rows)
	case d.Type.IsView():
		g.takeViews(c, d, s, src, rows)
	}
	if s.Valid == nil && d.Valid == nil {
		return
	}
	d.growValid(g.n, n)
	if s.Valid != nil {
		for i, r := range rows {
			if !s.Valid.Get(int(r)) {
				d.Valid.Clear(g.n + i)
			}
		}
	}
}

// growValid extends the validity bitmap from old to n rows, new ones valid.
func (c *Column) growValid(old, n int) {
	if c.Valid == nil {
		c.Valid = Ones(n)
		return
	}
	for len(c.Valid)*64 < n {
		c.Valid = append(c.Valid, 0)
	}
	for i := old; i < n; i++ {
		c.Valid.Set(i)
	}
}

func (g *Builder) takeViews(c int, d, s *Column, src *Batch, rows []int32) {
	if src != g.lastSrc {
		g.base[c] = int32(len(d.Bufs))
		d.Bufs = append(d.Bufs, s.Bufs...)
	}
	base, out := g.base[c], d.Views[g.n:]
	for i, r := range rows {
		v := s.Views[r]
		if v.Len > maxInline {
			v.Buf += base
		}
		out[i] = v
	}
}

func take[T any](dst, src []T, rows []int32) {
	dst = dst[:len(rows)]
	for i, r := range rows {
		dst[i] = src[r]
	}
}

// Finish returns the open batch with the given watermark and starts anew. It returns nil when no rows were
// gathered.
func (g *Builder) Finish(watermark int64, idle bool) *Batch {
	b := g.b
	g.b, g.n, g.lastSrc = nil, 0, nil
	if b != nil {
		b.Watermark, b.Idle = watermark, idle
	}
	return b
}

// Compact returns b with only its logical rows, b itself if it has no selection.
func Compact(b *Batch) *Batch {
	if b.Sel == nil {
		return b
	}
	g := NewBuilder(b.Schema)
	g.Gather(b, b.Sel)
	if c := g.Finish(b.Watermark, b.Idle); c != nil {
		return c
	}
	return WatermarkOnly(b.Schema, b.Watermark, b.Idle)
}

// AllRows returns the physical indices of b's logical rows: Sel itself, or 0…Rows−1 written into scratch.
func AllRows(b *Batch, scratch []int32) []int32 {
	if b.Sel != nil {
		return b.Sel
	}
	scratch = grow(scratch, b.Rows)[:b.Rows]
	for i := range scratch {
		scratch[i] = int32(i)
	}
	return scratch
}
