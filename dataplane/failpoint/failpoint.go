// Package failpoint stops a process at a named step of the protocol: killed, frozen, delayed, or told that a
// request failed. Crash tests use it to put a failure between any two steps that matter. A call costs one atomic
// load unless the environment of the process arms points:
//
//	WEIR_FAILPOINTS     what happens where: name=action@n, separated by commas; at the n-th hit (default 1).
//	                    name[instance] means one instance of a point that has several. Actions: kill
//	                    (SIGKILL to this process), stop (SIGSTOP), sleep(3s), pause (until the file
//	                    "continue-<i>" is in WEIR_FAILPOINT_DIR, for rule i, counted from 0), error (at points
//	                    that stand for a lost reply).
//	WEIR_FAILPOINT_LOG  file to which a line is appended when a point acts: process id, rule (from 0),
//	                    point, action.
//	WEIR_FAILPOINT_DIR  directory that several processes share: points act only once the file "armed" is
//	                    there, and each rule in one of the processes only, once. Optional, but for pause.
//
// It is for tests. A process that has points armed says so when it starts.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The environment variables, and the files in the directory.
const (
	EnvPoints = "WEIR_FAILPOINTS"
	EnvLog    = "WEIR_FAILPOINT_LOG"
	EnvDir    = "WEIR_FAILPOINT_DIR"

	ArmedFile = "armed"
)

// ContinueFile is the file that ends the pause of a rule.
func ContinueFile(index int) string { return fmt.Sprintf("continue-%d", index) }

// ErrInjected is wrapped by the errors that points return.
var ErrInjected = errors.New("injected by a fail point")

// armed are the process's rules; nil: none, the normal case.
var armed atomic.Pointer[rules]

type rules struct {
	log, dir string
	mu       sync.Mutex
	list     []*rule
	// die ends or stops the process; tests replace it.
	die func(syscall.Signal)
}

// Arm reads the rules from the environment, by getenv, and reports whether there are any. A rule that names no
// point or that its point cannot obey is an error: a test with it would prove nothing. Call it once, before
// anything else runs.
func Arm(getenv func(string) string) (bool, error) {
	text := getenv(EnvPoints)
	if text == "" {
		return false, nil
	}
	r := &rules{log: getenv(EnvLog), dir: getenv(EnvDir), die: signalSelf}
	var err error
	if r.list, err = parse(text); err != nil {
		return false, fmt.Errorf("%s: %w", EnvPoints, err)
	}
	for _, one := range r.list {
		if one.action == pause && r.dir == "" {
			return false, fmt.Errorf("%s: pause needs %s", EnvPoints, EnvDir)
		}
	}
	armed.Store(r)
	return true, nil
}

// Armed reports whether this process has points armed.
func Armed() bool { return armed.Load() != nil }

// Hit is passed by the code at the point called name.
func Hit(name string) {
	if r := armed.Load(); r != nil {
		_ = r.hit(name, "") // a point that can return errors is passed with Err
	}
}

// HitEach is Hit for a point that stands for one step of many things.
func HitEach(name, instance string) {
	if r := armed.Load(); r != nil {
		_ = r.hit(name, instance)
	}
}

// Err is Hit where an error may be injected: it stands right after a request that has succeeded, and its error
// says that the reply was lost.
func Err(name string) error {
	if r := armed.Load(); r != nil {
		return r.hit(name, "")
	}
	return nil
}

// hit carries out the rules for a point. It returns an error if one of them says so.
func (r *rules) hit(name, instance string) error {
	for _, one := range r.list {
		if !one.matches(name, instance) || !r.due(one) {
			continue
		}
		r.record(one, instance)
		if err := r.act(one); err != nil {
			return err
		}
	}
	return nil
}

// due counts a hit and reports whether the rule acts at it.
func (r *rules) due(one *rule) bool {
	if r.dir != "" && !exists(filepath.Join(r.dir, ArmedFile)) {
		return false
	}
	r.mu.Lock()
	one.hits++
	now := one.hits == one.nth
	r.mu.Unlock()
	if !now || r.dir == "" {
		return now
	}
	f, err := os.OpenFile(filepath.Join(r.dir, fmt.Sprintf("fired-%d", one.index)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false // another process was first
	}
	f.Close()
	return true
}

// record appends a line to the log. A kernel buffer outlives the process, so that nothing is to be synced.
func (r *rules) record(one *rule, instance string) {
	if r.log == "" {
		return
	}
	f, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(fmt.Sprintf("fail point %s: log: %v", one.name, err)) // a test that cannot know proves nothing
	}
	defer f.Close()
	name := one.name
	if instance != "" {
		name += "[" + instance + "]"
	}
	fmt.Fprintf(f, "%d %d %s %s\n", os.Getpid(), one.index, name, one.action)
}

func (r *rules) act(one *rule) error {
	switch one.action {
	case kill:
		r.die(syscall.SIGKILL)
	case stop:
		r.die(syscall.SIGSTOP)
	case sleep:
		<-time.After(one.pause)
	case pause:
		r.await(filepath.Join(r.dir, ContinueFile(one.index)))
	case fail:
		return fmt.Errorf("%s: %w", one.name, ErrInjected)
	}
	return nil
}

// await polls for a file: another process makes it.
func (r *rules) await(name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !exists(name) {
		<-tick.C
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// signalSelf sends a signal to this process. After SIGKILL it does not return, though the signal may take a
// moment to arrive.
func signalSelf(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(fmt.Sprintf("fail point: %v", err))
	}
	if s == syscall.SIGKILL {
		select {}
	}
}
