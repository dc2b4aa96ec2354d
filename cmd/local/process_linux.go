package local

import (
	"runtime"
	"syscall"
)

// childAttr lets the child die with the thread that started it, and keeps the terminal's Ctrl-C from it: this
// process ends it in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func lockThread() { runtime.LockOSThread() }
