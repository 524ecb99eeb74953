package kubeadm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/sim/kubelet"
)

// objects are what machines that join need, but for those with content of the cluster.
//
//go:embed objects.yaml
var objects []byte

// Install leaves in a cluster what "kubeadm init" leaves for the machines that join: the roles of
// bootstrap tokens and nodes, cluster-info with the endpoint and the CA of config, and the
// ClusterConfiguration if it is not empty. Existing objects stay as they are. If the first machine
// of a cluster runs "kubeadm init", that calls Install. In any other cluster, an administrator has
// to call it once.
func Install(ctx context.Context, config *rest.Config, clusterConfiguration string) error {
	connections, c, err := kubelet.Client(config)
	if err != nil {
		return fmt.Errorf("prepare the cluster for machines that join: %w", err)
	}
	defer connections.CloseIdleConnections()
	info, err := clusterInfo(config)
	if err != nil {
		return fmt.Errorf("prepare the cluster for machines that join: %w", err)
	}
	wanted := []client.Object{info}
	if clusterConfiguration != "" {
		wanted = append(wanted, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
			Data:       map[string]string{"ClusterConfiguration": clusterConfiguration},
		})
	}
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(objects), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("prepare the cluster for machines that join: %w", err)
		}
		wanted = append([]client.Object{object}, wanted...)
	}
	// kubeadm-config comes last: Cluster API takes it as the sign that the control plane is initialized.
	for _, object := range wanted {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("prepare the cluster for machines that join: create %s: %w", object.GetName(), err)
		}
	}
	return nil
}

const (
	// clusterInfoName is the ConfigMap with a kubeconfig and its signatures. Anybody may read it.
	clusterInfoName = "cluster-info"
	kubeconfigKey   = "kubeconfig"
	// signaturePrefix, followed by the ID of a token, is the key of the signature by that token.
	signaturePrefix = "jws-kubeconfig-"
)

// clusterInfo returns the ConfigMap that says where the API server of the cluster is, and with
// which CA.
func clusterInfo(config *rest.Config) (*corev1.ConfigMap, error) {
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters[""] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", clusterInfoName, err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: clusterInfoName},
		Data:       map[string]string{kubeconfigKey: string(text)},
	}, nil
}
