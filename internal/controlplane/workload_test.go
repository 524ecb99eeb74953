package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func TestWorkloadClusterHasTheAuthorityThatItIsGiven(t *testing.T) {
	given, err := newAuthority(testNow)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	options := Options{DataDir: dir, Workload: &WorkloadOptions{Authority: given}, Volatile: true}
	c := start(t, options)
	secrets, err := c.ClusterSecrets("ns", "one")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*corev1.Secret{}
	for _, secret := range secrets {
		byName[secret.Name] = secret
		if secret.Namespace != "ns" || secret.Labels["cluster.x-k8s.io/cluster-name"] != "one" || secret.Type != "cluster.x-k8s.io/secret" {
			t.Errorf("%s is no Secret of Cluster API: %s, %v, %s", secret.Name, secret.Namespace, secret.Labels, secret.Type)
		}
	}
	ca := byName["one-ca"]
	if got := string(ca.Data["tls.crt"]) + string(ca.Data["tls.key"]); got != string(given) {
		t.Error("the Secret one-ca has another authority")
	}
	if len(byName["one-etcd"].Data["tls.key"]) > 0 || len(byName["one-apiserver-etcd-client"].Data["tls.key"]) == 0 {
		t.Error("the Secrets are not those of an external etcd")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(byName["one-kubeconfig"].Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := newClient(t, config).List(t.Context(), &nodes); err != nil {
		t.Errorf("the kubeconfig of the Secret cannot be used: %v", err)
	}
	stop(t, c)

	other, err := newAuthority(testNow)
	if err != nil {
		t.Fatal(err)
	}
	options.Workload = &WorkloadOptions{Authority: other}
	if c, err := Start(t.Context(), options); !errors.Is(err, errOtherAuthority) {
		t.Errorf("start with another authority: %v, want %v", err, errOtherAuthority)
		if err == nil {
			stop(t, c)
		}
	}
}

func TestAuthorityWithAKeyOfClusterAPICanBeRead(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecText, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	for kind, text := range map[string][]byte{"RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(rsaKey), "EC PRIVATE KEY": ecText} {
		if _, err := parseKey(&pem.Block{Type: kind, Bytes: text}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
