package nexmark

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
	"sync"
)

// random is splitmix64: a well-mixed sequence from any seed, so that consecutive event numbers can be seeds.
type random struct{ state uint64 }

func newRandom(event int64) random { return random{uint64(event)*0xd1342543de82ef95 + 1} }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// below is uniform in [0, n).
func (r *random) below(n int64) int64 {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int64(hi)
}

// price is log-uniform from 100 to 100,000,000 cents.
func (r *random) price() int64 {
	f := float64(r.next()>>11) / (1 << 53)
	return int64(math.Round(math.Pow(10, f*6) * 100))
}

// text appends 3 to limit−1 letters, about one in thirteen replaced by blank. Blanks that are spaces are trimmed.
func (r *random) text(b []byte, limit int, blank byte) []byte {
	n := 3 + int(r.below(int64(limit-3)))
	start := len(b)
	for range n {
		if r.below(13) == 0 {
			b = append(b, blank)
		} else {
			b = append(b, 'a'+byte(r.below(26)))
		}
	}
	if blank != ' ' {
		return b
	}
	trimmed := bytes.TrimSpace(b[start:])
	return append(b[:start], trimmed...)
}

// extra appends letters that bring a record of size current to average: ±20 % of what is missing.
func (r *random) extra(b []byte, t *tables, current, average int) []byte {
	if current > average {
		return b
	}
	missing := average - current
	spread := int(math.Round(float64(missing) * 0.2))
	n := missing - spread
	if spread > 0 {
		n += int(r.below(int64(2 * spread)))
	}
	if n <= 0 {
		return b
	}
	from := r.below(int64(len(t.letters) - n))
	return append(b, t.letters[from:from+int64(n)]...)
}

var (
	firstNames = [...]string{"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"}
	lastNames  = [...]string{"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"}
	cities     = [...]string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"}
	states     = [...]string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	channels   = [...]string{"Google", "Facebook", "Baidu", "Apple"}
)

// coldChannels is the number of channels beside the four hot ones.
const coldChannels = 10_000

// tables are the constants of the generator that are computed.
type tables struct {
	letters []byte
	hotURL  [len(channels)]string
	coldURL [coldChannels]string
}

// sharedTables are immutable.
var sharedTables = sync.OnceValue(func() *tables {
	t := &tables{letters: make([]byte, 1<<20)}
	r := random{42}
	for i := range t.letters {
		t.letters[i] = 'a' + byte(r.below(26))
	}
	r = random{7}
	for i := range t.hotURL {
		t.hotURL[i] = r.url()
	}
	for i := range t.coldURL {
		t.coldURL[i] = r.url()
		if r.below(10) > 0 {
			id := int64(int32(bits.Reverse32(uint32(i))))
			t.coldURL[i] += "&channel_id=" + strconv.FormatInt(max(id, -id), 10)
		}
	}
	return t
})

func (r *random) url() string {
	b := []byte("https://www.nexmark.com/")
	for range 3 {
		b = append(r.text(b, 5, '_'), '/')
	}
	return string(append(b, "item.htm?query=1"...))
}
