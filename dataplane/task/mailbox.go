package task

import (
	"sync"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

type letterKind uint8

const (
	inject    letterKind = iota // take barrier into the source's output
	expire                      // the deadline of a checkpoint has passed
	giveUp                      // the node has declined a checkpoint
	committed                   // a checkpoint is durable: tell the outside world the positions
)

type letter struct {
	kind    letterKind
	barrier checkpoint.Barrier
	id      job.CheckpointID
}

// mailbox is how other goroutines reach the subtask.
type mailbox struct {
	wake func()
	mu   struct {
		sync.Mutex
		letters []letter
	}
}

func (m *mailbox) put(l letter) {
	m.mu.Lock()
	m.mu.letters = append(m.mu.letters, l)
	m.mu.Unlock()
	m.wake()
}

// take returns the letters so far, in order.
func (m *mailbox) take() []letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.mu.letters
	m.mu.letters = nil
	return l
}
