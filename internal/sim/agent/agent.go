// Package agent simulates ironic-python-agent.
//
// An [Agent] runs from the boot of its ramdisk until the machine is powered off. It posts its
// inspection document, looks itself up, serves the agent's command API on its own address and sends
// heartbeats. Its pauses, retries and error texts come from the recording of a real agent or from
// the agent's source. Commands take simulated time. They download images and write them to the
// disks of package disk, and erase those disks; other commands change nothing.
//
// The package uses only the public protocol and shares no code with the engine, so that tests find
// mistakes on either side.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/disk"
)

// Port is the usual TCP port of an agent's command API.
const Port = 9999

// Errors with which [Agent.Run] ends although ctx has not ended.
var (
	// ErrPoweredOff: the engine made the agent power the machine off.
	ErrPoweredOff = errors.New("the agent was told to power the machine off")
	// ErrRebooted: the engine made the agent restart the machine.
	ErrRebooted = errors.New("the agent was told to restart the machine")
	// ErrRescued: the agent has set the password of the rescue system. The rescue system goes on
	// without the agent.
	ErrRescued = errors.New("the agent has ended because its rescue system was made ready")
	// ErrNoToken: the engine has issued the token of this node to an earlier agent and does not
	// issue another one. This version of the agent then switches its network off. Only a power
	// cycle helps.
	ErrNoToken = errors.New("the engine has issued the agent token to an earlier agent; power-cycle the machine so that the engine issues a new one")
	// ErrNoEngine: the kernel command line names no engine to look the machine up at.
	ErrNoEngine = errors.New("the kernel command line has no ipa-api-url; the agent has nobody to report to")
	// ErrCrashed: a fault ended the process of the agent during a command. Its service manager
	// starts the agent again.
	ErrCrashed = errors.New("the agent crashed during a command")
	// ErrVanished: a fault made the agent fall silent during a command. Only a power cycle helps.
	ErrVanished = errors.New("the agent fell silent during a command; power-cycle the machine")
	// ErrInspectionUnanswered: the engine took the inspection document and did not answer. The
	// process of the agent ends, and its service manager starts it again.
	ErrInspectionUnanswered = errors.New("the engine did not answer the inspection document in time")
)

// Phase is what an agent is doing.
type Phase int

// The phases of an agent, in order.
const (
	Inspecting Phase = iota // posting the inspection document
	LookingUp               // asking the engine which node this machine is
	Running                 // serving commands and sending heartbeats
)

// Call is a kind of request that an agent makes.
type Call string

// The requests that an agent makes.
const (
	CallInspect   Call = "inspect"
	CallVersion   Call = "version"
	CallLookup    Call = "lookup"
	CallHeartbeat Call = "heartbeat"
)

// Observer is notified of what an agent does. Its methods are called from the
// goroutine of [Agent.Run] and must not block.
type Observer interface {
	// Entered is called when a phase begins.
	Entered(Phase)
	// Answered is called when a request has ended, with the status of the answer, or
	// with zero and the error when there was none.
	Answered(call Call, status int, err error)
}

// Config is what an agent needs. All fields without a stated default are required.
type Config struct {
	// Version is the version that the agent reports and behaves like, one that
	// [CheckVersion] accepts; empty means [DefaultVersion].
	Version string
	// Engine is the root URL of the Bare Metal API, with or without /v1; empty means that the
	// agent ends with [ErrNoEngine] after its inspection.
	Engine string
	// CallbackURLs are where the inspection document is posted: to the first URL, and to the next
	// ones as long as there is no answer. If there are none, the document is not posted.
	CallbackURLs []string
	// Client makes the requests. All agents share it.
	Client *http.Client
	// Downloads fetches images, checksums and config drives; nil means Client.
	Downloads *http.Client
	// CoreOS gives the ramdisk a hardware manager with the deploy step install_coreos, like the one
	// in Metal3's image of the agent.
	CoreOS bool
	// Disks are the disks of the machine; nil means disks that are empty at every boot.
	Disks *disk.Set
	// UEFI says that the machine was booted in UEFI mode. In this mode, boot loaders get an entry
	// in the boot order of the firmware.
	UEFI bool
	// Journal may be nil.
	Journal Journal
	// Document returns the inspection document, a JSON object. It is called at the
	// start and for each command that reads the hardware, so that a simulation need
	// not keep all documents in memory.
	Document func() []byte
	// Hostname is the common name of the agent's certificate.
	Hostname string
	// Address is where the command API listens; port zero picks a free port.
	Address netip.AddrPort
	// Listen opens the listener of the command API, whose address must be a *[net.TCPAddr]; nil
	// means the network of the computer.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// TLS makes the agent serve HTTPS with a certificate of its own, if the engine
	// supports that (API 1.68).
	TLS bool
	// HeartbeatTimeout replaces the engine's heartbeat_timeout; zero means the engine's. Between
	// heartbeats the agent waits for a random 30 to 60 % of it.
	HeartbeatTimeout time.Duration
	// Token is the token on the boot media; empty means none.
	Token string
	// Random supplies jitter and command identifiers; nothing else may use it.
	Random *rand.Rand
	// Clock is the agent's time; nil means [RealClock].
	Clock Clock
	// Observer may be nil.
	Observer Observer
	// Log gets the log of the agent; nil discards it.
	Log *slog.Logger
}

// Agent is one booted ramdisk. It is used for one boot only.
type Agent struct {
	config   Config
	clock    Clock
	observer Observer
	log      *slog.Logger
	random   *jitter
	engine   *client
	commands *commandList
	started  time.Time
	macs     []string
	version  string
	behaves  behaviour

	// leave ends Run with an error; Run sets it.
	leave context.CancelCauseFunc
	// force requests a heartbeat before its usual time.
	force chan struct{}

	mu            sync.Mutex
	token         string
	tokenRequired bool // the engine requires tokens
	md5Allowed    bool // the engine allows MD5 checksums
	readsNeedIt   bool // a request to read commands had a token; from then on all need one
	partitions    map[string]string
	node          knownNode // as the engine last described it
}

// New returns an agent that does nothing before Run.
func New(config Config) *Agent {
	a := &Agent{
		config:   config,
		clock:    config.Clock,
		observer: config.Observer,
		log:      config.Log,
		random:   &jitter{random: config.Random},
		force:    make(chan struct{}, 1),
		token:    config.Token,
		leave:    func(error) {},
		version:  cmp.Or(config.Version, DefaultVersion),
	}
	a.behaves = behaviours[a.version]
	if a.clock == nil {
		a.clock = RealClock
	}
	if a.observer == nil {
		a.observer = noObserver{}
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.config.Disks == nil {
		a.config.Disks = disk.NewSet("", "")
	}
	if a.config.Journal == nil {
		a.config.Journal = noJournal{}
	}
	if a.config.Downloads == nil {
		a.config.Downloads = config.Client
	}
	if a.config.Listen == nil {
		a.config.Listen = new(net.ListenConfig).Listen
	}
	a.started = a.clock.Now()
	base := strings.TrimSuffix(strings.TrimRight(config.Engine, "/"), "/v1")
	a.engine = &client{base: base, http: config.Client, answered: a.observer.Answered}
	a.commands = newCommandList()
	return a
}

// Run runs the agent until ctx ends, which stands for a power cut, or until the agent ends by
// itself. It then returns [ErrPoweredOff], [ErrRebooted], [ErrRescued], [ErrNoToken],
// [ErrNoEngine], [ErrCrashed], [ErrVanished], [ErrInspectionUnanswered], a *[LookupError], or an
// error of [CheckVersion] or of its network address. When it returns, the agent does not listen any
// more and all of its goroutines have ended.
func (a *Agent) Run(ctx context.Context) error {
	if err := CheckVersion(a.version); err != nil {
		return err
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	a.leave = leave

	document := a.config.Document()
	macs, err := macsOf(document)
	if err != nil {
		return fmt.Errorf("read the inspection document: %w", err)
	}
	a.macs = macs

	var nodeUUID string
	if len(a.config.CallbackURLs) > 0 {
		a.observer.Entered(Inspecting)
		if nodeUUID, err = a.inspect(ctx, document); err != nil {
			return err
		}
	}
	if a.config.Engine == "" {
		return ErrNoEngine
	}
	a.observer.Entered(LookingUp)
	found, err := a.lookup(ctx, nodeUUID)
	if err != nil {
		return err
	}
	a.remember(*found.Node)
	if err := a.acceptToken(found.Config); err != nil {
		return err
	}
	server, err := a.serve(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	a.observer.Entered(Running)
	return a.sendHeartbeats(ctx, server, found)
}

// macsOf returns the MAC addresses in a document, in the order of the document.
func macsOf(document []byte) ([]string, error) {
	var d struct {
		Inventory struct {
			Interfaces []struct {
				MACAddress string `json:"mac_address"`
			} `json:"interfaces"`
		} `json:"inventory"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	var macs []string
	for _, nic := range d.Inventory.Interfaces {
		if nic.MACAddress != "" {
			macs = append(macs, nic.MACAddress)
		}
	}
	return macs, nil
}

// noObserver is the observer of an agent without one.
type noObserver struct{}

func (noObserver) Entered(Phase)             {}
func (noObserver) Answered(Call, int, error) {}
