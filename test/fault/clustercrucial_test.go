//go:build fault

package fault_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// crucialWrite is a kind of write at which an operator must be killed, whatever else is missed.
type crucialWrite struct {
	what string
	// on is the start of the names of such writes: the verb and the resource, or the whole name of
	// a write that often joins others. If it is empty, every patch can be such a write.
	on string
	// The write has a field that begins with field, and one that begins with also; empty prefixes
	// ask for nothing.
	field, also string
}

// crucialWrites are the writes that decide who has a host, whether its machine runs, and what waits
// for what.
var crucialWrites = []crucialWrite{
	{"claim of a free host", "patch baremetalhosts", "spec.consumerRef", "labels.cluster.x-k8s.io/cluster-name"},
	{"claim of a reserved host", "patch baremetalhosts", "spec.consumerRef", "-annotations.metal3.io/reserved-at"},
	{"reservation of a host", "patch baremetalhosts", "annotations.metal3.io/reserved-at", ""},
	{"release of a host", "patch baremetalhosts", "-spec.consumerRef", ""},
	{"removal of what is deployed", "patch baremetalhosts", "-spec.image", ""},
	{"hold set", "patch baremetalhosts", "annotations.reboot.metal3.io/", ""},
	{"hold removed", "patch baremetalhosts", "-annotations.reboot.metal3.io/", ""},
	{"Node deleted", "workload cluster: delete nodes", "", ""},
	{"recovery requested", "patch machines", "annotations.host.metal3.io/external-remediation", ""},
	{"request removed", "patch machines", "-annotations.host.metal3.io/external-remediation", ""},
	{"Node out of service", "workload cluster: patch nodes", "annotations.remediation.metal3.io/out-of-service", ""},
	{"Node in service again", "workload cluster: patch nodes", "-annotations.remediation.metal3.io/out-of-service", ""},
	{"restore pending", "patch machines", "annotations.remediation.metal3.io/restore-pending", ""},
	{"restore not pending any more", "patch machines", "-annotations.remediation.metal3.io/restore-pending", ""},
	{"stage of a recovery set", "patch machines", "annotations.remediation.metal3.io/stage", ""},
	{"stage of a recovery removed", "patch machines", "-annotations.remediation.metal3.io/stage", ""},
	{"host marked unhealthy", "patch baremetalhosts", "annotations.capm3.metal3.io/unhealthy", ""},
	{"replacement asked of the owner", "patch machines/status", "status.conditions[OwnerRemediated=False]", ""},
	{"hold recorded", "patch baremetalhosts/status: asks off, records a hold", "", ""},
	{"hold confirmed", "patch baremetalhosts/status: confirms a hold", "", ""},
	{"holds forgotten", "patch baremetalhosts/status: forgets the holds", "", ""},
	{"finalizer set", "", "metadata.finalizers", ""},
	{"finalizer removed", "", "-metadata.finalizers", ""},
}

// is reports whether a write of this name is of the kind.
func (c crucialWrite) is(name string) bool {
	name = strings.TrimPrefix(name, thereTitle)
	on, list, _ := strings.Cut(name, ": ")
	if title, rest, titled := strings.Cut(list, ": "); titled { // of the workload cluster
		on, list = on+": "+title, rest
	} else if c.on == name {
		return c.field == ""
	}
	fields := strings.Split(list, ", ")
	has := func(prefix string) bool {
		return slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, prefix) })
	}
	return (c.on == "" || c.on == on) && c.field != "" && has(c.field) && has(c.also)
}

// missed returns the places of this kind of write at which no operator was killed, in any shape or
// on any side of a move. It considers only writes of undisturbed lives, and reports whether there
// is one.
func (c crucialWrite) missed(k clusterKills) (missed []writePoint, made bool) {
	hit := map[writePoint]bool{}
	var all []writePoint
	for _, s := range clusterShapes {
		p := k[s.name]
		open := p.open()
		for _, name := range p.known {
			if p.times[name] == 0 || !c.is(name) {
				continue
			}
			for _, here := range pointsOf(name) {
				was := !slices.Contains(open, here)
				here.name = strings.TrimPrefix(name, thereTitle)
				if !slices.Contains(all, here) {
					all = append(all, here)
				}
				hit[here] = hit[here] || was
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(here writePoint) bool { return hit[here] }), len(all) > 0
}

// crucialMissed counts the crucial places where no operator was killed.
func (k clusterKills) crucialMissed() (n int) {
	for _, c := range crucialWrites {
		missed, _ := c.missed(k)
		n += len(missed)
	}
	return n
}

// reportCrucial fails the test for each crucial place that was missed, and prints for each kind
// whether all places were hit.
func (k clusterKills) reportCrucial(t *testing.T) {
	t.Helper()
	// With -run, the shapes that make the other writes may be left out.
	complete := !slices.ContainsFunc(clusterShapes, func(s clusterShape) bool { return len(k[s.name].known) == 0 })
	for _, c := range crucialWrites {
		missed, made := c.missed(k)
		switch {
		case len(missed) > 0:
			for _, here := range missed {
				fmt.Printf("crucial: %s: never hit: %s\n", c.what, here)
				t.Errorf("%s: no operator was killed %s", c.what, here)
			}
		case made:
			fmt.Printf("crucial: %s: all places were hit\n", c.what)
		default:
			fmt.Printf("crucial: %s: no such write\n", c.what)
			if complete {
				t.Errorf("%s: no life makes such a write", c.what)
			}
		}
	}
}

func TestCrucialWritesAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string][]string{
		"patch baremetalhosts: annotations.metal3.io/consumer-host-uid, labels.cluster.x-k8s.io/cluster-name, spec.consumerRef":                                                                  {"claim of a free host"},
		"patch baremetalhosts: -annotations.metal3.io/reserved-at, -labels.infrastructure.cluster.x-k8s.io/node-reuse, spec.consumerRef":                                                         {"claim of a reserved host"},
		"patch baremetalhosts: -spec.image, -spec.metaData, -spec.userData, annotations.metal3.io/reserved-at, labels.infrastructure.cluster.x-k8s.io/node-reuse, spec.consumerRef, spec.online": {"reservation of a host", "removal of what is deployed"},
		"patch baremetalhosts: -labels.cluster.x-k8s.io/cluster-name, -metadata.annotations, -spec.consumerRef":                                                                                  {"release of a host"},
		"patch baremetalhosts: annotations.reboot.metal3.io/metal3-remediation-UID":                                                                                                              {"hold set"},
		"patch baremetalhosts: -annotations.reboot.metal3.io/machine-remediation":                                                                                                                {"hold removed"},
		"patch machines: annotations.host.metal3.io/external-remediation, annotations.remediation.metal3.io/requested-by":                                                                        {"recovery requested"},
		"patch machines: -annotations.host.metal3.io/external-remediation":                                                                                                                       {"request removed"},
		"workload cluster: delete nodes": {"Node deleted"},
		"workload cluster: patch nodes: annotations.remediation.metal3.io/out-of-service, spec.taints":                                                                 {"Node out of service"},
		"workload cluster: patch nodes: -annotations.remediation.metal3.io/out-of-service, spec.taints":                                                                {"Node in service again"},
		"patch metal3machines: annotations.clusterctl.cluster.x-k8s.io/block-move, annotations.metal3.io/BareMetalHost, metadata.finalizers":                           {"finalizer set"},
		"patch metal3machines: -metadata.finalizers":                                                                                                                   {"finalizer removed"},
		"there: patch baremetalhosts: annotations.metal3.io/consumer-host-uid, spec.consumerRef":                                                                       nil,
		"patch machines: annotations.remediation.metal3.io/restore-pending":                                                                                            {"restore pending"},
		"patch machines: -annotations.cluster.x-k8s.io/skip-remediation, -annotations.remediation.metal3.io/restore-pending, -annotations.remediation.metal3.io/stage": {"restore not pending any more", "stage of a recovery removed"},
		"patch machines: annotations.cluster.x-k8s.io/skip-remediation, annotations.remediation.metal3.io/stage":                                                       {"stage of a recovery set"},
		"there: patch machines: annotations.remediation.metal3.io/stage":                                                                                               {"stage of a recovery set"},
		"patch baremetalhosts: annotations.capm3.metal3.io/unhealthy":                                                                                                  {"host marked unhealthy"},
		"patch machines/status: status.conditions[OwnerRemediated=False]":                                                                                              {"replacement asked of the owner"},
		"patch baremetalhosts/status: asks off, records a hold":                                                                                                        {"hold recorded"},
		"patch baremetalhosts/status: confirms a hold":                                                                                                                 {"hold confirmed"},
		"patch baremetalhosts/status: forgets the holds":                                                                                                               {"holds forgotten"},
		"patch baremetalhosts/status: becomes preparing":                                                                                                               nil,
		"create secrets": nil,
		"patch metal3machines/status: status.conditions[AssociateBareMetalHost=False]": nil,
	} {
		var got []string
		for _, c := range crucialWrites {
			if c.is(name) {
				got = append(got, c.what)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
