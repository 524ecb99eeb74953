package cloudinit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/cloudinit"
)

// joining is the user data of a worker as the kubeadm bootstrap provider writes it.
const joining = `## template: jinja
#cloud-config

write_files:
-   path: /etc/motd
    encoding: "gzip+base64"
    owner: root:root
    permissions: '0640'
    content: |
      H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==
-   path: /run/kubeadm/kubeadm-join-config.yaml
    owner: root:root
    permissions: '0640'
    content: |
      kind: JoinConfiguration
      nodeRegistration:
        name: '{{ ds.meta_data.local_hostname }}'
        kubeletExtraArgs:
        - name: provider-id
          value: metal3://{{ ds.meta_data['providerid'] }}
runcmd:
  - "echo \"before\""
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete
  - [echo, after]
`

func TestCloudConfigOfAWorkerIsReadWithTheMetadataOfItsInstance(t *testing.T) {
	metaData, err := cloudinit.ParseMetaData([]byte(`{"uuid": "u", "name": "n", "local-hostname": "worker-1", "providerid": "ns/host/m3m"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := cloudinit.Parse([]byte(joining), metaData)
	if err != nil {
		t.Fatal(err)
	}
	want := cloudinit.Config{
		Files: map[string][]byte{
			"/etc/motd": []byte("hello"),
			"/run/kubeadm/kubeadm-join-config.yaml": []byte(`kind: JoinConfiguration
nodeRegistration:
  name: 'worker-1'
  kubeletExtraArgs:
  - name: provider-id
    value: metal3://ns/host/m3m
`),
		},
		Commands: []string{
			`echo "before"`,
			"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
			"echo after",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cloud-config differs (-want +got):\n%s", diff)
	}
}

func TestTemplatesReadVariables(t *testing.T) {
	metaData, err := cloudinit.ParseMetaData([]byte(`{"uuid": "u-1", "name": "n", "index": 3, "nested": {"a-b": [1, true]}, "on": true}`))
	if err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{
		"{{ ds.meta_data.name }}":                "n",
		"{{ds.meta_data['name']}}":               "n",
		`{{ ds["meta_data"]["name"] }}`:          "n",
		"{{ ds.meta_data.index }}":               "3",
		"{{ ds.meta_data.on }}":                  "True",
		"{{ ds.meta_data.nested.a_b }}":          "[1,true]",
		"{{ ds.meta_data.nested['a-b'] }}":       "[1,true]",
		"{{ v1.local_hostname }}":                "n",
		"{{ local_hostname }}":                   "n",
		"{{ instance_id }}":                      "u-1",
		"{{ ds.meta_data.instance_id }}":         "u-1",
		"{{ ds.meta_data.local_hostname }}":      "n",
		"{{ ds.meta_data.none }}":                "CI_MISSING_JINJA_VAR/ds.meta_data.none",
		"{# a comment #}a {{- local_hostname }}": "a n",
	} {
		got, err := cloudinit.Parse([]byte("## template: jinja\n#cloud-config\nruncmd:\n- '"+strings.ReplaceAll(expression, "'", "''")+"'\n"), metaData)
		if strings.Contains(expression, "'") { // the template would read the quotes doubled
			got, err = cloudinit.Parse([]byte("## template: jinja\n#cloud-config\nruncmd:\n- >-\n  "+expression+"\n"), metaData)
		}
		if err != nil || len(got.Commands) != 1 || got.Commands[0] != want {
			t.Errorf("%s: %q, %v, want %q", expression, got.Commands, err, want)
		}
	}
}

func TestTextWithoutTheHeaderOfATemplateIsTakenAsItIs(t *testing.T) {
	got, err := cloudinit.Parse([]byte("#cloud-config\nruncmd: ['{{ local_hostname }}']\n"), nil)
	if err != nil || got.Commands[0] != "{{ local_hostname }}" {
		t.Errorf("%q, %v, want the text", got.Commands, err)
	}
}

func TestWhatCloudInitWouldNotUnderstandIsSaid(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"script":    {"#!/bin/sh\n", cloudinit.ErrNoCloudConfig.Error()},
		"empty":     {"", cloudinit.ErrNoCloudConfig.Error()},
		"YAML":      {"#cloud-config\n- {", "read the cloud-config"},
		"encoding":  {"#cloud-config\nwrite_files: [{path: /a, encoding: rot13}]", `file /a of the cloud-config: the encoding "rot13"`},
		"base64":    {"#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '!'}]", "file /a"},
		"gzip":      {"#cloud-config\nwrite_files: [{path: /a, encoding: gz+b64, content: aGVsbG8=}]", "file /a"},
		"command":   {"#cloud-config\nruncmd: [{a: b}]", "neither a text nor a list"},
		"statement": {"## template: jinja\n#cloud-config\n{% if a %}\n", "the statement {% if a %}"},
		"filter":    {"## template: jinja\n#cloud-config\n# {{ a|b }}\n", "the expression {{ a|b }}"},
	} {
		if _, err := cloudinit.Parse([]byte(test.text), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
	if _, err := cloudinit.Parse([]byte("a"), nil); !errors.Is(err, cloudinit.ErrNoCloudConfig) {
		t.Errorf("error %v, want %v", err, cloudinit.ErrNoCloudConfig)
	}
	if _, err := cloudinit.ParseMetaData([]byte("[]")); err == nil {
		t.Error("metadata that is a list is read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(joining), []byte(`{"name": "n"}`))
	f.Add([]byte("## template: jinja\n#cloud-config\n# {{ ds[''] }}"), []byte(`{}`))
	f.Fuzz(func(t *testing.T, userData, metaData []byte) {
		m, err := cloudinit.ParseMetaData(metaData)
		if err != nil {
			return
		}
		got, err := cloudinit.Parse(userData, m)
		if err != nil && len(got.Files)+len(got.Commands) > 0 {
			t.Errorf("an error with a result: %v", err)
		}
	})
}
