package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse means that another process runs a control plane on the data folder.
var ErrInUse = errors.New("data folder is in use")

// dataDir is the data folder of one control plane. All files in it are private to their owner.
type dataDir struct {
	root string // as the caller wrote it, for messages
	lock *os.File
}

func (d dataDir) own(parts ...string) string {
	return filepath.Join(append([]string{d.root, "controlplane"}, parts...)...)
}

func (d dataDir) kubeconfig() string        { return filepath.Join(d.root, "kubeconfig") }
func (d dataDir) etcd() string              { return d.own("etcd") }
func (d dataDir) pki(name string) string    { return d.own("pki", name) }
func (d dataDir) log(program string) string { return d.own("logs", program+".log") }
func (d dataDir) port() string              { return d.own("port") }

// openDataDir creates the parts of the data folder that are missing, and locks the folder for this
// process. The error wraps ErrInUse if another process has the lock. The lock ends with unlock or
// with the process.
func openDataDir(root string) (dataDir, error) {
	root, err := filepath.Abs(root) // the programs of the control plane get these paths as flags
	if err != nil {
		return dataDir{}, fmt.Errorf("find data folder: %w", err)
	}
	d := dataDir{root: root}
	for _, dir := range []string{d.etcd(), d.own("pki"), d.own("logs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return dataDir{}, fmt.Errorf("make data folder: %w", err)
		}
	}
	d.lock, err = os.OpenFile(d.own("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return dataDir{}, fmt.Errorf("open lock of data folder: %w", err)
	}
	err = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return d, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: stop the process that runs on it or choose another folder", ErrInUse)
	}
	return dataDir{}, fmt.Errorf("lock %s: %w", root, errors.Join(err, d.lock.Close()))
}

// unlock releases the lock on the folder.
func (d dataDir) unlock() error { return d.lock.Close() }

// lastPort returns the API server's port at the last start, or 0 if it is unknown. Using the same
// port again is only a convenience.
func (d dataDir) lastPort() int {
	text, err := os.ReadFile(d.port())
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// savePort stores the port for lastPort.
func (d dataDir) savePort(port int) error {
	return writeFile(d.port(), []byte(strconv.Itoa(port)+"\n"))
}

// readOrCreate returns the content of a file. If there is no file, it creates one with the result
// of create.
func readOrCreate(name string, create func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	data, err = create()
	if err != nil {
		return nil, err
	}
	return data, writeFile(name, data)
}

// writeFile replaces a file atomically: at any time the file has either the old or the new content.
// Only its owner can read it.
func writeFile(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
