package controlplane

import "syscall"

// childAttr makes the kernel kill a child when the thread that started it ends,
// and so with this process, even by SIGKILL. The child's own process group
// keeps the terminal's Ctrl-C away from it: this process stops its children in
// order instead.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
