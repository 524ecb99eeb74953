package operator_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

// kubernetesOn returns a client for Kubernetes' own kinds.
func kubernetesOn(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// holdLease creates a lease that its holder has just renewed for an hour.
func holdLease(t *testing.T, c *kubernetes.Clientset, namespace, name, holder string) *coordinationv1.Lease {
	t.Helper()
	now, seconds := metav1.NowMicro(), int32(3600)
	lease, err := c.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// release gives a lease up, as its holder does when it stops.
func release(t *testing.T, c *kubernetes.Clientset, lease *coordinationv1.Lease) {
	t.Helper()
	nobody := ""
	lease.Spec.HolderIdentity = &nobody
	if _, err := c.CoordinationV1().Leases(lease.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// letListLeases lets a user list the leases of one namespace.
func letListLeases(t *testing.T, c *kubernetes.Clientset, namespace, user string) {
	t.Helper()
	_, err := c.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leases"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheHostControllersDoNotStartBesideTheUpstreamOperator(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	b := newBenchOn(t, config, func(o *operator.Options) { o.Controllers = []string{operator.GroupDiscovery} })
	b.install()
	kube := kubernetesOn(t, config)
	lease := holdLease(t, kube, b.namespace, "baremetal-operator", "upstream-0_1")
	letListLeases(t, kube, b.namespace, "limited")

	options := func(change func(*operator.Options)) operator.Options {
		o := operator.Options{
			Config: config, Engine: b.engine, Namespaces: []string{b.namespace}, Controllers: []string{operator.GroupHost},
			PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}
		change(&o)
		return o
	}
	for name, tt := range map[string]struct {
		change func(*operator.Options)
		want   string // in the error
	}{
		"with its own role": {asGroup(operator.GroupHost), "lease " + b.namespace + "/baremetal-operator is held by upstream-0_1 until "},
		"with rights in the watched namespace only": {
			func(o *operator.Options) { o.Config = impersonating(config, "limited") }, "start with --allow-upstream-operator",
		},
		"with rights in the namespace of its own lease only": {func(o *operator.Options) {
			o.Config, o.Namespaces = impersonating(config, "limited"), nil
			o.LeaderElection, o.LeaderElectionNamespace = true, b.namespace
		}, "delete its ValidatingWebhookConfiguration"},
		// The operator continues, and fails at its next step.
		"without a right to see leases": {func(o *operator.Options) { o.Config = impersonating(config, "blind") }, "read namespace kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			op, err := operator.New(options(tt.change))
			if err != nil {
				t.Fatal(err)
			}
			if err := op.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}

	both := &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
	both.start(options(func(o *operator.Options) { o.AllowUpstream = true }))
	both.plainHost("demo-beside", nil)
	both.inState("demo-beside", v1alpha1.StateAvailable)
	both.stop()

	release(t, kube, lease)
	alone := &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
	alone.start(options(asGroup(operator.GroupHost)))
	alone.plainHost("demo-alone", nil)
	alone.inState("demo-alone", v1alpha1.StateAvailable)
}
