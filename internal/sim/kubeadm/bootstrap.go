package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/sim/kubelet"
)

const (
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
	// retryInterval is the pause before an attempt is repeated for which the cluster may not be
	// ready.
	retryInterval = 500 * time.Millisecond
	// userAgent is the name of kubeadm in the API server's logs.
	userAgent = "kubeadm"

	defaultCertificatesDir = "/etc/kubernetes/pki"

	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
	adminUser      = "kubernetes-admin"
	adminGroup     = "system:masters" // of super-admin.conf
)

// Machine is what kubeadm finds on its machine.
type Machine struct {
	Files      map[string][]byte // by their paths
	Hostname   string
	SystemUUID string
}

// Joined is the outcome of a run of kubeadm.
type Joined struct {
	// Kubelet is the configuration with which the kubelet starts.
	Kubelet kubelet.Config
	// admin is the configuration of an administrator; nil on a worker.
	admin *rest.Config
	// taints are those of a control plane machine. The administrator adds them, because a kubelet
	// may not change the taints of its Node after it has registered.
	taints []corev1.Taint
}

// Run does what a command does until it starts the kubelet. The kubelet has to register next. Run
// repeats what the cluster may not be ready for, until ctx ends. The error says what is wrong with
// the configuration, or why the last attempt failed.
func Run(ctx context.Context, command Command, m Machine) (Joined, error) {
	text, ok := m.Files[command.Config]
	if !ok {
		return Joined{}, fmt.Errorf("%s: there is no configuration file %q on the machine", command, command.Config)
	}
	c, err := parse(text)
	if err != nil {
		return Joined{}, fmt.Errorf("%s: %w", command, err)
	}
	var joined Joined
	switch {
	case command.Join && c.join == nil, !command.Join && c.init == nil:
		err = fmt.Errorf("%s has no configuration for it", command.Config)
	case command.Join:
		joined, err = join(ctx, c, m)
	default:
		joined, err = initialize(ctx, c, m)
	}
	if err != nil {
		return Joined{}, fmt.Errorf("%s: %w", command, err)
	}
	return joined, nil
}

// initialize does what "kubeadm init" does.
func initialize(ctx context.Context, c configuration, m Machine) (Joined, error) {
	ca, err := c.authority(m)
	if err != nil {
		return Joined{}, err
	}
	if c.cluster.ControlPlaneEndpoint == "" {
		return Joined{}, errors.New("the ClusterConfiguration has no controlPlaneEndpoint, and a simulated machine serves no API")
	}
	joined, err := c.init.NodeRegistration.controlPlane("https://"+c.cluster.ControlPlaneEndpoint, ca, m)
	if err != nil {
		return Joined{}, err
	}
	err = retry(ctx, func(ctx context.Context) error { return Install(ctx, joined.admin, c.clusterText) })
	if err != nil {
		return Joined{}, err
	}
	user := nodeUserPrefix + joined.Kubelet.NodeName
	joined.Kubelet.Certificate, joined.Kubelet.Key, err = ca.client(time.Now(), user, nodesGroup)
	return joined, err
}

// authority returns the CA of the cluster. Cluster API gives it to the machines of the control
// plane.
func (c configuration) authority(m Machine) (*authority, error) {
	dir := c.cluster.CertificatesDir
	if dir == "" {
		dir = defaultCertificatesDir
	}
	certificate, key := m.Files[path.Join(dir, "ca.crt")], m.Files[path.Join(dir, "ca.key")]
	if certificate == nil || key == nil {
		return nil, fmt.Errorf("%s has no ca.crt and ca.key; the API server of the cluster runs elsewhere, and knows its own CA only", dir)
	}
	return newAuthority(certificate, key)
}

// controlPlane prepares a machine of the control plane, except for the certificate of its kubelet.
func (r nodeRegistration) controlPlane(server string, ca *authority, m Machine) (Joined, error) {
	certificate, key, err := ca.client(time.Now(), adminUser, adminGroup)
	if err != nil {
		return Joined{}, err
	}
	config, err := r.kubelet(server, ca.pem, m)
	if err != nil {
		return Joined{}, err
	}
	config.ControlPlane = true
	taints := r.Taints
	if taints == nil {
		taints = []corev1.Taint{controlPlaneTaint}
	}
	return Joined{Kubelet: config, taints: taints, admin: &rest.Config{
		Host: server, Timeout: requestTimeout, UserAgent: userAgent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: certificate, KeyData: key},
	}}, nil
}

// kubelet returns the configuration of the kubelet, except for its certificate.
func (r nodeRegistration) kubelet(server string, ca []byte, m Machine) (kubelet.Config, error) {
	labels, err := r.labels()
	if err != nil {
		return kubelet.Config{}, err
	}
	name := r.nodeName(m.Hostname)
	if name == "" {
		return kubelet.Config{}, errors.New("the machine has no host name, and its configuration names no node")
	}
	return kubelet.Config{
		Server: server, CA: ca, NodeName: name, ProviderID: r.KubeletExtraArgs["provider-id"], Labels: labels, Taints: r.Taints,
	}, nil
}

// join does what "kubeadm join" does.
func join(ctx context.Context, c configuration, m Machine) (Joined, error) {
	discovery := c.join.Discovery.BootstrapToken
	if discovery == nil || discovery.APIServerEndpoint == "" {
		return Joined{}, errors.New("the JoinConfiguration has no discovery.bootstrapToken with an apiServerEndpoint")
	}
	t, err := parseToken(discovery.Token)
	if err != nil {
		return Joined{}, err
	}
	var config *rest.Config
	err = retry(ctx, func(ctx context.Context) (err error) {
		config, err = discover(ctx, discovery, t)
		return err
	})
	if err != nil {
		return Joined{}, err
	}
	var joined Joined
	if c.join.ControlPlane != nil {
		ca, err := c.authority(m)
		if err != nil {
			return Joined{}, err
		}
		joined, err = c.join.NodeRegistration.controlPlane(config.Host, ca, m)
		if err != nil {
			return Joined{}, err
		}
	} else if joined.Kubelet, err = c.join.NodeRegistration.kubelet(config.Host, config.CAData, m); err != nil {
		return Joined{}, err
	}
	config.BearerToken = t.String()
	return joined, joined.bootstrapTLS(ctx, config, m)
}

// bootstrapTLS gets the certificate of the kubelet. It does so as the user of a bootstrap token.
func (j *Joined) bootstrapTLS(ctx context.Context, bootstrap *rest.Config, m Machine) error {
	connections, c, err := kubelet.Client(bootstrap)
	if err != nil {
		return err
	}
	defer connections.CloseIdleConnections()
	name := j.Kubelet.NodeName
	err = retry(ctx, func(ctx context.Context) error {
		var node corev1.Node
		err := c.Get(ctx, client.ObjectKey{Name: name}, &node)
		if err == nil && isReady(&node) && node.Status.NodeInfo.SystemUUID != m.SystemUUID {
			return fmt.Errorf("a Node %q of another machine is in the cluster and ready; give this one another name or delete that", name)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	request, key, err := signingRequest(nodeUserPrefix+name, nodesGroup)
	if err != nil {
		return err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if err := retry(ctx, func(ctx context.Context) error { return c.Create(ctx, csr) }); err != nil {
		return fmt.Errorf("request the certificate of the kubelet: %w", err)
	}
	err = retry(ctx, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return err
		}
		if len(csr.Status.Certificate) == 0 {
			return fmt.Errorf("CertificateSigningRequest %s is not approved and signed", csr.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the certificate of the kubelet: %w", err)
	}
	j.Kubelet.Certificate, j.Kubelet.Key = csr.Status.Certificate, key
	return nil
}

// Mark adds the label and the taints of a control plane machine to its Node, which must have
// registered. It does nothing for a worker.
func (j Joined) Mark(ctx context.Context) error {
	if j.admin == nil {
		return nil
	}
	connections, c, err := kubelet.Client(j.admin)
	if err != nil {
		return err
	}
	defer connections.CloseIdleConnections()
	return retry(ctx, func(ctx context.Context) error {
		var node corev1.Node
		if err := c.Get(ctx, client.ObjectKey{Name: j.Kubelet.NodeName}, &node); err != nil {
			return fmt.Errorf("mark the Node %s as one of the control plane: %w", j.Kubelet.NodeName, err)
		}
		before := node.DeepCopy()
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[controlPlaneLabel] = ""
		for _, taint := range j.taints {
			if !hasTaint(node.Spec.Taints, taint) {
				node.Spec.Taints = append(node.Spec.Taints, taint)
			}
		}
		if err := c.Patch(ctx, &node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("mark the Node %s as one of the control plane: %w", j.Kubelet.NodeName, err)
		}
		return nil
	})
}

func hasTaint(taints []corev1.Taint, wanted corev1.Taint) bool {
	for _, taint := range taints {
		if taint.MatchTaint(&wanted) {
			return true
		}
	}
	return false
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// retry repeats an attempt until it succeeds or ctx ends; the error is then that of the last
// attempt. An attempt that the API server finds invalid is not repeated.
func retry(ctx context.Context, attempt func(context.Context) error) error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	var last error
	for {
		err := attempt(ctx)
		if err == nil || apierrors.IsInvalid(err) {
			return err
		}
		if last == nil || ctx.Err() == nil { // not the error of a request that the end of ctx cut
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
