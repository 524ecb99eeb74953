package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestNodeOfTheCacheSufficesOnlyWhereNothingIsAsked(t *testing.T) {
	alive := provisioner.Agent{LastHeartbeat: testNow}
	asked := func(request string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Spec.BMC.Address = "redfish://192.0.2.1"
			s := newScope(h, testNow, time.Minute)
			s.asked(v1alpha1.OperationProvision, request, provisioner.Node{})
		}
	}
	for name, tt := range map[string]struct {
		host  func(*v1alpha1.BareMetalHost)
		state v1alpha1.ProvisioningState
		node  provisioner.Node
		want  bool
	}{
		"idle":                               {nil, v1alpha1.StateAvailable, provisioner.Node{State: node.Available, Agent: alive}, true},
		"about to be available":              {nil, v1alpha1.StatePreparing, provisioner.Node{State: node.Available, Agent: alive}, true},
		"just discovered":                    {nil, v1alpha1.StateNone, provisioner.Node{State: node.Verifying, Agent: alive}, true},
		"idle with a silent ramdisk":         {nil, v1alpha1.StateAvailable, provisioner.Node{State: node.Available}, false},
		"to be deployed to":                  {nil, v1alpha1.StateProvisioning, provisioner.Node{State: node.Available, Agent: alive}, false},
		"with a BMC, whose power may differ": {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "redfish://192.0.2.1" }, v1alpha1.StateAvailable, provisioner.Node{State: node.Available, Agent: alive}, false},
		"left available":                     {nil, v1alpha1.StateAvailable, provisioner.Node{State: node.Manageable, Agent: alive}, false},
		"at work":                            {asked(askDeploy), v1alpha1.StateProvisioning, provisioner.Node{State: node.DeployWait}, true},
		"done":                               {asked(askDeploy), v1alpha1.StateProvisioning, provisioner.Node{State: node.Active}, false},
		"failed":                             {asked(askDeploy), v1alpha1.StateProvisioning, provisioner.Node{State: node.DeployFailed}, false},
		"at steps that a person may stop":    {asked(askClean), v1alpha1.StatePreparing, provisioner.Node{State: node.CleanWait}, false},
		"at work that nobody asked for":      {nil, v1alpha1.StateProvisioning, provisioner.Node{State: node.DeployWait}, false},
		"at work with other inputs":          {func(h *v1alpha1.BareMetalHost) { asked(askDeploy)(h); h.Generation++ }, v1alpha1.StateProvisioning, provisioner.Node{State: node.DeployWait}, false},
	} {
		if got := suffices(newScope(testHost(tt.host), testNow, time.Minute), tt.node, tt.state); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestOnlyAYoungDiscoveredHostIsNotWrittenYet(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*scope)
		err    error
		want   time.Duration
	}{
		"discovered":                    {nil, nil, deferralLimit - 5*time.Second},
		"of an error":                   {nil, errTest, 0},
		"not restored":                  {func(s *scope) { s.restored = false }, nil, 0},
		"without a node":                {func(s *scope) { s.found = nil }, nil, 0},
		"available":                     {func(s *scope) { s.moveTo(v1alpha1.StateAvailable) }, nil, 0},
		"in need of a person":           {func(s *scope) { s.waiting("Another client uses the node") }, nil, 0},
		"with a warning":                {func(s *scope) { s.warn("Reason", "text") }, nil, 0},
		"with an event":                 {func(s *scope) { s.note("Reason", "text") }, nil, deferralLimit - 5*time.Second},
		"being deleted":                 {func(s *scope) { s.host.DeletionTimestamp = &metav1.Time{Time: testNow} }, nil, 0},
		"whose machine takes longer":    {func(s *scope) { s.now = s.now.Add(time.Minute) }, nil, 0},
		"restored in an advanced state": {func(s *scope) { s.moveTo(v1alpha1.StateProvisioned) }, nil, 0},
	} {
		s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
			h.CreationTimestamp = metav1.NewTime(testNow.Add(-5 * time.Second))
		}), testNow, time.Minute)
		s.restored, s.found = true, &provisioner.Node{}
		s.moveTo(v1alpha1.StatePreparing)
		s.working(v1alpha1.PreparingReason, messagePreparing)
		if tt.change != nil {
			tt.change(s)
		}
		if got := decideDeferral(s, tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestOnlyTheRequestThatMakesANodeAvailableIsNotWrittenAtOnce(t *testing.T) {
	provides := func(s *scope) { s.asked(v1alpha1.OperationPrepare, askProvide, provisioner.Node{}) }
	for name, tt := range map[string]struct {
		stored func(*v1alpha1.BareMetalHost)
		change func(*scope)
		err    error
		want   time.Duration
	}{
		"asked":              {nil, provides, nil, deferralLimit - 5*time.Second},
		"under way":          {nil, nil, nil, deferralLimit - 5*time.Second},
		"takes longer":       {nil, func(s *scope) { s.now = s.now.Add(time.Minute) }, nil, 0},
		"failed":             {nil, provides, errTest, 0},
		"available":          {nil, func(s *scope) { s.moveTo(v1alpha1.StateAvailable) }, nil, 0},
		"waits for somebody": {nil, func(s *scope) { s.waiting("Another client uses the node") }, nil, 0},
		"tells something":    {nil, func(s *scope) { s.note("Reason", "text") }, nil, 0},
		"is configured":      {nil, func(s *scope) { s.intends(v1alpha1.OperationPrepare, askClean, "plan", provisioner.Node{}) }, nil, 0},
		"is released":        {nil, func(s *scope) { s.host.Annotations = map[string]string{"a": "b"} }, nil, 0},
		"gets another BMC":   {nil, func(s *scope) { s.host.Status.GoodBMC = "https://192.0.2.2" }, nil, 0},
		"compares machines":  {nil, func(s *scope) { s.unverified("The BMC tells nothing") }, nil, 0},
		"gets another spec":  {nil, func(s *scope) { s.host.Spec.Architecture = "aarch64" }, nil, 0},
		"tried before": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Operation = v1alpha1.OperationStatus{Name: v1alpha1.OperationPrepare, Failures: 1}
		}, provides, nil, 0},
		"was in another state": {func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateInspecting }, provides, nil, 0},
		"being deleted":        {nil, func(s *scope) { s.host.DeletionTimestamp = &metav1.Time{Time: testNow} }, nil, 0},
	} {
		s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.BMC.Address = "redfish://192.0.2.1"
			h.Status.Provisioning.State = v1alpha1.StatePreparing
			h.Status.LastUpdated = &metav1.Time{Time: testNow.Add(-5 * time.Second)}
			if tt.stored != nil {
				tt.stored(h)
			}
		}), testNow, time.Minute)
		s.host.Status.Provisioning.State = v1alpha1.StatePreparing
		s.working(v1alpha1.PreparingReason, messagePreparing)
		if tt.change != nil {
			tt.change(s)
		}
		if got := decideDeferral(s, tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestNodeNamedByAnAnnotationWakesItsHostUntilThatIsWritten(t *testing.T) {
	named := func(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
		return testHost(func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.StatusAnnotation: statusOf("", "n1")}
			if change != nil {
				change(h)
			}
		})
	}
	for name, tt := range map[string]struct {
		host     *v1alpha1.BareMetalHost
		named    bool
		unlinked bool
	}{
		"discovered": {named(nil), true, false},
		"written":    {named(func(h *v1alpha1.BareMetalHost) { h.Status.LastUpdated = &metav1.Time{Time: testNow} }), false, true},
		"no JSON":    {named(func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.StatusAnnotation] = "{" }), false, true},
		"no node":    {named(func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.StatusAnnotation] = "{}" }), false, true},
		"linked":     {testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "n1" }), false, false},
	} {
		if got := len(namedNodeOf(tt.host)) == 1; got != tt.named {
			t.Errorf("%s: named %v, want %v", name, got, tt.named)
		}
		if got := isUnlinked(tt.host); got != tt.unlinked {
			t.Errorf("%s: unlinked %v, want %v", name, got, tt.unlinked)
		}
	}
}
