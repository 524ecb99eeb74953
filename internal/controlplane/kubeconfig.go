package controlplane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of cluster, user and context in a kubeconfig.
const contextName = "ingot"

// writeKubeconfig writes a kubeconfig with which kubectl and other clients act as config does. Only
// its owner can read it.
func writeKubeconfig(name string, config *rest.Config) error {
	kc := api.NewConfig()
	kc.Clusters[contextName] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kc.AuthInfos[contextName] = &api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	kc.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: contextName}
	kc.CurrentContext = contextName
	data, err := clientcmd.Write(*kc)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	return writeFile(name, data)
}
