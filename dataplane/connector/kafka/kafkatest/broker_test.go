package kafkatest

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestLaunchOutlivesThread starts a process from a goroutine whose thread ends with it: a broker that a test
// restarts must not die of that.
func TestLaunchOutlivesThread(t *testing.T) {
	cmd := exec.Command("cat") // reads until its input is closed
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var exited chan struct{}
	over := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		var err error
		exited, err = launch(cmd)
		over <- err
	}()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
		t.Fatalf("the process ended with the thread: %v", cmd.ProcessState)
	case <-time.After(200 * time.Millisecond): // the kernel needs far less
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	<-exited
	if !cmd.ProcessState.Success() {
		t.Errorf("got %v, want a clean end", cmd.ProcessState)
	}
}
