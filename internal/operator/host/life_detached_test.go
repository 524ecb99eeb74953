package host

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestDetachingDependsOnTheState(t *testing.T) {
	const plain, forced = "by hand", `{"force":true}`
	for _, tt := range []struct {
		value  string
		states map[v1alpha1.ProvisioningState]bool
	}{
		{plain, detachable}, {"{", detachable}, {`{"force":false}`, detachable}, {forced, linkedStates},
	} {
		for state := range registeredStates {
			h := testHost(func(h *v1alpha1.BareMetalHost) {
				h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: tt.value}
				h.Status.Provisioning.State, h.Status.Provisioning.ID = state, "n1"
			})
			want := detachWait
			if tt.states[state] || tt.value == forced {
				want = detachNow
			}
			if got := decideDetach(h); got != want {
				t.Errorf("%s in state %q: %d, want %d", tt.value, state, got, want)
			}
		}
	}
}

func detached(value string, also ...func(*v1alpha1.BareMetalHost)) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: value}
		for _, change := range also {
			change(h)
		}
	}
}

func TestDetachedHostShowsItAndItsMachineIsNotSteered(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.edit("web", detached(""))
	h := l.rests("web", v1alpha1.StateAvailable)
	if h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached || h.Status.Provisioning.ID != "" {
		t.Errorf("status %+v", h.Status)
	}
	l.says("web", v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.DetachedReason)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Spec.Image = false, testImage("a") })
	l.rests("web", v1alpha1.StateAvailable)
	l.does("web", before, "delete")
}

func TestHostIsDetachedFromUnfinishedWorkOnlyByForce(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-provisioning"
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioning)
	l.edit(name, detached(""))
	if h := l.rests(name, v1alpha1.StateProvisioning); h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached {
		t.Error("the host was detached while the engine works on its machine")
	}
	before := len(l.effects(name))
	l.edit(name, detached(`{"force":true}`))
	if h := l.rests(name, v1alpha1.StateProvisioning); h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached {
		t.Errorf("operational status %q, want detached", h.Status.OperationalStatus)
	}
	l.does(name, before, "delete")
	l.remove(l.host(name))
	l.gone(name)
	l.does(name, before, "delete")
}

// TestMachineOfAHostThatIsDeletedToBeDetachedStaysAsItIs deletes hosts that have the annotation but
// are not detached yet, some of them in the middle of work. That work ends with the node.
func TestMachineOfAHostThatIsDeletedToBeDetachedStaysAsItIs(t *testing.T) {
	for _, tt := range leavers {
		for _, value := range []string{"", "{", `{"force":true}`, `{"deleteAction":"delete"}`} {
			t.Run(stateNameOf(tt.state)+" "+value, func(t *testing.T) {
				l := tt.placed(t, detached(value))
				before := len(l.effects("web"))
				l.remove(l.host("web"))
				l.gone("web")
				var want []string
				if tt.node != "" {
					want = []string{"delete"}
				}
				l.does("web", before, want...)
				if slices.Contains(l.events.reasons, eventDeletedWithoutCleaning) {
					t.Error("a warning says that the disks are not cleaned, which was asked for")
				}
			})
		}
	}
}

// inState reports whether a host is in a state.
func inState(state v1alpha1.ProvisioningState) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == state }
}

// TestDelayedDeletionLetsAHostBeDetachedFirst deletes hosts at work whose annotation asks to detach
// them and to delay their deletion. They live on until the work is done and they are detached, and
// are deleted when they are attached again.
func TestDelayedDeletionLetsAHostBeDetachedFirst(t *testing.T) {
	const work = 5 * time.Minute
	for name, tt := range map[string]struct {
		value string
		begin func(*v1alpha1.BareMetalHost)
		until func(*v1alpha1.BareMetalHost) bool
		state v1alpha1.ProvisioningState // in which it is detached
		does  []string                   // before that
		ends  []string                   // once the annotation is gone
	}{
		"while it is inspected": {
			`{"deleteAction":"delay"}`, nil, inState(v1alpha1.StateInspecting), v1alpha1.StateAvailable,
			[]string{"inspect", "provide", "delete"},
			nil,
		},
		"while it is provisioned": {
			`{"deleteAction":"delay"}`, withImage, inState(v1alpha1.StateProvisioning), v1alpha1.StateProvisioned,
			[]string{"deploy", "delete"},
			[]string{"create", "manage", "adopt", "undeploy", "delete"},
		},
		"while it is provisioned, by force": {
			`{"deleteAction":"delay","force":true}`, withImage, inState(v1alpha1.StateProvisioning), v1alpha1.StateProvisioning,
			[]string{"delete"},
			[]string{"create", "manage", "provide", "delete"},
		},
		"while it is free": {
			`{"deleteAction":"delay"}`, nil, inState(v1alpha1.StateAvailable), v1alpha1.StateAvailable,
			[]string{"delete"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{
				Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbInspect: work, demo.VerbDeploy: work},
			})
			l.restart()
			l.add("web", tt.begin)
			l.until("web", "where it is deleted", tt.until)
			before := len(l.effects("web"))
			l.edit("web", detached(tt.value))
			l.remove(l.host("web"))
			h := l.rests("web", tt.state)
			if h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached || h.Status.Provisioning.ID != "" {
				t.Errorf("operational status %q, node %q; want it detached", h.Status.OperationalStatus, h.Status.Provisioning.ID)
			}
			l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.DetachedReason)
			l.does("web", before, tt.does...)
			before = len(l.effects("web"))
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			l.gone("web")
			l.does("web", before, tt.ends...)
		})
	}
}

func TestFailureToDetachIsShownUntilItWorks(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-delete-error"
	l.add(name, withImage)
	id := l.rests(name, v1alpha1.StateProvisioned).Status.Provisioning.ID
	l.edit(name, detached(""))
	h := l.until(name, "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
	if h.Status.ErrorType != v1alpha1.ErrorDetach || h.Status.Provisioning.ID != id || h.Status.OperationalStatus != v1alpha1.OperationalStatusError {
		t.Errorf("status %+v, want an error and the node", h.Status)
	}
	l.tells("DetachError")
	l.engine.Forget(id) // a person deleted it
	if h := l.rests(name, v1alpha1.StateProvisioned); h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached || h.Status.ErrorType != "" {
		t.Errorf("operational status %q, error %q; want detached", h.Status.OperationalStatus, h.Status.ErrorType)
	}
}

func TestDeletionOfADetachedHostWaitsWhenAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		value string
		waits bool
	}{
		"plain":  {"", false},
		"delete": {`{"deleteAction":"delete"}`, false},
		"delay":  {`{"deleteAction":"delay"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			l.edit("web", detached(tt.value))
			l.until("web", "detached", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
			})
			before := len(l.effects("web"))
			l.remove(l.host("web"))
			if !tt.waits {
				l.gone("web")
				l.does("web", before)
				return
			}
			l.rests("web", v1alpha1.StateProvisioned)
			l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.DetachedReason)
			// Without its annotation the host is attached first, so that its disks are cleaned.
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			l.gone("web")
			l.does("web", before, "create", "manage", "adopt", "undeploy", "delete")
		})
	}
}

func TestDeletionOfAHostThatCannotBeAttachedEnds(t *testing.T) {
	for what, tt := range map[string]struct {
		name  string
		state v1alpha1.ProvisioningState
		spoil func(*life)
		does  []string
	}{
		"without its Secret": {"web", v1alpha1.StateProvisioned, func(l *life) {
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" })
		}, nil},
		"with a BMC that does not answer": {"web", v1alpha1.StateProvisioned, func(l *life) {
			l.secret("web", demo.WrongPassword)
		}, []string{"create", "manage", "manage", "manage", "power off", "delete"}},
		"during a deployment": {"demo-provisioning", v1alpha1.StateProvisioning, func(*life) {}, []string{"create", "manage", "provide", "delete"}},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(tt.name, withImage)
			l.rests(tt.name, tt.state)
			l.edit(tt.name, detached(`{"deleteAction":"delay","force":true}`))
			l.until(tt.name, "detached", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
			})
			before := len(l.effects(tt.name))
			l.remove(l.host(tt.name))
			tt.spoil(l)
			l.edit(tt.name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			l.gone(tt.name)
			l.does(tt.name, before, tt.does...)
			if tt.state == v1alpha1.StateProvisioned {
				l.tells("DeletedWithoutCleaning")
			}
		})
	}
}

func TestAttachedHostIsNotRestarted(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	l.rests("web", v1alpha1.StateExternallyProvisioned)
	before := len(l.effects("web"))
	l.edit("web", detached(""))
	l.rests("web", v1alpha1.StateExternallyProvisioned)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	h := l.until("web", "attached", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == v1alpha1.OperationalStatusOK && h.Status.Provisioning.ID != ""
	})
	l.rests("web", h.Status.Provisioning.State)
	l.does("web", before, "delete", "create", "manage", "adopt")
	if mark := l.nodeOf("web").Mark; mark != provisioner.MarkOf("c1", "metal", "web") {
		t.Errorf("mark %q", mark)
	}
}

// TestDetachedHostIsMadeElsewhereAsItIs detaches a host, deletes it, and creates it in another
// cluster that uses the same engine. It has both annotations there, with the status of the detached
// host or an earlier one.
func TestDetachedHostIsMadeElsewhereAsItIs(t *testing.T) {
	for name, early := range map[string]bool{"with its status": false, "with a status from before": true} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			h := l.rests("web", v1alpha1.StateProvisioned)
			l.edit("web", detached(""))
			if now := l.rests("web", v1alpha1.StateProvisioned); !early {
				h = now
			}
			status, err := json.Marshal(h.Status)
			if err != nil {
				t.Fatal(err)
			}
			l.remove(l.host("web"))
			l.gone("web")

			before := len(l.effects("web"))
			l.api, l.change = newAPI(t), func(c *Config) { c.Cluster = "c2" }
			l.restart()
			l.add("web", detached("", withImage, func(h *v1alpha1.BareMetalHost) {
				h.Annotations[v1alpha1.StatusAnnotation] = string(status)
			}))
			h = l.rests("web", v1alpha1.StateProvisioned)
			if _, there := h.Annotations[v1alpha1.StatusAnnotation]; there || h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached ||
				h.Status.ErrorType != "" || h.Status.Provisioning.ID != "" || h.Status.Provisioning.Image.URL != h.Spec.Image.URL {
				t.Errorf("annotations %v, status %+v; want it detached, with its image and without a node", h.Annotations, h.Status)
			}
			l.does("web", before)

			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			l.until("web", "attached", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.ID != "" })
			if h = l.rests("web", v1alpha1.StateProvisioned); h.Status.OperationalStatus != v1alpha1.OperationalStatusOK {
				t.Errorf("operational status %q", h.Status.OperationalStatus)
			}
			l.does("web", before, "create", "manage", "adopt")
			if mark := l.nodeOf("web").Mark; mark != provisioner.MarkOf("c2", "metal", "web") {
				t.Errorf("mark %q", mark)
			}
		})
	}
}
