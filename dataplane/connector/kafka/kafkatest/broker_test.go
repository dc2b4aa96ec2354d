package kafkatest

import (
	"io"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestLaunchOutlivesThread starts processes from goroutines whose threads end with them: a broker that a test
// restarts must not die of that. There are several since the program's first thread does not end.
func TestLaunchOutlivesThread(t *testing.T) {
	var (
		cmds    [4]*exec.Cmd
		inputs  [4]io.Closer
		ended   = make(chan int, len(cmds))
		threads sync.WaitGroup
	)
	for i := range cmds {
		cmds[i] = exec.Command("cat") // reads until its input is closed
		in, err := cmds[i].StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		inputs[i] = in
		threads.Go(func() {
			runtime.LockOSThread() // and never unlocked
			exited, err := launch(cmds[i])
			if err != nil {
				t.Error(err)
				return
			}
			go func() { <-exited; ended <- i }()
		})
	}
	threads.Wait()
	if t.Failed() {
		return
	}
	select {
	case i := <-ended:
		t.Fatalf("a process ended with the thread: %v", cmds[i].ProcessState)
	case <-time.After(200 * time.Millisecond): // the kernel needs far less
	}
	for i := range cmds {
		inputs[i].Close()
	}
	for range cmds {
		if i := <-ended; !cmds[i].ProcessState.Success() {
			t.Errorf("got %v, want a clean end", cmds[i].ProcessState)
		}
	}
}
