package exchange

// ring is a queue of fixed capacity.
type ring[T any] struct {
	buf  []T
	head int
	n    int
}

func newRing[T any](capacity int) ring[T] { return ring[T]{buf: make([]T, capacity)} }

func (r *ring[T]) len() int { return r.n }
func (r *ring[T]) cap() int { return len(r.buf) }

// push appends v; there must be room.
func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		panic("exchange: ring is full")
	}
	i := r.head + r.n
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	r.buf[i] = v
	r.n++
}

// pop removes the first value; there must be one.
func (r *ring[T]) pop() T {
	if r.n == 0 {
		panic("exchange: ring is empty")
	}
	var zero T
	v := r.buf[r.head]
	r.buf[r.head] = zero // what it pointed to may be collected
	if r.head++; r.head == len(r.buf) {
		r.head = 0
	}
	r.n--
	return v
}
