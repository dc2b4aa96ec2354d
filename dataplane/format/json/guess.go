package json

import "github.com/weirstream/weir/dataplane/format"

// guess is the expectation which branches take the next record: those that took most of the last ones. What
// these branches need is then read in the first pass already, as long as a layout fits. If the record is taken
// by others, or by none, what was read too much is forgotten; if no layout fits, the record is read as if
// nothing had been expected. So a guess changes the cost and nothing else: a record in which only a part is
// wrong that its takers do not need is never refused for it.
type guess struct {
	set    uint64
	reader *reader // of the set; nil if there is no expectation
	whole  rowSet  // the rows that it has read

	// The majority vote over the takers of rows (Boyer and Moore): a set that takes more than half of them is
	// the candidate at the end.
	candidate uint64
	lead      int
}

// read reads the record into row if a layout fits.
func (g *guess) read(d *Decoder, s format.Span, buf []byte, row int) bool {
	if s.Len < 0 {
		return false
	}
	d.base = int(s.Off)
	if !g.reader.layouts.read(g.reader, buf[s.Off:s.Off+s.Len:s.Off+s.Len], row) {
		return false
	}
	g.whole.add(row)
	return true
}

// right reports whether row has been read as its takers need it.
func (g *guess) right(takers uint64, row int) bool { return takers == g.set && g.whole.has(row) }

func (g *guess) vote(takers uint64) {
	switch {
	case takers == g.candidate:
		g.lead++
	case g.lead == 0:
		g.candidate, g.lead = takers, 1
	default:
		g.lead--
	}
}

// next ends the vote of a batch.
func (g *guess) next(d *Decoder) {
	set, decided := g.candidate, g.lead > 0
	g.candidate, g.lead = 0, 0
	if !decided || set == g.set {
		return
	}
	g.set, g.reader = set, nil
	if set != 0 {
		g.reader = d.readerFor(set)
	}
}
