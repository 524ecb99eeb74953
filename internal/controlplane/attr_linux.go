package controlplane

import "syscall"

// childAttr makes the kernel kill a child when the thread that started it ends. So the child ends
// with this process, even if that is killed with SIGKILL. The child is in its own process group, so
// the terminal's Ctrl-C does not reach it: this process stops its children in order instead.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
