package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/ipmi"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// MixedVendors makes the machines take turns among all vendors.
const MixedVendors = "mixed"

// BMCOptions describe the BMCs of the machines. Machines with BMCs are servers of the BMC's vendor.
type BMCOptions struct {
	// Vendor is one of [redfish.Vendors] or [MixedVendors].
	Vendor string
	// Systems is how many machines share a BMC, which then has one system for each; 0 means that
	// each machine has its own BMC. Over IPMI, a BMC manages the first of its machines only.
	Systems int
	// Network has the addresses of the BMCs: that of BMC i is the network's address plus
	// i plus one. The zero value means [hardware.LocalBMCNetwork].
	Network netip.Prefix
	// Port is where the BMCs listen, over TLS; 1025 to 65535.
	Port uint16
	// IPMIPort is where the BMCs answer IPMI, over UDP; 1025 to 65535, or 0 for no IPMI.
	IPMIPort uint16
	// User and Password are the account of every BMC.
	User, Password string
	// Times are how long the machines take. An accelerated clock does not shorten them.
	Times bmc.Times
	// Faults are those of machines that have no faults of their own.
	Faults effect.Faults
	// Keep is how many calls are kept in the log; 0 means 500,000.
	Keep int
}

func (o BMCOptions) network() netip.Prefix {
	if o.Network.IsValid() {
		return o.Network
	}
	return hardware.LocalBMCNetwork
}

// validate returns an error for options that cannot work.
func (o BMCOptions) validate(all Options) error {
	if o.Vendor != MixedVendors && !slices.Contains(redfish.Vendors, o.Vendor) {
		return fmt.Errorf("there are no BMCs of %q; choose %s or %s", o.Vendor, strings.Join(redfish.Vendors, ", "), MixedVendors)
	}
	network := o.network()
	switch {
	case !network.Addr().Is4():
		return fmt.Errorf("network %s of the BMCs is not IPv4", network)
	case all.Machines > 1<<(32-network.Bits())-1:
		return fmt.Errorf("network %s has room for %d BMCs, not %d", network, 1<<(32-network.Bits())-1, all.Machines)
	case network.Overlaps(all.network()):
		return fmt.Errorf("the networks of the machines (%s) and of their BMCs (%s) overlap", all.network(), network)
	case o.Port <= 1024:
		return fmt.Errorf("the port of the BMCs must be above 1024, got %d", o.Port)
	case o.IPMIPort > 0 && o.IPMIPort <= 1024:
		return fmt.Errorf("the IPMI port of the BMCs must be above 1024, got %d", o.IPMIPort)
	case o.Systems < 0 || o.Systems > maxSystems:
		return fmt.Errorf("a BMC has 1 to %d systems, not %d", maxSystems, o.Systems)
	case o.User == "" || o.Password == "":
		return errors.New("the BMCs need a user and a password")
	case all.Hardware.Kind != "" && all.Hardware.Kind != hardware.Server:
		return fmt.Errorf("only servers have BMCs here, not machines of kind %q", all.Hardware.Kind)
	}
	return o.hardware(all.Hardware, 0).Validate()
}

// maxSystems bounds how many machines share a BMC.
const maxSystems = 64

// perBMC is how many machines share a BMC.
func (o BMCOptions) perBMC() int { return max(1, o.Systems) }

// vendor returns the vendor of machine index.
func (o BMCOptions) vendor(index int) string {
	if o.Vendor == MixedVendors {
		return redfish.Vendors[index/o.perBMC()%len(redfish.Vendors)]
	}
	return o.Vendor
}

// hardware restricts the hardware of machine index to what fits its BMC.
func (o BMCOptions) hardware(h hardware.Options, index int) hardware.Options {
	h.Kind, h.Manufacturer, h.BMCNetwork, h.PerBMC = hardware.Server, redfish.Profile(o.vendor(index)).Manufacturer, o.network(), o.perBMC()
	return h
}

// bmcs is what all BMCs share.
type bmcs struct {
	authority *redfish.Authority
	server    *http.Server
	listeners []net.Listener
	services  map[netip.Addr]*redfish.Group
	sockets   []*net.UDPConn  // for IPMI
	ctx       context.Context //nolint:containedctx // of the requests, which end with the simulation
	stopping  context.CancelFunc
	running   sync.WaitGroup
}

// addBMCs gives every machine a BMC. The BMCs do not answer before ServeBMCs.
func (ms *Machines) addBMCs() error {
	authority, err := redfish.NewAuthority()
	if err != nil {
		return fmt.Errorf("prepare the BMCs: %w", err)
	}
	o := ms.options.BMC
	ctx, stopping := context.WithCancel(context.Background())
	ms.bmcs = &bmcs{
		authority: authority, services: make(map[netip.Addr]*redfish.Group, len(ms.machines)), ctx: ctx, stopping: stopping,
	}
	configs := map[string]*bmc.Config{}
	for _, vendor := range redfish.Vendors {
		configs[vendor] = &bmc.Config{
			Profile: redfish.Profile(vendor), Times: o.Times, User: o.User, Password: o.Password, Client: ms.clients.downloads,
			Recorder: ms.recorder, Clock: ms.options.Clock.Now, Wake: ms.waker(ctx),
		}
	}
	for i, m := range ms.machines {
		m.bmc = bmc.New(configs[o.vendor(i)], m.name(), m.Hardware, computer{m})
	}
	for group := range slices.Chunk(ms.machines, o.perBMC()) {
		behind := make([]*bmc.BMC, len(group))
		for i, m := range group {
			behind[i] = m.bmc
		}
		ms.bmcs.services[group[0].bmcAddress()] = redfish.NewGroup(behind)
	}
	ms.bmcs.server = &http.Server{
		Handler: ms.bmcs, ReadHeaderTimeout: bmcHeaderTimeout, IdleTimeout: bmcIdleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(ms.options.Log.Handler(), slog.LevelDebug),
	}
	return nil
}

const (
	bmcHeaderTimeout = 10 * time.Second
	bmcIdleTimeout   = 2 * time.Minute
)

// waker returns the function with which BMCs act in time while the power of a machine changes.
func (ms *Machines) waker(ctx context.Context) func(time.Duration, func()) {
	return func(after time.Duration, act func()) {
		ms.mu.Lock()
		defer ms.mu.Unlock()
		if ms.stopped {
			return
		}
		ms.bmcs.running.Go(func() {
			if agent.Sleep(ctx, agent.RealClock, after) == nil {
				act()
			}
		})
	}
}

// bmcAddress returns the address that the machine's BMC listens on.
func (m *Machine) bmcAddress() netip.Addr {
	return hardware.AddressIn(m.all.options.BMC.network(), m.index/m.all.options.BMC.perBMC())
}

// SystemPath returns the path of the machine's system at its BMC. The machine must have a BMC.
func (m *Machine) SystemPath() string {
	return m.all.bmcs.services[m.bmcAddress()].SystemPath(m.index % m.all.options.BMC.perBMC())
}

// BMC returns the machine's BMC, or nil if machines have none.
func (m *Machine) BMC() *bmc.BMC { return m.bmc }

// BMCURL returns the root URL of the machine's BMC. The machine must have a BMC.
func (m *Machine) BMCURL() string {
	return "https://" + netip.AddrPortFrom(m.bmcAddress(), m.all.options.BMC.Port).String()
}

// IPMIAddress returns where the machine's BMC answers IPMI. IPMI must be enabled.
func (m *Machine) IPMIAddress() netip.AddrPort {
	return netip.AddrPortFrom(m.bmcAddress(), m.all.options.BMC.IPMIPort)
}

// Authority returns what signs the certificates of the BMCs, or nil if machines have none.
func (ms *Machines) Authority() *redfish.Authority {
	if ms.bmcs == nil {
		return nil
	}
	return ms.bmcs.authority
}

// ServeBMCs makes the BMCs answer until Stop, each on its own address. It must be called once. It
// returns an error if it cannot listen on one of the addresses.
func (ms *Machines) ServeBMCs(ctx context.Context) error {
	if err := ms.listen(ctx); err != nil {
		return errors.Join(err, ms.bmcs.closeAll())
	}
	for _, listener := range ms.bmcs.listeners {
		ms.bmcs.running.Go(func() {
			if err := ms.bmcs.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				ms.options.Log.Warn("BMC stopped answering", "address", listener.Addr().String(), "err", err)
			}
		})
	}
	for i, socket := range ms.bmcs.sockets {
		ms.bmcs.running.Go(func() {
			first := ms.machines[i*ms.options.BMC.perBMC()]
			if err := ipmi.New(first.bmc).Serve(ms.bmcs.ctx, socket); err != nil {
				ms.options.Log.Warn("BMC stopped answering IPMI", "address", socket.LocalAddr().String(), "err", err)
			}
		})
	}
	return nil
}

// listen opens the addresses of the BMCs.
func (ms *Machines) listen(ctx context.Context) error {
	config := ms.bmcs.authority.TLS()
	for group := range slices.Chunk(ms.machines, ms.options.BMC.perBMC()) {
		m := group[0]
		address := netip.AddrPortFrom(m.bmcAddress(), ms.options.BMC.Port).String()
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("serve the BMC of machine %d on %s (is another simulator using the network?): %w", m.index, address, err)
		}
		ms.bmcs.listeners = append(ms.bmcs.listeners, tls.NewListener(listener, config))
		if ms.options.BMC.IPMIPort == 0 {
			continue
		}
		socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(m.IPMIAddress()))
		if err != nil {
			return fmt.Errorf("serve IPMI of machine %d on %s (is another simulator using the network?): %w", m.index, m.IPMIAddress(), err)
		}
		ms.bmcs.sockets = append(ms.bmcs.sockets, socket)
	}
	return nil
}

// closeAll stops listening.
func (b *bmcs) closeAll() (err error) {
	for _, listener := range b.listeners {
		err = errors.Join(err, listener.Close())
	}
	for _, socket := range b.sockets {
		err = errors.Join(err, socket.Close())
	}
	b.listeners, b.sockets = nil, nil
	return err
}

// ServeHTTP hands a request to the BMC that listens on its address.
func (b *bmcs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, isTCP := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !isTCP {
		http.Error(w, "no address", http.StatusInternalServerError)
		return
	}
	b.services[local.AddrPort().Addr().Unmap()].ServeHTTP(w, r)
}

// stop cuts all connections and returns when nothing runs any more.
func (b *bmcs) stop() {
	b.stopping()
	_ = b.server.Close() // an error does not matter, the BMCs are gone
	for _, socket := range b.sockets {
		_ = socket.Close()
	}
	b.running.Wait()
}

// computer is a machine as its BMC switches it, a [bmc.Computer].
type computer struct{ machine *Machine }

// PowerOn boots the machine, unless the simulation has stopped.
func (c computer) PowerOn(b bmc.Boot) { _ = c.machine.start(b) }

// PowerOff cuts the power. It does not wait for the end of the ramdisk.
func (c computer) PowerOff() { c.machine.cut() }

// Shutdown reports whether something runs that reacts to the request: a ramdisk, or an operating
// system that does not hang. It needs to do nothing else, because the BMC then cuts the power.
func (c computer) Shutdown() bool {
	c.machine.all.mu.Lock()
	defer c.machine.all.mu.Unlock()
	state := c.machine.status.State
	return state != On && state != Off && state != Starting && !c.machine.hung
}

// On reports whether the machine has power.
func (c computer) On() bool {
	c.machine.power.Lock()
	defer c.machine.power.Unlock()
	return c.machine.cycle != nil && !c.machine.cycle.over
}
