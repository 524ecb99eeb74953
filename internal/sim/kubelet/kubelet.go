// Package kubelet shows to an API server what the kubelet of an operating system shows. It
// registers its Node, renews its Lease, says that the Node is ready, and publishes the mirror pods
// of the static pods of a control plane. It runs no containers and serves nothing.
//
// Like the real kubelet, it registers its Node once, when it starts. A Node that somebody deletes
// comes back only with the next boot of its machine.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config is what a kubelet finds on its disk when it starts.
type Config struct {
	// Server is the URL of the API server, and CA the certificate of its CA, in PEM.
	Server string `json:"server"`
	CA     []byte `json:"ca"`
	// Certificate and Key authenticate the kubelet, in PEM.
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`

	NodeName string `json:"nodeName"`
	// ProviderID, Labels and Taints are those with which the Node is registered.
	ProviderID string            `json:"providerID,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Taints     []corev1.Taint    `json:"taints,omitempty"`
	// ControlPlane says that the disk has the manifests of the static pods of a control plane.
	ControlPlane bool `json:"controlPlane,omitempty"`
}

// Machine is what a kubelet finds out about its machine.
type Machine struct {
	// Address is the Node's InternalIP.
	Address string
	// SystemUUID is the UUID of the machine, and BootID that of this boot.
	SystemUUID, BootID string
}

// DefaultHeartbeat is how often a kubelet renews its Lease.
const DefaultHeartbeat = 10 * time.Second

const (
	// leaseHeartbeats is how many heartbeats a Lease lasts.
	leaseHeartbeats = 4
	// statusInterval is how often the status of a Node is written if nothing changes.
	statusInterval = 5 * time.Minute
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
	// userAgent is the name of kubelets in the API server's logs.
	userAgent = "kubelet"
)

// Kubelet is a kubelet. Its methods are called by one goroutine.
type Kubelet struct {
	config    Config
	machine   Machine
	heartbeat time.Duration
	version   string

	http   *http.Client
	client client.Client
	uid    types.UID // of the Node
	// reported is when the status of the Node was written.
	reported time.Time
}

// New returns a kubelet that has not registered. A heartbeat of zero means [DefaultHeartbeat].
// The error says what is wrong with the configuration.
func New(config Config, machine Machine, heartbeat time.Duration) (*Kubelet, error) {
	if heartbeat == 0 {
		heartbeat = DefaultHeartbeat
	}
	k := &Kubelet{config: config, machine: machine, heartbeat: heartbeat}
	var err error
	k.http, k.client, err = Client(&rest.Config{
		Host: config.Server, Timeout: requestTimeout, UserAgent: userAgent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: config.CA, CertData: config.Certificate, KeyData: config.Key},
	})
	if err != nil {
		return nil, fmt.Errorf("start the kubelet of %s: %w", config.NodeName, err)
	}
	return k, nil
}

// Client returns a client for the kinds of objects that bootstrapping and kubelets use. The client
// does not ask the API server which kinds exist. The caller closes the connections.
func Client(config *rest.Config) (*http.Client, client.Client, error) {
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	scheme, mapper := kinds()
	c, err := client.New(config, client.Options{HTTPClient: connections, Scheme: scheme, Mapper: mapper})
	return connections, c, err
}

// Close ends the connections of the kubelet.
func (k *Kubelet) Close() { k.http.CloseIdleConnections() }

// Register creates the Node, or takes over an existing Node of the same name, and says that the
// Node is ready. It returns the Node's UID.
func (k *Kubelet) Register(ctx context.Context) (types.UID, error) {
	if k.version == "" {
		version, err := serverVersion(ctx, k.http, k.config.Server)
		if err != nil {
			return "", err
		}
		k.version = version
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName, Labels: k.labels()},
		Spec:       corev1.NodeSpec{ProviderID: k.config.ProviderID, Taints: k.config.Taints},
		Status:     k.status(nil, time.Now()),
	}
	err := k.client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		err = k.takeOver(ctx, node)
	}
	if err != nil {
		return "", fmt.Errorf("register the Node %s: %w", k.config.NodeName, err)
	}
	k.uid, k.reported = node.UID, time.Now()
	return node.UID, nil
}

// labels returns the labels with which the Node is registered.
func (k *Kubelet) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: k.config.NodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, k.config.Labels)
	return labels
}

// takeOver reads the existing Node into node and makes it ready again. The Node keeps its taints
// and its provider ID, as with the real kubelet.
func (k *Kubelet) takeOver(ctx context.Context, node *corev1.Node) error {
	if err := k.client.Get(ctx, client.ObjectKey{Name: k.config.NodeName}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, k.labels())
	if err := k.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return err
	}
	return k.report(ctx, node)
}

// Run renews the Lease, keeps the Node ready and publishes the mirror pods. It returns nil when ctx
// ends, or [ErrNodeGone] when the Node is gone. A request that fails is repeated with the next
// heartbeat; report is called with each error that differs from the one before.
func (k *Kubelet) Run(ctx context.Context, report func(error)) error {
	ticker := time.NewTicker(k.heartbeat)
	defer ticker.Stop()
	for said := ""; ; {
		err := k.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNodeGone):
			return err
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ErrNodeGone means that somebody has deleted the Node.
var ErrNodeGone = errors.New("the Node is gone")

// beat does the work of one heartbeat.
func (k *Kubelet) beat(ctx context.Context) error {
	var node corev1.Node
	err := k.client.Get(ctx, client.ObjectKey{Name: k.config.NodeName}, &node)
	if apierrors.IsNotFound(err) || err == nil && node.UID != k.uid {
		return fmt.Errorf("%w: %s with UID %s", ErrNodeGone, k.config.NodeName, k.uid)
	}
	if err != nil {
		return err
	}
	err = k.renew(ctx)
	if !isReady(&node) || time.Since(k.reported) >= statusInterval {
		err = errors.Join(err, k.report(ctx, &node))
	}
	if k.config.ControlPlane {
		err = errors.Join(err, k.publish(ctx))
	}
	return err
}

// report writes the status of the Node.
func (k *Kubelet) report(ctx context.Context, node *corev1.Node) error {
	before := node.DeepCopy()
	node.Status = k.status(node.Status.Conditions, time.Now())
	if err := k.client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of the Node %s: %w", node.Name, err)
	}
	k.reported = time.Now()
	return nil
}

// renew renews the Lease. If there is none, it creates it.
func (k *Kubelet) renew(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: k.config.NodeName}}
	err := k.client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read the Lease of the Node %s: %w", k.config.NodeName, err)
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.config.NodeName, UID: k.uid}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       &k.config.NodeName,
		LeaseDurationSeconds: new(int32(max(1, leaseHeartbeats*k.heartbeat/time.Second))),
		RenewTime:            &metav1.MicroTime{Time: time.Now()},
	}
	if missing {
		err = k.client.Create(ctx, lease)
	} else {
		err = k.client.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("renew the Lease of the Node %s: %w", k.config.NodeName, err)
	}
	return nil
}
