// Package local runs the parts of a Weir cluster on one machine: a Temporal development server, an in-process
// Kafka, an in-process S3 server and worker processes. weir dev, the demo and the end-to-end tests use it.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child that does not outlive this process.
type process struct {
	name string
	path string
	args []string
	env  []string // added to what inherited leaves of this process's
	log  string   // file that its output is appended to

	mu    sync.Mutex
	extra []string // added to env
	cmd   *exec.Cmd
	done  chan struct{} // closed when cmd has ended
	err   error         // valid after done
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = slices.Concat(inherited(os.Environ()), p.env, p.extra)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	done := make(chan struct{})
	started := make(chan error, 1)
	// The death signal follows the thread that started the child, which therefore waits for it.
	go func() {
		lockThread()
		err := cmd.Start()
		started <- err
		out.Close()
		if err == nil {
			p.err = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

// inherited is the environment without what would lead a child elsewhere: the user's Temporal profile, AWS
// account and Weir settings belong to real clusters.
func inherited(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, "TEMPORAL_") || strings.HasPrefix(kv, "AWS_") || strings.HasPrefix(kv, "WEIR_")
	})
}

func (p *process) setExtra(env []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = env
}

// ended is closed when the child has ended; nil if it was never started.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal sends sig to the child, if it lives.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(sig) // it may have ended already
	}
}

// kill ends the child with SIGKILL and waits for it.
func (p *process) kill() {
	if done := p.ended(); done != nil {
		p.signal(syscall.SIGKILL)
		<-done
	}
}

// stop asks the child to end, and kills it after grace.
func (p *process) stop(grace time.Duration) {
	done := p.ended()
	if done == nil {
		return
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(grace):
		p.kill()
	}
}

// await polls ready until it succeeds, the child ends or ctx does. Polling is all that a foreign process offers.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = ready(ctx); last == nil {
			return nil
		}
		select {
		case <-p.ended():
			return fmt.Errorf("%s ended before it was ready (%w); its log is %s\n%s", p.name, p.err, p.log, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log is %s", p.name, errors.Join(last, context.Cause(ctx)), p.log)
		case <-tick.C:
		}
	}
}

// tail is the end of a log.
func tail(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b[max(0, len(b)-2000):])
}
