package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a throw-away PostgreSQL server that listens on a socket in its own
// temporary folder. It ends with the process that started it.
type Server struct {
	URL  string // its administrator's
	dir  string
	cmd  *exec.Cmd
	done chan error
}

// PostgresBin is the folder of the newest PostgreSQL server that Debian's
// packages installed, "" when there is none.
func PostgresBin() string {
	found := ""
	newest := 0
	servers, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is well-formed
	for _, server := range servers {
		bin := filepath.Dir(server)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > newest {
			newest, found = version, bin
		}
	}
	return found
}

// StartServer starts a server on a new, empty cluster. Commits wait for the disk
// as they do in production. PostgreSQL refuses to run as root; for root it runs
// as the user postgres.
func StartServer(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("/tmp", "ingot-postgres-") // the path of a socket must be short
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, done: make(chan error, 1)}
	s.URL = "postgres://ingot@/postgres?" + url.Values{"host": {dir}, "port": {"5432"}}.Encode()
	if err := s.start(bin); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(bin string) error {
	credential, err := s.unprivileged()
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	create := exec.CommandContext(context.Background(), filepath.Join(bin, "initdb"), //nolint:gosec // of Debian's package
		"--pgdata", data, "--username", "ingot",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	create.Dir, create.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: credential}
	if output, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	s.cmd = exec.CommandContext(context.Background(), filepath.Join(bin, "postgres"), //nolint:gosec // of Debian's package
		"-D", data, "-k", s.dir,
		"-c", "listen_addresses=", "-c", "max_connections=400", "-c", "fsync=on")
	s.cmd.Dir, s.cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGINT}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.launch(); err != nil {
		return err
	}
	return s.await(log.Name())
}

// unprivileged is the user of the server's processes, to whom it hands the folder
// over; nil is the user of this process.
func (s *Server) unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // as syscall takes it
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(s.dir, uid, gid)
}

// launch starts the server from a thread that lives as long as the server: the
// kernel signals the child when the thread that started it ends.
func (s *Server) launch() error {
	launched := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.cmd.Start()
		launched <- err
		if err == nil {
			s.done <- s.cmd.Wait()
		}
	}()
	err := <-launched
	if err != nil {
		s.cmd = nil
	}
	return err
}

// await returns when the server answers.
func (s *Server) await(log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case ended := <-s.done:
			s.cmd = nil
			text, _ := os.ReadFile(log) // what it said if it can be read
			return fmt.Errorf("it ended at once: %w: %s", ended, strings.TrimSpace(string(text)))
		}
	}
}

// Stop ends the server and removes everything it stored.
func (s *Server) Stop() error {
	if s.cmd != nil {
		if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			return err
		}
		<-s.done //nolint:errcheck // SIGQUIT makes it end with an error code
	}
	return os.RemoveAll(s.dir)
}
