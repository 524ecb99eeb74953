package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// withoutVolumes asks to delete the volumes of a controller.
func withoutVolumes(h *v1alpha1.BareMetalHost) {
	h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}}
}

func TestVolumesAreDeletedOnlyWhereTheBMCReachesAController(t *testing.T) {
	for address, want := range map[string][]string{
		testAddress + "web":    {"create", "manage", "inspect", "set raid", "clean", "provide", "power on"},
		"ipmi://192.0.2.9":     {"create", "manage", "inspect", "provide", "power on"},
		"libvirt://192.0.2.9/": {"create", "manage", "inspect", "provide", "power on"},
	} {
		t.Run(strings.SplitN(address, ":", 2)[0], func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", func(h *v1alpha1.BareMetalHost) {
				withoutVolumes(h)
				h.Spec.BMC.Address = address
			})
			if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.RAID == nil {
				t.Error("the status does not show the volumes that are asked for")
			}
			l.does("web", 0, want...)
		})
	}
}

// TestVolumesOfTheOperatingSystemAreMadeAgainAfterADeployment also has a host whose disks are to
// stay as they are: its volumes are not made again.
func TestVolumesOfTheOperatingSystemAreMadeAgainAfterADeployment(t *testing.T) {
	for mode, want := range map[v1alpha1.AutomatedCleaningMode]int{v1alpha1.CleaningModeMetadata: 2, v1alpha1.CleaningModeDisabled: 1} {
		l := newLife(t, nil)
		l.add("web", func(h *v1alpha1.BareMetalHost) {
			withImage(h)
			h.Spec.AutomatedCleaningMode = mode
			h.Spec.RAID = volumes(nil, softwareVolume)
		})
		l.rests("web", v1alpha1.StateProvisioned)
		l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
		if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.RAID == nil {
			t.Errorf("%s: the status does not show the volumes", mode)
		}
		if got := l.count("web", "clean"); got != want {
			t.Errorf("%s: volumes were made %d times, want %d", mode, got, want)
		}
	}
}

// forgetful is an engine that does not find what it is asked to configure.
type forgetful struct{ *demo.Engine }

func (forgetful) SetTargetRAID(_ context.Context, id string, _ *v1alpha1.RAIDConfig, _ *v1alpha1.RootDeviceHints) error {
	return fmt.Errorf("%w: volumes of %s", provisioner.ErrNotFound, id)
}

func TestHostWaitsLongerEachTimeThatTheEngineDoesNotFindWhatItIsAskedFor(t *testing.T) {
	l := newLife(t, nil)
	l.r = newTestReconciler(t, l.api, forgetful{l.engine}, func() time.Time { return l.now }, nil)
	l.add("web", withoutVolumes)
	l.until("web", "about to be configured", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Request == askClean })
	pass := func() time.Duration {
		wait := l.pass("web")
		l.now = l.now.Add(wait)
		return wait
	}
	if first := pass(); first != soon {
		t.Errorf("the node is looked up after %s, want at once", first)
	}
	first, second, third := pass(), pass(), pass()
	if first < time.Minute/2 || second <= first || third <= second {
		t.Errorf("waits of %s, %s and %s, want them to grow", first, second, third)
	}
	if c := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason); !strings.Contains(c.Message, "volumes of") {
		t.Errorf("message %q, want what was not found", c.Message)
	}
	l.restart()
	l.rests("web", v1alpha1.StateAvailable)
}

func TestDisksOfAHostWithoutSoftwareVolumesAreNotErasedToDeleteThem(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(nil, noSoftware) })
	l.rests("web", v1alpha1.StateAvailable)
	l.does("web", 0, "create", "manage", "inspect", "provide", "power on")
}

func TestVolumesOfBothKindsAreDeletedOneKindAfterTheOther(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(noHardware, softwareVolume) })
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.RAID.HardwareRAIDVolumes != nil {
		t.Error("the status shows that the volumes of the controller were deleted, and they are as they were")
	}
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(noHardware, noSoftware) })
	l.until("web", "without volumes", func(h *v1alpha1.BareMetalHost) bool {
		raid := h.Status.Provisioning.RAID
		return raid.HardwareRAIDVolumes != nil && raid.SoftwareRAIDVolumes != nil
	})
	l.rests("web", v1alpha1.StateAvailable)
	l.does("web", before, "manage", "set raid", "clean", "set raid", "clean", "provide", "power on")
	var deleted []any
	for _, e := range l.engine.Effects(provisioner.NodeName("metal", "web")) {
		if e.Verb == demo.VerbSetRAID {
			deleted = append(deleted, e.Request)
		}
	}
	want := []any{volumes(nil, softwareVolume), volumes(nil, noSoftware), volumes(noHardware, nil)}
	if diff := cmp.Diff(want, deleted); diff != "" {
		t.Errorf("volumes that were asked for (-want +got):\n%s", diff)
	}
}

func TestVolumesOfTheOperatingSystemAreDeletedAlsoWhenTheStatusDoesNotShowThem(t *testing.T) {
	for name, forget := range map[string]func(*life){
		"they are to be made again after a deployment": func(l *life) {
			l.edit("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			l.annotate("web", testHold, "1")
			l.heldOff("web")
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			l.rests("web", v1alpha1.StateAvailable)
		},
		"nobody asked for any when the host was prepared": func(l *life) {
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.RAID, h.Annotations = nil, map[string]string{v1alpha1.InspectAnnotation: ""}
			})
			l.until("web", "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "inspect") == 2 })
			l.rests("web", v1alpha1.StateAvailable)
		},
		"volumes of a controller were made": func(l *life) {
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(hardwareVolume, nil) })
			l.rests("web", v1alpha1.StateAvailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(nil, softwareVolume) })
			l.rests("web", v1alpha1.StateAvailable)
			forget(l)
			before := l.count("web", "clean")
			without := func(h *v1alpha1.BareMetalHost) { h.Annotations, h.Spec.RAID = nil, volumes(nil, noSoftware) }
			l.edit("web", without)
			l.rests("web", v1alpha1.StateAvailable)
			if diff := cmp.Diff(any(volumes(nil, noSoftware)), l.last("web", demo.VerbSetRAID)); diff != "" {
				t.Errorf("volumes that were asked for last (-want +got):\n%s", diff)
			}
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = nil })
			l.rests("web", v1alpha1.StateAvailable)
			l.edit("web", without)
			l.rests("web", v1alpha1.StateAvailable)
			if got := l.count("web", "clean") - before; got != 1 {
				t.Errorf("volumes were deleted %d times, want once", got)
			}
		})
	}
}

func TestDeletionOfVolumesThatFailedIsTriedAgain(t *testing.T) {
	const name = "demo-preparation-error"
	l := newLife(t, nil)
	l.add(name, func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(nil, softwareVolume) })
	l.fails(name, v1alpha1.ErrorPreparation)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(nil, noSoftware) })
	l.until(name, "asked twice to delete volumes", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "clean") == 3 })
	if diff := cmp.Diff(any(volumes(nil, noSoftware)), l.last(name, demo.VerbSetRAID)); diff != "" {
		t.Errorf("volumes that were asked for last (-want +got):\n%s", diff)
	}
}

// TestVolumesOfARequestThatFailedAreNotForgottenByWhatHappensMeanwhile lets a request for volumes
// fail and asks for the volumes that the status shows: the machine may have lost those to the ones
// that could not be made.
func TestVolumesOfARequestThatFailedAreNotForgottenByWhatHappensMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(*life){
		"nothing": func(*life) {},
		"the host is held off": func(l *life) {
			l.annotate("web", testHold, "1")
			l.heldOff("web")
		},
		"the Secret is missing": func(l *life) {
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" })
			l.fails("web", v1alpha1.ErrorRegistration)
		},
		"the host is detached": func(l *life) {
			l.edit("web", detached(`{"force":true}`))
			l.rests("web", v1alpha1.StatePreparing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbClean: 5 * time.Minute}})
			l.restart()
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(hardwareVolume, nil) })
			sound := l.rests("web", v1alpha1.StateAvailable).Spec
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID.HardwareRAIDVolumes[0].Level = "5" })
			l.until("web", "configured anew", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "clean") == 2 })
			l.now = l.now.Add(l.pass("web"))
			l.node("web", func(n *provisioner.Node) {
				n.State, n.StateChangedAt, n.LastError = node.CleanFailed, l.now, "a disk is missing"
			})
			l.fails("web", v1alpha1.ErrorPreparation)
			meanwhile(l)
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations, h.Spec = nil, sound })
			l.rests("web", v1alpha1.StateAvailable)
			if got := l.count("web", "clean"); got != 3 {
				t.Errorf("%d times configured, want 3", got)
			}
			if diff := cmp.Diff(any(volumes(hardwareVolume, nil)), l.last("web", demo.VerbSetRAID)); diff != "" {
				t.Errorf("volumes that were asked for last (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVolumesInEffectAreKeptWhereSomethingElseFailed has nodes whose cleaning failed although
// nobody has asked for volumes.
func TestVolumesInEffectAreKeptWhereSomethingElseFailed(t *testing.T) {
	fail := func(l *life) {
		l.node("web", func(n *provisioner.Node) {
			n.State, n.StateChangedAt, n.LastError = node.CleanFailed, l.now, "the ramdisk was lost"
		})
	}
	cleaningFails := func(l *life) {
		before := l.count("web", string(demo.VerbProvide))
		l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.InspectAnnotation: ""} })
		l.until("web", "being cleaned", func(*v1alpha1.BareMetalHost) bool { return l.count("web", string(demo.VerbProvide)) > before })
		for range 3 { // it is written that the cleaning runs
			l.now = l.now.Add(l.pass("web"))
		}
		fail(l)
		l.fails("web", v1alpha1.ErrorPreparation)
	}
	for name, failing := range map[string]func(*life){
		"another client has cleaned": fail,
		"its own cleaning":           cleaningFails,
		"its own cleaning, with a hold that ends before the machine is off": func(l *life) {
			cleaningFails(l)
			l.annotate("web", testHold, "1")
			l.until("web", "being powered off", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Name == v1alpha1.OperationPower })
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbProvide: 5 * time.Minute}})
			l.restart()
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(hardwareVolume, softwareVolume) })
			l.rests("web", v1alpha1.StateAvailable)
			failing(l)
			l.until("web", "preparing", inState(v1alpha1.StatePreparing))
			if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.RAID == nil {
				t.Error("the status does not show the volumes any more")
			}
			if got := l.count("web", string(demo.VerbSetRAID)); got != 1 {
				t.Errorf("volumes were made %d times, want once", got)
			}
		})
	}
}
