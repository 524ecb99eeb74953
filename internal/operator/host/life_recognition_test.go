package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// testBMC is the address of the BMC in testAddress.
const testBMC = "192.0.2.9"

// discovers adds the node of a machine whose ramdisk told the addresses of its BMC.
func (l *life) discovers(name, v4, v6 string, change func(*provisioner.Node)) string {
	inv := demo.SampleInventory(name)
	inv.Hardware.BMCAddress, inv.Hardware.BMCV6Address = v4, v6
	return l.engine.Discover(demo.Machine{Inventory: inv, Change: change})
}

// withoutMAC is a host of which only the BMC is known.
func withoutMAC(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "" }

func at(address string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		withoutMAC(h)
		h.Spec.BMC.Address = address
	}
}

func TestDiscoveredMachineIsRecognisedByTheAddressOfItsBMC(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*v1alpha1.BareMetalHost)
		verified metav1.ConditionStatus
		reason   string
	}{
		"without a MAC address":  {withoutMAC, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"with an unknown one":    {func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:00:5e:00:53:01" }, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"another port":           {at("redfish-virtualmedia+http://192.0.2.9:8000/redfish/v1/Systems/web"), metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"IPv6":                   {at("redfish-virtualmedia://[2001:DB8:0:0::C9]/redfish/v1/Systems/web"), metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"IPv4 in IPv6":           {at("redfish-virtualmedia://[::ffff:192.0.2.9]/redfish/v1/Systems/web"), metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"a BMC that cannot tell": {at("ipmi://192.0.2.9"), metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			id := l.discovers("web", testBMC, "2001:db8::c9/64", nil)
			l.add("web", tt.change)
			h := l.rests("web", v1alpha1.StateAvailable)
			if h.Status.Provisioning.ID != id || h.Status.HardwareDetails == nil {
				t.Errorf("host has node %s with hardware %v, want %s with what was discovered", h.Status.Provisioning.ID, h.Status.HardwareDetails, id)
			}
			if got := l.effects("web"); slices.Contains(got, "create") || slices.Contains(got, "inspect") {
				t.Errorf("asked of the machine: %q", got)
			}
			l.says("web", v1alpha1.IdentityVerifiedCondition, tt.verified, tt.reason)
		})
	}
}

func TestMachineThatIsNotTheHostsForCertainIsNotRecognisedByItsBMC(t *testing.T) {
	for name, tt := range map[string]struct {
		host    string
		address string
		more    func(*life)
		change  func(*provisioner.Node)
	}{
		"two machines behind the BMC":      {"web", testAddress + "web", func(l *life) { l.discovers("db", testBMC, "", nil) }, nil},
		"the BMC tells of another machine": {"db", testAddress + "db", nil, nil},
		"another address":                  {"web", "redfish-virtualmedia://192.0.2.99/redfish/v1/Systems/web", nil, nil},
		"a DNS name":                       {"web", "redfish-virtualmedia://bmc.example.org/redfish/v1/Systems/web", nil, nil},
		"a node with a name":               {"web", testAddress + "web", nil, func(n *provisioner.Node) { n.Name = "cache" }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			id := l.discovers("web", testBMC, "", tt.change)
			if tt.more != nil {
				tt.more(l)
			}
			l.add(tt.host, at(tt.address))
			h := l.rests(tt.host, v1alpha1.StateAvailable)
			if got := l.effects(tt.host); h.Status.Provisioning.ID == id || !slices.Contains(got, "create") {
				t.Errorf("host has node %s, asked for %q; want one of its own", h.Status.Provisioning.ID, got)
			}
			if n, err := l.engine.Node(t.Context(), id); err != nil || n.Mark != "" {
				t.Errorf("node of the discovered machine %+v, %v; want it untouched", n, err)
			}
			if c := conditionOf(h.Status.Conditions, v1alpha1.IdentityVerifiedCondition); c.Status == metav1.ConditionFalse {
				t.Errorf("condition %+v, want none about another machine", c)
			}
		})
	}
}

func TestBMCThatRefusesTheCredentialsIsAskedOnceInEachWait(t *testing.T) {
	l := newLife(t, nil)
	id := l.discovers("web", testBMC, "", nil)
	l.add("web", withoutMAC)
	l.secret("web", demo.WrongPassword)
	asked := 0
	l.r = newTestReconciler(t, l.api, observer{l.engine, func(verb string) {
		if verb == "identify" {
			asked++
		}
	}}, func() time.Time { return l.now }, nil)
	h := l.fails("web", v1alpha1.ErrorRegistration)
	if !strings.Contains(h.Status.ErrorMessage, "refuses the credentials") {
		t.Errorf("error %q, want that the BMC refuses the credentials", h.Status.ErrorMessage)
	}
	asked = 0 // the wait is over now
	for range 5 {
		if l.pass("web") <= 0 {
			t.Error("host does not come back")
		}
	}
	if asked != 1 {
		t.Errorf("BMC was asked %d times, want once", asked)
	}
	l.secret("web", "calvin")
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.ID != id || h.Status.ErrorType != "" {
		t.Errorf("host has node %s and error %q, want %s", h.Status.Provisioning.ID, h.Status.ErrorType, id)
	}
}

func TestHostOfAMachineThatWasDiscoveredAsAnotherHostIsRefused(t *testing.T) {
	l := newLife(t, nil)
	id := l.discovers("rack-1", testBMC, "", nil)
	l.addPlain("rack-1", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = demo.SampleInventory("rack-1").Hardware.Interfaces[1].MACAddress
	})
	if h := l.rests("rack-1", v1alpha1.StateAvailable); h.Status.Provisioning.ID != id || !slices.Equal(h.Status.HardwareDetails.BMCAddresses, []string{testBMC}) {
		t.Fatalf("discovered host has node %s and details %+v", h.Status.Provisioning.ID, h.Status.HardwareDetails)
	}
	l.now = l.now.Add(time.Minute)
	l.add("web", at(testAddress+"rack-1"))
	l.add("db", at(testAddress+"db")) // another machine behind the same BMC
	for range 3 {
		h := l.fails("web", v1alpha1.ErrorRegistration)
		for _, want := range []string{"spec.bmc.address: ", "metal/rack-1", "add spec.bmc to that host and delete this one"} {
			if !strings.Contains(h.Status.ErrorMessage, want) {
				t.Errorf("error %q, want it with %q", h.Status.ErrorMessage, want)
			}
		}
		l.now = l.now.Add(l.pass("web"))
	}
	l.rests("db", v1alpha1.StateAvailable)
	if all := l.nodes(); len(all) != 2 {
		t.Errorf("nodes %v, want that of the discovered host and that of db", all)
	}
	l.remove(l.host("rack-1"))
	l.gone("rack-1")
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.ErrorType != "" {
		t.Errorf("error %q after the other host is gone", h.Status.ErrorType)
	}
}

func TestYoungerOfTwoHostsWithOneMachineWaitsAlsoWhileTheOlderHasNoNode(t *testing.T) {
	mac := demo.SampleInventory("first").Hardware.Interfaces[0].MACAddress
	same := func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = strings.ToUpper(mac) }
	for name, discovered := range map[string]bool{"discovered": true, "not discovered": false} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			if discovered {
				l.discovers("first", "", "", nil)
			}
			l.add("first", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "late" })
			l.now = l.now.Add(time.Minute)
			l.add("second", same)
			l.addPlain("third", same)
			const want = "spec.bootMACAddress: host metal/first has the same"
			if h := l.fails("second", v1alpha1.ErrorRegistration); !strings.HasPrefix(h.Status.ErrorMessage, want) {
				t.Errorf("error %q, want %q", h.Status.ErrorMessage, want)
			}
			h := l.rests("third", v1alpha1.StateUnmanaged)
			if c := conditionOf(h.Status.Conditions, v1alpha1.ProgressingCondition); !strings.Contains(c.Message, want) {
				t.Errorf("condition %+v, want %q", c, want)
			}
			for _, n := range l.nodes() {
				if n.Mark != "" {
					t.Errorf("node %+v was taken", n)
				}
			}
		})
	}
}

func TestDiscoveredHostDoesNotGetTheBMCOfAnotherHost(t *testing.T) {
	l := newLife(t, nil)
	id := l.discovers("rack-1", "", "", nil)
	l.addPlain("rack-1", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = demo.SampleInventory("rack-1").Hardware.Interfaces[0].MACAddress
	})
	l.rests("rack-1", v1alpha1.StateAvailable)
	l.now = l.now.Add(time.Minute)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.9" })
	l.rests("web", v1alpha1.StateAvailable)
	l.edit("rack-1", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = l.host("web").Spec.BMC })
	if h := l.fails("rack-1", v1alpha1.ErrorRegistration); !strings.Contains(h.Status.ErrorMessage, "host metal/web has the same") {
		t.Errorf("error %q, want one that names the other host", h.Status.ErrorMessage)
	}
	if n, err := l.engine.Node(t.Context(), id); err != nil || n.Driver != "demo" {
		t.Errorf("node %+v, %v; want it without the BMC", n, err)
	}
}
