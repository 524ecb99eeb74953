package pxefilter

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// folderLock makes one process the active process of a folder. The kernel releases the lock when
// the process ends, however it ends.
type folderLock struct{ file *os.File }

// errTaken means that another process has the lock.
var errTaken = errors.New("another process keeps this folder")

// take locks the folder, or returns errTaken.
func (f *folder) take() (*folderLock, error) {
	const ownersOnly = 0o600
	file, err := os.OpenFile(filepath.Join(f.dir, lockFile), os.O_CREATE|os.O_RDWR, ownersOnly)
	if err != nil {
		return nil, f.problem("lock", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	lock := &folderLock{file}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = errTaken
	case err != nil:
		err = f.problem("lock", err)
	case !f.holds(lock): // the file was removed before we had its lock
		err = errTaken
	default:
		return lock, nil
	}
	_ = file.Close() // nothing was written
	return nil, err
}

// holds reports whether the lock is still the lock of the folder. It is not if somebody has removed
// its file or the folder. Then another process can be active.
func (f *folder) holds(lock *folderLock) bool {
	own, err := lock.file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(filepath.Join(f.dir, lockFile))
	return err == nil && os.SameFile(own, current)
}

// release lets another process become active.
func (l *folderLock) release() {
	if l != nil {
		_ = l.file.Close() // nothing was written
	}
}
