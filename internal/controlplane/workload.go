package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// WorkloadOptions make this the control plane of a workload cluster, which machines join with
// bootstrap tokens like those of kubeadm. kube-apiserver accepts these tokens and keeps each Node
// from writing other objects than its own. kube-controller-manager signs cluster-info with the
// tokens, removes the expired ones, signs the certificates of kubelets, and marks silent Nodes.
//
// The roles that kubeadm gives to bootstrap tokens do not exist at first. The first machine of the
// control plane creates them, or whoever makes the cluster.
type WorkloadOptions struct {
	// Authority is the CA of the cluster: its certificate and its key in PEM. Cluster API keeps
	// copies in the Secret CLUSTER-ca. Empty means that this control plane makes its own CA. It
	// cannot be changed later.
	Authority []byte
	// NodeGrace is how long a Node may be silent before it is not ready, in whole seconds. 0 means
	// the default of Kubernetes, 50 s. It must be several times the interval at which kubelets
	// renew their Leases.
	NodeGrace time.Duration
}

// nodeControllers are the controllers of kube-controller-manager that clusters with nodes need in
// addition.
var nodeControllers = []string{
	"bootstrap-signer-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"token-cleaner-controller",
}

// Files of the control plane of a workload cluster, in the pki folder.
const (
	authorityKey = "ca.key" // for kube-controller-manager, which signs with it
	auditPolicy  = "audit-policy.yaml"
)

// auditedDeletions is the policy of the audit log. The log says who has deleted which Node; the
// answer to a deletion contains the UID.
const auditedDeletions = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: RequestResponse
  verbs: [delete, deletecollection]
  resources: [{group: "", resources: [nodes]}]
- level: None
`

// errOtherAuthority means that a data folder belongs to another cluster.
var errOtherAuthority = errors.New("the data folder has another certificate authority; choose another folder")

// prepareWorkload writes the files that the control plane of a workload cluster needs before its
// certificates are made.
func (c *ControlPlane) prepareWorkload() error {
	if c.workload == nil {
		return nil
	}
	if err := writeFile(c.dir.pki(auditPolicy), []byte(auditedDeletions)); err != nil {
		return err
	}
	if len(c.workload.Authority) == 0 {
		return nil
	}
	present, err := os.ReadFile(c.dir.pki(authorityFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeFile(c.dir.pki(authorityFile), c.workload.Authority)
	case err != nil:
		return err
	case string(present) != string(c.workload.Authority):
		return errOtherAuthority
	default:
		return nil
	}
}

// workloadAPIServerFlags returns the additional flags of kube-apiserver.
func (c *ControlPlane) workloadAPIServerFlags() []string {
	if c.workload == nil {
		return nil
	}
	return []string{
		"--enable-bootstrap-token-auth=true",
		"--enable-admission-plugins=NodeRestriction",
		"--audit-policy-file=" + c.dir.pki(auditPolicy),
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-mode=blocking", // an answered deletion is in the log
	}
}

// workloadManagerFlags returns the additional flags of kube-controller-manager.
func (c *ControlPlane) workloadManagerFlags() []string {
	if c.workload == nil {
		return nil
	}
	flags := []string{
		"--cluster-signing-cert-file=" + c.dir.pki(authorityCert),
		"--cluster-signing-key-file=" + c.dir.pki(authorityKey),
	}
	if grace := c.workload.NodeGrace; grace > 0 {
		flags = append(flags,
			"--node-monitor-grace-period="+grace.String(),
			"--node-startup-grace-period="+grace.String(),
			"--node-monitor-period="+min(grace/4, 5*time.Second).String(),
		)
	}
	return flags
}

// AuditLog returns the path of the file in which the control plane of a workload cluster records
// who has deleted Nodes. Each line is an event of audit.k8s.io/v1.
func (c *ControlPlane) AuditLog() string { return c.dir.log("audit") }

// Authority returns the CA of the cluster, in PEM.
func (c *ControlPlane) Authority() (cert, key []byte, err error) {
	key, err = encodeKey(c.ca.key)
	return c.ca.certPEM(), key, err
}

// Purposes of Secrets of Cluster API. The names of the Secrets end with them.
const (
	authoritySecret  = "ca"
	etcdSecret       = "etcd"
	etcdClientSecret = "apiserver-etcd-client" //nolint:gosec // a name, not a credential
	kubeconfigSecret = "kubeconfig"
)

// ClusterSecrets returns what Cluster API needs to know about a workload cluster whose control
// plane runs here: the Secrets of its CA, of its etcd, which counts as external, and of its
// kubeconfig. Create them before the Cluster of this name; then Cluster API makes none itself.
func (c *ControlPlane) ClusterSecrets(namespace, cluster string) ([]*corev1.Secret, error) {
	cert, key, err := c.Authority()
	if err != nil {
		return nil, err
	}
	etcdClient, err := c.ca.client("kube-apiserver-etcd-client")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the workload cluster: %w", err)
	}
	contents := map[string]map[string][]byte{
		authoritySecret:  {corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
		etcdSecret:       {corev1.TLSCertKey: cert},
		etcdClientSecret: {corev1.TLSCertKey: etcdClient.cert, corev1.TLSPrivateKeyKey: etcdClient.key},
		kubeconfigSecret: {"value": kubeconfig},
	}
	secrets := make([]*corev1.Secret, 0, len(contents))
	for purpose, data := range contents {
		secrets = append(secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: cluster + "-" + purpose, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			},
			Type: clusterv1.ClusterSecretType, Data: data,
		})
	}
	return secrets, nil
}
