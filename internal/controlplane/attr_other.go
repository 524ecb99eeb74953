//go:build unix && !linux

package controlplane

import "syscall"

// childAttr keeps the terminal's Ctrl-C away from children, because this process stops them in
// order. There is no parent-death signal here, so a process that is killed leaves its children
// running.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
