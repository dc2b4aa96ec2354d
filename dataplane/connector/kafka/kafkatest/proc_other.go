//go:build !linux

package kafkatest

import "syscall"

// dieWithParent has no counterpart outside Linux.
func dieWithParent() *syscall.SysProcAttr { return nil }
