package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// silent makes the ramdisk of a host's machine silent, or lets it call again.
func (l *life) silent(name string, silent bool) {
	l.Helper()
	l.node(name, func(n *provisioner.Node) {
		n.Agent.LastHeartbeat = l.now
		if silent {
			n.Agent.LastHeartbeat = time.Time{}
		}
	})
	l.now = l.now.Add(10 * time.Minute) // longer than a ramdisk counts as alive without a heartbeat
}

func TestMachineWithoutBMCIsDeployedOnlyWhileItsRamdiskIsAlive(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-plain"
	l.addPlain(name, nil)
	l.rests(name, v1alpha1.StateAvailable)
	l.does(name, 0, "manage", "provide") // and no inspection
	l.silent(name, true)
	l.edit(name, withImage)
	l.rests(name, v1alpha1.StateAvailable)
	l.says(name, v1alpha1.AvailableForProvisioningCondition, metav1.ConditionFalse, v1alpha1.AgentNotConnectedReason)
	l.silent(name, false)
	l.rests(name, v1alpha1.StateProvisioned)
	l.does(name, 0, "manage", "provide", "deploy")
}

func TestMachineWithoutBMCIsNotDeployedWithoutTheVolumesThatItIsToHave(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-plain"
	l.addPlain(name, nil)
	l.rests(name, v1alpha1.StateAvailable)
	l.edit(name, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
	})
	if h := l.fails(name, v1alpha1.ErrorPreparation); h.Status.Provisioning.RAID != nil {
		t.Errorf("the status shows volumes that nobody made: %+v", h.Status.Provisioning.RAID)
	}
	l.does(name, 0, "manage", "provide")
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = nil })
	l.rests(name, v1alpha1.StateProvisioned)
	l.does(name, 0, "manage", "provide", "deploy")
}

func TestRemovalFromAMachineWithoutBMCWaitsUntilSomebodyBootsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		mode v1alpha1.AutomatedCleaningMode
		end  func(l *life, name string)
		to   v1alpha1.ProvisioningState
		want []string
	}{
		"ramdisk is back": {
			"", func(l *life, name string) { l.silent(name, false) },
			v1alpha1.StateAvailable,
			[]string{"set cleaning", "undeploy"},
		},
		"machine is said to be off, no cleaning": {
			v1alpha1.CleaningModeDisabled, func(l *life, name string) { l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "") },
			v1alpha1.StatePreparing, // until somebody boots it
			[]string{"undeploy"},
		},
		"machine is said to be off, to be cleaned": {
			"", func(l *life, name string) { l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "") },
			v1alpha1.StateDeprovisioning,
			[]string{"set cleaning", "undeploy"},
		},
		"machine is given up": {
			"", func(l *life, name string) { l.annotate(name, v1alpha1.AbandonedAnnotation, "") },
			v1alpha1.StateUnmanaged,
			[]string{"set cleaning", "undeploy", "delete"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.addPlain("demo-plain", func(h *v1alpha1.BareMetalHost) {
				withImage(h)
				h.Spec.AutomatedCleaningMode = tt.mode
			})
			l.rests("demo-plain", v1alpha1.StateProvisioned)
			l.silent("demo-plain", true)
			before := len(l.effects("demo-plain"))
			l.edit("demo-plain", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			l.rests("demo-plain", v1alpha1.StateDeprovisioning)
			l.says("demo-plain", v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason)
			tt.end(l, "demo-plain")
			l.until("demo-plain", "in state "+string(tt.to), inState(tt.to))
			l.does("demo-plain", before, tt.want...)
			if tt.to != v1alpha1.StateUnmanaged {
				l.silent("demo-plain", false)
				l.rests("demo-plain", v1alpha1.StateAvailable)
				l.does("demo-plain", before, tt.want...)
			}
		})
	}
}

// TestConfirmationThatAMachineIsOffCountsForOneRemoval deploys a machine again that was confirmed
// to be off, and removes that deployment while its system runs. That removal must not end by the
// old confirmation: whoever waits for its end takes it as proof that the machine is off.
func TestConfirmationThatAMachineIsOffCountsForOneRemoval(t *testing.T) {
	const name = "demo-plain"
	for kind, tt := range map[string]struct {
		early   bool // it is said before the removal begins
		refused int  // writes without the annotation that do not arrive, as when the operator ends before them
	}{
		"said during the removal before":                                      {},
		"said then, and the operator ended after that":                        {refused: 1},
		"said before the removal":                                             {early: true},
		"said before, and the operator ended at the beginning of the removal": {early: true, refused: 2},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLife(t, nil)
			l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
				withImage(h)
				h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled
			})
			l.rests(name, v1alpha1.StateProvisioned)
			refuse := func() {
				left := tt.refused
				l.refusing(func(w write) bool {
					h, is := w.obj.(*v1alpha1.BareMetalHost)
					if !is || w.status || left == 0 || h.Annotations[v1alpha1.ConfirmedOffAnnotation] != "" {
						return false
					}
					left--
					return true
				})
			}
			remove := func() {
				l.silent(name, true)
				l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
				l.rests(name, v1alpha1.StateDeprovisioning)
			}
			if !tt.early {
				remove()
				refuse()
				l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "yes")
				l.until(name, "preparing", inState(v1alpha1.StatePreparing))
				l.silent(name, false)
				l.rests(name, v1alpha1.StateAvailable)
				l.edit(name, withImage)
				l.rests(name, v1alpha1.StateProvisioned)
			} else {
				l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "yes")
				refuse()
			}
			remove()
			for range 5 {
				l.now = l.now.Add(l.pass(name))
			}
			h := l.rests(name, v1alpha1.StateDeprovisioning)
			if _, stays := h.Annotations[v1alpha1.ConfirmedOffAnnotation]; stays {
				t.Error("the confirmation stays")
			}
			l.says(name, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason)
			l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "yes")
			l.until(name, "preparing", inState(v1alpha1.StatePreparing))
		})
	}
}

// lostAnswers is an engine that loses the answers to requests to remove a deployment, and to abort.
type lostAnswers struct{ *demo.Engine }

func (d lostAnswers) Undeploy(ctx context.Context, id string) error {
	if err := d.Engine.Undeploy(ctx, id); err != nil {
		return err
	}
	return fmt.Errorf("%w: the answer is lost", provisioner.ErrUnreachable)
}

func (d lostAnswers) Abort(ctx context.Context, id string) error {
	if err := d.Engine.Abort(ctx, id); err != nil {
		return err
	}
	return fmt.Errorf("%w: the answer is lost", provisioner.ErrUnreachable)
}

func TestMachineCanBeConfirmedOffWhenTheAnswerToTheRemovalWasLost(t *testing.T) {
	const name = "demo-plain"
	l := newLife(t, nil)
	l.change = func(c *Config) { c.Engine = lostAnswers{l.engine} }
	l.restart()
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled
	})
	l.rests(name, v1alpha1.StateProvisioned)
	l.silent(name, true)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.rests(name, v1alpha1.StateDeprovisioning)
	l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "")
	l.until(name, "preparing", inState(v1alpha1.StatePreparing))
}

func TestUsedMachineWithoutBMCIsForgottenUncleanedAndThatIsSaid(t *testing.T) {
	l := newLife(t, nil)
	l.addPlain("demo-plain", withImage)
	l.rests("demo-plain", v1alpha1.StateProvisioned)
	before := len(l.effects("demo-plain"))
	l.remove(l.host("demo-plain"))
	l.gone("demo-plain")
	l.does("demo-plain", before, "delete")
	l.tells("DeletedWithoutCleaning")
}

// boot boots the machine of a host that nobody registered into the ramdisk.
func (l *life) boot(name string) {
	l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(name)})
}

// used is a provisioned host without a BMC, which is found by the MAC address of its machine.
func (l *life) used(name string) *v1alpha1.BareMetalHost {
	l.Helper()
	l.boot(name)
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.BootMACAddress = demo.SampleInventory(name).Hardware.Interfaces[0].MACAddress
	})
	return l.rests(name, v1alpha1.StateProvisioned)
}

// verbs are the verbs that were sent for any node since the first so many effects, without
// those that change only records of the engine.
func (l *life) verbs(after int) []demo.Verb {
	return slices.DeleteFunc(l.engine.Verbs("")[after:], func(v demo.Verb) bool { return v == demo.VerbClaim })
}

func TestMachineWithoutBMCInUseIsNeverWipedBecauseItsNodeWasLost(t *testing.T) {
	for name, lose := range map[string]func(*life, *v1alpha1.BareMetalHost){
		"engine has an empty database": func(l *life, h *v1alpha1.BareMetalHost) { l.engine.Forget(h.Status.Provisioning.ID) },
		"detached": func(l *life, h *v1alpha1.BareMetalHost) {
			l.annotate(h.Name, v1alpha1.DetachedAnnotation, "")
			l.until(h.Name, "detached", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
			})
			l.edit(h.Name, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
		},
		"by an operator that made such hosts unmanaged": func(l *life, h *v1alpha1.BareMetalHost) {
			l.engine.Forget(h.Status.Provisioning.ID)
			h.Status.Provisioning.ID, h.Status.Provisioning.State = "", v1alpha1.StateUnmanaged
			if err := l.api.Status().Update(l.Context(), h); err != nil {
				l.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			h := l.used("web")
			lose(l, h)
			before := len(l.engine.Verbs(""))
			for range 5 {
				l.now = l.now.Add(l.pass("web"))
			}
			l.says("web", v1alpha1.ManageableCondition, metav1.ConditionFalse, v1alpha1.NotManagedReason)
			l.boot("web")
			h = l.rests("web", v1alpha1.StateProvisioned)
			if got := l.nodeOf("web").State; got != node.Active || h.Status.Provisioning.Image.URL != testImage("a").URL {
				t.Errorf("node is %q and has image %q, want active with the image", got, h.Status.Provisioning.Image.URL)
			}
			if got, want := l.verbs(before), []demo.Verb{demo.VerbManage, demo.VerbAdopt}; !slices.Equal(got, want) {
				t.Errorf("asked of the new node: %q, want %q", got, want)
			}
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			l.rests("web", v1alpha1.StateAvailable) // as a person asks
		})
	}
}

func TestMachineWithoutBMCInUseWaitsInItsStateUntilItsNodeIsBack(t *testing.T) {
	l := newLife(t, nil)
	h := l.used("web")
	id, before := h.Status.Provisioning.ID, len(l.engine.Verbs(""))
	l.engine.SetFailing(provisioner.ErrNotFound)
	l.pass("web")
	says := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason).Message
	if !strings.Contains(says, id) || !strings.Contains(says, v1alpha1.AbandonedAnnotation) {
		t.Errorf("Progressing says %q, want the node and what to do", says)
	}
	l.tells("ImportLost")
	l.engine.SetFailing(nil)
	h = l.rests("web", v1alpha1.StateProvisioned)
	if got := l.verbs(before); h.Status.Provisioning.ID != id || len(got) != 0 {
		t.Errorf("node %s, asked %q, want %s and nothing", h.Status.Provisioning.ID, got, id)
	}
	l.says("web", v1alpha1.ManageableCondition, metav1.ConditionTrue, v1alpha1.ManageableReason)
}

func TestMachineWithoutBMCWhoseNodeWasLostCanBeGivenUp(t *testing.T) {
	l := newLife(t, nil)
	h := l.used("web")
	l.engine.Forget(h.Status.Provisioning.ID)
	l.annotate("web", v1alpha1.AbandonedAnnotation, "")
	h = l.rests("web", v1alpha1.StateUnmanaged)
	if h.Status.Provisioning.ID != "" || h.Status.Provisioning.Image.URL != "" || len(h.Annotations) != 0 {
		t.Errorf("node %q, image %q, annotations %q, want none", h.Status.Provisioning.ID, h.Status.Provisioning.Image.URL, h.Annotations)
	}
	l.tells("Abandoned")
	l.boot("web")
	l.rests("web", v1alpha1.StateProvisioned) // prepared and deployed as a new one
}

func TestDiscoveredHostWhoseNodeAnotherClusterHasSaysThatItCanBeDeleted(t *testing.T) {
	const advice, other, gone = "delete this host", provisioner.Mark("c2/metal/other"), "0d8cf3b4-8a9e-4b7e-9a56-2f9a3c5e1b70"
	for name, tt := range map[string]struct {
		mark     provisioner.Mark
		state    string // of the status that the host is restored from; "-" for no such status
		source   string // "" for the host's node
		failure  bool   // has the advice
		progress bool   // has it, too
	}{
		"taken before the host was restored":     {other, "", "", true, true},
		"taken while the host was imported":      {other, "-", "", false, true},
		"host that came from another cluster":    {other, "available", "", false, true},
		"host that was made for another node":    {other, "", gone, false, false},
		"taken for another host of this cluster": {provisioner.MarkOf("c1", "metal", "other"), "-", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			id := l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("web")})
			l.engine.Change(id, func(n *provisioner.Node) { n.Mark = tt.mark })
			l.addPlain("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BootMACAddress = demo.SampleInventory("web").Hardware.Interfaces[0].MACAddress
				h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/" + cmp.Or(tt.source, id)}
				if tt.state != "-" {
					h.Annotations[v1alpha1.StatusAnnotation] = statusOf(tt.state, id)
				}
			})
			if tt.state != "-" {
				if h := l.fails("web", v1alpha1.ErrorRegistration); strings.Contains(h.Status.ErrorMessage, advice) != tt.failure {
					t.Errorf("error %q, has the advice: want %v", h.Status.ErrorMessage, tt.failure)
				}
			}
			for range 3 {
				l.now = l.now.Add(l.pass("web"))
			}
			c := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
			if !strings.Contains(c.Message, "Not imported") || strings.Contains(c.Message, advice) != tt.progress {
				t.Errorf("Progressing says %q, has the advice: want %v", c.Message, tt.progress)
			}
		})
	}
}
