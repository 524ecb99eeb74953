package kubeadm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCommandOfKubeadmIsFound(t *testing.T) {
	for line, want := range map[string]Command{
		"kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/x":                  {Config: "/run/kubeadm/kubeadm.yaml"},
		"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v=5 && echo success > /run/x": {Join: true, Config: "/run/kubeadm/kubeadm-join-config.yaml"},
		"sudo kubeadm join --v 5 --config=/a":                                                        {Join: true, Config: "/a"},
		"kubeadm join":                                                                               {Join: true},
		"kubeadm init --config":                                                                      {},
	} {
		got, ok := FindCommand([]string{"echo before", "kubeadm version", line, "kubeadm init --config /late"})
		if !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", line, got, ok, want)
		}
	}
	if got, ok := FindCommand([]string{"echo kubeadm", "kubeadm", "kubeadm reset"}); ok {
		t.Errorf("%+v is found", got)
	}
}

// The configuration of one machine, in both versions.
const (
	betaThree = `apiVersion: kubeadm.k8s.io/v1beta3
kind: JoinConfiguration
discovery: {bootstrapToken: {token: t, apiServerEndpoint: e, caCertHashes: [h]}}
nodeRegistration: {name: " W ", kubeletExtraArgs: {provider-id: p, node-labels: "a=b, c="}}
`
	betaFour = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: e:6443
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
controlPlane: {}
discovery: {bootstrapToken: {token: t, apiServerEndpoint: e, caCertHashes: [h]}}
nodeRegistration:
  name: w
  taints: []
  kubeletExtraArgs:
  - {name: provider-id, value: p}
  - {name: node-labels, value: "a=b,c="}
---
kind: Other
`
)

func TestConfigurationIsReadInBothVersions(t *testing.T) {
	for name, test := range map[string]struct {
		text         string
		controlPlane bool
		cluster      string
		taints       []corev1.Taint
	}{
		"v1beta3": {betaThree, false, "", nil},
		"v1beta4": {betaFour, true, "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: e:6443\n", []corev1.Taint{}},
	} {
		c, err := parse([]byte(test.text))
		if err != nil || c.join == nil {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		labels, err := c.join.NodeRegistration.labels()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": "b", "c": ""}, labels); diff != "" {
			t.Errorf("%s: labels differ (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(test.taints, c.join.NodeRegistration.Taints); diff != "" {
			t.Errorf("%s: taints differ (-want +got):\n%s", name, diff)
		}
		if got := c.join.NodeRegistration.KubeletExtraArgs["provider-id"]; got != "p" {
			t.Errorf("%s: provider ID %q", name, got)
		}
		if got := c.join.NodeRegistration.nodeName("h"); got != "w" {
			t.Errorf("%s: node name %q", name, got)
		}
		if (c.join.ControlPlane != nil) != test.controlPlane || c.clusterText != test.cluster {
			t.Errorf("%s: control plane %v, cluster %q", name, c.join.ControlPlane, c.clusterText)
		}
	}
	if got := (nodeRegistration{}).nodeName("Host"); got != "host" {
		t.Errorf("node name %q, want that of the host", got)
	}
}

func TestConfigurationThatCannotBeUsedIsSaid(t *testing.T) {
	join := func(rest string) string { return "kind: JoinConfiguration\n" + rest }
	for name, test := range map[string]struct {
		command Command
		text    string
		want    string
	}{
		"no file":       {Command{Join: true, Config: "/b"}, "", `no configuration file "/b"`},
		"YAML":          {Command{Join: true, Config: "/a"}, "{", "read kubeadm's configuration"},
		"other command": {Command{Config: "/a"}, betaThree, "/a has no configuration for it"},
		"no discovery":  {Command{Join: true, Config: "/a"}, join(""), "no discovery.bootstrapToken"},
		"token":         {Command{Join: true, Config: "/a"}, betaThree, "not the form of one"},
		"arguments":     {Command{Join: true, Config: "/a"}, join("nodeRegistration: {kubeletExtraArgs: 3}"), "kubeletExtraArgs are neither"},
		"no CA":         {Command{Config: "/a"}, "kind: InitConfiguration\n", "no ca.crt and ca.key"},
	} {
		_, err := Run(t.Context(), test.command, Machine{Files: map[string][]byte{"/a": []byte(test.text)}, Hostname: "h"})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), test.command.String()) {
			t.Errorf("%s: error %v, want one of %s with %q", name, err, test.command, test.want)
		}
	}
}

func TestOnlyTheSecretOfATokenSigns(t *testing.T) {
	tok, err := parseToken("abcdef.0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	sign := func(header, secret, text string) string {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(header))
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(encoded + "." + base64.RawURLEncoding.EncodeToString([]byte(text))))
		return encoded + ".." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	const header = `{"alg":"HS256","kid":"abcdef"}`
	for name, test := range map[string]struct {
		signature string
		want      bool
	}{
		"right":           {sign(header, tok.secret, "text"), true},
		"other text":      {sign(header, tok.secret, "texts"), false},
		"other secret":    {sign(header, "0123456789abcdee", "text"), false},
		"other token":     {sign(`{"alg":"HS256","kid":"abcdeg"}`, tok.secret, "text"), false},
		"other algorithm": {sign(`{"alg":"none","kid":"abcdef"}`, tok.secret, "text"), false},
		"no signature":    {"", false},
		"no base64":       {"!..!", false},
	} {
		if got := tok.hasSigned("text", test.signature); got != test.want {
			t.Errorf("%s: signed %v, want %v", name, got, test.want)
		}
	}
	for _, text := range []string{"", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef "} {
		if _, err := parseToken(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: error %v, want one without the token", text, err)
		}
	}
}
