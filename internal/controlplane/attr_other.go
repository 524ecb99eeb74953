//go:build unix && !linux

package controlplane

import "syscall"

// childAttr keeps the terminal's Ctrl-C away from children: this process stops
// them in order. No parent-death signal exists here, so a process that is
// killed leaves its children running.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
