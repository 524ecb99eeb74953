// Package pxefilter synchronises a folder of host files with an engine's nodes, so
// that the dnsmasq which reads it answers only machines that must boot the ramdisk.
// It reads the engine's database, never writes it, and does not implement DHCP.
//
// Each file is named by a MAC address and tells dnsmasq whether to answer requests
// from it; one more file does so for all other machines. Invariants:
// a file is complete at any moment; files of others are left alone; while the
// database cannot be read, the folder stays as it is; one process at a time writes
// to a folder.
package pxefilter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/store"
)

// Options configure a filter.
type Options struct {
	Database store.Options
	// HostsDir is the folder that dnsmasq has as dhcp-hostsdir. It must exist.
	HostsDir string
	// InspectInterfaces are those whose nodes are inspected by a ramdisk.
	InspectInterfaces []string
	// Serve names phases to serve besides inspection, see PhaseNames; "all" stands
	// for all of them.
	Serve []string
	// Discovery serves unknown machines, for an engine that enrols them.
	Discovery bool
	// MaxPorts is how many files a discovered node gets that no person has accepted; 0
	// means DefaultMaxPorts.
	MaxPorts int
	// PollInterval is the time between two checks for changes, at least 100 ms.
	PollInterval time.Duration
	// SyncPeriod is the time after which everything is read and compared even without
	// a change, at least 1 s.
	SyncPeriod time.Duration
	// DnsmasqPIDFile or DnsmasqPID say which process to tell of removed files. At
	// most one may be set.
	DnsmasqPIDFile string
	DnsmasqPID     int
	// MetricsAddr and HealthAddr are host:port of /metrics and of /healthz and
	// /readyz; empty means none.
	MetricsAddr, HealthAddr string
	Logger                  *slog.Logger
}

// Defaults of Options.
const (
	DefaultPollInterval = time.Second
	DefaultSyncPeriod   = 45 * time.Second
	DefaultMaxPorts     = 64
)

// allPhases stands for every phase.
const allPhases = "all"

func (o Options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.HostsDir != "", "--dhcp-hostsdir: want the folder that dnsmasq has as dhcp-hostsdir")
	check(len(o.InspectInterfaces) > 0 && !slices.Contains(o.InspectInterfaces, ""), "--inspect-interface: want at least one")
	for _, name := range o.Serve {
		check(name == allPhases || slices.Contains(PhaseNames(), name), "--serve: want some of %s, or %s, got %q", strings.Join(PhaseNames(), ", "), allPhases, name)
	}
	check(o.PollInterval >= 100*time.Millisecond, "--poll-interval: want at least 100ms, got %s", o.PollInterval)
	check(o.SyncPeriod >= time.Second, "--sync-period: want at least 1s, got %s", o.SyncPeriod)
	check(o.DnsmasqPIDFile == "" || o.DnsmasqPID == 0, "--dnsmasq-pid-file and --dnsmasq-pid exclude each other")
	check(o.DnsmasqPID >= 0, "--dnsmasq-pid: want the number of a process, got %d", o.DnsmasqPID)
	return errors.Join(errs...)
}

func (o Options) policy() policy {
	serve := o.Serve
	if slices.Contains(serve, allPhases) {
		serve = PhaseNames()
	}
	return policy{served: phaseOf(serve), inspectInterfaces: o.InspectInterfaces, discovery: o.Discovery, maxPorts: cmp.Or(o.MaxPorts, DefaultMaxPorts)}
}

// view is the part of the database that the filter reads; see store.BootView.
type view interface {
	Token(ctx context.Context) (string, error)
	Sum(ctx context.Context) (string, error)
	Since(ctx context.Context, mark store.BootMark) (store.BootChanges, error)
	Close(ctx context.Context) error
}

// Filter synchronises one folder. Create one with New.
type Filter struct {
	opts    Options
	log     *slog.Logger
	changes *loglimit.Logger // of files, which posts of machines can cause
	policy  policy
	open    func(ctx context.Context) (view, error)
	dnsmasq server
	metrics *metrics
	status  status

	lock   *folderLock // nil while another process has it
	folder *folder
	view   view   // nil while the database cannot be read
	token  string // of the database that nodes were read from
	sum    string // of the database before everything was read last
	nodes  *bootNodes

	initialized bool      // the folder was synchronised since this process got its lock
	unfinished  bool      // something could not be written
	synced      time.Time // when everything was last compared
	attempts    int       // that failed in a row
	reloading   string    // why dnsmasq must read the folder again; empty if it need not
	written     int       // files since dnsmasq was last told

	databaseTrouble, folderTrouble, dnsmasqTrouble trouble
}

// New checks the options. It does not touch the database or the folder.
func New(opts Options) (*Filter, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Filter{
		opts: opts, log: opts.Logger, changes: loglimit.New(opts.Logger, changesASecond, changesAtOnce), policy: opts.policy(), metrics: newMetrics(),
		open:    func(ctx context.Context) (view, error) { return store.OpenBootView(ctx, opts.Database) },
		dnsmasq: server{pidFile: opts.DnsmasqPIDFile, pid: opts.DnsmasqPID, signal: syscall.Kill, proc: "/proc"},
		folder:  newFolder(opts.HostsDir), nodes: newBootNodes(),
	}, nil
}

// Run keeps the folder in step until ctx ends, and returns nil then. It waits for
// a database, a folder or a lock that it cannot have, and says so in the log. An
// error is one that waiting does not mend: no folder at the start, an address that
// is taken, a URL that is none, or a database that a newer version of the program
// has written.
func (f *Filter) Run(ctx context.Context) error {
	if _, err := os.ReadDir(f.opts.HostsDir); errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return f.folder.problem("read", err)
	}
	servers, err := f.serve(ctx)
	if err != nil {
		return err
	}
	defer servers.stop()
	defer func() { f.lock.release() }()
	defer f.closeView(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait, err := f.synchronize(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		timer.Reset(wait)
	}
}
