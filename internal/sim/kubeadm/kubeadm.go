// Package kubeadm does what "kubeadm init" and "kubeadm join" do on a machine, as far as others see
// it. It proves to the API server that the machine may join, with the cluster's CA or with a
// bootstrap token from its configuration; it gets a certificate for the kubelet; and it leaves what
// the cluster needs for further machines. It starts no control plane: the API server of a simulated
// cluster runs elsewhere, at the endpoint of the control plane. For the machines, the etcd of the
// cluster is an external one.
package kubeadm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Command is "kubeadm init" or "kubeadm join" with the path of its configuration.
type Command struct {
	Join   bool
	Config string
}

// FindCommand returns the first command among lines that runs kubeadm init or join. It returns
// false if there is none.
func FindCommand(lines []string) (Command, bool) {
	for _, line := range lines {
		words := strings.Fields(line)
		for i := 0; i+1 < len(words); i++ {
			if words[i] != "kubeadm" || words[i+1] != "init" && words[i+1] != "join" {
				continue
			}
			c := Command{Join: words[i+1] == "join"}
			for j, word := range words[i+2:] {
				if path, ok := strings.CutPrefix(word, "--config="); ok {
					c.Config = path
				} else if word == "--config" && i+2+j+1 < len(words) {
					c.Config = words[i+2+j+1]
				}
			}
			return c, true
		}
	}
	return Command{}, false
}

// String returns the command without its flags.
func (c Command) String() string {
	if c.Join {
		return "kubeadm join"
	}
	return "kubeadm init"
}

// configuration is the part of kubeadm's configuration that this package uses, in the versions
// v1beta3 and v1beta4.
type configuration struct {
	init    *initConfiguration
	join    *joinConfiguration
	cluster clusterConfiguration
	// clusterText is the text of the ClusterConfiguration. The cluster stores it.
	clusterText string
}

type initConfiguration struct {
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
}

type joinConfiguration struct {
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	Discovery        struct {
		BootstrapToken *tokenDiscovery `json:"bootstrapToken"`
	} `json:"discovery"`
	ControlPlane *struct{} `json:"controlPlane"`
}

type tokenDiscovery struct {
	Token                    string   `json:"token"`
	APIServerEndpoint        string   `json:"apiServerEndpoint"`
	CACertHashes             []string `json:"caCertHashes"`
	UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification"`
}

type clusterConfiguration struct {
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	CertificatesDir      string `json:"certificatesDir"`
}

type nodeRegistration struct {
	Name string `json:"name"`
	// Taints replace the default taints; nil means the default ones.
	Taints           []corev1.Taint `json:"taints"`
	KubeletExtraArgs arguments      `json:"kubeletExtraArgs"`
}

// arguments are flags by their names: an object in v1beta3, a list in v1beta4.
type arguments map[string]string

func (a *arguments) UnmarshalJSON(text []byte) error {
	var list []struct{ Name, Value string }
	if json.Unmarshal(text, &list) != nil {
		var object map[string]string
		if err := json.Unmarshal(text, &object); err != nil {
			return errors.New("kubeletExtraArgs are neither a list of names and values nor an object of texts")
		}
		*a = object
		return nil
	}
	*a = arguments{}
	for _, argument := range list {
		(*a)[argument.Name] = argument.Value
	}
	return nil
}

// parse reads the documents of a configuration file. It ignores documents of other kinds.
func parse(text []byte) (configuration, error) {
	var c configuration
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err == nil {
			err = c.read(document)
		}
		if err != nil {
			return configuration{}, fmt.Errorf("read kubeadm's configuration: %w", err)
		}
	}
}

func (c *configuration) read(document []byte) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "InitConfiguration":
		c.init = &initConfiguration{}
		return yaml.Unmarshal(document, c.init)
	case "JoinConfiguration":
		c.join = &joinConfiguration{}
		return yaml.Unmarshal(document, c.join)
	case "ClusterConfiguration":
		c.clusterText = string(bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(document), []byte("---")))) + "\n"
		return yaml.Unmarshal(document, &c.cluster)
	}
	return nil
}

// controlPlaneTaint is the taint of a control plane machine whose configuration has no taints.
var controlPlaneTaint = corev1.Taint{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}

// controlPlaneLabel marks the Nodes of the control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// nodeName returns the name of the Node of a machine with a host name.
func (r nodeRegistration) nodeName(hostname string) string {
	if r.Name != "" {
		return strings.ToLower(strings.TrimSpace(r.Name))
	}
	return strings.ToLower(strings.TrimSpace(hostname))
}

// labels returns the labels in the kubelet's argument node-labels.
func (r nodeRegistration) labels() (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(r.KubeletExtraArgs["node-labels"], ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("the kubelet's argument node-labels has %q, want name=value", pair)
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return labels, nil
}
