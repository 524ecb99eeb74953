package host

import (
	"encoding/base64"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRegistryLoginIsChosenAsContainerToolsDo(t *testing.T) {
	t.Parallel()
	login := func(text string) registryLogin {
		return registryLogin{Auth: base64.StdEncoding.EncodeToString([]byte(text))}
	}
	logins := map[string]registryLogin{
		"registry.example.org:5000": login("plain:p"), "registry.example.org:5000/team": login("team:p"),
		"https://index.docker.io/v1/": login("hub:p"), "https://old.example.org": {Username: "old", Password: "p"}, "bad.example.org": {},
	}
	for image, want := range map[string]string{
		"registry.example.org:5000/os:1":            "plain:p",
		"registry.example.org:5000/team/os@sha256:": "team:p",
		"registry.example.org:5000/teams/os":        "plain:p",
		"registry.example.org:5000/team:1":          "team:p",
		"docker.io/library/os":                      "hub:p",
		"old.example.org/os":                        "old:p",
		"registry.example.org/os":                   "",
		"bad.example.org/os":                        "",
		"registry.example.org:5000@192.0.2.7/os:1":  "",
		"registry.example.org@192.0.2.7/os:1":       "",
	} {
		got, err := loginFor("pull", logins, ociScheme+image)
		text, _ := base64.StdEncoding.DecodeString(got)
		if string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", image, text, err, want)
		}
	}
}

func TestSecretOfARegistryHasOneOfTwoFormats(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind   corev1.SecretType
		data   map[string][]byte
		reason string
	}{
		"present": {corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"r":{"auth":"dTpw"}}}`)}, ""},
		"old":     {corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: []byte(`{"r":{"auth":"dTpw"}}`)}, ""},
		"broken":  {corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{`)}, eventImageAuthParseError},
		"other":   {corev1.SecretTypeOpaque, nil, eventImageAuthFormatUnsupported},
	} {
		logins, err := registryLogins(corev1.Secret{Type: tt.kind, Data: tt.data})
		var unusable *imageAuthError
		switch {
		case tt.reason == "" && (err != nil || logins["r"].Auth != "dTpw"):
			t.Errorf("%s: %v, %v", name, logins, err)
		case tt.reason != "" && (!errors.As(err, &unusable) || unusable.reason != tt.reason):
			t.Errorf("%s: %v, want an event %s", name, err, tt.reason)
		}
	}
}
