package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// observer calls observe when the engine is asked for something.
type observer struct {
	*demo.Engine

	observe func(verb string)
}

func (w observer) Create(ctx context.Context, r provisioner.Registration) (provisioner.Node, error) {
	w.observe("create")
	return w.Engine.Create(ctx, r)
}

func (w observer) Inspect(ctx context.Context, id string) error {
	w.observe("inspect")
	return w.Engine.Inspect(ctx, id)
}

func (w observer) Identify(ctx context.Context, access bmc.Access, c bmc.Credentials) (node.MachineFacts, error) {
	w.observe("identify")
	return w.Engine.Identify(ctx, access, c)
}

func (w observer) Find(ctx context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	w.observe("find")
	return w.Engine.Find(ctx, identity)
}

func TestFinalizerIsStoredBeforeTheEngineIsAsked(t *testing.T) {
	l := newLife(t, nil)
	asked := 0
	l.r = newTestReconciler(t, l.api, observer{l.engine, func(verb string) {
		asked++
		for _, h := range []*v1alpha1.BareMetalHost{l.host("web"), l.host("demo-plain")} {
			if h != nil && !slices.Contains(h.Finalizers, v1alpha1.HostFinalizer) {
				t.Errorf("%s before host %s has a finalizer", verb, h.Name)
			}
		}
	}}, func() time.Time { return l.now }, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	l.addPlain("demo-plain", nil)
	l.rests("demo-plain", v1alpha1.StateAvailable)
	if asked == 0 {
		t.Error("nobody looked")
	}
}

func TestHostSaysWhatIsMissingToReachItsBMC(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		data   map[string][]byte
		want   string
	}{
		"no address":         {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "" }, nil, "spec.bmc.address is empty"},
		"no Secret named":    {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "" }, nil, "spec.bmc.credentialsName is empty"},
		"no Secret":          {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" }, nil, "Secret none with the BMC's credentials does not exist"},
		"no user name":       {nil, map[string][]byte{"password": []byte("x")}, "username"},
		"no password":        {nil, map[string][]byte{"username": []byte("x"), "password": []byte(" ")}, "password"},
		"masked password":    {nil, map[string][]byte{"username": []byte("x"), "password": []byte("******")}, "write the value itself"},
		"unreadable address": {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ilo4://192.0.2.9" }, nil, "spec.bmc.address cannot be used: the scheme ilo4"},
		"no MAC, libvirt":    {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address, h.Spec.BootMACAddress = "libvirt://192.0.2.9", "" }, nil, "spec.bootMACAddress is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.change)
			if tt.data != nil {
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc"}, Data: tt.data}
				if err := l.api.Update(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			h := l.fails("web", v1alpha1.ErrorRegistration)
			if !strings.Contains(h.Status.ErrorMessage, tt.want) {
				t.Errorf("error %q, want one with %q", h.Status.ErrorMessage, tt.want)
			}
			if got := l.effects("web"); len(got) != 0 {
				t.Errorf("asked of the machine: %q", got)
			}
			l.remove(l.host("web")) // it can be deleted, whatever is wrong with it
			l.gone("web")
		})
	}
}

func TestHostWithoutItsSecretGoesOnByItselfWhenTheSecretIsThere(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "late" })
	l.fails("web", v1alpha1.ErrorRegistration)
	l.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "late"},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte("calvin")},
	})
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.ErrorType != "" || h.Status.ErrorCount != 0 {
		t.Errorf("status %+v, want no error", h.Status)
	}
}

func TestNodeIsRegisteredAsTheHostAsks(t *testing.T) {
	l := newLife(t, nil)
	hints := &v1alpha1.RootDeviceHints{SerialNumber: "S1"}
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.DisableCertificateVerification = true
		h.Spec.Architecture, h.Spec.BootMode = "aarch64", v1alpha1.BootModeUEFISecureBoot
		h.Spec.InspectionMode, h.Spec.AutomatedCleaningMode = v1alpha1.InspectionModeFast, v1alpha1.CleaningModeDisabled
		h.Spec.RootDeviceHints, h.Spec.DisablePowerOff = hints, true
	})
	l.until("web", "registered", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.ID != "" })
	h := l.host("web")
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil || access.Settings["redfish_verify_ca"] != false {
		t.Fatalf("access %+v, %v; want it without verification", access, err)
	}
	want := provisioner.Registration{
		Name: "metal~web", Mark: "c1/metal/web", Access: &access, Credentials: bmc.Credentials{Username: "root", Password: "calvin"},
		BootMAC: h.Spec.BootMACAddress, BootMode: v1alpha1.BootModeUEFISecureBoot, Architecture: "aarch64", RootDevice: hints,
		InspectionMode: v1alpha1.InspectionModeFast, SkipAutomatedCleaning: true, DisablePowerOff: true,
		CredentialsVersion: l.nodeOf("web").CredentialsVersion,
	}
	if diff := cmp.Diff(want, l.last("web", demo.VerbCreate)); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
}

func TestNodeThatIsThereAlreadyIsUsed(t *testing.T) {
	mac := demo.SampleInventory("web").Hardware.Interfaces[0].MACAddress
	for name, change := range map[string]func(*provisioner.Node){
		"with the name of the host": func(n *provisioner.Node) { n.Name = provisioner.NodeName("metal", "web") },
		"with its mark and address": func(n *provisioner.Node) { n.Mark = provisioner.MarkOf("c1", "metal", "web") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			id := l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("web"), Change: change})
			l.add("web", nil)
			if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.ID != id || h.Spec.BootMACAddress != mac {
				t.Errorf("host has node %s, want %s", h.Status.Provisioning.ID, id)
			}
			if got := l.effects("web"); slices.Contains(got, "create") {
				t.Errorf("asked of the machine: %q", got)
			}
		})
	}
}

func TestAddressOfAMachineThatAnotherHostHasIsARegistrationError(t *testing.T) {
	l := newLife(t, nil)
	l.add("first", nil)
	l.rests("first", v1alpha1.StateAvailable)
	before := l.effects("first")
	l.now = l.now.Add(time.Minute) // the other one is younger
	l.add("second", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = strings.ToUpper(l.host("first").Spec.BootMACAddress)
	})
	if h := l.fails("second", v1alpha1.ErrorRegistration); !strings.Contains(h.Status.ErrorMessage, "metal/first") || !strings.Contains(h.Status.ErrorMessage, "delete one of the two hosts") {
		t.Errorf("error %q, want one that says who has the machine", h.Status.ErrorMessage)
	}
	l.pass("first")
	if after := l.effects("first"); !slices.Equal(before, after) || l.host("first").Status.ErrorType != "" {
		t.Errorf("the first host's machine was asked %q, then %q", before, after)
	}
}

func TestAddressAndCredentialsAreChangedInPlace(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))

	l.secret("web", "new")
	l.until("web", "known with the new password", func(h *v1alpha1.BareMetalHost) bool {
		r, ok := l.last("web", demo.VerbUpdate).(provisioner.Registration)
		return ok && r.Credentials.Password == "new" && *h.Status.GoodCredentials.Reference == *h.Status.TriedCredentials.Reference &&
			h.Status.GoodCredentials.Version == h.Status.TriedCredentials.Version
	})
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = movedAddress })
	l.until("web", "known at the new address", func(*v1alpha1.BareMetalHost) bool {
		r, ok := l.last("web", demo.VerbUpdate).(provisioner.Registration)
		return ok && r.Access.Endpoint.Host == "192.0.2.10"
	})
	if h := l.rests("web", v1alpha1.StateProvisioned); h.Status.ErrorType != "" || !h.Status.PoweredOn {
		t.Errorf("status %+v, want a machine in use", h.Status)
	}
	l.does("web", before)
}

func TestIdleHostAsksForNothingAndIsNotWritten(t *testing.T) {
	l := newLife(t, nil)
	for name, change := range map[string]func(*v1alpha1.BareMetalHost){"free": nil, "used": withImage} {
		l.add(name, change)
	}
	l.rests("free", v1alpha1.StateAvailable)
	l.rests("used", v1alpha1.StateProvisioned)
	asked := len(l.engine.Effects(""))
	for _, name := range []string{"free", "used"} {
		version := l.host(name).ResourceVersion
		for range 5 {
			l.pass(name)
			l.now = l.now.Add(time.Hour)
		}
		if got := l.host(name).ResourceVersion; got != version {
			t.Errorf("host %s was written", name)
		}
	}
	if got := l.engine.Effects("")[asked:]; len(got) != 0 {
		t.Errorf("asked for %v", got)
	}
}

func TestFailedAdoptionIsTriedAgainWithoutTouchingTheMachine(t *testing.T) {
	l := newLife(t, nil)
	l.add("demo-adoption-error", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	h := l.until("demo-adoption-error", "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
	if h.Status.ErrorType != v1alpha1.ErrorProvisionedRegistration || h.Status.Provisioning.State != v1alpha1.StateExternallyProvisioned {
		t.Errorf("error %q in state %q", h.Status.ErrorType, h.Status.Provisioning.State)
	}
	l.tells("ProvisionedRegistrationError")
	if got := slices.Compact(l.effects(h.Name)); !slices.Equal(got, []string{"create", "manage", "adopt", "manage", "adopt"}) && !slices.Equal(got, []string{"create", "manage", "adopt"}) {
		t.Errorf("asked of the machine: %q, want two adoptions", l.effects(h.Name))
	}
	l.node(h.Name, func(n *provisioner.Node) { n.State, n.LastError = node.Active, "" })
	if h := l.rests(h.Name, v1alpha1.StateExternallyProvisioned); h.Status.ErrorType != "" {
		t.Errorf("error %q after somebody mended the node", h.Status.ErrorType)
	}
}

func TestSecretsAndHardwareDataOfADeletedHostGoInAnyOrder(t *testing.T) {
	for name, first := range map[string][]string{
		"Secret first": {"secret", "host", "data"}, "data first": {"data", "secret", "host"}, "host first": {"host", "secret", "data"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", nil)
			l.rests("web", v1alpha1.StateAvailable)
			objects := map[string]client.Object{
				"host": l.host("web"), "data": &v1alpha1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}},
				"secret": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc"}},
			}
			for _, kind := range first {
				if err := client.IgnoreNotFound(l.api.Delete(t.Context(), objects[kind])); err != nil {
					t.Fatal(err)
				}
				l.pass("web")
			}
			l.gone("web")
			for kind, obj := range objects {
				if err := l.api.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err == nil {
					t.Errorf("%s is still there with finalizers %v", kind, obj.GetFinalizers())
				}
			}
		})
	}
}

func TestHostIsDeletedWithoutItsSecret(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc"}}
	if err := l.api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	s.Finalizers = nil // somebody forced it
	if err := l.api.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	l.remove(s)
	before := len(l.effects("web"))
	l.remove(l.host("web"))
	l.gone("web")
	l.does("web", before, "undeploy", "delete")
}

// TestNodeInUseIsNotTakenByItsNameAlone is about a node that the operator of another cluster
// registered for a host with the same namespace and name, without a mark.
func TestNodeInUseIsNotTakenByItsNameAlone(t *testing.T) {
	l := newLife(t, nil)
	access, err := bmc.Parse(v1alpha1.BMCDetails{Address: testAddress + "other"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.engine.Create(t.Context(), provisioner.Registration{Name: "metal~web", Access: &access, Credentials: bmc.Credentials{Username: "root", Password: "calvin"}})
	if err != nil {
		t.Fatal(err)
	}
	l.engine.Change(n.ID, func(n *provisioner.Node) { n.State, n.InstanceID = node.Active, "somebody" })
	for name, add := range map[string]func(string, func(*v1alpha1.BareMetalHost)){"without a BMC": l.addPlain, "with a BMC": l.add} {
		add("web", nil)
		for range 10 {
			l.now = l.now.Add(max(l.pass("web"), time.Second))
		}
		if id := l.host("web").Status.Provisioning.ID; id != "" {
			t.Errorf("%s: the host has node %s of somebody else", name, id)
		}
		l.remove(l.host("web"))
		l.gone("web")
		if got, err := l.engine.Node(t.Context(), n.ID); err != nil || got.State != node.Active || got.Mark != "" {
			t.Errorf("%s: the node of somebody else is %+v, %v; want it untouched", name, got, err)
		}
	}
}

func TestNodeOfABMCThatIsTakenAwayGoesUnlessItsMachineWasInspected(t *testing.T) {
	withoutBMC := func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }
	for name, tt := range map[string]struct {
		inspected bool
		to        v1alpha1.ProvisioningState
	}{
		"never inspected":   {false, v1alpha1.StateUnmanaged},
		"inspected earlier": {true, v1alpha1.StateImporting},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			const host = "demo-registration-error"
			l.add(host, nil)
			l.fails(host, v1alpha1.ErrorRegistration)
			if tt.inspected {
				l.node(host, func(n *provisioner.Node) { n.InspectedAt = l.now })
			}
			l.edit(host, withoutBMC)
			l.until(host, "in state "+string(tt.to), inState(tt.to))
			h := l.rests(host, tt.to)
			if kept := len(l.nodes()) == 1; kept != tt.inspected || (h.Status.Provisioning.ID != "") != tt.inspected {
				t.Errorf("nodes %v, and the host has node %q", l.nodes(), h.Status.Provisioning.ID)
			}
		})
	}
}

// interrupted is an engine whose answer is lost once, after it has created a node and before that
// node has ports.
type interrupted struct {
	*demo.Engine
	once *sync.Once
}

func (e interrupted) Create(ctx context.Context, r provisioner.Registration) (n provisioner.Node, err error) {
	e.once.Do(func() {
		r.NICs, err = nil, fmt.Errorf("%w: the answer is lost", provisioner.ErrUnreachable)
	})
	n, refused := e.Engine.Create(ctx, r)
	return n, errors.Join(refused, err)
}

func TestNodeThatIsCreatedAgainHasTheAddressesThatWereFoundOnTheMachine(t *testing.T) {
	for name, loses := range map[string]func(*life){
		"lost by the engine": func(l *life) { l.loses("web") },
		"detached and attached again": func(l *life) {
			l.detach("web")
			l.edit("web", func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
		},
		"whose creation was interrupted": func(l *life) {
			l.change = func(c *Config) { c.Engine = interrupted{l.engine, &sync.Once{}} }
			l.restart()
			l.loses("web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "" })
			former := l.rests("web", v1alpha1.StateAvailable).Status.Provisioning.ID
			want, err := l.engine.MACs(t.Context(), former)
			if err != nil || len(want) < 2 {
				t.Fatalf("addresses %v, %v; want several", want, err)
			}
			loses(l)
			l.until("web", "with another node", func(h *v1alpha1.BareMetalHost) bool {
				id := h.Status.Provisioning.ID
				return id != "" && id != former
			})
			h := l.rests("web", v1alpha1.StateAvailable)
			if got, err := l.engine.MACs(t.Context(), h.Status.Provisioning.ID); err != nil || !slices.Equal(got, want) {
				t.Errorf("addresses %v, %v; want %v", got, err, want)
			}
			if got := l.count("web", "inspect"); got != 1 {
				t.Errorf("%d inspections, want the first one alone", got)
			}
		})
	}
}

// upgradable is an engine whose API version may change. It counts how often a registration is
// compared with a node.
type upgradable struct {
	*demo.Engine

	version string
	updates int
}

func (e *upgradable) Version(context.Context) (string, error) { return e.version, nil }

func (e *upgradable) Update(ctx context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	e.updates++
	return e.Engine.Update(ctx, id, r, opts)
}

func TestRegisteredNodeIsGivenWhatAnUpgradedEngineCanDo(t *testing.T) {
	l := newLife(t, nil)
	engine := &upgradable{Engine: l.engine, version: "1.82"}
	l.change = func(c *Config) { c.Engine = engine }
	l.restart()
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	for _, tt := range []struct {
		version string
		want    int
	}{{"1.82", 0}, {"1.95", 1}} {
		before := engine.updates
		engine.version = tt.version
		l.pass("web")
		l.pass("web")
		if got := engine.updates - before; got != tt.want {
			t.Errorf("with version %s the node was compared %d times, want %d", tt.version, got, tt.want)
		}
	}
}
