package host

import (
	"context"
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
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// count is how often a request was made to the machine of a host.
func (l *life) count(name, request string) int {
	n := 0
	for _, got := range l.effects(name) {
		if got == request {
			n++
		}
	}
	return n
}

func TestFailedInspectionIsTriedAgain(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-inspection-error"
	l.add(name, nil)
	l.until(name, "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
	if got := l.count(name, "inspect"); got != 2 {
		t.Errorf("%d inspections, want 2", got)
	}
	if h := l.host(name); h.Status.ErrorType != v1alpha1.ErrorInspection || !strings.Contains(h.Status.ErrorMessage, "the ramdisk did not start") {
		t.Errorf("error %q %s", h.Status.ErrorType, h.Status.ErrorMessage)
	}
	l.tells("InspectionError")
}

// strict is an engine that, like Ironic, does not change the interfaces of a node whose inspection
// failed. It counts by the state of the node how often it was given a registration.
type strict struct {
	*demo.Engine
	updates map[node.State]int
}

func (e strict) Update(ctx context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	n, err := e.Engine.Update(ctx, id, r, opts)
	e.updates[n.State]++
	n.PutOff = n.State == node.InspectFailed && r.InspectionMode == v1alpha1.InspectionModeFast
	return n, err
}

// wavering is an engine that refuses the first deployment, and whose answer to the second one is
// lost.
type wavering struct {
	*demo.Engine
	asked *int
}

func (e wavering) Deploy(ctx context.Context, id string, d provisioner.Deployment) error {
	*e.asked++
	if *e.asked == 1 {
		return fmt.Errorf("%w: the image is not known", provisioner.ErrInvalid)
	}
	if err := e.Engine.Deploy(ctx, id, d); err != nil || *e.asked > 2 {
		return err
	}
	return fmt.Errorf("%w: no route", provisioner.ErrUnreachable)
}

func TestDeploymentThatFailedIsCountedWhenTheAnswerToItsRequestWasLost(t *testing.T) {
	l := newLife(t, nil)
	asked := 0
	l.change = func(c *Config) { c.Engine = wavering{l.engine, &asked} }
	l.restart()
	const name = "demo-provisioning-error"
	l.add(name, withImage)
	h := l.until(name, "cleaned after the failure", func(*v1alpha1.BareMetalHost) bool { return l.count(name, askUndeploy) == 1 })
	if h.Status.ProvisioningFailCount != 1 || !strings.Contains(h.Status.ErrorMessage, "the image cannot be read") {
		t.Errorf("%d failures are counted (%s), want the one of the image", h.Status.ProvisioningFailCount, h.Status.ErrorMessage)
	}
}

func TestAnotherKindOfInspectionIsGivenToTheNodeBeforeTheNextOne(t *testing.T) {
	l := newLife(t, nil)
	engine := strict{l.engine, map[node.State]int{}}
	l.change = func(c *Config) { c.Engine = engine }
	l.restart()
	const name = "demo-inspection-error"
	l.add(name, nil)
	l.fails(name, v1alpha1.ErrorInspection)
	clear(engine.updates)
	before := len(l.effects(name))
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = v1alpha1.InspectionModeFast })
	l.until(name, "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "inspect") == 2 })
	l.does(name, before, "manage", "inspect")
	if engine.updates[node.InspectFailed] != 1 || engine.updates[node.Manageable] != 1 {
		t.Errorf("registrations given by states: %v, want one after the failed inspection and one before the next", engine.updates)
	}
}

func TestInspectionIsInterruptedOnlyByAForcedReboot(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-inspecting"
	l.add(name, nil)
	l.rests(name, v1alpha1.StateInspecting)
	l.annotate(name, v1alpha1.RebootAnnotation, `{"mode":"hard"}`)
	l.rests(name, v1alpha1.StateInspecting)
	if got := l.count(name, "abort"); got != 0 {
		t.Errorf("%d inspections were interrupted without force", got)
	}
	l.annotate(name, v1alpha1.RebootAnnotation, `{"force":true}`)
	h := l.rests(name, v1alpha1.StateInspecting)
	if got := l.count(name, "abort"); got != 1 || l.count(name, "inspect") != 2 || h.Status.ErrorType != "" {
		t.Errorf("asked of the machine: %q, error %q; want another inspection", l.effects(name), h.Status.ErrorMessage)
	}
	if _, there := h.Annotations[v1alpha1.RebootAnnotation]; there {
		t.Error("the annotation is still there")
	}
}

func TestWorkUnderWayIsNotRepeatedAfterTheSecretWasAway(t *testing.T) {
	raid := func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	}
	for _, tt := range []struct {
		name, request string
		change        func(*v1alpha1.BareMetalHost)
		state         v1alpha1.ProvisioningState
	}{
		{"demo-inspecting", "inspect", nil, v1alpha1.StateInspecting},
		{"demo-preparing", "clean", raid, v1alpha1.StatePreparing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(tt.name, tt.change)
			l.rests(tt.name, tt.state)
			l.edit(tt.name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" })
			h := l.until(tt.name, "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
			if h.Status.ErrorType != v1alpha1.ErrorRegistration || h.Status.Provisioning.State != tt.state {
				t.Errorf("error %q in state %q", h.Status.ErrorType, h.Status.Provisioning.State)
			}
			l.edit(tt.name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = tt.name + "-bmc" })
			if h := l.rests(tt.name, tt.state); h.Status.ErrorType != "" {
				t.Errorf("error %q, though the Secret is there", h.Status.ErrorType)
			}
			if tt.state == v1alpha1.StatePreparing { // its steps end
				l.node(tt.name, func(n *provisioner.Node) { n.State, n.StateChangedAt = node.Manageable, l.now })
			}
			for range 5 {
				l.now = l.now.Add(l.pass(tt.name))
			}
			if got := l.count(tt.name, tt.request); got != 1 {
				t.Errorf("asked of the machine: %q, want one %s", l.effects(tt.name), tt.request)
			}
		})
	}
}

func TestSecondInspectionReplacesTheDetailsInPlace(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	var data v1alpha1.HardwareData
	key := client.ObjectKey{Namespace: "metal", Name: "web"}
	if err := l.api.Get(t.Context(), key, &data); err != nil {
		t.Fatal(err)
	}
	data.Spec.HardwareDetails.Hostname, data.Labels = "old", map[string]string{"mine": "yes"}
	if err := l.api.Update(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	l.annotate("web", v1alpha1.InspectAnnotation, "")
	l.until("web", "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "inspect") == 2 })
	h := l.rests("web", v1alpha1.StateAvailable)
	if err := l.api.Get(t.Context(), key, &data); err != nil {
		t.Fatal(err)
	}
	if data.Spec.HardwareDetails.Hostname != "web" || data.Labels["mine"] != "yes" || len(h.Annotations) > 0 {
		t.Errorf("hardware data %q with labels %v, annotations %v; want new details in the same object", data.Spec.HardwareDetails.Hostname, data.Labels, h.Annotations)
	}
}

func TestVolumesAreMadeOnceAndAgainWhenTheyChange(t *testing.T) {
	l := newLife(t, nil)
	volumes := func(level string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: level}}}
		}
	}
	l.add("web", volumes("1"))
	h := l.rests("web", v1alpha1.StateAvailable)
	l.does("web", 0, "create", "manage", "inspect", "set raid", "clean", "provide", "power on")
	if h.Status.Provisioning.RAID == nil || h.Status.Provisioning.RAID.HardwareRAIDVolumes[0].Level != "1" {
		t.Errorf("volumes in effect: %+v", h.Status.Provisioning.RAID)
	}
	before := len(l.effects("web"))
	l.edit("web", volumes("5"))
	l.until("web", "prepared again", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Status.Provisioning.RAID.HardwareRAIDVolumes[0].Level == "5"
	})
	l.does("web", before, "manage", "set raid", "clean", "provide", "power on")
}

func TestFailedPreparationIsTriedAtOnceWithAnotherSpec(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-preparation-error"
	l.add(name, nil)
	l.fails(name, v1alpha1.ErrorPreparation)
	provided, at := l.count(name, "provide"), l.now
	l.pass(name)
	if got := l.count(name, "provide"); got != provided {
		t.Errorf("%d requests at once after the failure", got-provided)
	}
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Description = "a new disk" })
	l.until(name, "tried again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "provide") > provided })
	if waited := l.now.Sub(at); waited > time.Minute/2 {
		t.Errorf("it was tried again after %s", waited)
	}
}

func TestAnotherImageIsDeployedAfterTheFirstIsRemoved(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") })
	l.until("web", "deployed anew", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateProvisioned && h.Status.Provisioning.Image.URL == "https://images/b"
	})
	l.does("web", before, "undeploy", "deploy")
}

func TestDeployMethodIsDeployedAndRemovedWithOrWithoutAnImage(t *testing.T) {
	for name, image := range map[string]*v1alpha1.Image{"alone": nil, "with image": testImage("a")} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.CustomDeploy, h.Spec.Image = &v1alpha1.CustomDeploy{Method: "install"}, image
			})
			h := l.rests("web", v1alpha1.StateProvisioned)
			d, _ := l.last("web", demo.VerbDeploy).(provisioner.Deployment)
			if d.Step != "install" || imageURL(d.Image) != imageURL(image) || h.Status.Provisioning.CustomDeploy.Method != "install" || h.Status.Provisioning.Image.URL != imageURL(image) {
				t.Errorf("deployed %+v, status %+v", d, h.Status.Provisioning)
			}
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy, h.Spec.Image = nil, nil })
			if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.CustomDeploy != nil || l.count("web", "undeploy") != 1 {
				t.Errorf("status %+v after %q", h.Status.Provisioning, l.effects("web"))
			}
		})
	}
}

func TestImageIsTriedWithoutEndWhereThereIsNoLimit(t *testing.T) {
	l := newLife(t, func(c *Config) { c.MaxProvisioningFailures = 0 })
	const name = "demo-provisioning-error"
	l.add(name, withImage)
	l.until(name, "failed ten times", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ProvisioningFailCount == 10 })
	if got := l.count(name, "deploy"); got != 10 {
		t.Errorf("%d deployments", got)
	}
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	if h := l.rests(name, v1alpha1.StateAvailable); h.Status.ProvisioningFailCount != 0 || h.Status.ErrorType != "" {
		t.Errorf("%d failures and error %q without an image", h.Status.ProvisioningFailCount, h.Status.ErrorType)
	}
}

func TestMissingUserDataFailsTheDeploymentUntilItIsThere(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.UserData = &corev1.SecretReference{Name: "user-data"}
	})
	h := l.fails("web", v1alpha1.ErrorProvisioning)
	if !strings.Contains(h.Status.ErrorMessage, "spec.userData: Secret user-data does not exist") || h.Status.Provisioning.State != v1alpha1.StateProvisioning {
		t.Errorf("error %q in state %q", h.Status.ErrorMessage, h.Status.Provisioning.State)
	}
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "user-data"}, Data: map[string][]byte{"userData": []byte("#cloud-config")}})
	if h := l.rests("web", v1alpha1.StateProvisioned); h.Status.ErrorType != "" || h.Status.ProvisioningFailCount != 0 {
		t.Errorf("status %+v, want no failure", h.Status)
	}
	if got := l.count("web", "undeploy"); got != 0 {
		t.Error("nothing was deployed, and it was removed")
	}
}

// TestDeploymentThatIsAcceptedAfterARefusalGoesOn has an engine that needs some time for a
// deployment, and a host that is not to be online any more when the deployment has begun.
func TestDeploymentThatIsAcceptedAfterARefusalGoesOn(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: 5 * time.Minute}})
	l.restart()
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.UserData = &corev1.SecretReference{Name: "user-data"}
	})
	l.fails("web", v1alpha1.ErrorProvisioning)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "user-data"}, Data: map[string][]byte{"userData": []byte("#cloud-config")}})
	l.until("web", "being deployed", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "deploy") == 1 })
	l.moved("web", node.DeployWait)
	l.now = l.now.Add(l.pass("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	if h := l.rests("web", v1alpha1.StateProvisioned); h.Status.ErrorType != "" || h.Status.PoweredOn {
		t.Errorf("error %q, powered on %v; want it deployed and off", h.Status.ErrorMessage, h.Status.PoweredOn)
	}
	if deployed, removed := l.count("web", "deploy"), l.count("web", "undeploy"); deployed != 1 || removed != 0 {
		t.Errorf("deployed %d times, removed %d times, want it deployed once", deployed, removed)
	}
}

func TestRefusedDeploymentIsAnErrorAndRemovesNothing(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-validation-error"
	l.add(name, withImage)
	h := l.fails(name, v1alpha1.ErrorProvisioning)
	if !strings.Contains(h.Status.ErrorMessage, "cannot be deployed to this machine") || h.Status.Provisioning.State != v1alpha1.StateProvisioning {
		t.Errorf("error %q in state %q", h.Status.ErrorMessage, h.Status.Provisioning.State)
	}
	if got := l.count(name, "deploy") + l.count(name, "undeploy"); got != 0 {
		t.Errorf("the engine accepted %q", l.effects(name))
	}
}

func TestCleaningFollowsTheModeOfTheHost(t *testing.T) {
	l := newLife(t, nil)
	mode := func(m v1alpha1.AutomatedCleaningMode) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = m }
	}
	for _, name := range []string{"web", "demo-plain"} {
		withMode := func(h *v1alpha1.BareMetalHost) {
			withImage(h)
			mode(v1alpha1.CleaningModeDisabled)(h)
		}
		if name == "web" {
			l.add(name, withMode)
		} else {
			l.addPlain(name, withMode)
		}
		l.rests(name, v1alpha1.StateProvisioned)
		if n := l.nodeOf(name); !n.SkipsCleaning {
			t.Errorf("node of %s is cleaned, though the host has that disabled", name)
		}
		l.edit(name, mode(v1alpha1.CleaningModeMetadata))
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
		l.rests(name, v1alpha1.StateAvailable)
		if n := l.nodeOf(name); n.SkipsCleaning {
			t.Errorf("node of %s is not cleaned, though the host asks for it again", name)
		}
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") })
		l.rests(name, v1alpha1.StateProvisioned)
		l.edit(name, mode(v1alpha1.CleaningModeDisabled))
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
		l.rests(name, v1alpha1.StateAvailable)
		if n := l.nodeOf(name); !n.SkipsCleaning {
			t.Errorf("node of %s was cleaned, though the host has that disabled now", name)
		}
	}
}

// nodeOf is the node of a host.
func (l *life) nodeOf(name string) provisioner.Node {
	l.Helper()
	n, err := l.engine.Node(l.Context(), l.host(name).Status.Provisioning.ID)
	if err != nil {
		l.Fatal(err)
	}
	return n
}

func TestFailedCleaningAfterADeploymentIsTriedAgain(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-deprovisioning"
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.rests(name, v1alpha1.StateDeprovisioning)
	before := len(l.effects(name))
	l.node(name, func(n *provisioner.Node) {
		n.State, n.LastError, n.StateChangedAt = node.CleanFailed, "the disk is on fire", l.now
		n.Maintenance, n.Fault = true, node.FaultCleanFailure
	})
	if h := l.fails(name, v1alpha1.ErrorProvisioning); !strings.Contains(h.Status.ErrorMessage, "on fire") {
		t.Errorf("error %q", h.Status.ErrorMessage)
	}
	l.rests(name, v1alpha1.StateAvailable)
	if got := l.effects(name)[before:]; len(got) < 3 || !slices.Equal(got[:3], []string{"maintenance", "manage", "provide"}) {
		t.Errorf("asked of the machine: %q", got)
	}
}

func TestNodeThatIsLostWhileADeploymentIsRemovedIsMadeAgain(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			l := newLife(t, nil)
			const name = "demo-deprovisioning"
			l.add(name, withImage)
			l.rests(name, v1alpha1.StateProvisioned)
			if deleted {
				l.remove(l.host(name))
			} else {
				l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			}
			h := l.rests(name, v1alpha1.StateDeprovisioning)
			l.engine.Forget(h.Status.Provisioning.ID)
			if deleted {
				l.gone(name)
				l.tells("DeletedWithoutCleaning")
				return
			}
			if again := l.rests(name, v1alpha1.StateAvailable); again.Status.Provisioning.ID == h.Status.Provisioning.ID {
				t.Error("the host still has the node that is lost")
			}
			if got := l.count(name, "provide"); got != 2 {
				t.Errorf("asked of the machine: %q, want it cleaned", l.effects(name))
			}
		})
	}
}

func TestDeletionGivesUpWhatTheEngineCannotDo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*v1alpha1.BareMetalHost)
		state   v1alpha1.ProvisioningState
		request string
		times   int
		event   string
	}{
		{"demo-deprovisioning-error", withImage, v1alpha1.StateProvisioned, "undeploy", deleteAttempts, "DeletedWithoutCleaning"},
		{"demo-registration-error", nil, v1alpha1.StateRegistering, "delete", 1, "RegistrationError"},
		{"demo-delete-error", nil, v1alpha1.StateAvailable, "delete", 0, "DeleteGaveUp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(tt.name, tt.change)
			l.until(tt.name, "in state "+string(tt.state), func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.Provisioning.State == tt.state && (tt.state != v1alpha1.StateRegistering || h.Status.ErrorType != "")
			})
			l.remove(l.host(tt.name))
			l.gone(tt.name)
			if got := l.count(tt.name, tt.request); got != tt.times {
				t.Errorf("%d requests to %s, want %d: %q", got, tt.request, tt.times, l.effects(tt.name))
			}
			l.tells(tt.event)
		})
	}
}

func TestMachineThatCannotBePoweredOffIsGivenUpAfterSomeErrors(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-power-error"
	l.add(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	l.rests(name, v1alpha1.StateAvailable)
	l.node(name, func(n *provisioner.Node) { n.Power = node.PowerOn })
	before := len(l.effects(name))
	l.remove(l.host(name))
	l.gone(name)
	l.does(name, before, "power off", "power off", "power off", "delete")
	l.tells("PowerManagementError")
}

func TestDiskOfAnExternallyProvisionedHostIsLeftAlone(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	l.rests("web", v1alpha1.StateExternallyProvisioned)
	l.remove(l.host("web"))
	l.gone("web")
	l.does("web", 0, "create", "manage", "adopt", "power off", "delete")
}

func TestExternallyProvisionedHostBecomesOneInUseOrOneToBeCleaned(t *testing.T) {
	l := newLife(t, nil)
	external := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	l.add("kept", external)
	l.add("freed", external)
	for _, name := range []string{"kept", "freed"} {
		l.rests(name, v1alpha1.StateExternallyProvisioned)
	}
	l.edit("kept", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.ExternallyProvisioned = false
	})
	if h := l.rests("kept", v1alpha1.StateProvisioned); h.Status.Provisioning.Image.URL != "https://images/a" || l.count("kept", "deploy")+l.count("kept", "undeploy") != 0 {
		t.Errorf("image %q after %q, want it recorded and nothing deployed", h.Status.Provisioning.Image.URL, l.effects("kept"))
	}
	l.edit("freed", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = false })
	l.rests("freed", v1alpha1.StateAvailable)
	if got := l.count("freed", "undeploy"); got != 1 {
		t.Errorf("%d removals of what was there, want 1", got)
	}
}

// TestOperatorThatIsReplacedBeforeEveryPassRepeatsNothing gives each pass to an operator that
// has just started, as when the leader changes all the time.
func TestOperatorThatIsReplacedBeforeEveryPassRepeatsNothing(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{
		demo.VerbManage: time.Minute, demo.VerbInspect: time.Minute, demo.VerbClean: time.Minute, demo.VerbProvide: time.Minute,
		demo.VerbDeploy: time.Minute, demo.VerbUndeploy: time.Minute, demo.VerbPower: time.Minute,
	}})
	reach := func(what string, is func(*v1alpha1.BareMetalHost) bool) {
		t.Helper()
		for range 2000 {
			if h := l.host("web"); is(h) {
				return
			}
			l.restart()
			l.now = l.now.Add(max(l.pass("web"), time.Second))
		}
		t.Fatalf("host is not %s: %q", what, l.effects("web"))
	}
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	})
	reach("deployed", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == v1alpha1.StateProvisioned })
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	reach("rebooted", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Annotations) == 0 && l.count("web", "power on") == 1
	})
	reach("powered on", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.PoweredOn && l.nodeOf("web").Power == node.PowerOn
	})
	l.remove(l.host("web"))
	reach("gone", func(h *v1alpha1.BareMetalHost) bool { return h == nil })
	l.does("web", 0, "create", "manage", "inspect", "set raid", "clean", "provide", "deploy", "soft power off", "power on", "undeploy", "delete")
}

func TestFreeHostThatSomebodyElseHasDeployedIsAdopted(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	l.rests("web", v1alpha1.StateExternallyProvisioned)
	l.node("web", func(n *provisioner.Node) {
		if n.State != node.Active {
			t.Errorf("the node is in %q, want it active", n.State)
		}
	})
	l.does("web", before, "manage", "adopt")
}

func TestErrorsInTheStatusHaveNoCredentials(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-deprovisioning"
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.rests(name, v1alpha1.StateDeprovisioning)
	l.node(name, func(n *provisioner.Node) {
		n.State, n.LastError, n.StateChangedAt = node.CleanFailed, "get https://user:hunter2@images.example.com/x: "+strings.Repeat("no ", 4096), l.now
		n.Maintenance, n.Fault = true, node.FaultCleanFailure
	})
	h := l.fails(name, v1alpha1.ErrorProvisioning)
	shown := h.Status.ErrorMessage + conditionOf(h.Status.Conditions, v1alpha1.ReadyCondition).Message
	if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "images.example.com") || len(h.Status.ErrorMessage) > 2048 {
		t.Errorf("the host shows %d bytes: %.200q", len(shown), shown)
	}
}

func TestAnnotatingAHostDoesNotCallItsBMCAgain(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.secret("web", demo.WrongPassword)
	h := l.host("web")
	for range passes {
		pause := l.pass("web")
		if h = l.host("web"); h.Status.ErrorType != v1alpha1.ErrorNone {
			break // and the pause after it begins
		}
		l.now = l.now.Add(pause)
	}
	asked := len(l.effects("web"))
	before := h.DeepCopy()
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, "note", "1")
	if err := l.api.Patch(t.Context(), h, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if pause := l.pass("web"); pause < time.Second*10 {
		t.Errorf("the next pass is in %s, want the rest of the pause", pause)
	}
	l.does("web", asked)
}
