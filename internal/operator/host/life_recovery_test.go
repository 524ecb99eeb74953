package host

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

func TestDisksThatAreToStayAreNotCleanedWhenTheEngineForgotSo(t *testing.T) {
	disable := func(h *v1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled }
	undeploy := func(l *life) { l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }) }
	remove := func(l *life) { l.remove(l.host("web")) }
	patch := func(l *life) { l.node("web", func(n *provisioner.Node) { n.SkipsCleaning = false }) }
	for name, tt := range map[string]struct {
		older bool
		leave func(*life)
	}{
		"a person patched the node, removal":              {false, undeploy},
		"a person patched the node, deletion":             {false, remove},
		"the engine was started on an old copy, removal":  {true, undeploy},
		"the engine was started on an old copy, deletion": {true, remove},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			restore := l.engine.Backup()
			l.edit("web", disable)
			l.rests("web", v1alpha1.StateProvisioned)
			if tt.older {
				restore()
			} else {
				patch(l)
			}
			id := l.nodeOf("web").ID
			tt.leave(l)
			l.until("web", "undeployed", func(*v1alpha1.BareMetalHost) bool { return slices.Contains(l.effects("web"), "undeploy") })
			if n, err := l.engine.Node(t.Context(), id); err != nil || !n.SkipsCleaning {
				t.Errorf("undeployed with cleaning, %v", err)
			}
		})
	}
}

func TestNodeOfAnOlderDatabaseGetsTheAddressOfItsBMCAgain(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	restore := l.engine.Backup()
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = movedAddress })
	l.rests("web", v1alpha1.StateAvailable)
	restore()
	before := len(l.engine.Verbs(""))
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.engine.Verbs("")[before:]; !slices.Equal(got, []demo.Verb{demo.VerbUpdate}) {
		t.Fatalf("asked of the engine: %q, want one update", got)
	}
	if got := l.last("web", demo.VerbUpdate).(provisioner.Registration).Access.Address; got != movedAddress {
		t.Errorf("the node has the BMC %q, want the one in the host's spec", got)
	}
}

func TestNodeOfAnOlderDatabaseGetsTheCredentialsOfItsBMCAgain(t *testing.T) {
	touched := func(n *provisioner.Node) {} // which changes its time
	for name, change := range map[string]func(*life){
		"the operator goes on":                func(*life) {},
		"the operator is restarted, too":      (*life).restart,
		"the node has changed in the restore": func(l *life) { l.node("web", touched) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", nil)
			l.rests("web", v1alpha1.StateAvailable)
			restore := l.engine.Backup()
			l.secret("web", "hobbes")
			l.rests("web", v1alpha1.StateAvailable)
			l.now = l.now.Add(time.Minute)
			restore()
			change(l)
			before := len(l.engine.Verbs(""))
			l.rests("web", v1alpha1.StateAvailable)
			if got := l.engine.Verbs("")[before:]; !slices.Equal(got, []demo.Verb{demo.VerbUpdate}) {
				t.Fatalf("asked of the engine: %q, want one update", got)
			}
			if got := l.last("web", demo.VerbUpdate).(provisioner.Registration).Credentials.Password; got != "hobbes" {
				t.Errorf("the node has the password %q, want the one in the Secret", got)
			}
		})
	}
}

func TestNodeOfAnEarlierVersionGetsItsCredentialsOnce(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	l.node("web", func(n *provisioner.Node) { n.CredentialsVersion = "" })
	l.restart()
	before := len(l.engine.Verbs(""))
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.engine.Verbs("")[before:]; !slices.Equal(got, []demo.Verb{demo.VerbUpdate}) {
		t.Errorf("asked of the engine: %q, want one update", got)
	}
}

func TestStepsRunAgainWhenTheEngineForgotThem(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbClean: 5 * time.Minute},
	})
	l.restart()
	raid := &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = raid })
	l.until("web", "about to be configured", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Request == askClean })
	restore := l.engine.Backup()
	l.until("web", "configured", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Operation.Accepted && l.count("web", "clean") == 1
	})
	restore()
	l.until("web", "configured again", func(h *v1alpha1.BareMetalHost) bool { return l.count("web", "clean") == 2 })
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.count("web", "clean"); got != 2 {
		t.Errorf("%d times configured, want 2", got)
	}
}

// TestDeploymentThatTheEngineForgotIsRemovedAndCleaned starts the engine on an older database, in
// which the node is still free.
func TestDeploymentThatTheEngineForgotIsRemovedAndCleaned(t *testing.T) {
	rests := func(state v1alpha1.ProvisioningState) func(*life) {
		return func(l *life) { l.rests("web", state) }
	}
	removal := func(l *life) { l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }) }
	rebuild := func(l *life) { l.annotate("web", v1alpha1.RebuildAnnotation, "") }
	deletion := func(l *life) { l.remove(l.host("web")) }
	for name, tt := range map[string]struct {
		plain      bool // without a BMC
		leave, end func(*life)
	}{
		"removal":             {false, removal, rests(v1alpha1.StateAvailable)},
		"removal without BMC": {true, removal, rests(v1alpha1.StateAvailable)},
		"deployed anew":       {false, rebuild, rests(v1alpha1.StateProvisioned)},
		"anew, without BMC":   {true, rebuild, rests(v1alpha1.StateProvisioned)},
		"deletion":            {false, deletion, func(l *life) { l.gone("web") }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			if tt.plain {
				l.boot("web")
				l.addPlain("web", func(h *v1alpha1.BareMetalHost) {
					h.Spec.BootMACAddress = demo.SampleInventory("web").Hardware.Interfaces[0].MACAddress
				})
			} else {
				l.add("web", nil)
			}
			l.rests("web", v1alpha1.StateAvailable)
			restore := l.engine.Backup()
			l.edit("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			restore()
			before := len(l.engine.Verbs(""))
			sent := func() []demo.Verb {
				return slices.DeleteFunc(l.verbs(before), func(v demo.Verb) bool {
					return v != demo.VerbManage && v != demo.VerbAdopt && v != demo.VerbProvide && v != demo.VerbUndeploy
				})
			}
			tt.leave(l)
			l.until("web", "removed", func(h *v1alpha1.BareMetalHost) bool { return h == nil || slices.Contains(sent(), demo.VerbUndeploy) })
			tt.end(l)
			if got := sent(); !slices.Equal(got, []demo.Verb{demo.VerbManage, demo.VerbAdopt, demo.VerbUndeploy}) {
				t.Errorf("sent %q, want the machine adopted, and the deployment removed once", got)
			}
		})
	}
}

// moved is the node of a host in another state.
func (l *life) moved(name string, state node.State) {
	l.Helper()
	l.node(name, func(n *provisioner.Node) { n.State, n.StateChangedAt = state, l.now })
}

func TestStatusNamesTheMethodThatWasDeployedAndNotTheOneThatIsAskedFor(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: 5 * time.Minute},
	})
	l.restart()
	method := func(name string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: name} }
	}
	l.add("web", method("m1"))
	l.until("web", "being deployed", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "deploy") == 1 })
	l.moved("web", node.Deploying) // where it cannot be interrupted
	l.edit("web", method("m2"))
	l.now = l.now.Add(l.pass("web"))
	l.moved("web", node.Active)
	h := l.until("web", "provisioned", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == v1alpha1.StateProvisioned })
	if got := deployMethod(h.Status.Provisioning.CustomDeploy); got != "m1" {
		t.Errorf("the status says that %q runs, want m1", got)
	}
	l.until("web", "being deployed anew", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "deploy") == 2 })
	h = l.rests("web", v1alpha1.StateProvisioned)
	got, sent := deployMethod(h.Status.Provisioning.CustomDeploy), l.last("web", demo.VerbDeploy).(provisioner.Deployment).Step
	if got != "m2" || sent != "m2" {
		t.Errorf("deployed %q, and the status says %q, want m2", sent, got)
	}
}

func TestStepsThatHaveRunAreRecordedAlsoWhenOthersAreAskedForByThen(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbClean: 5 * time.Minute},
	})
	l.restart()
	settings := &v1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", UID: "s1"}}
	ask := func(timeout int32) {
		settings.Generation++
		settings.Spec.Settings = map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(timeout)}
		settings.Status.Conditions = nil
		for _, kind := range []string{v1alpha1.ValidCondition, v1alpha1.ChangeDetectedCondition} {
			settings.Status.Conditions = append(settings.Status.Conditions,
				metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: settings.Generation})
		}
	}
	ask(9)
	l.create(settings)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	})
	l.until("web", "being configured", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Operation.Accepted && l.count("web", "clean") == 1
	})
	l.moved("web", node.Cleaning) // where it cannot be interrupted
	ask(7)
	if err := l.api.Update(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	l.now = l.now.Add(l.pass("web"))
	l.moved("web", node.Manageable)
	h := l.until("web", "being configured again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "clean") == 2 })
	if h.Status.Provisioning.RAID == nil || h.Status.Updates.Settings.Applied != 1 || h.Status.Updates.Settings.Requested != 2 {
		t.Errorf("volumes %v and settings %+v, want what was made, and that the newer settings are asked for", h.Status.Provisioning.RAID, h.Status.Updates.Settings)
	}
	if steps := l.last("web", demo.VerbClean).(demo.Steps); len(steps) != 1 || steps[0].Interface != "bios" {
		t.Errorf("the other steps are %+v, want the settings alone", steps)
	}
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.count("web", "clean"); got != 2 {
		t.Errorf("%d times configured, want 2", got)
	}
}

func TestRestoredHoldIsNoProofThatTheMachineIsOff(t *testing.T) {
	l := newLife(t, nil)
	const fence = v1alpha1.RebootAnnotationPrefix + "fence"
	at := metav1.NewTime(testNow.Add(-240 * time.Hour))
	status, err := json.Marshal(v1alpha1.BareMetalHostStatus{
		OperationalStatus: v1alpha1.OperationalStatusOK, HardwareDetails: &v1alpha1.HardwareDetails{},
		Provisioning:  v1alpha1.ProvisionStatus{State: v1alpha1.StateProvisioned, ID: "0d3a1d59-1c1b-4f53-8f1f-2f1f0e1d2c3b", Image: *testImage("a")},
		PowerOffHolds: []v1alpha1.PowerOffHold{{Key: fence, Value: "1", RequestedAt: at, ConfirmedAt: &at}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: string(status), fence: "1"}
	})
	l.until("web", "held", func(h *v1alpha1.BareMetalHost) bool {
		confirmed := slices.ContainsFunc(h.Status.PowerOffHolds, func(hold v1alpha1.PowerOffHold) bool { return hold.ConfirmedAt != nil })
		if id := h.Status.Provisioning.ID; confirmed && (id == "" || l.nodeOf("web").Power != node.PowerOff) {
			t.Fatalf("a hold is confirmed, and node %q was not seen off", id)
		}
		return confirmed
	})
}

func TestHostSaysWhatTheAPIServerRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		refused client.Object
		until   v1alpha1.ProvisioningState
		change  func(*life)
		after   func(*life)
	}{
		"the claim of the Secret": {refused: &corev1.Secret{}, after: func(l *life) { l.rests("web", v1alpha1.StateAvailable) }},
		"new HardwareData":        {refused: &v1alpha1.HardwareData{}, after: func(l *life) { l.rests("web", v1alpha1.StateAvailable) }},
		"the end of HardwareData": {
			refused: &v1alpha1.HardwareData{}, until: v1alpha1.StateAvailable,
			change: func(l *life) { l.remove(l.host("web")) }, after: func(l *life) { l.gone("web") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			on := tt.until == ""
			refusal := func(obj client.Object) error {
				if on && reflect.TypeOf(obj) == reflect.TypeOf(tt.refused) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, obj.GetName(), errors.New("exceeded quota"))
				}
				return nil
			}
			l := newLife(t, func(c *Config) {
				c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
						if err := refusal(obj); err != nil {
							return err
						}
						return c.Create(ctx, obj, opts...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
						if err := refusal(obj); err != nil {
							return err
						}
						return c.Patch(ctx, obj, patch, opts...)
					},
				})
			})
			l.add("web", nil)
			if !on {
				l.rests("web", tt.until)
				tt.change(l)
				on = true
			}
			var err error
			for range passes {
				var res ctrl.Result
				if res, err = l.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal", Name: "web"}}); err != nil {
					break
				}
				l.now = l.now.Add(res.RequeueAfter)
			}
			h := l.host("web")
			if says := conditionOf(h.Status.Conditions, v1alpha1.ProgressingCondition).Message; err == nil || !strings.Contains(says, "exceeded quota") {
				t.Fatalf("error %v, and Progressing says %q, want the refusal in both", err, says)
			}
			if _, err := l.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)}); err == nil || l.host("web").ResourceVersion != h.ResourceVersion {
				t.Errorf("error %v, and a host in version %s instead of %s, want the error alone", err, l.host("web").ResourceVersion, h.ResourceVersion)
			}
			on = false
			tt.after(l)
		})
	}
}

func TestOutageOfTheEngineNeitherCountsAFailureAgainNorPostponesItsRetry(t *testing.T) {
	const name = "demo-inspection-error"
	l := newLife(t, nil)
	l.add(name, nil)
	failed := l.fails(name, v1alpha1.ErrorInspection).Status.Operation
	l.engine.SetDown("no route")
	for range 3 {
		l.now = l.now.Add(min(l.pass(name), 10*time.Second))
	}
	l.says(name, v1alpha1.ManageableCondition, metav1.ConditionUnknown, v1alpha1.EngineUnreachableReason)
	l.engine.SetDown("")
	l.pass(name)
	if h := l.host(name); h.Status.ErrorCount != 1 || h.Status.Operation.Failures != 1 || !h.Status.Operation.FailedAt.Equal(failed.FailedAt) {
		t.Errorf("%d errors and the record %+v after the outage, want one and %+v", h.Status.ErrorCount, h.Status.Operation, failed)
	}
	again := l.until(name, "failed again", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Failures == 2 })
	if got := l.count(name, "inspect"); got != 2 {
		t.Errorf("%d inspections, want two", got)
	}
	due := failed.FailedAt.Add(requeue.Backoff(1, 30*time.Minute, string(again.UID)))
	if late := again.Status.Operation.FailedAt.Sub(due); late > workPoll+time.Minute/2 {
		t.Errorf("tried again %s after it was due", late)
	}
}
