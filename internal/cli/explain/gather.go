package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// Sources are where facts come from.
type Sources struct {
	// Kube reads from the API server, not from a cache. Nil means that the server cannot be
	// reached; KubeProblem then says why.
	Kube        client.Reader
	KubeProblem string
	// Namespace is where a host is looked for first; empty means "default". With OnlyThere, other
	// namespaces are not searched.
	Namespace string
	OnlyThere bool
	Engine    *ironic.Client
	Now       time.Time
}

// ErrAmbiguous means that several hosts have the name that the user gave.
var ErrAmbiguous = errors.New("several hosts have that name")

// warningAge is how old a warning may be to be mentioned.
const warningAge = time.Hour

// Gather collects the facts about a host, asked as NAME or NAMESPACE/NAME, or about a node, asked
// as name or UUID. A source that cannot be reached becomes a problem in the facts. An error is
// [ErrAmbiguous] or the context's.
func (s Sources) Gather(ctx context.Context, asked string) (Facts, error) {
	f := Facts{Now: s.Now, Asked: asked, HostProblem: s.KubeProblem}
	if s.OnlyThere {
		f.Where = s.Namespace
	}
	host, err := s.hostNamed(ctx, asked)
	if err := s.note(&f.HostProblem, kubeText, err); err != nil {
		return f, err
	}
	ident := asked
	if host != nil {
		ident = cmp.Or(host.Status.Provisioning.ID, nodeName(host))
	}
	engineNode, err := s.node(ctx, ident)
	f.NodeError = err
	if err := s.note(&f.NodeProblem, engineText, err); err != nil {
		return f, err
	}
	if host == nil && engineNode != nil {
		host, err = s.hostOf(ctx, *engineNode)
		if err := s.note(&f.HostProblem, kubeText, err); err != nil {
			return f, err
		}
	}
	f.Node = engineNode.facts()
	if host != nil {
		f.Host = hostFacts(host)
		// Events are optional: users who may not read them still get the rest.
		f.Host.Warning, _ = s.warning(ctx, host)
		return f, ctx.Err()
	}
	if engineNode != nil && f.HostProblem == "" {
		f.Discoveries, err = s.discoveries(ctx, engineNode.UUID)
		if err := s.note(&f.HostProblem, kubeText, err); err != nil {
			return f, err
		}
	}
	return f, ctx.Err()
}

// note records err in words as a problem, unless the error ends the gathering.
func (s Sources) note(problem *string, words func(error) string, err error) error {
	if err == nil || errors.Is(err, ErrAmbiguous) || errors.Is(err, context.Canceled) {
		return err
	}
	*problem = words(err)
	return nil
}

// hostNamed finds a host by name: in the namespace given with the name, else in the usual
// namespace, else in any.
func (s Sources) hostNamed(ctx context.Context, asked string) (*v1alpha1.BareMetalHost, error) {
	if s.Kube == nil {
		return nil, nil
	}
	namespace, name, given := strings.Cut(asked, "/")
	if !given {
		namespace, name, given = strings.Cut(asked, "~")
	}
	if !given {
		namespace, name = cmp.Or(s.Namespace, metav1.NamespaceDefault), asked
	}
	host := new(v1alpha1.BareMetalHost)
	err := s.Kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, host)
	switch {
	case err == nil:
		return host, nil
	case !apierrors.IsNotFound(err):
		return nil, err
	case given, s.OnlyThere:
		return nil, nil
	}
	var list v1alpha1.BareMetalHostList
	err = s.Kube.List(ctx, &list, client.MatchingFields{"metadata.name": name})
	switch {
	case apierrors.IsForbidden(err), err == nil && len(list.Items) == 0:
		return nil, nil
	case err != nil:
		return nil, err
	case len(list.Items) > 1:
		return nil, fmt.Errorf("%w, in the namespaces %s; choose one with -n", ErrAmbiguous, namespaces(list.Items))
	}
	return &list.Items[0], nil
}

func namespaces(hosts []v1alpha1.BareMetalHost) string {
	names := make([]string, len(hosts))
	for i := range hosts {
		names[i] = hosts[i].Namespace
	}
	return strings.Join(names, ", ")
}

// hostOf finds the host of a node; it reads hosts page by page.
func (s Sources) hostOf(ctx context.Context, n engineNode) (*v1alpha1.BareMetalHost, error) {
	if s.Kube == nil {
		return nil, nil
	}
	page := client.ListOptions{Limit: 500}
	for {
		var list v1alpha1.BareMetalHostList
		if err := s.Kube.List(ctx, &list, &page); err != nil {
			return nil, err
		}
		for i := range list.Items {
			host := &list.Items[i]
			if host.Status.Provisioning.ID == n.UUID || n.Name != "" && nodeName(host) == n.Name {
				return host, nil
			}
		}
		if list.Continue == "" {
			return nil, nil
		}
		page.Continue = list.Continue
	}
}

func (s Sources) discoveries(ctx context.Context, nodeID string) ([]Discovery, error) {
	if s.Kube == nil {
		return nil, nil
	}
	var list discovery.BareMetalHostDiscoveryList
	if err := s.Kube.List(ctx, &list); err != nil {
		return nil, err
	}
	found := make([]Discovery, len(list.Items))
	for i := range list.Items {
		found[i] = discoveryFacts(&list.Items[i], nodeID)
	}
	return found, nil
}

// warning returns the host's newest warning event that is recent enough to matter, nil if there is
// none.
func (s Sources) warning(ctx context.Context, host *v1alpha1.BareMetalHost) (*Event, error) {
	var list corev1.EventList
	err := s.Kube.List(ctx, &list, client.InNamespace(host.Namespace), client.MatchingFields{
		"involvedObject.kind": "BareMetalHost", "involvedObject.name": host.Name, "type": corev1.EventTypeWarning,
	})
	if err != nil {
		return nil, err
	}
	var newest *Event
	for i := range list.Items {
		event := eventFacts(&list.Items[i])
		if s.Now.Sub(event.At) <= warningAge && (newest == nil || event.At.After(newest.At)) {
			newest = &event
		}
	}
	return newest, nil
}

func (s Sources) node(ctx context.Context, ident string) (*engineNode, error) {
	if strings.Contains(ident, "/") {
		return nil, nil // no node has that name or UUID
	}
	n, err := s.Engine.Node(ctx, ident)
	switch {
	case errors.Is(err, ironic.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &engineNode{n}, nil
}

// kubeText says in a few words why Kubernetes could not be reached.
func kubeText(err error) string {
	if meta.IsNoMatchError(err) {
		return "the cluster knows no BareMetalHosts; install Ingot's CRDs"
	}
	return lastCause(err)
}

// engineText says why the engine did not show the node.
func engineText(err error) string {
	var failed *ironic.Error
	if errors.As(err, &failed) && failed.Message != "" {
		return failed.Message
	}
	return err.Error()
}
