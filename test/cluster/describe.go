package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// describeTimeout bounds the reading of what a failed test left.
const describeTimeout = 20 * time.Second

// describe shows what is in the namespace, and what its machines have done.
func (c *Cluster) describe(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), describeTimeout)
	defer cancel()
	var text strings.Builder
	fmt.Fprintf(&text, "cluster %s at %s:\n", c.Name, time.Now().UTC().Format(time.RFC3339))
	var machines clusterv1.MachineList
	if err := c.Kube.List(ctx, &machines, client.InNamespace(c.Name)); err == nil {
		for _, m := range machines.Items {
			fmt.Fprintf(&text, "Machine %s: %s, deleted %v, node %q, annotations %v%s\n", m.Name, m.Status.Phase, m.DeletionTimestamp,
				m.Status.NodeRef.Name, m.Annotations, conditions(m.Status.Conditions))
		}
	}
	var m3ms v1beta2.Metal3MachineList
	if err := c.Kube.List(ctx, &m3ms, client.InNamespace(c.Name)); err == nil {
		for _, m := range m3ms.Items {
			fmt.Fprintf(&text, "Metal3Machine %s: %s, deleted %v, annotations %v%s\n", m.Name, m.Spec.ProviderID, m.DeletionTimestamp, m.Annotations, conditions(m.Status.Conditions))
		}
	}
	var remediations v1beta2.Metal3RemediationList
	if err := c.Kube.List(ctx, &remediations, client.InNamespace(c.Name)); err == nil {
		for _, r := range remediations.Items {
			fmt.Fprintf(&text, "Metal3Remediation %s: %+v\n", r.Name, r.Status)
		}
	}
	var hosts v1alpha1.BareMetalHostList
	if err := c.Kube.List(ctx, &hosts, client.InNamespace(c.Name)); err == nil {
		for _, h := range hosts.Items {
			fmt.Fprintf(&text, "BareMetalHost %s: %s, on %t, consumer %+v, error %q, annotations %v, holds %+v, operation %+v%s\n", h.Name, h.Status.Provisioning.State,
				h.Status.PoweredOn, h.Spec.ConsumerRef, h.Status.ErrorMessage, h.Annotations, h.Status.PowerOffHolds, h.Status.Operation, conditions(h.Status.Conditions))
			c.describeMachine(&text, h.Name)
		}
	}
	var events corev1.EventList
	if err := c.Kube.List(ctx, &events, client.InNamespace(c.Name)); err == nil {
		for _, e := range events.Items {
			fmt.Fprintf(&text, "event %s %s/%s %s: %s\n", e.CreationTimestamp.UTC().Format(time.TimeOnly), e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	tb.Log(text.String())
}

// describeMachine shows what the machine of a host has done.
func (c *Cluster) describeMachine(text *strings.Builder, host string) {
	number, ok := c.Hosts[host]
	if !ok {
		return
	}
	m := c.Machine(host)
	fmt.Fprintf(text, "  machine %d is %s (%s), its power is %s\n", number, m.Status().State, m.Status().Reason, m.BMC().Power())
	for _, e := range c.MachinesWithBMC().Recorder().Effects(strconv.Itoa(number), 0) {
		fmt.Fprintf(text, "    %s %s %s %s\n", e.Time.UTC().Format(time.TimeOnly), e.Kind, e.Task, e.Detail)
	}
}

func conditions(all []metav1.Condition) string {
	var text strings.Builder
	for _, c := range all {
		fmt.Fprintf(&text, "\n    %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text.String()
}
