package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
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

// Server is a throw-away PostgreSQL server that listens on a port of 127.0.0.1 and on
// a Unix domain socket, and keeps everything in its own temporary folder. It ends with
// the process that started it.
type Server struct {
	URL     string // its administrator's, through TCP
	Socket  string // the same through the socket
	bin     string // folder of its programs
	dir     string
	port    string
	account *syscall.Credential // of its processes; nil is that of this process
	cmd     *exec.Cmd           // nil while it does not run
	done    chan error
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
	dir, err := os.MkdirTemp("", "ingot-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, done: make(chan error, 1)}
	if err := s.create(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// create makes the cluster. Its administrator has a password: others on this
// machine reach the port too.
func (s *Server) create() (err error) {
	password := rand.Text()
	if s.port, err = freePort(); err != nil {
		return err
	}
	administrator := url.UserPassword("ingot", password)
	s.URL = (&url.URL{Scheme: "postgres", User: administrator, Host: net.JoinHostPort("127.0.0.1", s.port), Path: "postgres"}).String()
	s.Socket = (&url.URL{
		Scheme: "postgres", User: administrator, Path: "/postgres",
		RawQuery: url.Values{"host": {s.dir}, "port": {s.port}}.Encode(),
	}).String()
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if s.account, err = s.unprivileged(secret); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "initdb"), //nolint:gosec // of Debian's package
		"--pgdata", s.data(), "--username", "ingot", "--pwfile", secret,
		"--auth", "password", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.account}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// freePort returns a port of 127.0.0.1 on which nobody listens.
func freePort() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

// Start runs the server, which Halt may have ended, and returns when it answers.
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), //nolint:gosec // of Debian's package
		"-D", s.data(), "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+s.dir,
		"-c", "max_connections=400", "-c", "fsync=on")
	s.cmd.Dir, s.cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.account, Pdeathsig: syscall.SIGINT}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.launch(); err != nil {
		return err
	}
	return s.await(log.Name())
}

// unprivileged is the user of the server's processes, to whom it hands the folder
// and a file over; nil is the user of this process.
func (s *Server) unprivileged(file string) (*syscall.Credential, error) {
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
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(os.Chown(s.dir, uid, gid), os.Chown(file, uid, gid))
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

// How Halt ends a server.
const (
	Shutdown = syscall.SIGINT  // it tells its sessions and writes everything to disk
	Crash    = syscall.SIGQUIT // it drops everything, and recovers when it starts
)

// Halt ends the server. What was committed is there when Start runs it again.
func (s *Server) Halt(how syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(how); err != nil {
		return err
	}
	<-s.done //nolint:errcheck // a crash makes it end with an error code
	s.cmd = nil
	return nil
}

// Stop ends the server and removes everything it stored.
func (s *Server) Stop() error {
	return errors.Join(s.Halt(Crash), os.RemoveAll(s.dir))
}
