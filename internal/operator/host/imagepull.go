package host

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// imageAuthError means that a Secret for an OCI registry cannot be used. reason is the reason of
// the event about it.
type imageAuthError struct{ reason, message string }

func (e *imageAuthError) Error() string { return e.message }

// ociScheme begins the URLs of images in OCI registries.
const ociScheme = "oci://"

// registryLogin is an entry of a Docker configuration.
type registryLogin struct {
	Auth     string `json:"auth"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// pullSecret returns user:password in base64 for the registry of an image, "" for an image without
// a Secret.
func (p deploymentInputs) pullSecret(ctx context.Context, h *v1alpha1.BareMetalHost, image *v1alpha1.Image) (string, error) {
	if image == nil || image.OCIAuthSecretName == nil || *image.OCIAuthSecretName == "" || !strings.HasPrefix(image.URL, ociScheme) {
		return "", nil
	}
	name := *image.OCIAuthSecretName
	var secret corev1.Secret
	err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("spec.image.ociAuthSecretName: Secret %s does not exist; create it", name)
	}
	if err != nil {
		return "", &unreadError{name, err}
	}
	logins, err := registryLogins(secret)
	if err != nil {
		return "", err
	}
	return loginFor(name, logins, image.URL)
}

// registryLogins reads the two formats that Kubernetes has for Secrets of registries.
func registryLogins(secret corev1.Secret) (map[string]registryLogin, error) {
	var config struct {
		Auths map[string]registryLogin `json:"auths"`
	}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config)
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &config.Auths)
	default:
		return nil, &imageAuthError{eventImageAuthFormatUnsupported, fmt.Sprintf("spec.image.ociAuthSecretName: Secret %s has the type %s; make one of the type %s, as kubectl create secret docker-registry does",
			secret.Name, secret.Type, corev1.SecretTypeDockerConfigJson)}
	}
	if err != nil { // it is not shown: its text might repeat a password
		return nil, parseError(secret.Name, "is no Docker configuration in JSON")
	}
	return config.Auths, nil
}

func parseError(secret, what string) error {
	return &imageAuthError{eventImageAuthParseError, fmt.Sprintf("spec.image.ociAuthSecretName: Secret %s %s", secret, what)}
}

// loginFor chooses the entry for an image, as container tools do: the entry that names the longest
// part of the image's path, or else the entry of its registry.
func loginFor(secret string, logins map[string]registryLogin, image string) (string, error) {
	u, err := url.Parse(image)
	if err != nil || u.User != nil || u.Host == "" { // a user in front of the host would be taken for the registry
		return "", errors.New("spec.image.url does not begin with a registry alone: write it as oci://REGISTRY/NAME, without a user")
	}
	registry, path := u.Host, strings.TrimPrefix(u.Path, "/")
	path, _, _ = strings.Cut(path, "@")
	path, _, _ = strings.Cut(path, ":") // without digest and tag
	place := registry + "/" + path
	best, found := "", false
	var chosen registryLogin
	for _, key := range sortedKeys(logins) {
		scope := scopeOf(key)
		if (scope == place || strings.HasPrefix(place, scope+"/") || sameRegistry(scope, registry)) && (!found || len(scope) > len(best)) {
			best, chosen, found = scope, logins[key], true
		}
	}
	if !found {
		return "", parseError(secret, "has no entry for the registry "+node.CutText(registry))
	}
	if chosen.Auth == "" {
		chosen.Auth = base64.StdEncoding.EncodeToString([]byte(chosen.Username + ":" + chosen.Password))
	}
	text, err := base64.StdEncoding.DecodeString(chosen.Auth)
	if user, password, ok := strings.Cut(string(text), ":"); err != nil || !ok || cmp.Or(user, password) == "" {
		return "", parseError(secret, "has an entry for "+node.CutText(registry)+" without a user name and a password")
	}
	return chosen.Auth, nil
}

// scopeOf returns what the key of an entry stands for: a registry, perhaps with a path. Old tools
// wrote the URL of the registry's API.
func scopeOf(key string) string {
	if u, err := url.Parse(key); err == nil && u.Host != "" {
		path := strings.TrimSuffix(u.Path, "/")
		if path == "/v1" || path == "/v2" {
			path = ""
		}
		return u.Host + path
	}
	return strings.TrimSuffix(key, "/")
}

// dockerHub are the names of one registry.
var dockerHub = map[string]bool{"docker.io": true, "index.docker.io": true, "registry-1.docker.io": true}

func sameRegistry(a, b string) bool { return a == b || dockerHub[a] && dockerHub[b] }
