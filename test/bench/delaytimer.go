package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// delayTimer waits for times shorter than a millisecond, too. The timers of package time end with
// a wait for events whose limit is in whole milliseconds, so that they are up to one late.
type delayTimer struct {
	file *os.File // of timerfd_create(2)
	fd   int
}

func newDelayTimer() (*delayTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &delayTimer{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

func (t *delayTimer) close() { _ = t.file.Close() }

// wait returns when the time has passed. It must be greater than zero.
func (t *delayTimer) wait(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(t.fd, 0, &once, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}
