package capacity

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// architectures are those that the status can name, by the name that inspection gives them.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x", "ppc64le": "ppc64le"}

// least is what each of some hosts has at least. A host that does not tell a value says nothing about it; the zero
// value is that of no host.
type least struct {
	// processors are logical ones, and memory is in MiB; 0 means that no host tells.
	processors, memory int
	// architecture is as inspection gives it; empty means that no host tells. It is that of all unless they differ.
	architecture string
	differ       bool
}

// add takes another host into account.
func (l *least) add(d *v1alpha1.HardwareDetails) {
	l.processors, l.memory = smaller(l.processors, d.CPU.Count), smaller(l.memory, d.RAMMebibytes)
	if d.CPU.Arch == "" {
		return
	}
	l.differ = l.differ || l.architecture != "" && l.architecture != d.CPU.Arch
	l.architecture = d.CPU.Arch
}

// smaller is the smaller one of two numbers, of which 0 or less is none.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

// tell sets in a status what is known, and changes nothing else of it. An architecture that not all hosts have, or that
// the status cannot name, is taken out.
func (l *least) tell(status *v1beta2.Metal3MachineTemplateStatus) {
	set := func(name corev1.ResourceName, value int64, format resource.Format) {
		if value == 0 {
			return
		}
		if status.Capacity == nil {
			status.Capacity = corev1.ResourceList{}
		}
		status.Capacity[name] = *resource.NewQuantity(value, format)
	}
	set(corev1.ResourceCPU, int64(l.processors), resource.DecimalSI)
	set(corev1.ResourceMemory, int64(l.memory)<<20, resource.BinarySI)
	switch {
	case l.differ:
		status.NodeInfo.Architecture = ""
	case l.architecture != "":
		status.NodeInfo.Architecture = architectures[l.architecture]
	}
}
