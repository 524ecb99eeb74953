package host

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// observedEngine is an engine that calls observe before each request that may power a machine on.
type observedEngine struct {
	*demo.Engine

	observe func(request string)
}

func (w observedEngine) SetPower(ctx context.Context, id string, c provisioner.PowerChange) error {
	if c.Action != provisioner.PowerActionOff && c.Action != provisioner.PowerActionSoftOff {
		w.observe(string(c.Action))
	}
	return w.Engine.SetPower(ctx, id, c)
}

func (w observedEngine) Manage(ctx context.Context, id string) error {
	w.observe(askManage)
	return w.Engine.Manage(ctx, id)
}

func (w observedEngine) Inspect(ctx context.Context, id string) error {
	w.observe(askInspect)
	return w.Engine.Inspect(ctx, id)
}

func (w observedEngine) Deploy(ctx context.Context, id string, d provisioner.Deployment) error {
	w.observe(askDeploy)
	return w.Engine.Deploy(ctx, id, d)
}

func (w observedEngine) Undeploy(ctx context.Context, id string) error {
	w.observe(askUndeploy)
	return w.Engine.Undeploy(ctx, id)
}

func (w observedEngine) Service(ctx context.Context, id string, steps []node.Step) error {
	w.observe(askService)
	return w.Engine.Service(ctx, id, steps)
}

func (w observedEngine) Delete(ctx context.Context, id string, mark provisioner.Mark) error {
	w.observe("delete")
	return w.Engine.Delete(ctx, id, mark)
}

// update makes an object ask for firmware for a host in use, and a policy that allows it.
func (l *life) update(name string) {
	l.Helper()
	firmware := componentsObject(4, nil, v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc"})
	firmware.Name, firmware.Namespace = name, "metal"
	l.create(firmware)
	policy := &v1alpha1.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metal"}}
	policy.Spec.FirmwareUpdates = v1alpha1.UpdateOnReboot
	l.create(policy)
}

// firmware reads the object that asks for firmware for a host.
func (l *life) firmware(name string) *v1alpha1.HostFirmwareComponents {
	l.Helper()
	found := &v1alpha1.HostFirmwareComponents{}
	if err := l.api.Get(l.Context(), client.ObjectKey{Namespace: "metal", Name: name}, found); err != nil {
		l.Fatal(err)
	}
	return found
}

// asks makes that object ask for something else, which differs from what the machine has.
func (l *life) asks(name string, generation int64, updates ...v1alpha1.FirmwareUpdate) {
	l.Helper()
	changed := l.firmware(name)
	changed.Generation, changed.Spec.Updates = generation, updates
	if err := l.api.Update(l.Context(), changed); err != nil {
		l.Fatal(err)
	}
	changed.Status.Conditions = comparedAt(generation, true)
	if err := l.api.Status().Update(l.Context(), changed); err != nil {
		l.Fatal(err)
	}
}

// TestNoRecordOfAHoldIsStoredWhenAMachineIsPoweredOn holds a host off. Then it asks for something
// that powers the machine on, or that leaves the machine to others.
func TestNoRecordOfAHoldIsStoredWhenAMachineIsPoweredOn(t *testing.T) {
	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	freed := func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }
	for name, tt := range map[string]struct {
		image   bool
		then    func(*v1alpha1.BareMetalHost)
		live    bool
		request string
	}{
		"the hold ends":               {true, freed, false, "power on"},
		"it must not be off any more": {true, func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true }, false, "power on"},
		"it must not be off, and restarted": {true, func(h *v1alpha1.BareMetalHost) {
			h.Spec.DisablePowerOff, h.Annotations[v1alpha1.RebootAnnotation] = true, ""
		}, false, "soft rebooting"},
		"a live update":   {true, freed, true, askService},
		"another image":   {true, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") }, false, askUndeploy},
		"removed":         {true, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }, false, askUndeploy},
		"detached":        {true, detached(""), false, "delete"},
		"deployed":        {false, func(h *v1alpha1.BareMetalHost) { freed(h); withImage(h) }, false, askDeploy},
		"inspected again": {false, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.InspectAnnotation: ""} }, false, askInspect},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			state := v1alpha1.StateAvailable
			l.add("web", func(h *v1alpha1.BareMetalHost) {
				if tt.image {
					withImage(h)
					state = v1alpha1.StateProvisioned
				}
			})
			l.rests("web", state)
			l.annotate("web", hold, "1")
			l.until("web", "held off", func(h *v1alpha1.BareMetalHost) bool {
				return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil
			})
			asked := map[string]bool{}
			l.change = func(c *Config) {
				c.Engine = observedEngine{l.engine, func(request string) {
					asked[request] = true
					if h := l.host("web"); len(h.Status.PowerOffHolds) > 0 {
						t.Errorf("%s, while the status has %+v", request, h.Status.PowerOffHolds)
					}
				}}
			}
			l.restart()
			if tt.live {
				l.update("web")
			}
			l.edit("web", tt.then)
			l.until("web", "asked to "+tt.request, func(*v1alpha1.BareMetalHost) bool { return asked[tt.request] })
		})
	}
}

// write is a write of the operator. status is true for a write of a status.
type write struct {
	obj    client.Object
	status bool
}

// refusing has the API server refuse the writes for which a function says so, as it does when
// somebody else was faster.
func (l *life) refusing(refuses func(write) bool) {
	refuse := func(obj client.Object, status bool) error {
		if refuses(write{obj, status}) {
			return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errTest)
		}
		return nil
	}
	api := interceptor.NewClient(l.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			if err := refuse(obj, false); err != nil {
				return err
			}
			return c.Create(ctx, obj, o...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if err := refuse(obj, false); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, o...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			if err := refuse(obj, true); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, p, o...)
		},
	})
	l.change = func(c *Config) { c.Client = api }
	l.restart()
}

// TestRequestIsFulfilledOnceAlsoWhenItsAnnotationStays refuses the first write that removes the
// annotation of a request.
func TestRequestIsFulfilledOnceAlsoWhenItsAnnotationStays(t *testing.T) {
	for name, tt := range map[string]struct {
		before, then func(*v1alpha1.BareMetalHost)
		key          string
		state        v1alpha1.ProvisioningState
		want         []string
	}{
		"inspection":                         {nil, nil, v1alpha1.InspectAnnotation, v1alpha1.StateAvailable, []string{"manage", "inspect", "provide", "power on"}},
		"deployment anew":                    {withImage, nil, v1alpha1.RebuildAnnotation, v1alpha1.StateProvisioned, []string{"undeploy", "deploy"}},
		"deployment anew of a free host":     {nil, withImage, v1alpha1.RebuildAnnotation, v1alpha1.StateProvisioned, []string{"deploy"}},
		"restart of a host that is deployed": {nil, withImage, v1alpha1.RebootAnnotation, v1alpha1.StateProvisioned, []string{"deploy"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.before)
			state := v1alpha1.StateAvailable
			if l.host("web").Spec.Image != nil {
				state = v1alpha1.StateProvisioned
			}
			l.rests("web", state)
			before, refused := len(l.effects("web")), 0
			l.refusing(func(w write) bool {
				_, asked := w.obj.GetAnnotations()[tt.key]
				if w.status || asked || refused > 0 {
					return false
				}
				refused++
				return true
			})
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				h.Annotations = map[string]string{tt.key: ""}
				if tt.then != nil {
					tt.then(h)
				}
			})
			l.until("web", "without its annotation", func(h *v1alpha1.BareMetalHost) bool { return len(h.Annotations) == 0 })
			l.rests("web", tt.state)
			l.does("web", before, tt.want...)
			if refused != 1 {
				t.Errorf("%d writes were refused, want one", refused)
			}
		})
	}
}

// slowLife is a life whose engine shows that it is at work.
func slowLife(tb testing.TB) *life {
	tb.Helper()
	l := newLife(tb, nil)
	durations := map[demo.Verb]time.Duration{}
	for _, verb := range []demo.Verb{
		demo.VerbManage, demo.VerbInspect, demo.VerbClean, demo.VerbProvide, demo.VerbDeploy, demo.VerbUndeploy, demo.VerbService, demo.VerbPower,
	} {
		durations[verb] = 5 * time.Second
	}
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: durations})
	l.restart()
	return l
}

// TestMachineThatMustNotBeOffIsRestartedOnce refuses each write of the operator once, one write in
// each run.
func TestMachineThatMustNotBeOffIsRestartedOnce(t *testing.T) {
	for refused := 1; ; refused++ {
		l := slowLife(t)
		l.add("web", func(h *v1alpha1.BareMetalHost) {
			withImage(h)
			h.Spec.DisablePowerOff = true
		})
		l.rests("web", v1alpha1.StateProvisioned)
		before, writes := len(l.effects("web")), 0
		l.refusing(func(write) bool {
			writes++
			return writes == refused
		})
		for _, mode := range []string{"", `{"mode":"hard"}`} {
			l.annotate("web", v1alpha1.RebootAnnotation, mode)
			l.until("web", "restarted", func(h *v1alpha1.BareMetalHost) bool {
				return len(h.Annotations) == 0 && h.Status.Operation.Request == ""
			})
		}
		l.does("web", before, "soft rebooting", "rebooting")
		if writes < refused {
			return // there is no other write
		}
	}
}

// wholeLife takes a host through all that its machine can be asked for, from its registration to
// its deletion.
func (l *life) wholeLife(name string) {
	l.Helper()
	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	firmware := componentsObject(1, nil, v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc-1"})
	firmware.Name, firmware.Namespace = name, "metal"
	l.create(firmware)
	l.add(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	})
	l.rests(name, v1alpha1.StateAvailable)
	l.edit(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	l.annotate(name, hold, "1")
	l.until(name, "held off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil
	})
	l.asks(name, 2, v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc-2"})
	policy := &v1alpha1.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metal"}}
	policy.Spec.FirmwareUpdates = v1alpha1.UpdateOnReboot
	l.create(policy)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	l.until(name, "updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Components.Applied == 2 })
	l.rests(name, v1alpha1.StateProvisioned)
	l.annotate(name, v1alpha1.RebuildAnnotation, "")
	l.until(name, "deployed anew", func(h *v1alpha1.BareMetalHost) bool {
		return l.count(name, "deploy") == 2 && h.Status.Provisioning.State == v1alpha1.StateProvisioned
	})
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.rests(name, v1alpha1.StateAvailable)
	l.annotate(name, v1alpha1.InspectAnnotation, "")
	l.until(name, "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "inspect") == 2 })
	l.rests(name, v1alpha1.StateAvailable)
	l.edit(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	l.remove(l.host(name))
	l.gone(name)
}

// TestNothingIsDoneTwiceWhenEveryWriteConflictsOnce refuses the first write of each version of each
// object, as if somebody else had been faster.
func TestNothingIsDoneTwiceWhenEveryWriteConflictsOnce(t *testing.T) {
	lived := func(conflicts bool) (effects []string, refused int) {
		l, tried := slowLife(t), map[string]bool{}
		l.refusing(func(w write) bool {
			version := fmt.Sprintf("%T %s %s %t", w.obj, w.obj.GetName(), w.obj.GetResourceVersion(), w.status)
			refuses := conflicts && !tried[version]
			if tried[version] = true; refuses {
				refused++
			}
			return refuses
		})
		l.wholeLife("web")
		return slices.CompactFunc(l.effects("web"), func(a, b string) bool { return a == b && a == "soft power off" }), refused
	}
	want, _ := lived(false)
	if got, refused := lived(true); !slices.Equal(got, want) || refused < 20 {
		t.Errorf("%d writes were refused, and asked of the machine: %q, want %q", refused, got, want)
	}
}

// TestNothingIsDoneTwiceWhicheverWriteIsRefused refuses one write of a whole life, a different one
// in each run.
func TestNothingIsDoneTwiceWhicheverWriteIsRefused(t *testing.T) {
	lived := func(t *testing.T, refused int) (effects []string, writes int) {
		t.Helper()
		l := slowLife(t)
		l.refusing(func(w write) bool {
			if writes++; writes == refused {
				t.Logf("refused is a write of %T, of its status: %t", w.obj, w.status)
			}
			return writes == refused
		})
		l.wholeLife("web")
		return l.effects("web"), writes
	}
	want, writes := lived(t, 0)
	for refused := 1; refused <= writes; refused++ {
		t.Run(fmt.Sprint("write ", refused), func(t *testing.T) {
			t.Parallel()
			got, _ := lived(t, refused)
			// Powering off what is off already does nothing.
			got = slices.CompactFunc(got, func(a, b string) bool { return a == b && a == "soft power off" })
			if !slices.Equal(got, want) {
				t.Errorf("asked of the machine: %q, want %q", got, want)
			}
		})
	}
}
