// Package instance does what the operating system of a deployed machine does when its user data
// makes the machine a Node. At the first boot, cloud-init runs kubeadm. At this boot and each later
// one, the kubelet starts with the configuration that kubeadm has left on the disk.
//
// Of the commands in user data, only "kubeadm init" and "kubeadm join" have an effect. A command
// that fails is repeated at the next boot of the machine.
package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/cloudinit"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/kubeadm"
	"github.com/ingot-metal/ingot/internal/sim/kubelet"
)

// kubeletFile is the path of the kubelet's configuration on the disk.
const kubeletFile = "/etc/kubernetes/kubelet.json"

// Options say how instances behave.
type Options struct {
	// Heartbeat is how often kubelets renew their Leases; 0 means [kubelet.DefaultHeartbeat].
	Heartbeat time.Duration
	// BootstrapTimeout is how long kubeadm tries; 0 means [DefaultBootstrapTimeout].
	BootstrapTimeout time.Duration
}

// DefaultBootstrapTimeout is how long kubeadm tries to let its machine join a cluster.
const DefaultBootstrapTimeout = 5 * time.Minute

// registerInterval is the pause between attempts of a kubelet to register.
const registerInterval = time.Second

// Instances are all instances of a simulation. They are safe for concurrent use.
type Instances struct {
	options Options

	mu    sync.Mutex
	nodes []Node
}

// Node is a Node, and the run of an operating system that registered it.
type Node struct {
	Run        int64 // as in [sim.Run]
	Machine    int
	Name       string
	UID        types.UID
	ProviderID string
}

// New returns instances that have done nothing yet. [sim.Options].Instance takes their method Run.
func New(o Options) *Instances {
	if o.BootstrapTimeout == 0 {
		o.BootstrapTimeout = DefaultBootstrapTimeout
	}
	return &Instances{options: o}
}

// Nodes returns what instances have registered, in the order of the registrations.
func (is *Instances) Nodes() []Node {
	is.mu.Lock()
	defer is.mu.Unlock()
	return slices.Clone(is.nodes)
}

// Run does what an instance does, until ctx ends or there is nothing more to do.
func (is *Instances) Run(ctx context.Context, i sim.Instance) {
	k, err := is.start(ctx, i)
	if k != nil {
		defer k.Close()
	}
	if err == nil && k != nil {
		err = k.Run(ctx, func(err error) { i.Note(err.Error()) })
	}
	if err != nil && ctx.Err() == nil {
		i.Note(err.Error())
	}
}

// start returns the kubelet after it has registered. It returns nil if the instance does not become
// a Node.
func (is *Instances) start(ctx context.Context, i sim.Instance) (*kubelet.Kubelet, error) {
	if text, ok := i.ReadFile(kubeletFile); ok {
		var config kubelet.Config
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, fmt.Errorf("read %s: %w", kubeletFile, err)
		}
		return is.startKubelet(ctx, i, config)
	}
	command, machine, err := readUserData(i)
	if err != nil || command == nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, is.options.BootstrapTimeout, fmt.Errorf("given up after %s", is.options.BootstrapTimeout))
	defer cancel()
	joined, err := kubeadm.Run(bounded, *command, machine)
	if err != nil {
		return nil, err
	}
	k, err := is.startKubelet(ctx, i, joined.Kubelet)
	if err != nil {
		return k, err
	}
	if err := joined.Mark(bounded); err != nil {
		return k, fmt.Errorf("%s: %w", command, err)
	}
	text, err := json.Marshal(joined.Kubelet)
	if err != nil {
		return k, fmt.Errorf("write %s: %w", kubeletFile, err)
	}
	i.WriteFile(kubeletFile, text)
	return k, nil
}

// readUserData returns the command of kubeadm in the user data, and what kubeadm finds on the
// machine. The command is nil if the machine does not belong to a cluster.
func readUserData(i sim.Instance) (*kubeadm.Command, kubeadm.Machine, error) {
	userData, ok := i.ReadFile(disk.UserData)
	if !ok {
		return nil, kubeadm.Machine{}, nil
	}
	text, _ := i.ReadFile(disk.MetaData)
	metaData, err := cloudinit.ParseMetaData(text)
	if err != nil {
		return nil, kubeadm.Machine{}, err
	}
	config, err := cloudinit.Parse(userData, metaData)
	if errors.Is(err, cloudinit.ErrNoCloudConfig) {
		return nil, kubeadm.Machine{}, nil
	}
	if err != nil {
		return nil, kubeadm.Machine{}, err
	}
	command, found := kubeadm.FindCommand(config.Commands)
	if !found {
		return nil, kubeadm.Machine{}, nil
	}
	machine := kubeadm.Machine{Files: config.Files, Hostname: metaData.Hostname(), SystemUUID: i.SystemUUID}
	if machine.Hostname == "" {
		machine.Hostname = i.Hostname
	}
	return &command, machine, nil
}

// startKubelet starts the kubelet. It lets the kubelet try until it has registered, and adds the
// Node.
func (is *Instances) startKubelet(ctx context.Context, i sim.Instance, config kubelet.Config) (*kubelet.Kubelet, error) {
	k, err := kubelet.New(config, kubelet.Machine{
		Address: i.Machine.Address().String(), SystemUUID: i.SystemUUID, BootID: uuid.NewString(),
	}, is.options.Heartbeat)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(registerInterval)
	defer ticker.Stop()
	for said := ""; ; {
		uid, err := k.Register(ctx)
		if err == nil {
			is.add(Node{Run: i.Run, Machine: i.Machine.Index(), Name: config.NodeName, UID: uid, ProviderID: config.ProviderID})
			i.Note(fmt.Sprintf("registered the Node %s with UID %s", config.NodeName, uid))
			return k, nil
		}
		if said != err.Error() && ctx.Err() == nil {
			said = err.Error()
			i.Note(said)
		}
		select {
		case <-ctx.Done():
			return k, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (is *Instances) add(n Node) {
	is.mu.Lock()
	defer is.mu.Unlock()
	is.nodes = append(is.nodes, n)
}
