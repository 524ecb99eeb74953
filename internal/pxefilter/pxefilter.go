// Package pxefilter synchronises a folder of host files with an engine's nodes. The dnsmasq that
// reads the folder then answers only machines that must boot the ramdisk. The package reads the
// engine's database, never writes it, and does not implement DHCP.
//
// Each file is named by a MAC address and tells dnsmasq whether to answer requests from that
// address. One more file does so for all other machines. Invariants: a file is complete at any
// moment; files of others are not touched; while the database cannot be read, the folder stays as
// it is; only one process at a time writes to a folder.
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
	// InspectInterfaces are the inspect interfaces with which a ramdisk inspects the node.
	InspectInterfaces []string
	// Serve names phases to serve besides inspection, see PhaseNames; "all" means all of them.
	Serve []string
	// Discovery serves unknown machines. It is for an engine that enrols them.
	Discovery bool
	// MaxPorts is how many files a discovered node gets until a person has accepted it; 0 means
	// DefaultMaxPorts.
	MaxPorts int
	// PollInterval is the time between two checks for changes, at least 100 ms.
	PollInterval time.Duration
	// SyncPeriod is the time after which everything is read and compared again even without a
	// change, at least 1 s.
	SyncPeriod time.Duration
	// DnsmasqPIDFile or DnsmasqPID say which process to tell about removed files. At most one may
	// be set.
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
	changes *loglimit.Logger // limited lines about changed files, because posts of machines can cause changes
	policy  policy
	open    func(ctx context.Context) (view, error)
	dnsmasq server
	metrics *metrics
	status  status

	lock   *folderLock // nil while another process has it
	folder *folder
	view   view   // nil while the database cannot be read
	token  string // token of the database that the nodes were read from
	sum    string // sum of the database before everything was last read
	nodes  *bootNodes

	initialized bool      // the folder was synchronised since this process got its lock
	unfinished  bool      // something could not be written
	synced      time.Time // when everything was last compared
	attempts    int       // attempts that failed in a row
	reloading   string    // why dnsmasq must read the folder again; empty if it need not
	written     int       // files written since dnsmasq was last told

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

// Run keeps the folder synchronised until ctx ends, and then returns nil. While it has no access to
// the database, the folder or the lock, it waits, and says so in the log. It returns only errors
// that waiting does not cure: no folder at the start, an address that is taken, an invalid URL, or
// a database that a newer version of the program has written.
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
