package host

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// written are the passwords that the node of a host was given, oldest first.
func (l *life) written(name string) []string {
	var all []string
	for _, e := range l.engine.Effects(provisioner.NodeName("metal", name)) {
		if r, ok := e.Request.(provisioner.Registration); ok {
			all = append(all, r.Credentials.Password)
		}
	}
	return all
}

// accessChecks counts how often the engine tried the credentials that a node has.
type accessChecks struct {
	*demo.Engine

	asked *int
}

func (c accessChecks) CheckAccess(ctx context.Context, id string) error {
	*c.asked++
	return c.Engine.CheckAccess(ctx, id)
}

// byHand is a person who gives the node of a host another password and has the engine verify that.
func (l *life) byHand(name, password string) {
	l.Helper()
	h, n := l.host(name), l.nodeOf(name)
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil {
		l.Fatal(err)
	}
	_, err = l.engine.Update(l.Context(), n.ID, provisioner.Registration{
		Name: n.Name, Mark: n.Mark, Access: &access, Credentials: bmc.Credentials{Username: "root", Password: password}, CredentialsVersion: n.CredentialsVersion,
	}, provisioner.UpdateOptions{WithCredentials: true})
	if err == nil {
		err = l.engine.Manage(l.Context(), n.ID)
	}
	if err != nil {
		l.Fatal(err)
	}
}

func TestSecretThatTheBMCRefusesIsNotAcceptedWhenAPersonMadeTheNodeManageable(t *testing.T) {
	l := newLife(t, nil)
	asked := 0
	l.change = func(c *Config) { c.Engine = accessChecks{l.engine, &asked} }
	l.restart()
	l.add("web", nil)
	l.secret("web", demo.WrongPassword)
	l.fails("web", v1alpha1.ErrorRegistration)
	l.byHand("web", "calvin")
	if n := l.nodeOf("web"); n.State != node.Manageable {
		t.Fatalf("node is in state %q, want it manageable with the right password", n.State)
	}
	before := len(l.effects("web"))
	for range 20 {
		l.now = l.now.Add(max(l.pass("web"), time.Second))
	}
	h := l.host("web")
	if h.Status.Provisioning.State != v1alpha1.StateRegistering || h.Status.ErrorType != v1alpha1.ErrorRegistration || h.Status.GoodCredentials.Reference != nil {
		t.Errorf("host is %q with the error %q and the good credentials %v; want it to be registered with other ones first",
			h.Status.Provisioning.State, h.Status.ErrorMessage, h.Status.GoodCredentials)
	}
	if slices.Contains(l.events.reasons, eventBMCAccessValidated) {
		t.Error("there is an event that says that the access was validated")
	}
	l.does("web", before)
	if asked == 0 || asked > 20 {
		t.Errorf("the BMC was asked %d times, want once in each wait", asked)
	}

	l.secret("web", "right")
	h = l.rests("web", v1alpha1.StateAvailable)
	if got := l.written("web"); got[len(got)-1] != "right" || h.Status.GoodCredentials.Version != h.Status.TriedCredentials.Version || h.Status.ErrorType != "" {
		t.Errorf("the node was given %q, and the status is %+v; want it with the new password", got, h.Status)
	}
	l.does("web", before, "inspect", "provide", "power on")
	l.tells(eventBMCAccessValidated)
}

func TestSecretThatChangesWhileTheEngineVerifiesIsTriedBeforeItIsAccepted(t *testing.T) {
	for password, accepted := range map[string]bool{demo.WrongPassword: false, "right": true} {
		l := newLife(t, nil)
		l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbManage: time.Minute}})
		asked := 0
		l.change = func(c *Config) { c.Engine = accessChecks{l.engine, &asked} }
		l.restart()
		l.add("web", nil)
		l.until("web", "being verified", func(h *v1alpha1.BareMetalHost) bool {
			return h.Status.Provisioning.ID != "" && l.nodeOf("web").State == node.Verifying
		})
		l.secret("web", password)
		if accepted {
			h := l.rests("web", v1alpha1.StateAvailable)
			if h.Status.GoodCredentials.Version != h.Status.TriedCredentials.Version {
				t.Errorf("good credentials %+v, tried ones %+v", h.Status.GoodCredentials, h.Status.TriedCredentials)
			}
		} else if h := l.fails("web", v1alpha1.ErrorRegistration); h.Status.GoodCredentials.Reference != nil || slices.Contains(l.effects("web"), "inspect") {
			t.Errorf("good credentials %+v, asked of the machine %q; want neither of a Secret that nobody tried", h.Status.GoodCredentials, l.effects("web"))
		}
		if asked != 1 {
			t.Errorf("%s: the BMC was asked %d times, want once", password, asked)
		}
	}
}

func TestCredentialsThatTheEngineHasVerifiedAreNotTriedAgain(t *testing.T) {
	l := newLife(t, nil)
	asked := 0
	l.change = func(c *Config) { c.Engine = accessChecks{l.engine, &asked} }
	l.restart()
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	l.secret("web", "other") // that of a host in use is tried by the next call
	l.rests("web", v1alpha1.StateAvailable)
	if asked != 0 {
		t.Errorf("the BMC was asked %d times beside its registration", asked)
	}
}

func TestNodeUnderWorkIsNotRegisteredBeforeItHasTheCredentials(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.secret("web", demo.WrongPassword)
	l.fails("web", v1alpha1.ErrorRegistration)
	l.byHand("web", "calvin")
	l.node("web", func(n *provisioner.Node) { n.Busy = true })
	for range 5 {
		l.now = l.now.Add(max(l.pass("web"), time.Second))
	}
	if h := l.host("web"); h.Status.Provisioning.State != v1alpha1.StateRegistering {
		t.Errorf("host is in state %q, want it to wait for the node", h.Status.Provisioning.State)
	}
}

func TestRegistrationThatFailsNamesWhatTheHostHasForItsBMC(t *testing.T) {
	for name, tt := range map[string]struct {
		address string
		want    []string
		not     string
	}{
		"Redfish": {testAddress + "web", []string{"spec.bmc", "Secret web-bmc", "spec.bmc.disableCertificateVerification", "not in its node"}, ""},
		"IPMI":    {"ipmi://192.0.2.9", []string{"spec.bmc", "Secret web-bmc"}, "ertificate"},
	} {
		l := newLife(t, nil)
		l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = tt.address })
		l.secret("web", demo.WrongPassword)
		h := l.fails("web", v1alpha1.ErrorRegistration)
		c := conditionOf(h.Status.Conditions, v1alpha1.ManageableCondition)
		for _, shown := range []string{h.Status.ErrorMessage, c.Message} {
			for _, part := range append(tt.want, "the BMC refuses the credentials") {
				if !strings.Contains(shown, part) {
					t.Errorf("%s: %q does not say %q", name, shown, part)
				}
			}
			if tt.not != "" && strings.Contains(shown, tt.not) {
				t.Errorf("%s: %q is about certificates", name, shown)
			}
		}
		if c.Status != metav1.ConditionFalse {
			t.Errorf("%s: condition %+v", name, c)
		}
	}
}
