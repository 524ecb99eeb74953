//go:build fault

package fault_test

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/process"
)

// detach takes the host in use away from the engine, and gives it back. Its machine must not be
// touched.
func (l *hostLife) detach() {
	l.t.Helper()
	_, since := l.machine.effects(0)
	l.detached()
	l.change(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
	l.becomes("attached", inUse)
	l.nothingDone(since)
}

// detached waits until the host is detached and its node is gone.
func (l *hostLife) detached() *v1alpha1.BareMetalHost {
	l.t.Helper()
	node := l.uuid
	l.annotate(v1alpha1.DetachedAnnotation)
	h := l.becomes("detached", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached && h.Status.Provisioning.ID == ""
	})
	l.losesNode(node)
	return h
}

// move moves the host in use to the other cluster as clusterctl does: it pauses the host and copies
// it with its status. Before the move, the other cluster tries to get the same machine, and
// afterwards this one does. Nothing is done to the machine.
func (l *hostLife) move() {
	l.t.Helper()
	_, since := l.machine.effects(0)
	from, to, node := l.places[0], l.places[1], l.uuid
	h := l.read()
	l.at(to, func() { l.isRefused(h) })
	l.becomes("as it was", inUse)

	l.change(func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: v1alpha1.PausedByClusterAPI, v1alpha1.StatusAnnotation: l.statusOf(h)}
	})
	l.copyTo(to, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.PausedAnnotation) })
	l.hostPlace = to
	l.becomes("moved", inUse)
	if l.uuid != node {
		l.t.Errorf("the moved host has node %s, want %s", l.uuid, node)
	}

	l.at(from, func() {
		l.change(func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }) // cancels the move too late
		l.becomes("refused after it has moved", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorType != "" })
		l.deleteHost()
	})
	l.becomes("in use after the former one was deleted", inUse)
	l.nothingDone(since)
}

// moveDetached moves the host back by detaching it, which also works between two engines.
func (l *hostLife) moveDetached() {
	l.t.Helper()
	_, since := l.machine.effects(0)
	from, to := l.places[1], l.places[0]
	status := l.statusOf(l.detached())
	l.copyTo(to, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.StatusAnnotation: status} })
	l.hostPlace = to
	l.becomes("moved back", inUse)
	l.at(from, l.deleteHost) // its former node had the same name
	l.becomes("in use after the detached one was deleted", inUse)
	l.nothingDone(since)
}

// isRefused registers the machine of another cluster's host. The registration must be refused.
func (l *hostLife) isRefused(h *v1alpha1.BareMetalHost) {
	l.t.Helper()
	l.create(l.secret())
	l.create(&v1alpha1.BareMetalHost{
		ObjectMeta: l.meta(),
		Spec:       v1alpha1.BareMetalHostSpec{Online: true, BootMACAddress: h.Spec.BootMACAddress, BMC: h.Spec.BMC},
	})
	l.becomes("refused", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorType == v1alpha1.ErrorRegistration })
	l.deleteHost()
}

func (l *hostLife) statusOf(h *v1alpha1.BareMetalHost) string {
	l.t.Helper()
	text, err := json.Marshal(h.Status)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// copyTo creates the host and its Secret in another cluster.
func (l *hostLife) copyTo(to *hostPlace, change func(*v1alpha1.BareMetalHost)) {
	l.t.Helper()
	h := l.read()
	h.ResourceVersion, h.UID, h.OwnerReferences, h.ManagedFields = "", "", nil, nil
	change(h)
	l.at(to, func() {
		l.dropSecret()
		l.create(l.secret())
		l.create(h)
	})
}

// dropSecret deletes the Secret that a former host has left.
func (l *hostLife) dropSecret() {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, "the former Secret to be gone", func() bool {
		l.check()
		var secret corev1.Secret
		err := l.kube.Get(l.t.Context(), client.ObjectKeyFromObject(l.secret()), &secret)
		if err == nil {
			err = l.kube.Delete(l.t.Context(), &secret)
		}
		return apierrors.IsNotFound(err)
	})
}
