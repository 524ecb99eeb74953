package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// secret creates the credentials of a BMC.
func (b *bench) secret(name, password string) *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{ObjectMeta: b.meta(name), StringData: map[string]string{"username": "root", "password": password + "\n"}}
	b.create(s)
	return s
}

// bmcHost creates a host with a BMC, and its credentials.
func (b *bench) bmcHost(name string, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	b.Helper()
	b.secret(name+"-bmc", "calvin")
	return b.hostWith(name, name+"-bmc", change)
}

func (b *bench) hostWith(name, secret string, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	b.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: b.meta(name), Spec: v1alpha1.BareMetalHostSpec{
		Online: true, BootMACAddress: macOf(name),
		BMC: v1alpha1.BMCDetails{Address: "redfish-virtualmedia://192.0.2.9/redfish/v1/Systems/" + name, CredentialsName: secret},
	}}
	if change != nil {
		change(h)
	}
	b.create(h)
	return h
}

// macOf returns a MAC address that only the host of that name has.
func macOf(name string) string {
	inv := demo.SampleInventory(name)
	return inv.Hardware.Interfaces[0].MACAddress
}

// asked returns the verbs that were asked of a host's machine.
func (b *bench) asked(name string) []string {
	var verbs []string
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, name)) {
		verb := string(e.Verb)
		if change, ok := e.Request.(provisioner.PowerChange); ok {
			verb = string(change.Action)
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

// count returns how often a verb was asked of a host's machine.
func (b *bench) count(name, verb string) int {
	n := 0
	for _, asked := range b.asked(name) {
		if asked == verb {
			n++
		}
	}
	return n
}

// poweredOn waits until a host shows that its machine is on.
func (b *bench) poweredOn(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	var h *v1alpha1.BareMetalHost
	b.eventually("host "+name+" powered on", func() string {
		if h = b.host(name); h == nil || !h.Status.PoweredOn || h.Status.Provisioning.State == v1alpha1.StatePreparing {
			return "it is not"
		}
		return ""
	})
	return h
}

func image(url string) *v1alpha1.Image {
	return &v1alpha1.Image{URL: url, Checksum: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ChecksumType: v1alpha1.ChecksumSHA256}
}

func TestHostWithBMCGoesFromRegistrationToDeletion(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	got := b.poweredOn("web")
	if got.Status.HardwareDetails == nil || got.Spec.Architecture != "x86_64" || got.Status.Provisioning.State != v1alpha1.StateAvailable {
		t.Errorf("status = %+v, want hardware, an architecture and the state available", got.Status)
	}
	if got.Status.GoodCredentials.Reference == nil || got.Status.GoodCredentials.Version == "" {
		t.Errorf("good credentials = %+v, want the Secret", got.Status.GoodCredentials)
	}
	var secret corev1.Secret
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "web-bmc"}, &secret); err != nil {
		t.Fatal(err)
	}
	if _, moves := secret.Labels[v1alpha1.MoveLabel]; !moves || secret.Labels[v1alpha1.SecretLabel] != v1alpha1.SecretLabelValue || len(secret.OwnerReferences) != 0 || !slices.Contains(secret.Finalizers, v1alpha1.SecretFinalizer) {
		t.Errorf("Secret = %+v, want labels and finalizer, and no owner", secret.ObjectMeta)
	}

	b.update(h, func() { h.Spec.Image = image("https://images/os.qcow2") })
	got = b.inState("web", v1alpha1.StateProvisioned)
	if got.Status.Provisioning.Image.URL != "https://images/os.qcow2" || got.Status.OperationHistory.Provision.End.IsZero() {
		t.Errorf("provisioning = %+v, history %+v; want the image, and its end", got.Status.Provisioning, got.Status.OperationHistory)
	}
	b.hasCondition("web", v1alpha1.ProvisionedCondition, metav1.ConditionTrue, v1alpha1.ProvisionedReason)

	b.update(h, func() { h.Spec.Image = nil })
	b.inState("web", v1alpha1.StateAvailable)
	if got = b.poweredOn("web"); got.Status.Provisioning.Image.URL != "" {
		t.Errorf("image = %+v, want none", got.Status.Provisioning.Image)
	}
	b.remove(h)
	b.gone("web")
	want := []string{"create", "manage", "inspect", "provide", "power on", "deploy", "undeploy", "power on", "power off", "delete"}
	if got := b.without(b.asked("web"), "claim", "update", "validate"); !slices.Equal(got, want) {
		t.Errorf("asked of the machine: %q, want %q", got, want)
	}
	for _, reason := range []string{"Registered", "InspectionComplete", "ProvisioningComplete", "DeprovisioningComplete"} {
		b.hasEvent("web", reason)
	}
}

func (b *bench) without(verbs []string, ignored ...string) []string {
	return slices.DeleteFunc(verbs, func(v string) bool { return slices.Contains(ignored, v) })
}

// failsOften lets an operation of a host fail until its pauses are longer than the tests wait.
func (b *bench) failsOften(name string, kind v1alpha1.ErrorType) {
	b.Helper()
	for n := 1; ; n++ {
		b.eventually(fmt.Sprintf("failure %d", n), func() string {
			if h := b.host(name); h.Status.ErrorType != kind || h.Status.ErrorCount < n {
				return fmt.Sprintf("error %q, %d times: %s", h.Status.ErrorType, h.Status.ErrorCount, h.Status.ErrorMessage)
			}
			return ""
		})
		if requeue.Backoff(n, 30*time.Minute, "")/2 > testTimeout {
			return
		}
		h := b.host(name)
		b.update(h, func() { h.Spec.Description = fmt.Sprint("try ", n) })
	}
}

func TestHostWithBadCredentialsRecoversWithTheSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.hostWith("web", "absent", nil)
	b.failsOften("web", v1alpha1.ErrorRegistration)
	b.create(&corev1.Secret{ObjectMeta: b.meta("absent"), StringData: map[string]string{"username": "root"}})
	b.eventually("the Secret found incomplete", func() string {
		if h := b.host("web"); !strings.Contains(h.Status.ErrorMessage, "password") {
			return h.Status.ErrorMessage
		}
		return ""
	})
	var secret corev1.Secret
	secret.ObjectMeta = b.meta("absent")
	b.update(&secret, func() { secret.Data["password"] = []byte(demo.WrongPassword) })
	b.eventually("a refusal by the BMC", func() string {
		if h := b.host("web"); h.Status.ErrorType != v1alpha1.ErrorRegistration || h.Status.Provisioning.ID == "" {
			return fmt.Sprintf("error %q: %s", h.Status.ErrorType, h.Status.ErrorMessage)
		}
		return ""
	})
	b.update(&secret, func() { secret.Data["password"] = []byte("calvin") })
	got := b.inState("web", v1alpha1.StateAvailable)
	if got.Status.ErrorType != "" || got.Status.ErrorCount != 0 {
		t.Errorf("status = %+v, want no error", got.Status)
	}
}

func TestDeploymentGoesOnWhenItsUserDataIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.Image, h.Spec.UserData = image("https://images/os.qcow2"), &corev1.SecretReference{Name: "late"}
	})
	b.failsOften("web", v1alpha1.ErrorProvisioning)
	b.create(&corev1.Secret{ObjectMeta: b.meta("late"), StringData: map[string]string{"userData": "#cloud-config"}})
	b.inState("web", v1alpha1.StateProvisioned)
	if n := b.count("web", "deploy"); n != 1 {
		t.Errorf("%d deployments, want one", n)
	}
}

func TestHostsWithBMCStayWhereTheirMachinesStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	deploys := func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") }
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.BareMetalHost)
		state  v1alpha1.ProvisioningState
		kind   v1alpha1.ErrorType
	}{
		{"demo-registering", nil, v1alpha1.StateRegistering, ""},
		{"demo-registration-error", nil, v1alpha1.StateRegistering, v1alpha1.ErrorRegistration},
		{"demo-inspecting", nil, v1alpha1.StateInspecting, ""},
		{"demo-inspection-error", nil, v1alpha1.StateInspecting, v1alpha1.ErrorInspection},
		{"demo-preparing", nil, v1alpha1.StatePreparing, ""},
		{"demo-preparation-error", nil, v1alpha1.StatePreparing, v1alpha1.ErrorPreparation},
		{"demo-provisioning", deploys, v1alpha1.StateProvisioning, ""},
		{"demo-validation-error", deploys, v1alpha1.StateProvisioning, v1alpha1.ErrorProvisioning},
		{"demo-provisioned", deploys, v1alpha1.StateProvisioned, ""},
		{"demo-externally-provisioned", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, v1alpha1.StateExternallyProvisioned, ""},
		{"demo-adoption-error", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, v1alpha1.StateExternallyProvisioned, v1alpha1.ErrorProvisionedRegistration},
		{"demo-power-error", nil, v1alpha1.StateAvailable, v1alpha1.ErrorPowerManagement},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
			b.bmcHost(tt.name, tt.change)
			b.eventually("state and error", func() string {
				h := b.host(tt.name)
				if h.Status.Provisioning.State == tt.state && h.Status.ErrorType == tt.kind && len(h.Status.Conditions) > 0 {
					return ""
				}
				return fmt.Sprintf("state %q, error %q %s", h.Status.Provisioning.State, h.Status.ErrorType, h.Status.ErrorMessage)
			})
		})
	}
}

func TestImageThatFailsIsGivenUpUntilItChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.MaxProvisioningFailures = 2 })
	h := b.bmcHost("demo-provisioning-error", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/bad.qcow2") })
	b.eventually("two failures", func() string {
		got := b.host(h.Name)
		if got.Status.ProvisioningFailCount == 2 && got.Status.Provisioning.State == v1alpha1.StateAvailable {
			return ""
		}
		return fmt.Sprintf("state %q, %d failures, error %q", got.Status.Provisioning.State, got.Status.ProvisioningFailCount, got.Status.ErrorMessage)
	})
	deploys := func() int { return b.count(h.Name, "deploy") }
	b.forAWhile("no third attempt", func() string {
		if n := deploys(); n != 2 {
			return fmt.Sprintf("%d deployments", n)
		}
		return ""
	})
	b.update(h, func() { h.Spec.Image = image("https://images/other.qcow2") })
	b.eventually("an attempt with the other image", func() string {
		if n := deploys(); n < 3 {
			return fmt.Sprintf("%d deployments", n)
		}
		return ""
	})
}

func TestTwoHoldsKeepTheMachineOffUntilBothAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	b.poweredOn("web")
	before := len(b.asked("web"))
	const one, two = "reboot.metal3.io/one", "reboot.metal3.io/two"
	hold := func(change func(map[string]string)) {
		b.update(h, func() {
			if h.Annotations == nil {
				h.Annotations = map[string]string{}
			}
			change(h.Annotations)
		})
	}
	confirmed := func(keys ...string) {
		t.Helper()
		b.eventually(fmt.Sprintf("holds %q confirmed", keys), func() string {
			got := b.host("web")
			var sure []string
			for _, hold := range got.Status.PowerOffHolds {
				if hold.ConfirmedAt != nil {
					sure = append(sure, hold.Key)
				}
			}
			if slices.Equal(sure, keys) && !got.Status.PoweredOn {
				return ""
			}
			return fmt.Sprintf("powered on %t, holds %+v", got.Status.PoweredOn, got.Status.PowerOffHolds)
		})
	}
	hold(func(a map[string]string) { a[one] = `{"mode":"hard"}` })
	confirmed(one)
	hold(func(a map[string]string) { a[two] = "" })
	confirmed(one, two) // a new hold is asked for again, although the machine is off
	hold(func(a map[string]string) { delete(a, one) })
	confirmed(two)
	hold(func(a map[string]string) { delete(a, two) })
	b.eventually("powered on, without records", func() string {
		if got := b.host("web"); !got.Status.PoweredOn || len(got.Status.PowerOffHolds) > 0 {
			return fmt.Sprintf("powered on %t, holds %+v", got.Status.PoweredOn, got.Status.PowerOffHolds)
		}
		return ""
	})
	power := b.without(b.asked("web")[before:], "claim", "update", "validate")
	if want := []string{"power off", "power off", "power on"}; !slices.Equal(power, want) {
		t.Errorf("power requests = %q, want %q", power, want)
	}
}

func TestRebootAnnotationCyclesOnceAndGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState("web", v1alpha1.StateProvisioned)
	before := len(b.asked("web"))
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.RebootAnnotation: ""} })
	b.eventually("one cycle", func() string {
		verbs := b.without(b.asked("web")[before:], "claim", "update", "validate")
		if slices.Equal(verbs, []string{"soft power off", "power on"}) {
			return ""
		}
		return fmt.Sprintf("asked: %q", verbs)
	})
	if got := b.host("web"); got.Annotations[v1alpha1.RebootAnnotation] != "" || len(got.Annotations) != 0 {
		t.Errorf("annotations = %v, want none", got.Annotations)
	}
}

func TestPowerFailureOfAHostInUseIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("demo-power-error", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState(h.Name, v1alpha1.StateProvisioned)
	b.update(h, func() { h.Spec.Online = false })
	b.eventually("power management error", func() string {
		got := b.host(h.Name)
		if got.Status.ErrorType == v1alpha1.ErrorPowerManagement && got.Status.ErrorCount > 0 {
			return ""
		}
		return fmt.Sprintf("error %q, asked %q", got.Status.ErrorType, b.asked(h.Name))
	})
}

func TestDetachedHostIsLeftAloneAndAdoptedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	id := b.inState("web", v1alpha1.StateProvisioned).Status.Provisioning.ID
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""} })
	b.eventually("detached", func() string {
		got := b.host("web")
		if got.Status.OperationalStatus == v1alpha1.OperationalStatusDetached && got.Status.Provisioning.ID == "" {
			return ""
		}
		return fmt.Sprintf("operational status %q, node %q", got.Status.OperationalStatus, got.Status.Provisioning.ID)
	})
	if _, err := b.engine.Node(t.Context(), id); err == nil {
		t.Error("the engine still has the node")
	}
	b.update(h, func() { h.Annotations = nil })
	b.eventually("attached", func() string {
		got := b.host("web")
		n, err := b.engine.Node(t.Context(), got.Status.Provisioning.ID)
		if got.Status.OperationalStatus == v1alpha1.OperationalStatusOK && err == nil && n.State == node.Active {
			return ""
		}
		return fmt.Sprintf("operational status %q, node %+v, error %v %s", got.Status.OperationalStatus, n.State, err, got.Status.ErrorMessage)
	})
	for _, verb := range b.asked("web") {
		if verb == "undeploy" || verb == "power off" || verb == "soft power off" {
			t.Errorf("the machine was changed: %s", verb)
		}
	}
}

func TestHostWhoseNodeIsLostIsRegisteredAndAdoptedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	id := b.inState("web", v1alpha1.StateProvisioned).Status.Provisioning.ID
	b.engine.Forget(id)
	b.eventually("adopted", func() string {
		got := b.host("web")
		n, err := b.engine.Node(t.Context(), got.Status.Provisioning.ID)
		if got.Status.Provisioning.ID != id && err == nil && n.State == node.Active {
			return ""
		}
		return fmt.Sprintf("node %q %q, error %v %s", got.Status.Provisioning.ID, n.State, err, got.Status.ErrorMessage)
	})
	if n := b.count("web", "deploy"); n != 1 {
		t.Errorf("%d deployments, want the first one only", n)
	}
}

func TestYoungerHostWithTheSameMachineIsNotRegistered(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first := b.bmcHost("first", nil)
	b.inState("first", v1alpha1.StateAvailable)
	b.bmcHost("second", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = first.Spec.BMC.Address })
	c := b.hasCondition("second", v1alpha1.ManageableCondition, metav1.ConditionFalse, v1alpha1.RegistrationFailedReason)
	if want := "spec.bmc.address: host " + b.namespace + "/first has the same"; !strings.HasPrefix(c.Message, want) {
		t.Errorf("message = %q, want one that begins with %q", c.Message, want)
	}
	if n := b.count("second", "create"); n != 0 {
		t.Errorf("%d nodes were created for the second host", n)
	}
}

func TestNetworkOfTheRamdiskComesFromItsSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(&corev1.Secret{ObjectMeta: b.meta("ramdisk-net"), StringData: map[string]string{"networkData": "links:\n- id: eno1\n"}})
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "ramdisk-net" })
	b.inState("web", v1alpha1.StateAvailable)
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, "web")) {
		if r, ok := e.Request.(provisioner.Registration); ok && string(r.NetworkData) != `{"links":[{"id":"eno1"}]}` {
			t.Errorf("%s with network data %q, want the Secret's as JSON", e.Verb, r.NetworkData)
		}
	}
	b.bmcHost("db", func(h *v1alpha1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "absent" })
	b.waits("db", "Secret absent does not exist")
	if n := b.count("db", "inspect"); n != 0 {
		t.Errorf("%d inspections began without the network of the ramdisk", n)
	}
	b.create(&corev1.Secret{ObjectMeta: b.meta("absent"), StringData: map[string]string{"networkData": "links: []"}})
	b.inState("db", v1alpha1.StateAvailable) // the wait without a change is longer than this one
}

func TestHostsGetTheOnlySlotOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Capacity = 1 })
	names := []string{"first", "second", "third", "fourth"}
	for i, name := range names {
		b.bmcHost(name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = fmt.Sprintf("ipmi://192.0.2.%d", i+1) })
	}
	begun := time.Now()
	for _, name := range names {
		b.inState(name, v1alpha1.StateAvailable)
	}
	// A host that nobody wakes checks only after a minute whether it is its turn.
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
