package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// machine is the hardware of a host; memory is in MiB.
func machine(processors, memory int, architecture string) *v1alpha1.HardwareDetails {
	return &v1alpha1.HardwareDetails{CPU: v1alpha1.CPU{Count: processors, Arch: architecture}, RAMMebibytes: memory}
}

// status is a status with these resources, by pairs of name and quantity.
func status(architecture, system string, resources ...string) v1beta2.Metal3MachineTemplateStatus {
	s := v1beta2.Metal3MachineTemplateStatus{NodeInfo: v1beta2.NodeInfo{Architecture: architecture, OperatingSystem: system}}
	for i := 0; i < len(resources); i += 2 {
		if s.Capacity == nil {
			s.Capacity = corev1.ResourceList{}
		}
		s.Capacity[corev1.ResourceName(resources[i])] = resource.MustParse(resources[i+1])
	}
	return s
}

func TestStatusTellsWhatEachHostHasAtLeast(t *testing.T) {
	t.Parallel()
	type hosts = []*v1alpha1.HardwareDetails
	for name, tt := range map[string]struct {
		hosts        hosts
		before, want v1beta2.Metal3MachineTemplateStatus
	}{
		"no host": {},
		"no host, and a person wrote it": {
			before: status("arm64", "linux", "cpu", "4", "memory", "8Gi"), want: status("arm64", "linux", "cpu", "4", "memory", "8Gi"),
		},
		"one host": {
			hosts: hosts{machine(16, 65536, "x86_64")}, want: status("amd64", "", "cpu", "16", "memory", "64Gi"),
		},
		"the least of each resource, of different hosts": {
			hosts: hosts{machine(16, 65536, "aarch64"), machine(8, 131072, "aarch64"), machine(32, 262144, "aarch64")},
			want:  status("arm64", "", "cpu", "8", "memory", "64Gi"),
		},
		"other architectures": {
			hosts: hosts{machine(4, 1024, "s390x")}, want: status("s390x", "", "cpu", "4", "memory", "1Gi"),
		},
		"yet another architecture": {
			hosts: hosts{machine(4, 1024, "ppc64le")}, want: status("ppc64le", "", "cpu", "4", "memory", "1Gi"),
		},
		"architectures differ": {
			hosts:  hosts{machine(4, 1024, "x86_64"), machine(4, 1024, "aarch64"), machine(4, 1024, "aarch64")},
			before: status("amd64", "linux"), want: status("", "linux", "cpu", "4", "memory", "1Gi"),
		},
		"architecture that the status cannot name": {
			hosts: hosts{machine(4, 1024, "riscv64")}, before: status("amd64", ""), want: status("", "", "cpu", "4", "memory", "1Gi"),
		},
		"values that a host does not tell": {
			hosts: hosts{machine(0, 2048, ""), machine(4, 0, "x86_64")}, want: status("amd64", "", "cpu", "4", "memory", "2Gi"),
		},
		"no host tells a value": {
			hosts: hosts{machine(0, 2048, "")}, before: status("arm64", "", "cpu", "4"), want: status("arm64", "", "cpu", "4", "memory", "2Gi"),
		},
		"negative numbers, which nobody should write": {
			hosts: hosts{machine(-1, -1, ""), machine(4, 1024, ""), machine(-2, -2, "")}, want: status("", "", "cpu", "4", "memory", "1Gi"),
		},
		"what others wrote stays, and what hardware tells does not": {
			hosts:  hosts{machine(16, 65536, "x86_64")},
			before: status("arm64", "windows", "cpu", "1", "nvidia.com/gpu", "8", "ephemeral-storage", "1Ti"),
			want:   status("amd64", "windows", "cpu", "16", "memory", "64Gi", "nvidia.com/gpu", "8", "ephemeral-storage", "1Ti"),
		},
	} {
		var l least
		for _, d := range tt.hosts {
			l.add(d)
		}
		got := tt.before.DeepCopy()
		l.tell(got)
		if diff := cmp.Diff(tt.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
