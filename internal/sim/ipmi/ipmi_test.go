package ipmi_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/ipmi"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// connect opens a session with another client than the engine's.
func connect(t *testing.T, s *ipmitest.Server, suite types.CipherSuiteID, change func(*client.Client)) *client.Client {
	t.Helper()
	c, err := client.NewClient(s.Address.Addr().String(), int(s.Address.Port()), redfishtest.User, redfishtest.Password)
	if err != nil {
		t.Fatal(err)
	}
	c.WithCipherSuiteID(suite).WithTimeout(5 * time.Second)
	if change != nil {
		change(c)
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close the session: %v", err)
		}
	})
	return c
}

func TestClientOfTheSpecificationIsAnswered(t *testing.T) {
	for _, suite := range []types.CipherSuiteID{types.CipherSuiteID3, types.CipherSuiteID17} {
		s := ipmitest.Start(t, "dell")
		c := connect(t, s, suite, nil)
		device, err := c.GetDeviceID(t.Context())
		if err != nil || device.ManufacturerID != 674 || device.MajorIPMIVersion != 2 {
			t.Errorf("device = %+v, %v, want IPMI 2.0 of Dell", device, err)
		}
		want := s.UUID()
		slices.Reverse(want[:])
		if id, err := c.GetSystemGUID(t.Context()); err != nil || id.GUID != want {
			t.Errorf("GUID = %v, %v, want the UUID %v with its last byte first", id, err, want)
		}
		for _, control := range []chassis.ChassisControl{
			chassis.ChassisControlPowerUp, chassis.ChassisControlPowerUp, chassis.ChassisControlPowerCycle, chassis.ChassisControlHardReset,
			chassis.ChassisControlDiagnosticInterrupt, chassis.ChassisControlSoftShutdown, chassis.ChassisControlPowerDown,
		} {
			if _, err := c.ChassisControl(t.Context(), control); err != nil {
				t.Errorf("control %v: %v", control, err)
			}
		}
		if got := s.Effects(); !slices.Equal(got, []string{"power on", "power cycle", "reboot", "nmi", "soft power off"}) {
			t.Errorf("effects = %q, want one per change of the state", got)
		}
		if status, err := c.GetChassisStatus(t.Context()); err != nil || status.PowerIsOn {
			t.Errorf("status = %+v, %v, want that the machine is off", status, err)
		}
	}
}

func TestBootFlagsAreThoseOfTheMachine(t *testing.T) {
	s := ipmitest.Start(t, "supermicro")
	c := connect(t, s, types.CipherSuiteID17, nil)
	wantHandled(t, c)
	if err := c.SetBootDevice(t.Context(), types.BootDeviceSelectorForceCDROM, types.BIOSBootTypeEFI, false); err != nil {
		t.Fatal(err)
	}
	if got := s.Override(); got != (bmc.Override{Target: bmc.TargetVirtualCD, Enabled: bmc.Once, Mode: bmc.UEFI}) {
		t.Errorf("override = %+v, want the virtual CD once", got)
	}
	if _, err := c.ChassisControl(t.Context(), chassis.ChassisControlPowerUp); err != nil {
		t.Fatal(err)
	}
	flags := &types.BootOptionParam_BootFlags{}
	if err := c.GetSystemBootOptionsParamFor(t.Context(), flags); err != nil || flags.BootFlagsValid {
		t.Errorf("flags after the boot = %+v, %v, want none", flags, err)
	}
}

// wantHandled sets the bit with which a client asks the firmware to handle the boot flags.
func wantHandled(t *testing.T, c *client.Client) {
	t.Helper()
	if err := c.SetSystemBootOptionsParamFor(t.Context(), &types.BootOptionParam_BootInfoAcknowledge{ByBIOSPOST: true}); err != nil {
		t.Fatal(err)
	}
}

func TestFirmwareHandlesBootFlagsWhenItIsAskedTo(t *testing.T) {
	s := ipmitest.Start(t, "dell")
	c := connect(t, s, types.CipherSuiteID17, nil)
	waits := func() (flags, acknowledge bool) {
		valid, bits := &types.BootOptionParam_BootFlags{}, &types.BootOptionParam_BootInfoAcknowledge{}
		if err := c.GetSystemBootOptionsParamFor(t.Context(), valid); err != nil {
			t.Fatal(err)
		}
		if err := c.GetSystemBootOptionsParamFor(t.Context(), bits); err != nil {
			t.Fatal(err)
		}
		return valid.BootFlagsValid, bits.ByBIOSPOST
	}
	for _, asked := range []bool{false, true, false} {
		if err := c.SetBootDevice(t.Context(), types.BootDeviceSelectorForceCDROM, types.BIOSBootTypeEFI, false); err != nil {
			t.Fatal(err)
		}
		if asked {
			wantHandled(t, c)
		}
		if _, bits := waits(); bits != asked {
			t.Errorf("asked %t: the bit is %t", asked, bits)
		}
		for _, control := range []chassis.ChassisControl{chassis.ChassisControlPowerUp, chassis.ChassisControlPowerDown} {
			if _, err := c.ChassisControl(t.Context(), control); err != nil {
				t.Fatal(err)
			}
		}
		if flags, bits := waits(); flags == asked || bits {
			t.Errorf("asked %t: after a boot flags are valid %t, the bit is %t, want that flags wait unless the firmware was asked", asked, flags, bits)
		}
	}
}

func TestFaultsAreThoseOfTheBMC(t *testing.T) {
	s := ipmitest.Start(t, "dell")
	c := connect(t, s, types.CipherSuiteID17, nil)
	for name, faults := range map[string]effect.Faults{"refuse": {Refuse: 1}, "error": {Error: 1}} {
		s.Fail(faults)
		if _, err := c.ChassisControl(t.Context(), chassis.ChassisControlPowerUp); err == nil {
			t.Errorf("%s: the request succeeded", name)
		}
		if got := s.Effects(); len(got) != 0 {
			t.Errorf("%s: effects %q, want none", name, got)
		}
	}
	s.Heal()
}

// repeated sends each datagram of a session twice.
type repeated struct{ net.Conn }

func (r repeated) Write(datagram []byte) (int, error) {
	if len(datagram) >= 10 && datagram[4] == 6 && binary.LittleEndian.Uint32(datagram[6:]) != 0 {
		if _, err := r.Conn.Write(datagram); err != nil {
			return 0, err
		}
	}
	return r.Conn.Write(datagram)
}

// repeater makes connections that send each datagram twice.
type repeater struct{}

func (repeater) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return repeated{conn}, err
}

func TestRepeatedDatagramIsTheSameRequest(t *testing.T) {
	s := ipmitest.Start(t, "dell")
	c := connect(t, s, types.CipherSuiteID3, func(c *client.Client) { c.WithUDPProxy(repeater{}) })
	for _, control := range []chassis.ChassisControl{chassis.ChassisControlPowerUp, chassis.ChassisControlHardReset} {
		if _, err := c.ChassisControl(t.Context(), control); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Effects(); !slices.Equal(got, []string{"power on", "reboot"}) {
		t.Errorf("effects = %q, want each once", got)
	}
}

func FuzzDatagramsWithoutASession(f *testing.F) {
	s := ipmitest.Start(f, "dell")
	service := ipmi.New(s.BMC)
	f.Add([]byte{6, 0, 0xFF, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x20, 0x18, 0xC8, 0x81, 4, 0x38, 0x8E, 4, 0xB1})
	f.Add(append([]byte{6, 0, 0xFF, 7, 6, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0}, make([]byte, 32)...))
	f.Fuzz(func(_ *testing.T, datagram []byte) {
		service.Answer(context.Background(), datagram, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	})
}
