package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions are the conditions that a healthy kubelet reports of its Node.
var conditions = []corev1.NodeCondition{
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
}

// status returns the status of the Node. before are the conditions that the Node has.
func (k *Kubelet) status(before []corev1.NodeCondition, now time.Time) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	status := corev1.NodeStatus{
		Capacity: resources, Allocatable: resources,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: k.machine.Address},
			{Type: corev1.NodeHostName, Address: k.config.NodeName},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: k.machine.SystemUUID, SystemUUID: k.machine.SystemUUID, BootID: k.machine.BootID,
			OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated", KernelVersion: "simulated",
			ContainerRuntimeVersion: "simulated://1", KubeletVersion: k.version,
		},
	}
	for _, condition := range conditions {
		condition.LastHeartbeatTime, condition.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
		for _, b := range before {
			if b.Type == condition.Type && b.Status == condition.Status {
				condition.LastTransitionTime = b.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, condition)
	}
	return status
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// maxVersion bounds the answer with the version of the API server, in bytes.
const maxVersion = 64 << 10

// serverVersion returns the version of the API server. The simulated kubelet takes the same
// version, because no image says which one it has.
func serverVersion(ctx context.Context, connections *http.Client, server string) (string, error) {
	target, err := url.JoinPath(server, "version")
	if err != nil {
		return "", fmt.Errorf("ask for the version of the API server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", fmt.Errorf("ask for the version of the API server: %w", err)
	}
	response, err := connections.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for the version of the API server: %w", err)
	}
	defer response.Body.Close()
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxVersion)).Decode(&version)
	if err == nil && version.GitVersion == "" {
		err = errors.New("it names none")
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the API server, which answers %s: %w", response.Status, err)
	}
	return version.GitVersion, nil
}
