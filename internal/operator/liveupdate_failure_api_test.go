package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// failing waits until a live update has failed that often and the machine is on again.
func (b *bench) failing(name string, failures int) *v1alpha1.BareMetalHost {
	b.Helper()
	var h *v1alpha1.BareMetalHost
	b.eventually(fmt.Sprintf("%d failures, machine on", failures), func() string {
		h = b.host(name)
		n, err := b.engine.Node(context.Background(), h.Status.Provisioning.ID)
		if err == nil && n.State == node.Active && h.Status.PoweredOn && h.Status.ErrorType == v1alpha1.ErrorServicing &&
			h.Status.Updates.Service.Failures == failures && h.Status.Updates.Service.Request == "" {
			return ""
		}
		return fmt.Sprintf("node in %q, powered on %t, error %q %s, record %+v", n.State, h.Status.PoweredOn, h.Status.ErrorType, h.Status.ErrorMessage, h.Status.Updates.Service)
	})
	return h
}

// TestFailedLiveUpdateIsTriedAgainAndGivenUp tries each way out of a failure.
func TestFailedLiveUpdateIsTriedAgainAndGivenUp(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	for name, way := range map[string]struct {
		out func(b *bench, name string, s *v1alpha1.HostFirmwareSettings, p *v1alpha1.HostUpdatePolicy)
		// services is how often the engine is asked in total.
		services int
	}{
		"emptied": {func(b *bench, _ string, s *v1alpha1.HostFirmwareSettings, _ *v1alpha1.HostUpdatePolicy) {
			b.update(s, func() { s.Spec.Settings = map[string]intstr.IntOrString{} })
		}, 2},
		"reverted": {func(b *bench, _ string, s *v1alpha1.HostFirmwareSettings, _ *v1alpha1.HostUpdatePolicy) {
			b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(5) })
			b.compare(s, false)
		}, 2},
		"reverted-read-late": {func(b *bench, _ string, s *v1alpha1.HostFirmwareSettings, _ *v1alpha1.HostUpdatePolicy) {
			b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(5) })
			b.compare(s, true)
		}, 2},
		"removed": {func(b *bench, _ string, s *v1alpha1.HostFirmwareSettings, _ *v1alpha1.HostUpdatePolicy) { b.remove(s) }, 2},
		"policy-removed": {func(b *bench, _ string, _ *v1alpha1.HostFirmwareSettings, p *v1alpha1.HostUpdatePolicy) {
			b.remove(p)
		}, 2},
		"policy-changed": {func(b *bench, _ string, _ *v1alpha1.HostFirmwareSettings, p *v1alpha1.HostUpdatePolicy) {
			b.update(p, func() { p.Spec.FirmwareSettings = v1alpha1.UpdateOnPreparing })
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, name := b.with(t), "demo-service-error-"+name
			h := b.inUse(name)
			p := b.policy(name, onReboot)
			s := b.settings(name, 9)
			b.reboot(h)
			b.failing(name, 2)
			b.hasEvent(name, "ServicingError")
			if c := b.pending(name, v1alpha1.UpdateFailedReason); !strings.Contains(c.Message, "not tried again") {
				t.Errorf("message %q, want one that says that it is given up", c.Message)
			}
			before := len(b.asked(name))
			way.out(b, name, s, p)
			b.isOK(name)
			if got := b.without(b.asked(name)[before:], "claim", "update", "validate"); len(got) > 0 {
				t.Errorf("asked %q although nothing is left to do", got)
			}
			if got := b.count(name, "service"); got != way.services {
				t.Errorf("%d attempts, want %d", got, way.services)
			}
		})
	}
	for name, again := range map[string]func(*bench, *v1alpha1.BareMetalHost, *v1alpha1.HostFirmwareSettings){
		"fixed": func(b *bench, _ *v1alpha1.BareMetalHost, s *v1alpha1.HostFirmwareSettings) {
			b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(8) })
			b.compare(s, true)
		},
		"rebooted": func(b *bench, h *v1alpha1.BareMetalHost, _ *v1alpha1.HostFirmwareSettings) { b.reboot(h) },
	} {
		t.Run(name, func(t *testing.T) {
			b, name := b.with(t), "demo-service-error-"+name
			h := b.inUse(name)
			b.policy(name, onReboot)
			s := b.settings(name, 9)
			b.reboot(h)
			b.failing(name, 2)
			again(b, h, s)
			b.eventually("further attempts", func() string {
				if n := b.count(name, "service"); n < 4 {
					return fmt.Sprintf("%d attempts", n)
				}
				return ""
			})
			b.failing(name, 2)
		})
	}
}

func TestFailedFirmwareIsForgottenAndItsRevertNeedsNoStep(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const name = "demo-service-error-fw"
	const old = "https://images/fw-1.bin"
	c := b.firmware(name, old)
	h := b.inUse(name) // the host was prepared with this firmware
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || len(c.Status.Updates) != 1 {
		t.Fatalf("begun updates %v, %v; want one", c.Status.Updates, err)
	}
	b.policy(name, onReboot)
	b.update(c, func() { c.Spec.Updates[0].URL = "https://images/fw-2.bin" })
	b.compare(c, true)
	b.reboot(h)
	b.failing(name, 2)
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || len(c.Status.Updates) != 0 {
		t.Errorf("begun updates %v, %v; want none after the failure", c.Status.Updates, err)
	}
	before := len(b.asked(name))
	b.update(c, func() { c.Spec.Updates[0].URL = old })
	b.compare(c, true)
	b.isOK(name)
	if got := b.without(b.asked(name)[before:], "claim", "update", "validate"); len(got) > 0 {
		t.Errorf("asked %q although the firmware is there", got)
	}
}

// serviced creates a host whose live update never ends.
func (b *bench) serviced(name string) (*v1alpha1.BareMetalHost, *v1alpha1.HostFirmwareSettings) {
	b.Helper()
	h := b.inUse(name)
	b.policy(name, onReboot)
	s := b.settings(name, 9)
	b.reboot(h)
	b.eventually("servicing", func() string {
		if h = b.host(name); h.Status.OperationalStatus == v1alpha1.OperationalStatusServicing && len(h.Annotations) == 0 && h.Status.Updates.Service.Accepted {
			return ""
		}
		return fmt.Sprintf("operational status %q, annotations %v", h.Status.OperationalStatus, h.Annotations)
	})
	b.hasCondition(name, v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ServicingReason)
	b.pending(name, v1alpha1.UpdateRunningReason)
	return h, s
}

func TestHostThatLeavesWhileItIsUpdatedAbortsFirst(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	for name, tt := range map[string]struct {
		leave func(*bench, *v1alpha1.BareMetalHost)
		want  []string
		until func(*bench, string)
	}{
		"deprovisioned": {
			func(b *bench, h *v1alpha1.BareMetalHost) { b.update(h, func() { h.Spec.Image = nil }) },
			[]string{"abort", "maintenance", "undeploy"},
			func(b *bench, name string) { b.inState(name, v1alpha1.StateAvailable) },
		},
		"deleted": {
			func(b *bench, h *v1alpha1.BareMetalHost) { b.remove(h) },
			[]string{"abort", "maintenance", "undeploy", "power off", "delete"},
			func(b *bench, name string) { b.gone(name) },
		},
		"detached": {
			func(b *bench, h *v1alpha1.BareMetalHost) { b.annotate(h, v1alpha1.DetachedAnnotation, "") },
			[]string{"abort", "maintenance", "abort", "power on", "delete"},
			func(b *bench, name string) { b.isDetached(name) },
		},
		"detached-by-force": {
			func(b *bench, h *v1alpha1.BareMetalHost) {
				b.annotate(h, v1alpha1.DetachedAnnotation, `{"force":true}`)
			},
			[]string{"delete"},
			func(b *bench, name string) { b.isDetached(name) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, name := b.with(t), "demo-servicing-"+name
			h, _ := b.serviced(name)
			before := len(b.asked(name))
			tt.leave(b, h)
			tt.until(b, name)
			got := b.without(b.asked(name)[before:], "claim", "update", "validate")
			for _, optional := range []string{"maintenance", "power on", "power off"} {
				got, tt.want = b.without(got, optional), b.without(tt.want, optional)
			}
			if len(got) < len(tt.want) || !slices.Equal(got[:len(tt.want)], tt.want) {
				t.Errorf("asked %q, want %q first", got, tt.want)
			}
		})
	}
}

func (b *bench) isDetached(name string) {
	b.Helper()
	b.eventually("detached", func() string {
		if h := b.host(name); h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached {
			return fmt.Sprintf("operational status %q", h.Status.OperationalStatus)
		}
		return ""
	})
}

func TestExternallyProvisionedHostThatIsDeletedWhileItIsUpdatedAbortsFirst(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const name = "demo-servicing-ep"
	h := b.bmcHost(name, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	b.inState(name, v1alpha1.StateExternallyProvisioned)
	b.poweredOn(name)
	b.policy(name, onReboot)
	b.settings(name, 9)
	before := len(b.asked(name))
	b.reboot(h)
	b.did(name, before, "soft power off", "service")
	b.remove(h)
	b.gone(name)
	want := []string{"soft power off", "service", "abort", "power off", "delete"}
	if got := b.without(b.asked(name)[before:], "claim", "update", "validate", "maintenance"); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestUpdateThatIsWithdrawnWhileItRunsIsAborted(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const name = "demo-servicing-withdrawn"
	_, s := b.serviced(name)
	b.update(s, func() { s.Spec.Settings = map[string]intstr.IntOrString{} })
	h := b.isOK(name)
	b.hasEvent(name, "ServicingAborted")
	if h.Status.ErrorCount != 0 || b.count(name, "abort") != 2 || b.count(name, "service") != 1 {
		t.Errorf("%d errors after %q, want one service that was aborted", h.Status.ErrorCount, b.asked(name))
	}
}

func TestLiveUpdateGoesOnWithAnotherOperator(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const name = "demo-servicing-restart"
	h, _ := b.serviced(name)
	b.stop()
	b.engine.Change(h.Status.Provisioning.ID, func(n *provisioner.Node) {
		n.State, n.TargetState, n.Step, n.StateChangedAt, n.Power = node.Active, "", "", time.Now(), node.PowerOn
	})
	b.startWith(plane.Config(t), func(o *operator.Options) { updateOptions(o, nil) })
	b.hasEvent(name, "ServicingComplete")
	b.forAWhile("no second update", func() string {
		if n := b.count(name, "service"); n != 1 {
			return fmt.Sprintf("%d updates", n)
		}
		return ""
	})
	if got := b.host(name).Status.Updates.Settings; got.Applied != 1 || got.Requested != 0 {
		t.Errorf("record %+v, want that generation 1 was applied", got)
	}
}
