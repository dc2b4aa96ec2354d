package table

import (
	"context"
	"sync"
)

// Queue carries chunks from the owner of a Set to the goroutine that persists them.
type Queue struct {
	mu struct {
		sync.Mutex
		chunks   [][]byte
		spare    [][]byte
		complete bool
	}
	wake chan struct{}
}

func newQueue() *Queue { return &Queue{wake: make(chan struct{}, 1)} }

// chunkBytes is the size at which a chunk is handed over.
const chunkBytes = 256 << 10

// Next waits for a chunk and takes it out. ok is false when everything of the frozen content was taken.
func (q *Queue) Next(ctx context.Context) (chunk []byte, ok bool, err error) {
	for {
		chunk, ok, complete := q.take()
		if ok || complete {
			return chunk, ok, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// TryNext takes a chunk out if there is one.
func (q *Queue) TryNext() (chunk []byte, ok bool) {
	chunk, ok, _ = q.take()
	return chunk, ok
}

func (q *Queue) take() (chunk []byte, ok, complete bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.chunks) > 0 {
		chunk, q.mu.chunks = q.mu.chunks[0], q.mu.chunks[1:]
		return chunk, true, false
	}
	return nil, false, q.mu.complete
}

// PutBack returns a chunk that could not be used to the front.
func (q *Queue) PutBack(chunk []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.chunks = append([][]byte{chunk}, q.mu.chunks...)
}

// Recycle gives the memory of a chunk back.
func (q *Queue) Recycle(chunk []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.spare) < 8 && cap(chunk) <= 4*chunkBytes {
		q.mu.spare = append(q.mu.spare, chunk[:0])
	}
}

// push appends a chunk, if it is not empty, and returns memory for the next one.
func (q *Queue) push(chunk []byte, complete bool) []byte {
	q.mu.Lock()
	var next []byte
	if len(chunk) > 0 {
		q.mu.chunks = append(q.mu.chunks, chunk)
		if n := len(q.mu.spare); n > 0 && !complete {
			next, q.mu.spare = q.mu.spare[n-1], q.mu.spare[:n-1]
		}
	}
	q.mu.complete = complete
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return next
}

// discard empties the queue.
func (q *Queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.chunks = nil
}

func (q *Queue) bytes() (n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.mu.chunks {
		n += int64(cap(c))
	}
	for _, c := range q.mu.spare {
		n += int64(cap(c))
	}
	return n
}
