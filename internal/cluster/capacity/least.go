package capacity

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// architectures maps the names of architectures in the results of inspection to the names that the
// status can have.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x", "ppc64le": "ppc64le"}

// least is what each host of a group has at least. A host that does not tell a value is ignored for
// this value. The zero value is that of a group without hosts.
type least struct {
	// processors is the number of logical processors, and memory is in MiB; 0 means that no host
	// tells.
	processors, memory int
	// architecture is named as in the results of inspection; empty means that no host tells. All
	// hosts that tell have it, unless differ is set.
	architecture string
	differ       bool
}

// add adds a host to the group.
func (l *least) add(d *v1alpha1.HardwareDetails) {
	l.processors, l.memory = smaller(l.processors, d.CPU.Count), smaller(l.memory, d.RAMMebibytes)
	if d.CPU.Arch == "" {
		return
	}
	l.differ = l.differ || l.architecture != "" && l.architecture != d.CPU.Arch
	l.architecture = d.CPU.Arch
}

// smaller returns the smaller one of two values, of which 0 or less is unknown. It returns 0 when
// both are unknown.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

// tell sets the known values in a status, and changes nothing else in it. It clears the
// architecture if the hosts differ in it, or if the status cannot name it.
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
