package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// components are the static pods of a control plane whose etcd is elsewhere. The control plane
// provider of Cluster API looks for their mirror pods, by the names that kubeadm gives them.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// staticPodHash stands for the hash of a manifest, because no disk has the manifest.
const staticPodHash = "simulated"

// publish creates the mirror pods that are missing or belong to an earlier Node of the same name,
// and says that they are ready. It lists the pods of its Node, because a kubelet may not read a pod
// that does not exist.
func (k *Kubelet) publish(ctx context.Context) error {
	var pods corev1.PodList
	err := k.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"spec.nodeName": k.config.NodeName})
	if err != nil {
		return fmt.Errorf("list the pods of the Node %s: %w", k.config.NodeName, err)
	}
	for _, component := range components {
		wanted := k.mirrorPod(component)
		i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == wanted.Name })
		var present *corev1.Pod
		if i >= 0 {
			present = &pods.Items[i]
		}
		if err := k.publishOne(ctx, wanted, present); err != nil {
			return fmt.Errorf("publish the mirror pod %s: %w", wanted.Name, err)
		}
	}
	return nil
}

// publishOne makes the existing pod, which may be nil, the wanted mirror pod.
func (k *Kubelet) publishOne(ctx context.Context, wanted, pod *corev1.Pod) error {
	if pod != nil && (pod.DeletionTimestamp != nil || !metav1.IsControlledBy(pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: k.uid}})) {
		err := k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		pod = nil
	}
	if pod == nil {
		pod = wanted
		if err := k.client.Create(ctx, pod); err != nil {
			return err
		}
	}
	if isPodReady(pod) {
		return nil
	}
	before := pod.DeepCopy()
	pod.Status = k.podStatus(pod.Spec.Containers[0].Name, time.Now())
	return k.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
}

// mirrorPod returns the pod that stands for a static pod. When the pod is deleted it is gone at
// once, because there is no container to wait for.
func (k *Kubelet) mirrorPod(component string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem,
			Name:      component + "-" + k.config.NodeName,
			Labels:    map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{
				corev1.MirrorPodAnnotationKey: staticPodHash,
				"kubernetes.io/config.hash":   staticPodHash,
				"kubernetes.io/config.source": "file",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: k.config.NodeName, UID: k.uid, Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:                      k.config.NodeName,
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: component, Image: "registry.k8s.io/" + component + ":" + k.version}},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
	}
}

func (k *Kubelet) podStatus(component string, now time.Time) corev1.PodStatus {
	since := metav1.NewTime(now)
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &since, HostIP: k.machine.Address,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: component, Ready: true, Started: new(true), Image: "registry.k8s.io/" + component + ":" + k.version,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	return status
}

func isPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return pod.Status.Phase == corev1.PodRunning && condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
