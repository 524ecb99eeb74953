// Package agent behaves like ironic-python-agent 9.11.0 on a machine that does
// not exist.
//
// An [Agent] lives from the moment its ramdisk is up until the power goes. It
// posts its inspection document, looks itself up, serves the agent's command
// API on its own address and sends heartbeats, with the pauses, retries and
// faults of the recorded agent. What it does to its hardware takes simulated
// time and changes nothing.
//
// The package speaks only the public protocol and shares no code with the
// engine it talks to, so that each side can find the other's mistakes.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Version is what the agent says it is.
const Version = "9.11.0"

// Port is where an agent serves its command API.
const Port = 9999

// Reasons for which [Agent.Run] ends by itself.
var (
	// ErrPoweredOff: the engine asked the agent to power the machine off.
	ErrPoweredOff = errors.New("the agent was told to power the machine off")
	// ErrRebooted: the engine asked the agent to restart the machine.
	ErrRebooted = errors.New("the agent was told to restart the machine")
	// ErrNoToken: the engine gave the token of this node to an earlier agent
	// and will not repeat it. Only a power cycle helps.
	ErrNoToken = errors.New("the engine has given the agent token away already; power-cycle the machine so that the engine issues a new one")
)

// Phase is what an agent is doing.
type Phase int

// The phases of an agent's life, in order.
const (
	Inspecting Phase = iota // posting the inspection document
	LookingUp               // asking the engine which node this machine is
	Running                 // serving commands and sending heartbeats
)

// Call is one of the requests an agent makes.
type Call string

// The requests an agent makes.
const (
	CallInspect   Call = "inspect"
	CallVersion   Call = "version"
	CallLookup    Call = "lookup"
	CallHeartbeat Call = "heartbeat"
)

// Observer is told what an agent does. Its methods are called from the
// goroutine of [Agent.Run] and must not block.
type Observer interface {
	// Entered says that a phase began.
	Entered(Phase)
	// Answered says how a request ended: the status of the answer, or zero and
	// the error when there was none.
	Answered(call Call, status int, err error)
}

// Config is what an agent needs. All fields without a stated default are required.
type Config struct {
	// Engine is the root URL of the Bare Metal API, with or without /v1.
	Engine string
	// Client makes the requests. Agents of one fleet share it.
	Client *http.Client
	// Document returns the inspection document, a JSON object. It is called
	// once at the start and again whenever the hardware is asked for, so a
	// fleet need not keep all documents.
	Document func() []byte
	// Hostname is the common name of the agent's certificate.
	Hostname string
	// Address is where the command API listens; port zero picks a free port.
	Address netip.AddrPort
	// TLS makes the agent serve HTTPS with a certificate of its own, if the
	// engine understands that (API 1.68).
	TLS bool
	// HeartbeatTimeout replaces the engine's heartbeat_timeout, of which the
	// agent waits a random 30 to 60 % between heartbeats; zero keeps it.
	HeartbeatTimeout time.Duration
	// Token is the token the boot media carried; empty means none.
	Token string
	// Random supplies jitter and command identifiers; nothing else may use it.
	Random *rand.Rand
	// Clock is the agent's time; nil means [RealClock].
	Clock Clock
	// Observer may be nil.
	Observer Observer
	// Log receives what the agent would write to its journal; nil discards it.
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

	// leave ends Run with a reason; it is set by Run.
	leave context.CancelCauseFunc
	// force asks for a heartbeat outside of the usual rhythm.
	force chan struct{}

	mu            sync.Mutex
	token         string
	tokenRequired bool // the engine insists on tokens
	readsNeedIt   bool // a token was used to read commands before
	partitions    map[string]string
}

// New returns an agent that has not done anything yet.
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
	}
	if a.clock == nil {
		a.clock = RealClock
	}
	if a.observer == nil {
		a.observer = silence{}
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.started = a.clock.Now()
	base := strings.TrimSuffix(strings.TrimRight(config.Engine, "/"), "/v1")
	a.engine = &client{base: base, http: config.Client, answered: a.observer.Answered}
	a.commands = newCommandList()
	return a
}

// Run lives the agent's life. It blocks until ctx ends, which is how power is
// cut, or until the agent stops by itself: with [ErrPoweredOff], [ErrRebooted],
// [ErrNoToken], a *[LookupError], or an error of its own network address. When
// it returns, the agent listens no more and none of its goroutines is left.
func (a *Agent) Run(ctx context.Context) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	a.leave = leave

	document := a.config.Document()
	macs, err := macsOf(document)
	if err != nil {
		return fmt.Errorf("read the inspection document: %w", err)
	}
	a.macs = macs

	a.observer.Entered(Inspecting)
	nodeUUID, err := a.inspect(ctx, document)
	if err != nil {
		return err
	}
	a.observer.Entered(LookingUp)
	found, err := a.lookup(ctx, nodeUUID)
	if err != nil {
		return err
	}
	if err := a.adopt(found.Config); err != nil {
		return err
	}
	server, err := a.serve(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	a.observer.Entered(Running)
	return a.beat(ctx, server, found)
}

// macsOf lists the MAC addresses in a document, in its order.
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

// silence is the observer of an agent that nobody watches.
type silence struct{}

func (silence) Entered(Phase)             {}
func (silence) Answered(Call, int, error) {}
