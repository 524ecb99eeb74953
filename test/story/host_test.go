package story

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// managed is a rack whose first machine is a BareMetalHost.
type managed struct {
	*rack
	kube client.Client
	host client.ObjectKey
}

// plane is the control plane that stories share. Each has a namespace of its own.
var plane = controlplanetest.New(controlplanetest.Options{})

// startHost starts an operator for the engine of a rack, with the controllers of hosts and other groups.
func startHost(t *testing.T, r *rack, groups ...string) *managed {
	t.Helper()
	return startHostIn(t, plane.Config(t), metav1.ObjectMeta{GenerateName: "story-"}, r, groups...)
}

// startHostElsewhere starts an operator for the same engine in another cluster, for the same namespace.
func (m *managed) startHostElsewhere(t *testing.T, groups ...string) *managed {
	t.Helper()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	return startHostIn(t, config, metav1.ObjectMeta{Name: m.host.Namespace}, m.rack, groups...)
}

func startHostIn(t *testing.T, config *rest.Config, namespace metav1.ObjectMeta, r *rack, groups ...string) *managed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metal3v1alpha1.AddToScheme, discoveryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	own := &corev1.Namespace{ObjectMeta: namespace}
	if err := kube.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	op, err := operator.New(operator.Options{
		Config: config, Namespaces: []string{own.Name}, EngineURL: "http://" + r.address, Controllers: append(groups, operator.GroupHost),
		LocalImages: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
	return &managed{rack: r, kube: kube, host: client.ObjectKey{Namespace: own.Name, Name: "web"}}
}

// register creates the host, changed as said, and the Secret of its BMC.
func (m *managed) register(t *testing.T, scheme string, changes ...func(*metal3v1alpha1.BareMetalHost)) {
	t.Helper()
	address, err := url.Parse(m.Machine(0).BMCURL())
	if err != nil {
		t.Fatal(err)
	}
	host := &metal3v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name},
		Spec: metal3v1alpha1.BareMetalHostSpec{
			Online: true, BootMACAddress: m.bootMAC(0),
			BMC: metal3v1alpha1.BMCDetails{
				Address: scheme + "://" + address.Host, CredentialsName: "web-bmc", DisableCertificateVerification: true,
			},
		},
	}
	for _, change := range changes {
		change(host)
	}
	for _, obj := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: "web-bmc"},
			StringData: map[string]string{"username": redfishtest.User, "password": redfishtest.Password},
		},
		host,
	} {
		if err := m.kube.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// change changes the host as kubectl edit does.
func (m *managed) change(t *testing.T, change func(*metal3v1alpha1.BareMetalHost)) {
	t.Helper()
	var h metal3v1alpha1.BareMetalHost
	if err := m.kube.Get(t.Context(), m.host, &h); err != nil {
		t.Fatal(err)
	}
	before := h.DeepCopy()
	change(&h)
	if err := m.kube.Patch(t.Context(), &h, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the host shows what is wanted.
func (m *managed) shows(t *testing.T, what string, is func(*metal3v1alpha1.BareMetalHost) bool) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	var h metal3v1alpha1.BareMetalHost
	eventually(t, func(ctx context.Context) error {
		if err := m.kube.Get(ctx, m.host, &h); err != nil {
			return err
		}
		if is(&h) {
			return nil
		}
		return fmt.Errorf("host is not %s: state %q, powered on %t, error %q, conditions %v",
			what, h.Status.Provisioning.State, h.Status.PoweredOn, h.Status.ErrorMessage, h.Status.Conditions)
	})
	return &h
}

func (m *managed) inState(t *testing.T, state metal3v1alpha1.ProvisioningState) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	return m.shows(t, "in state "+string(state), func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == state })
}

// TestHostWithABMCLivesFromItsRegistrationToItsDeletion takes a host through its life and
// counts what was done to the machine.
func TestHostWithABMCLivesFromItsRegistrationToItsDeletion(t *testing.T) {
	t.Parallel()
	for scheme, vendor := range map[string]string{"redfish": redfish.Vendors[0], "redfish-virtualmedia": redfish.Vendors[1]} {
		t.Run(scheme, func(t *testing.T) {
			r, _ := startBootService(t, vendor)
			m := startHost(t, r)
			m.register(t, scheme)
			if details := m.inState(t, metal3v1alpha1.StateAvailable).Status.HardwareDetails; details == nil || len(details.NICs) == 0 {
				t.Errorf("hardware = %+v, want what the ramdisk found", details)
			}
			wiped := len(r.done(effect.Wipe))

			image, h := m.deploysImage(t)
			m.runsImage(t, image, string(h.UID))
			if got := r.done(effect.Wipe)[wiped:]; len(got) != 0 {
				t.Errorf("%q was done for the deployment", got)
			}

			m.holdsOff(t)

			m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			m.inState(t, metal3v1alpha1.StateAvailable)
			if got := r.done(effect.Wipe)[wiped:]; len(got) != 1 || len(r.Machine(0).Disks().Contents()) != 0 {
				t.Errorf("after the removal: wipes %q, disks %v, want one that leaves them empty", got, r.Machine(0).Disks().Contents())
			}
			m.isDeleted(t)
			if nodes, err := allNodes(t.Context(), r.engine, ironic.NodeQuery{}); err != nil || len(nodes) != 0 {
				t.Errorf("nodes = %v, %v; want none", nodes, err)
			}
			if r.Machine(0).BMC().Power() != bmc.Off {
				t.Error("the machine of a deleted host is on")
			}
		})
	}
}

// deploysImage sets an image in the spec of the host, and waits until that is deployed.
func (m *managed) deploysImage(t *testing.T) (servedImage, *metal3v1alpha1.BareMetalHost) {
	t.Helper()
	image, raw := serveImage(t), "raw"
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Spec.Image = &metal3v1alpha1.Image{URL: image.url, Checksum: image.checksum, ChecksumType: metal3v1alpha1.ChecksumSHA256, DiskFormat: &raw}
	})
	return image, m.inState(t, metal3v1alpha1.StateProvisioned)
}

// isDeleted deletes the host, and waits until it is gone.
func (m *managed) isDeleted(t *testing.T) {
	t.Helper()
	host := &metal3v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name}}
	if err := m.kube.Delete(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		err := m.kube.Get(ctx, m.host, host)
		if err == nil {
			return fmt.Errorf("host is still there, in state %q", host.Status.Provisioning.State)
		}
		return client.IgnoreNotFound(err)
	})
}

// holdsOff keeps the machine off for a while by an annotation.
func (m *managed) holdsOff(t *testing.T) {
	t.Helper()
	const key = metal3v1alpha1.RebootAnnotationPrefix + "fence"
	m.shows(t, "powered on", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn })
	offs := len(m.done(string(bmc.PowerOff)))
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = map[string]string{key: `{"mode":"hard"}`} })
	m.shows(t, "confirmed off", func(h *metal3v1alpha1.BareMetalHost) bool {
		holds := h.Status.PowerOffHolds
		return !h.Status.PoweredOn && len(holds) == 1 && holds[0].Key == key && holds[0].ConfirmedAt != nil
	})
	if m.Machine(0).BMC().Power() != bmc.Off || len(m.done(string(bmc.PowerOff))) != offs+1 {
		t.Errorf("the machine is %v after %q, want it off once", m.Machine(0).BMC().Power(), m.done(string(bmc.PowerOff))[offs:])
	}
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = nil })
	m.shows(t, "powered on without holds", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.PoweredOn && len(h.Status.PowerOffHolds) == 0
	})
	m.runsSystem(t)
}

// runsSystem waits until the machine runs its operating system.
func (m *managed) runsSystem(t *testing.T) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if s := m.Machine(0).Status(); s.State != sim.OS {
			return fmt.Errorf("the machine is %s (%s) and not in its operating system; it has booted %q", s.State, s.Reason, strings.Join(m.done(effect.Boot), ", "))
		}
		return nil
	})
}

// runsImage waits until the machine runs an image that was written once, with a config
// drive for the host.
func (m *managed) runsImage(t *testing.T, image servedImage, uid string) {
	t.Helper()
	m.runsSystem(t)
	if writes := m.done(effect.Write); len(writes) != 1 {
		t.Errorf("images were written %q, want one", writes)
	}
	system := m.Machine(0).Status().System
	if d := system.ConfigDrive; system.Image.Checksum != image.checksum || d == nil || d.UUID != uid || d.Name != m.host.Name {
		t.Errorf("the machine runs %+v with config drive %+v, want one for host %s", system.Image, d, uid)
	}
}
