package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// withSecret creates a Secret with a password for hosts.
func (l *life) withSecret(name, password string) {
	l.Helper()
	l.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte(password)},
	})
}

// held reports whether a Secret has the finalizer of a host. It fails if a host owns it.
func (l *life) held(name string) bool {
	l.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name}}
	if err := l.api.Get(l.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		l.Fatal(err)
	}
	if len(secret.OwnerReferences) != 0 {
		l.Errorf("Secret %s has the owners %v: it would be deleted with them", name, secret.OwnerReferences)
	}
	return controllerutil.ContainsFinalizer(secret, v1alpha1.SecretFinalizer)
}

func (l *life) uses(host, secret string) {
	l.Helper()
	l.edit(host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = secret })
}

func TestSecretsThatAHostLeftAreReleased(t *testing.T) {
	l := newLife(t, nil)
	l.withSecret("bad", demo.WrongPassword)
	l.withSecret("new", "calvin")
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "bad" })
	l.fails("web", v1alpha1.ErrorRegistration)
	if !l.held("bad") {
		t.Error("the Secret that is tried may be deleted")
	}
	l.uses("web", "web-bmc")
	l.rests("web", v1alpha1.StateAvailable)
	if l.held("bad") || !l.held("web-bmc") {
		t.Errorf("held: the Secret that was only tried %t, the one in use %t; want the last alone", l.held("bad"), l.held("web-bmc"))
	}
	l.uses("web", "none")
	l.fails("web", v1alpha1.ErrorRegistration)
	if !l.held("web-bmc") {
		t.Error("the Secret that worked may be deleted before another one does")
	}
	l.uses("web", "new")
	l.rests("web", v1alpha1.StateAvailable)
	if l.held("web-bmc") || !l.held("new") {
		t.Errorf("held: the former Secret %t, the one in use %t; want the last alone", l.held("web-bmc"), l.held("new"))
	}
	l.remove(l.host("web"))
	l.gone("web")
	if l.held("new") {
		t.Error("the Secret of a deleted host cannot be deleted")
	}
}

func TestSecretOfAFreeHostMovesWithIt(t *testing.T) {
	for name, labels := range map[string]map[string]string{"no label": nil, "a person's label": {v1alpha1.MoveLabel: "true"}} {
		l := newLife(t, nil)
		l.add("web", nil)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc"}}
		if err := l.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			t.Fatal(err)
		}
		secret.Labels = labels
		if err := l.api.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		l.rests("web", v1alpha1.StateAvailable)
		if err := l.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			t.Fatal(err)
		}
		if value, moves := secret.Labels[v1alpha1.MoveLabel]; !moves || value != labels[v1alpha1.MoveLabel] {
			t.Errorf("%s: the Secret moves %v, labels %v", name, moves, secret.Labels)
		}
	}
}

func TestSharedSecretIsReleasedByTheLastHost(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.add("db", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "web-bmc" })
	for _, name := range []string{"web", "db"} {
		l.rests(name, v1alpha1.StateAvailable)
	}
	l.remove(l.host("web"))
	l.gone("web")
	if !l.held("web-bmc") {
		t.Error("the Secret of the other host may be deleted")
	}
	l.remove(l.host("db"))
	l.gone("db")
	if l.held("web-bmc") {
		t.Error("the Secret of deleted hosts cannot be deleted")
	}
}

func TestSecretThatAnEarlierVersionOwnedOutlivesItsHost(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc"}}
	if err := l.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Name: "web", UID: types.UID("uid of web")}}
	if err := l.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	l.rests("web", v1alpha1.StateAvailable)
	l.remove(l.host("web"))
	l.gone("web")
	if l.held("web-bmc") {
		t.Error("the Secret of a deleted host cannot be deleted")
	}
}

func TestSecretIsClaimedBeforeItIsComplete(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "empty" })
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "empty"}})
	l.fails("web", v1alpha1.ErrorRegistration)
	if !l.held("empty") {
		t.Error("the Secret is not claimed")
	}
	l.uses("web", "web-bmc")
	l.rests("web", v1alpha1.StateAvailable)
	if l.held("empty") {
		t.Error("the Secret that was only tried is not released")
	}
}

func TestEachVersionOfASecretThatCannotBeUsedFailsOnceInAPause(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "late" })
	counted := func(what string, failures int) {
		t.Helper()
		before := l.host("web").ResourceVersion
		l.pass("web")
		if h := l.host("web"); h.Status.ErrorCount != failures || h.ResourceVersion != before {
			t.Errorf("%s: %d failures and, in one more pass, version %s after %s; want %d and no write", what, h.Status.ErrorCount, h.ResourceVersion, before, failures)
		}
	}
	l.fails("web", v1alpha1.ErrorRegistration) // which lets the pause after that pass
	l.pass("web")
	counted("missing", 2)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "late"}, Data: map[string][]byte{"username": []byte("root")}})
	l.pass("web")
	counted("incomplete", 3)
	l.now = l.now.Add(time.Hour)
	l.pass("web")
	counted("incomplete after the pause", 4)
}
