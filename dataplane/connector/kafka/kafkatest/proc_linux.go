package kafkatest

import "syscall"

// dieWithParent makes the kernel kill the broker when the process that started it is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
