package engine

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka"
)

// committerIdle is how long a committer that nobody uses stays open: connecting and finding a transaction's coordinator
// takes longer than ending the transaction, and a checkpoint ends one after the other.
const committerIdle = time.Minute

// committers are open committers by what they reach. A committer with which a call failed is not used again: rights,
// certificates and addresses may have changed. The zero value is ready; it is safe for concurrent use.
type committers struct {
	mu     sync.Mutex
	open   map[string]*sharedCommitter
	closed bool
}

// sharedCommitter is open until it is stale and the last user is gone.
type sharedCommitter struct {
	connector.Committer
	users int
	stale bool
	idle  *time.Timer // runs while there are no users
}

// with calls do with the committer called key, which dial opens if there is none.
func (c *committers) with(key string, dial func() (connector.Committer, error), do func(connector.Committer) error) error {
	s, err := c.take(key, dial)
	if err != nil {
		return err
	}
	err = do(s.Committer)
	c.give(key, s, err != nil)
	return err
}

func (c *committers) take(key string, dial func() (connector.Committer, error)) (*sharedCommitter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.open[key]
	if s == nil {
		made, err := dial()
		if err != nil {
			return nil, err
		}
		s = &sharedCommitter{Committer: made, stale: c.closed}
		if c.open == nil {
			c.open = map[string]*sharedCommitter{}
		}
		if !c.closed {
			c.open[key] = s
		}
	}
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	s.users++
	return s, nil
}

func (c *committers) give(key string, s *sharedCommitter, failed bool) {
	c.mu.Lock()
	s.users--
	if failed {
		c.retireLocked(key, s)
	}
	unused := s.users == 0
	if unused && !s.stale {
		s.idle = time.AfterFunc(committerIdle, func() { c.expire(key, s) })
		unused = false
	}
	c.mu.Unlock()
	if unused {
		s.Close()
	}
}

// retireLocked lets nobody else have s.
func (c *committers) retireLocked(key string, s *sharedCommitter) {
	s.stale = true
	if c.open[key] == s {
		delete(c.open, key)
	}
}

// expire closes s if nobody has taken it meanwhile.
func (c *committers) expire(key string, s *sharedCommitter) {
	c.mu.Lock()
	unused := s.users == 0 && !s.stale
	if unused {
		c.retireLocked(key, s)
	}
	c.mu.Unlock()
	if unused {
		s.Close()
	}
}

// close closes those that nobody uses; the others are closed by their last user.
func (c *committers) close() {
	c.mu.Lock()
	c.closed = true
	var unused []*sharedCommitter
	for key, s := range c.open {
		c.retireLocked(key, s)
		if s.users == 0 {
			s.idle.Stop()
			unused = append(unused, s)
		}
	}
	c.mu.Unlock()
	for _, s := range unused {
		s.Close()
	}
}

// connectionKey names what a connection reaches and how, without telling its secrets.
func connectionKey(c kafka.ConnConfig) string {
	var tls kafka.TLS
	if c.TLS != nil {
		tls = *c.TLS
	}
	var sasl kafka.SASL
	if c.SASL != nil {
		sasl = *c.SASL
	}
	text := fmt.Sprintf("%q %t %#v %#v", c.Brokers, c.TLS != nil, tls, sasl)
	return fmt.Sprintf("kafka %x", sha256.Sum256([]byte(text)))
}
