package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// unserviced is an engine that refuses to service nodes.
type unserviced struct{ *demo.Engine }

func (unserviced) Service(context.Context, string, []node.Step) error {
	return errors.New("the boot interface cannot start a ramdisk")
}

// TestMachineIsPoweredOnBetweenRefusedUpdates brings a host online whose update the engine refuses.
func TestMachineIsPoweredOnBetweenRefusedUpdates(t *testing.T) {
	l := newLife(t, nil)
	l.change = func(c *Config) { c.Engine = unserviced{l.engine} }
	l.restart()
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	l.powered("web", false)
	l.update("web")
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = true })
	l.fails("web", v1alpha1.ErrorServicing)
	refused := l.now
	l.until("web", "powered on", func(*v1alpha1.BareMetalHost) bool { return l.nodeOf("web").Power == node.PowerOn })
	if off := l.now.Sub(refused); off > 30*time.Second {
		t.Errorf("the machine is off for %s after the refusal", off)
	}
}

// TestFailureOfAnUpdateIsNoFailureOfThePower has a host whose update fails and is tried again. The
// engine goes on showing why the update failed when the machine is in use again.
func TestFailureOfAnUpdateIsNoFailureOfThePower(t *testing.T) {
	l := newUpdate(t, time.Hour)
	l.until("web", "updated once", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 1 })
	l.node("web", func(n *provisioner.Node) {
		n.State, n.StateChangedAt, n.Power, n.LastError = node.ServiceFailed, l.now, node.PowerOn, "the BMC refuses it"
	})
	l.fails("web", v1alpha1.ErrorServicing)
	l.until("web", "updated again", func(h *v1alpha1.BareMetalHost) bool {
		if h.Status.ErrorType == v1alpha1.ErrorPowerManagement {
			t.Fatalf("the host shows %s: %s", h.Status.ErrorType, h.Status.ErrorMessage)
		}
		return l.count("web", askService) == 2
	})
}

func TestADetachedHostDoesNotAdviseToRestartItForAnUpdate(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.update("web")
	l.rests("web", v1alpha1.StateProvisioned)
	l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, v1alpha1.UpdateWaitingForRebootReason)
	l.detach("web")
	l.pass("web")
	l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, v1alpha1.UpdateHostDetachedReason)
}

// TestFirmwareThatAnotherOperatorHasWrittenIsNotWrittenAgain asks for the firmware of one more
// component, on a machine in use and on a free one.
func TestFirmwareThatAnotherOperatorHasWrittenIsNotWrittenAgain(t *testing.T) {
	there, fresh := v1alpha1.FirmwareUpdate{Component: "bios", URL: "https://images/bios"}, v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc-2"}
	for verb, tt := range map[demo.Verb]struct {
		change func(*v1alpha1.BareMetalHost)
		state  v1alpha1.ProvisioningState
	}{
		demo.VerbService: {withImage, v1alpha1.StateProvisioned}, demo.VerbClean: {nil, v1alpha1.StateAvailable},
	} {
		t.Run(string(verb), func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.change)
			l.rests("web", tt.state)
			firmware := componentsObject(4, []v1alpha1.FirmwareUpdate{there}, there, fresh)
			firmware.Namespace = "metal"
			l.create(firmware)
			policy := &v1alpha1.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}}
			policy.Spec.FirmwareUpdates = v1alpha1.UpdateOnReboot
			l.create(policy)
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			h := l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Components.Applied == 4 })
			want := demo.Steps(provisioner.FirmwareSteps([]provisioner.FirmwareUpdate{{Component: fresh.Component, URL: fresh.URL}}))
			if diff := cmp.Diff(any(want), l.last("web", verb)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if got := h.Status.Updates.Written; len(got) != 2 {
				t.Errorf("records of what was written: %v", got)
			}
		})
	}
}

// TestFirmwareOfAnUpdateThatADeploymentTookAlongIsWritten removes the deployment while its update
// does not run: the first attempt has failed, and the second one was aborted for other firmware.
func TestFirmwareOfAnUpdateThatADeploymentTookAlongIsWritten(t *testing.T) {
	first, other := v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc"}, v1alpha1.FirmwareUpdate{Component: "bios", URL: "https://images/bios"}
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbService: time.Hour}})
	l.restart()
	applied := func(generation int64) {
		l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Components.Applied == generation })
	}
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.update("web")
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	l.until("web", "updated once", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 1 })
	l.now = l.now.Add(l.pass("web"))
	l.node("web", func(n *provisioner.Node) {
		n.State, n.StateChangedAt, n.LastError = node.ServiceFailed, l.now, "the BMC refuses it"
	})
	l.fails("web", v1alpha1.ErrorServicing)
	l.until("web", "updated again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 2 })
	l.now = l.now.Add(l.pass("web"))
	l.node("web", func(n *provisioner.Node) { n.State, n.StateChangedAt, n.Step = node.ServiceWait, l.now, "" })
	l.pass("web")
	if got := l.firmware("web").Status.Updates; !slices.Equal(got, []v1alpha1.FirmwareUpdate{first}) {
		t.Fatalf("updates that are shown: %v, want those of the attempt", got)
	}

	l.asks("web", 5, other)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	l.until("web", "free of the update", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Service.Request == "" })
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	applied(5)
	l.asks("web", 6, first)
	applied(6)
	want := demo.Steps(provisioner.FirmwareSteps([]provisioner.FirmwareUpdate{{Component: first.Component, URL: first.URL}}))
	if diff := cmp.Diff(any(want), l.last("web", demo.VerbClean)); diff != "" {
		t.Errorf("steps that were asked for last (-want +got):\n%s", diff)
	}
}

func TestUpdateIsNoSuccessWhoseAbortHadNoAnswer(t *testing.T) {
	other := v1alpha1.FirmwareUpdate{Component: "bios", URL: "https://images/bios"}
	l := newUpdate(t, time.Hour)
	l.change = func(c *Config) { c.Engine = lostAnswers{l.engine} }
	l.restart()
	l.until("web", "updated", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 1 })
	l.now = l.now.Add(l.pass("web"))
	l.node("web", func(n *provisioner.Node) { n.Step = "" }) // between two steps
	l.asks("web", 5, other)
	h := l.until("web", "updated again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 2 })
	if slices.Contains(l.events.reasons, eventServicingComplete) || len(h.Status.Updates.Written) > 0 {
		t.Errorf("events %q, written %v; want an update that was aborted", l.events.reasons, h.Status.Updates.Written)
	}
}

// newUpdate is a host in use that is about to get firmware from an engine that needs some time for
// that.
func newUpdate(t *testing.T, takes time.Duration) *life {
	t.Helper()
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbService: takes}})
	l.restart()
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.update("web")
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	return l
}

// TestUpdateIsAbortedAlsoWhenTheEngineGoesOnWithItFirst has an engine that is back at work between
// the pass that records the abort and the pass that would send it.
func TestUpdateIsAbortedAlsoWhenTheEngineGoesOnWithItFirst(t *testing.T) {
	l := newUpdate(t, 10*time.Hour)
	l.until("web", "updated", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askService) == 1 })
	l.now = l.now.Add(l.pass("web"))
	l.node("web", func(n *provisioner.Node) { n.State, n.Step = node.ServiceWait, "" })
	l.asks("web", 5, v1alpha1.FirmwareUpdate{Component: "bios", URL: "https://images/bios"})
	l.until("web", "to be aborted", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Service.Request == askAbort })
	l.node("web", func(n *provisioner.Node) { n.State = node.Servicing })
	l.now = l.now.Add(l.pass("web"))
	l.node("web", func(n *provisioner.Node) { n.State = node.ServiceWait })
	began := l.now
	l.until("web", "aborted", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askAbort) == 1 })
	if took := l.now.Sub(began); took > time.Hour {
		t.Errorf("aborted after %s", took)
	}
}

// TestUpdateGoesOnWhenItsHostIsMoved has a HostFirmwareComponents with another UID, as every object
// gets in the new cluster.
func TestUpdateGoesOnWhenItsHostIsMoved(t *testing.T) {
	l := newUpdate(t, 5*time.Minute)
	h := l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool {
		return l.count("web", askService) == 1 && h.Status.Updates.Components.Requested != 0
	})
	status, err := json.Marshal(h.Status)
	if err != nil {
		t.Fatal(err)
	}
	firmware := l.firmware("web")
	l.remove(firmware)
	moved := componentsObject(1, nil, firmware.Spec.Updates...)
	moved.Name, moved.Namespace, moved.UID = "web", "metal", "other"
	l.create(moved)
	l.node("web", func(n *provisioner.Node) { n.GuardsFirmware = true }) // so that an abort would be asked for
	l.arrives("web", string(status))
	l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.LastUpdated != nil && h.Status.Updates.Service.Request != askService
	})
	l.reboots("web") // with an object that says that its change is still to be applied
	if asked, aborted := l.count("web", askService), l.count("web", askAbort); asked != 1 || aborted != 0 {
		t.Errorf("%d updates and %d aborts, want the one that ran", asked, aborted)
	}
}

// arrives lets a host begin with a status in its annotation, as in the cluster to which it was moved.
func (l *life) arrives(name, status string) {
	l.Helper()
	l.status(name, func(s *v1alpha1.BareMetalHostStatus) { *s = v1alpha1.BareMetalHostStatus{} })
	l.annotate(name, v1alpha1.StatusAnnotation, status)
	l.restart()
}

// ignoresSettings is an engine whose machines keep their boot timeout.
type ignoresSettings struct{ *demo.Engine }

func (ignoresSettings) Settings(context.Context, string) ([]provisioner.Setting, error) {
	return []provisioner.Setting{{Name: "BootTimeout", Value: "5"}}, nil
}

// TestSettingsThatAMachineDoesNotTakeAreAppliedOnceAlsoWhenItsHostIsMoved moves a host whose
// HostFirmwareSettings goes on showing a difference: while it is in use or free, while its update
// runs, and while it is prepared, which ends during the move. After that, another value is asked
// for.
func TestSettingsThatAMachineDoesNotTakeAreAppliedOnceAlsoWhenItsHostIsMoved(t *testing.T) {
	known := func(status string) string { return status }
	for name, tt := range map[string]struct {
		image   func(*v1alpha1.BareMetalHost)
		state   v1alpha1.ProvisioningState
		running bool
		moves   time.Duration
		status  func(string) string
		verb    string
		want    int // how often the settings are applied until another value is asked for
	}{
		"in use":         {withImage, v1alpha1.StateProvisioned, false, 0, known, askService, 1},
		"being updated":  {withImage, v1alpha1.StateProvisioned, true, 0, known, askService, 1},
		"free":           {nil, v1alpha1.StateAvailable, false, 0, known, askClean, 1},
		"being prepared": {nil, v1alpha1.StateAvailable, true, time.Hour, known, askClean, 1},
		"in use, with a status of an earlier version": {
			withImage, v1alpha1.StateProvisioned, false, 0,
			func(status string) string { return strings.ReplaceAll(status, "Digest", "OfAnotherName") }, askService, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, func(c *Config) { c.Engine = ignoresSettings{c.Engine.(*demo.Engine)} })
			l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbService: 5 * time.Minute, demo.VerbClean: 5 * time.Minute}})
			l.restart()
			l.add("web", tt.image)
			l.rests("web", tt.state)
			policy := &v1alpha1.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}}
			policy.Spec.FirmwareSettings = v1alpha1.UpdateOnReboot
			l.create(policy)
			l.timeouts("web")
			l.judged("web", true, true)
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			l.until("web", "being given its settings", func(h *v1alpha1.BareMetalHost) bool {
				return l.count("web", tt.verb) == 1 && h.Status.Updates.Settings.Requested == 1
			})
			updated := func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.Provisioning.State == tt.state && h.Status.Updates.Service.Request == "" && h.Status.Updates.Settings.Requested == 0
			}
			if !tt.running {
				l.until("web", "given its settings", updated)
			}

			status, err := json.Marshal(l.host("web").Status)
			if err != nil {
				t.Fatal(err)
			}
			settings := &v1alpha1.HostFirmwareSettings{}
			if err := l.api.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "web"}, settings); err != nil {
				t.Fatal(err)
			}
			l.remove(settings)
			settings.ResourceVersion, settings.UID, settings.Generation = "", "other", 7
			settings.Status.Conditions = comparedAt(7, true)
			l.create(settings)
			l.now = l.now.Add(tt.moves)
			l.arrives("web", tt.status(string(status)))
			l.until("web", "given its settings here", updated)
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			l.until("web", "restarted", func(h *v1alpha1.BareMetalHost) bool {
				_, asked := h.Annotations[v1alpha1.RebootAnnotation]
				return !asked && updated(h)
			})
			l.rests("web", tt.state)
			if got := l.count("web", tt.verb); got != tt.want {
				t.Errorf("the settings were applied %d times, want %d", got, tt.want)
			}
			l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionFalse, v1alpha1.UpToDateReason)

			settings.Spec.Settings["BootTimeout"] = intstr.FromInt32(11)
			settings.Generation, settings.Status.Conditions = 8, comparedAt(8, true)
			if err := l.api.Update(t.Context(), settings); err != nil {
				t.Fatal(err)
			}
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			l.until("web", "given another value", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Settings.Applied == 8 })
			if got := l.count("web", tt.verb); got != tt.want+1 {
				t.Errorf("the settings were applied %d times, want %d", got, tt.want+1)
			}
		})
	}
}

func TestHostWhoseNodeIsInMaintenanceIsOnlyRestarted(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.node("web", func(n *provisioner.Node) { n.Maintenance, n.MaintenanceReason = true, "new power supply" })
	l.update("web")
	before := len(l.effects("web"))
	l.reboots("web")
	l.does("web", before, "soft power off", "power on")
	l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, v1alpha1.UpdateNodeInMaintenanceReason)
	if c := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason); !strings.Contains(c.Message, "new power supply") {
		t.Errorf("message %q, want one about the maintenance", c.Message)
	}
}

// TestMaintenanceThatTheEngineHasLeftEndsWithTheNextUpdate has a node after another client has
// aborted its failed service.
func TestMaintenanceThatTheEngineHasLeftEndsWithTheNextUpdate(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.node("web", func(n *provisioner.Node) { n.Maintenance, n.Fault = true, node.FaultServiceFailure })
	l.update("web")
	before := len(l.effects("web"))
	l.reboots("web")
	l.does("web", before, "soft power off", "maintenance", "service")
}

// TestRestartThatAPolicyDemandsIsKeptWhileTheHostIsHeldOff asks for the restart while the machine
// is off already. In one case the passes do not get as far as the update.
func TestRestartThatAPolicyDemandsIsKeptWhileTheHostIsHeldOff(t *testing.T) {
	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	for name, tt := range map[string]struct {
		off, on func(*v1alpha1.BareMetalHost)
		secret  string // that the host names meanwhile
	}{
		"by an annotation": {
			off: func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, hold, "") },
			on:  func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, hold) }, secret: "web-bmc",
		},
		"by an annotation, without its Secret": {
			off:    func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, hold, "") },
			on:     func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, hold) },
			secret: "missing",
		},
		"by its spec": {
			off: func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false },
			on:  func(h *v1alpha1.BareMetalHost) { h.Spec.Online = true }, secret: "web-bmc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			l.update("web")
			policy := &v1alpha1.HostUpdatePolicy{}
			if err := l.api.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "web"}, policy); err != nil {
				t.Fatal(err)
			}
			metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.RequireAnnotationAnnotation, "")
			if err := l.api.Update(t.Context(), policy); err != nil {
				t.Fatal(err)
			}
			before := len(l.effects("web"))
			l.edit("web", tt.off)
			l.powered("web", false)
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = tt.secret })
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			for range 5 {
				l.now = l.now.Add(l.pass("web"))
			}
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "web-bmc" })
			l.rests("web", v1alpha1.StateProvisioned)
			l.edit("web", tt.on)
			l.powered("web", true)
			l.does("web", before, "soft power off", "service")
		})
	}
}
