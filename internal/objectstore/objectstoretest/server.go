// Package objectstoretest runs a real S3 server for tests: versitygw, whose version
// the module tools/s3server pins. Go builds it when it is first needed, which takes
// a minute or two, and keeps it in its build cache.
package objectstoretest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/objectstore"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// BucketName is the bucket that a Server has from its start.
const BucketName = "ingot"

// testTimeout bounds the wait for a server to answer or end.
const testTimeout = 30 * time.Second

// Server is an S3 server on a port of 127.0.0.1 that keeps objects as files in a
// temporary folder. The end of the test ends it.
type Server struct {
	Endpoint             string // http://127.0.0.1:port, https with the argument --cert
	AccessKey, SecretKey string

	t       *testing.T
	dir     string
	address string
	extra   []string // arguments of the program
	log     bytes.Buffer
	cmd     *exec.Cmd     // nil while the server does not run
	done    chan struct{} // closed when the server has ended
	ended   error         // why; set before done is closed
}

// Start runs a server with the empty bucket BucketName. The arguments are passed to
// the program, before its subcommand.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), AccessKey: rand.Text(), SecretKey: rand.Text(), extra: args}
	for _, folder := range []string{s.folder(), s.sidecar()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatalf("make folder of the S3 server: %v", err)
		}
	}
	s.address = freeAddress(t)
	s.Endpoint = "http://" + s.address
	if slices.Contains(args, "--cert") {
		s.Endpoint = "https://" + s.address
	}
	t.Cleanup(s.Stop)
	s.Resume()
	return s
}

func (s *Server) folder() string  { return filepath.Join(s.dir, "objects", BucketName) }
func (s *Server) sidecar() string { return filepath.Join(s.dir, "sidecar") }

// Config returns how to reach the server's bucket.
func (s *Server) Config() objectstore.Config {
	return objectstore.Config{
		Endpoint: s.Endpoint, Bucket: BucketName, Region: "us-east-1",
		AccessKey: s.AccessKey, SecretKey: s.SecretKey, Timeout: time.Minute,
	}
}

// Bucket opens the server's bucket.
func (s *Server) Bucket(changes ...func(*objectstore.Config)) *objectstore.Bucket {
	s.t.Helper()
	cfg := s.Config()
	for _, change := range changes {
		change(&cfg)
	}
	bucket, err := objectstore.Open(cfg)
	if err != nil {
		s.t.Fatalf("open bucket: %v", err)
	}
	return bucket
}

// Resume runs the server again after Stop, with its earlier objects.
func (s *Server) Resume() {
	s.t.Helper()
	program, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	s.log.Reset()
	args := append([]string{"--port", s.address, "--quiet"}, s.extra...)
	s.cmd = exec.CommandContext(context.Background(), program, append(args, "posix", "--sidecar", s.sidecar(), filepath.Join(s.dir, "objects"))...) //nolint:gosec // built from the pinned module
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.launch(); err != nil {
		s.t.Fatalf("start S3 server: %v", err)
	}
	s.await()
}

// launch starts the server from a thread that lives as long as the server, because the kernel
// signals the child when the thread that started it ends.
func (s *Server) launch() error {
	launched, cmd := make(chan error), s.cmd
	done := make(chan struct{})
	s.done = done
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		launched <- err
		if err == nil {
			s.ended = cmd.Wait()
			close(done)
		}
	}()
	return <-launched
}

// await returns when the server accepts connections.
func (s *Server) await() {
	s.t.Helper()
	polltest.Until(s.t, testTimeout, "the S3 server", func() error {
		select {
		case <-s.done:
			s.t.Fatalf("S3 server ended: %v\n%s", s.ended, s.log.String())
		default:
		}
		connection, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", s.address)
		if err == nil {
			_ = connection.Close() // it has shown what it was for
		}
		return err
	})
}

// Stop kills the server, unless it is stopped already.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("stop S3 server: %v", err)
	}
	select {
	case <-s.done:
	case <-time.After(testTimeout):
		s.t.Error("S3 server did not end")
	}
	s.cmd = nil
}

// Objects returns the sorted keys of the objects in the bucket, also while the server is stopped.
func (s *Server) Objects() []string {
	s.t.Helper()
	var keys []string
	root := s.folder()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			keys = append(keys, strings.TrimPrefix(path, root+"/"))
		}
		if errors.Is(err, fs.ErrNotExist) { // removed while this looks
			return nil
		}
		return err
	})
	if err != nil {
		s.t.Fatalf("list objects: %v", err)
	}
	slices.Sort(keys)
	return keys
}

// Hide takes the bucket away with its content, or brings it back.
func (s *Server) Hide(hidden bool) {
	s.t.Helper()
	from, to := s.folder(), s.folder()+"-hidden"
	if !hidden {
		from, to = to, from
	}
	if err := os.Rename(from, to); err != nil {
		s.t.Fatalf("move bucket: %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// program builds the server, or finds it in Go's cache, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	root, err := goOutput("", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", fmt.Errorf("find Ingot's module: %w", err)
	}
	path, err := goOutput(filepath.Join(root, "tools", "s3server"), "tool", "-n", "versitygw")
	if err != nil {
		return "", fmt.Errorf("build S3 server: %w", err)
	}
	return path, nil
})

// goOutput runs a go command in a folder and returns what it prints.
func goOutput(dir string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(context.Background(), "go", args...) //nolint:gosec // arguments are this file's
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // one build for tests with and without the race detector
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(text)), nil
}
