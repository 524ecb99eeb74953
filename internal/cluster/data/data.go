// Package data gives Metal3Machines their metadata and network data. Two controllers share the
// work. The controller of templates answers Metal3DataClaims: each claim gets a Metal3Data with the
// lowest index that is free in its template. The controller of data renders the template into
// Secrets, with addresses that it claims from pools (contract ipam.cluster.x-k8s.io), and gives the
// addresses back.
//
// Invariants:
//   - No two claims have the same index of a template at a time. The name of a Metal3Data consists
//     of the template and the index, so the API server refuses the second one.
//   - A rendered Secret stays as it is, even if the status of its data is lost. It is written again
//     only when the machine has taken another host, or has lost its own before it ran on it. Before
//     that, the data stops being Ready.
//   - Nothing is read from, or written to, a namespace other than that of the machine.
package data

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of what one template can make.
const (
	// maxIndexes is how many Metal3Data a template has at most; its status names each.
	maxIndexes = 2000
	// maxPools is how many pools the data of one machine takes addresses from at most.
	maxPools = 32
	// maxDocument is how large a rendered document is at most, in bytes.
	maxDocument = 128 << 10
	// maxProblems is how many problems of a template are reported at once.
	maxProblems = 5
	// maxMessage is how long an error message in a status is at most, in bytes.
	maxMessage = 2 << 10
	// maxNote is how long an event is at most, in bytes; the API server refuses longer ones.
	maxNote = 1 << 10
	// maxName is how long the name of an object is at most, in bytes.
	maxName = 253
)

// Waits before another pass, where no change of an object asks for one.
const (
	// retryPause follows a problem that a person has to solve.
	retryPause = time.Minute
	// addressTimeout is how long a provider of addresses may take before the status says
	// that it is waited for.
	addressTimeout = time.Minute
	// addressPause follows a claim or an address that is gone or differs from that in the cache.
	addressPause = 5 * time.Second
)

// Kinds as references name them.
const (
	templateKind      = "Metal3DataTemplate"
	dataKind          = "Metal3Data"
	claimKind         = "Metal3DataClaim"
	metal3MachineKind = "Metal3Machine"
	addressClaimKind  = "IPAddressClaim"
)

// Config is what the controllers need.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Now is the time.
	Now func() time.Time
	// Filter selects the Metal3DataTemplates, Metal3DataClaims and Metal3Data that the controllers
	// work on.
	Filter related.Filter
	// ClaimsByHost names claims for addresses after hosts, so that pools can keep addresses for
	// hosts.
	ClaimsByHost bool
}

// ReadyFor reports whether data is rendered for the host that a machine has chosen. It may have
// been rendered for an earlier host of the machine.
func ReadyFor(d *v1beta2.Metal3Data, m *v1beta2.Metal3Machine) bool {
	host := m.Annotations[v1beta2.HostAnnotation]
	return d.DeletionTimestamp.IsZero() && d.Status.Ready && host != "" && d.Annotations[v1beta2.HostAnnotation] == host
}

// dataName returns the name of the Metal3Data with an index of a template.
func dataName(template string, index int32) string {
	return template + "-" + strconv.Itoa(int(index))
}

// secretRefs returns the Secrets of the data that is rendered from a template. The reference is nil
// for a document that the template does not have.
func secretRefs(d *v1beta2.Metal3Data, t *v1beta2.Metal3DataTemplate) (metaData, networkData *corev1.SecretReference) {
	if t.Spec.MetaData != nil {
		metaData = &corev1.SecretReference{Namespace: d.Namespace, Name: d.Name + "-metadata"}
	}
	if t.Spec.NetworkData != nil {
		networkData = &corev1.SecretReference{Namespace: d.Namespace, Name: d.Name + "-networkdata"}
	}
	return metaData, networkData
}

// refersTo reports whether a reference in a namespace names an object of that namespace.
func refersTo(ref corev1.ObjectReference, namespace, name string) bool {
	return ref.Name == name && (ref.Namespace == "" || ref.Namespace == namespace)
}

// problem is an error that an immediate retry does not solve. Its text is for the status of an
// object.
type problem struct {
	text string
	// expected problems are waits that are normal in the life of machines. No event warns of them.
	expected bool
}

func (p *problem) Error() string { return p.text }

func problemf(format string, args ...any) error {
	return &problem{text: fmt.Sprintf(format, args...)}
}

// waitf returns a problem that is expected.
func waitf(format string, args ...any) error {
	return &problem{text: fmt.Sprintf(format, args...), expected: true}
}

// isExpected reports whether an error is a problem that is expected.
func isExpected(err error) bool {
	var p *problem
	return errors.As(err, &p) && p.expected
}

// problemText returns the text of a problem, cut to what a status holds, and false for other
// errors.
func problemText(err error) (string, bool) {
	var p *problem
	if !errors.As(err, &p) {
		return "", false
	}
	return node.CutTextTo(p.text, maxMessage), true
}

// isLeftAlone reports whether nothing may be done for an object of a Cluster: the filter excludes
// the object, or the object or its Cluster is paused.
func (c Config) isLeftAlone(ctx context.Context, clusterName string, obj client.Object) (bool, error) {
	if !c.Filter.Allows(obj) || related.IsPaused(nil, obj) {
		return true, nil
	}
	if clusterName == "" {
		return false, nil
	}
	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: clusterName}
	if err := c.Client.Get(ctx, key, &cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("read Cluster %s: %w", key, err)
	}
	return related.IsPaused(&cluster, obj), nil
}

// warn records an event about a problem that is new.
func (c Config) warn(obj client.Object, reason, action string, before *string, text string) {
	if text != "" && (before == nil || *before != text) {
		c.Recorder.Eventf(obj, nil, corev1.EventTypeWarning, reason, action, "%s", node.CutTextTo(text, maxNote))
	}
}

// message returns a text as a status has it; an empty text is nil.
func message(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// ownerReference returns a reference that makes owner, an object of this group, the controller of
// another object.
func ownerReference(owner client.Object, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1beta2.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}
}
