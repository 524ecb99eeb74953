package kubeadm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/sim/kubelet"
)

// token is a bootstrap token.
type token struct{ id, secret string }

var tokenPattern = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

func parseToken(text string) (token, error) {
	parts := tokenPattern.FindStringSubmatch(text)
	if parts == nil {
		// The error does not quote the token, which is a secret.
		return token{}, errors.New("the bootstrap token has not the form of one, six characters, a dot and sixteen more")
	}
	return token{id: parts[1], secret: parts[2]}, nil
}

func (t token) String() string { return t.id + "." + t.secret }

// discover finds out where the API server is, and its CA. It reads cluster-info without
// authentication and without trust. It then trusts cluster-info if the secret of the token has
// signed it, and if the CA in it has one of the hashes in the configuration.
func discover(ctx context.Context, d *tokenDiscovery, t token) (*rest.Config, error) {
	config := &rest.Config{
		Host: "https://" + d.APIServerEndpoint, Timeout: requestTimeout, UserAgent: userAgent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	info, err := readClusterInfo(ctx, config)
	if err != nil {
		return nil, err
	}
	text := info.Data[kubeconfigKey]
	signature, signed := info.Data[signaturePrefix+t.id]
	if !signed {
		return nil, fmt.Errorf("%s is not signed by the bootstrap token %q, which is not known there or has expired", clusterInfoName, t.id)
	}
	if !t.hasSigned(text, signature) {
		return nil, fmt.Errorf("the signature of %s by the bootstrap token %q is wrong, so its secret is another one there", clusterInfoName, t.id)
	}
	return d.trusted(text)
}

func readClusterInfo(ctx context.Context, config *rest.Config) (*corev1.ConfigMap, error) {
	connections, c, err := kubelet.Client(config)
	if err != nil {
		return nil, err
	}
	defer connections.CloseIdleConnections()
	info := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: clusterInfoName}, info); err != nil {
		return nil, fmt.Errorf("read %s: %w", clusterInfoName, err)
	}
	return info, nil
}

// hasSigned reports whether a signature of a text was made with the token's secret. The signature
// is a detached JSON Web Signature (RFC 7515) with HS256.
func (t token) hasSigned(text, signature string) bool {
	header, mac, ok := strings.Cut(signature, "..")
	if !ok {
		return false
	}
	var algorithm struct {
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}
	decoded, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil || json.Unmarshal(decoded, &algorithm) != nil || algorithm.Algorithm != "HS256" || algorithm.Key != t.id {
		return false
	}
	got, err := base64.RawURLEncoding.DecodeString(mac)
	hash := hmac.New(sha256.New, []byte(t.secret))
	hash.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(text))))
	return err == nil && hmac.Equal(got, hash.Sum(nil))
}

// trusted reads the kubeconfig of cluster-info and checks its CA.
func (d *tokenDiscovery) trusted(kubeconfig string) (*rest.Config, error) {
	parsed, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", clusterInfoName, err)
	}
	cluster, ok := parsed.Clusters[""]
	if !ok || len(parsed.Clusters) != 1 {
		return nil, fmt.Errorf("%s has %d clusters, want one without a name", clusterInfoName, len(parsed.Clusters))
	}
	if err := d.checkCA(cluster.CertificateAuthorityData); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: cluster.Server, Timeout: requestTimeout, UserAgent: userAgent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData},
	}, nil
}

// checkCA compares a CA with the hashes in the configuration. They are hashes of its public key
// (Subject Public Key Info).
func (d *tokenDiscovery) checkCA(ca []byte) error {
	certificates, err := cert.ParseCertsPEM(ca)
	if err != nil {
		return fmt.Errorf("read the CA of %s: %w", clusterInfoName, err)
	}
	if d.UnsafeSkipCAVerification {
		return nil
	}
	if len(d.CACertHashes) == 0 {
		return errors.New("the configuration has no caCertHashes, so no API server can be trusted")
	}
	for _, certificate := range certificates {
		sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		if slices.Contains(d.CACertHashes, "sha256:"+hex.EncodeToString(sum[:])) {
			return nil
		}
	}
	return fmt.Errorf("the CA of %s has none of the caCertHashes of the configuration", clusterInfoName)
}
