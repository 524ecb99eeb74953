//go:build fault

package fault_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/process"
)

// hostLife is a host on its way from its registration or discovery to its end, with an engine and
// an operator that are killed now and then.
type hostLife struct {
	*life
	*hostPlace // where the host is now
	places     []*hostPlace
	host       client.ObjectKey
	proofs     *proofs
	calls      *engineCalls // of the operators of all places
	marks      []hostMark   // where the machine's log was at the start of each step
}

// hostMark is a step of a host's life, with the number of the last effect before it.
type hostMark struct {
	step  string
	since int64
}

// discoveryPoll is how often the operator looks for unknown machines, at most.
const discoveryPoll = 5 * time.Second

// hostShapes are the machines of hosts. A host with volumes is only prepared: a change of volumes
// takes minutes, in which the driver waits for other volumes to appear.
var hostShapes = []shape{
	shapes[0], shapes[len(shapes)-1],
	{name: "dell-discovered", vendor: "dell", driver: "redfish", boot: "redfish-virtual-media", discovered: true},
	{name: "dell-moved", vendor: "dell", driver: "redfish", boot: "redfish-virtual-media", moves: true},
	{name: "dell-volumes", vendor: "dell", driver: "redfish", boot: "redfish-virtual-media", volumes: true},
}

// kubeClient returns a client of the API server for hosts.
func kubeClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // about names of finalizers: hosts are copied with them
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// startHostLife starts everything, in a namespace of its own. If the host is to move, it starts
// everything in the second cluster, too.
func startHostLife(t *testing.T, clusters []*rest.Config, s shape, engineAt []killPoint, operatorAt kills) *hostLife {
	t.Helper()
	l := &hostLife{life: startLife(t, s, engineAt), proofs: &proofs{}, calls: &engineCalls{}}
	if !s.moves {
		clusters = clusters[:1]
	}
	for i, config := range clusters {
		l.places = append(l.places, l.startPlace(placeNames[i], config, operatorAt))
	}
	l.hostPlace = l.places[0]
	return l
}

// liveAsHost leads the host through everything.
func (l *hostLife) liveAsHost() {
	l.t.Helper()
	l.mark("registration")
	if l.shape.discovered {
		l.discover()
	} else {
		l.registerHost()
	}
	l.reaches(v1alpha1.StateAvailable)
	if !l.shape.volumes {
		l.checkPrepared()
		l.use()
	}
	l.mark("deletion")
	l.delete()
	l.mark("end")
	l.checkHostEnd()
}

// use deploys the host, and does with it what its shape can.
func (l *hostLife) use() {
	l.t.Helper()
	l.mark("deployment")
	l.deploy()
	s := l.shape
	for _, step := range []struct {
		name string
		can  bool
		do   func()
	}{
		{"live update", s.updates != nil, l.updateInUse},
		{"takeover", s.discovered && s.vendor != "", l.takeOver},
		{"detachment", s.moves, l.detach},
		{"move", s.moves, l.move},
		{"move back", s.moves, l.moveDetached},
		// Nobody could power the machine without a BMC, or boot it for cleaning.
		{"hold", s.vendor != "", l.hold},
		{"removal", s.vendor != "", l.remove},
	} {
		if step.can {
			l.mark(step.name)
			step.do()
		}
	}
}

// deploy deploys the image on the host.
func (l *hostLife) deploy() {
	l.t.Helper()
	raw := "raw"
	l.change(func(h *v1alpha1.BareMetalHost) {
		h.Spec.Online = true
		h.Spec.Image = &v1alpha1.Image{URL: l.image.url, Checksum: l.image.checksum, ChecksumType: v1alpha1.ChecksumSHA256, DiskFormat: &raw}
	})
	if h := l.reaches(v1alpha1.StateProvisioned); h.Status.HardwareDetails == nil || h.Spec.Architecture != h.Status.HardwareDetails.CPU.Arch {
		l.t.Errorf("the architecture is %q, want that of the hardware %+v", h.Spec.Architecture, h.Status.HardwareDetails)
	}
	l.runs()
}

// remove removes what is deployed.
func (l *hostLife) remove() {
	l.t.Helper()
	l.change(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.reaches(v1alpha1.StateAvailable)
}

func (l *hostLife) mark(step string) {
	_, now := l.machine.effects(0)
	l.marks = append(l.marks, hostMark{step, now})
}

// registerHost creates the host, the Secret of its BMC, and what the host is prepared with.
func (l *hostLife) registerHost() {
	l.t.Helper()
	l.host.Name = "web"
	l.create(l.secret())
	l.create(&v1alpha1.BareMetalHost{
		ObjectMeta: l.meta(),
		Spec:       v1alpha1.BareMetalHostSpec{Online: true, BootMACAddress: l.machine.observe().BootMAC, BMC: l.bmcOf(l.machine), RAID: l.volumes()},
	})
	if l.shape.updates != nil {
		l.create(l.settingsOf(hostSettings(l.shape)[:1]))
	}
}

// secret returns the Secret of the BMC.
func (l *hostLife) secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.host.Namespace, Name: "web-bmc"},
		StringData: map[string]string{"username": bmcUser, "password": bmcPassword},
	}
}

// bmcOf returns how a host reaches the BMC of a machine.
func (l *hostLife) bmcOf(m *lifeMachine) v1alpha1.BMCDetails {
	l.t.Helper()
	address, err := url.Parse(m.observe().URL)
	if err != nil {
		l.t.Fatal(err)
	}
	return v1alpha1.BMCDetails{Address: "redfish-virtualmedia://" + address.Host, CredentialsName: "web-bmc", DisableCertificateVerification: true}
}

// discover lets unknown machines become hosts, and waits for the host of the only one.
func (l *hostLife) discover() {
	l.t.Helper()
	l.create(&discoveryv1.BareMetalHostDiscovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.host.Namespace, Name: "all"},
		Spec: discoveryv1.BareMetalHostDiscoverySpec{
			ResourceNameTemplate: discoveryv1.ResourceNameTemplate{Prefix: "node-", HardwareDetails: discoveryv1.DetailSerialNumber},
			PollInterval:         metav1.Duration{Duration: discoveryPoll},
		},
	})
	process.Eventually(l.t, stateWithin, "the machine to become a host", func() bool {
		l.check()
		var hosts v1alpha1.BareMetalHostList
		if err := l.kube.List(l.t.Context(), &hosts, client.InNamespace(l.host.Namespace)); err != nil || len(hosts.Items) == 0 {
			return false
		}
		l.host.Name = hosts.Items[0].Name
		return true
	})
}

// check fails the test if something has ended that should not have ended.
func (l *hostLife) check() {
	l.t.Helper()
	l.engine.check()
	for _, p := range l.places {
		p.operator.check()
	}
}

// create creates an object in the cluster in which the host is.
func (l *hostLife) create(object client.Object) {
	l.t.Helper()
	if err := l.kube.Create(l.t.Context(), object); err != nil {
		l.t.Fatal(err)
	}
}

// read returns the host, nil when it does not exist.
func (l *hostLife) read() *v1alpha1.BareMetalHost {
	var h v1alpha1.BareMetalHost
	err := l.kube.Get(l.t.Context(), l.host, &h)
	switch {
	case apierrors.IsNotFound(err), l.t.Context().Err() != nil:
		return nil
	case err != nil:
		l.t.Fatal(err)
	}
	return &h
}

// reaches waits until the host is in a state without an error, and powered on if it has a BMC.
func (l *hostLife) reaches(state v1alpha1.ProvisioningState) *v1alpha1.BareMetalHost {
	l.t.Helper()
	return l.becomes(string(state), func(h *v1alpha1.BareMetalHost) bool {
		powered := h.Status.PoweredOn || !h.HasBMC()
		return h.Status.Provisioning.State == state && powered && h.Status.ErrorType == ""
	})
}

// becomes waits until a check of the host holds.
func (l *hostLife) becomes(what string, is func(*v1alpha1.BareMetalHost) bool) (h *v1alpha1.BareMetalHost) {
	l.t.Helper()
	last := ""
	process.Eventually(l.t, stateWithin, "the host to be "+what, func() bool {
		l.check()
		if h = l.read(); h == nil {
			l.t.Fatal("the host is gone")
		}
		if now := fmt.Sprintf("the host is in %q (%s)", h.Status.Provisioning.State, h.Status.ErrorMessage); now != last {
			last = now
			l.note("%s", now)
		}
		if l.uuid = h.Status.Provisioning.ID; l.byHand && l.uuid != "" {
			l.startByHand(l.show())
		}
		return is(h)
	})
	return h
}

// change changes the host as kubectl edit does.
func (l *hostLife) change(change func(*v1alpha1.BareMetalHost)) {
	l.t.Helper()
	h := &v1alpha1.BareMetalHost{}
	l.edit(h, func() { change(h) })
}

// edit changes an object with the name of the host, and leaves its newest version in it.
func (l *hostLife) edit(object client.Object, change func()) {
	l.t.Helper()
	if err := l.kube.Get(l.t.Context(), l.host, object); err != nil {
		l.t.Fatal(err)
	}
	before, _ := object.DeepCopyObject().(client.Object)
	change()
	if err := l.kube.Patch(l.t.Context(), object, client.MergeFrom(before)); err != nil {
		l.t.Fatal(err)
	}
}

// delete deletes the host and waits until it and its node are gone.
func (l *hostLife) delete() {
	l.t.Helper()
	l.deleteHost()
	l.losesNode(l.uuid)
}

// deleteHost deletes the host and waits until it is gone.
func (l *hostLife) deleteHost() {
	l.t.Helper()
	if err := l.kube.Delete(l.t.Context(), l.read()); err != nil {
		l.t.Fatal(err)
	}
	process.Eventually(l.t, stateWithin, "the host to be gone", func() bool {
		l.check()
		return l.read() == nil
	})
}

// losesNode waits until the engine does not have a node any more.
func (l *hostLife) losesNode(uuid string) {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, "node "+uuid+" to be gone", func() bool {
		l.check()
		var list struct{ Nodes []shownNode }
		return l.api.read("/v1/nodes", &list) == nil && !slices.ContainsFunc(list.Nodes, func(n shownNode) bool { return n.UUID == uuid })
	})
}
