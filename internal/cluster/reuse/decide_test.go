package reuse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// needed are facts about a host that is, or will be, reserved, and that nothing keeps from being
// reserved.
func needed(changes ...func(*facts)) *facts {
	f := &facts{
		now:     start.Add(time.Hour),
		host:    host("a", reservedFor(deployment, start)),
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "one"}},
		owner:   &ownerState{Owner: deployment, clusterName: "one", replicas: 3},
		template: template{
			known: true, reuse: true,
		},
		counted: true, rank: 0, need: 1,
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

func of(change func(*v1alpha1.BareMetalHost)) func(*facts) {
	return func(f *facts) { change(f.host) }
}

func selecting(t *testing.T, text string) func(*facts) {
	t.Helper()
	selector, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return func(f *facts) { f.template.selector = selector }
}

func failing(kind v1alpha1.ErrorType) func(*facts) {
	return func(f *facts) {
		f.host.Status.OperationalStatus, f.host.Status.ErrorType, f.host.Status.ErrorMessage = v1alpha1.OperationalStatusError, kind, "no answer"
	}
}

func waiting(limit time.Duration) func(*facts) { return func(f *facts) { f.wait = limit } }

func TestReasonsAgainstAReservation(t *testing.T) {
	type changes []func(*facts)
	now := metav1.NewTime(start)
	for name, tt := range map[string]struct {
		changes            changes
		deletion, reserved Reason
	}{
		"nothing": {},

		"Cluster in deletion":             {changes{func(f *facts) { f.cluster.DeletionTimestamp = &now }}, reasonClusterDeleting, reasonClusterDeleting},
		"Cluster in deletion, no owner":   {changes{func(f *facts) { f.cluster.DeletionTimestamp, f.owner = &now, nil }}, reasonClusterDeleting, reasonClusterDeleting},
		"Cluster gone":                    {changes{func(f *facts) { f.cluster = nil }}, reasonClusterMissing, reasonClusterMissing},
		"Cluster may come":                {changes{func(f *facts) { f.cluster, f.appearing = nil, true }}, "", ""},
		"owner gone":                      {changes{func(f *facts) { f.owner, f.counted = nil, false }}, reasonOwnerMissing, reasonOwnerMissing},
		"owner unreadable":                {changes{func(f *facts) { f.owner, f.counted, f.unreadable = nil, false, errors.New("refused") }}, reasonOwnerUnreadable, ""},
		"owner unreadable, Cluster gone":  {changes{func(f *facts) { f.owner, f.cluster, f.counted, f.unreadable = nil, nil, false, errors.New("refused") }}, reasonOwnerUnreadable, reasonClusterMissing},
		"owner unreadable, limit passed":  {changes{waiting(time.Minute), func(f *facts) { f.owner, f.counted, f.unreadable = nil, false, errors.New("refused") }}, reasonOwnerUnreadable, ""},
		"owner may come":                  {changes{func(f *facts) { f.owner, f.template, f.counted, f.appearing = nil, template{}, false, true }}, reasonTemplateMissing, ""},
		"owner and Cluster gone":          {changes{func(f *facts) { f.owner, f.cluster = nil, nil }}, reasonOwnerMissing, reasonOwnerMissing},
		"owner made again, same name":     {changes{func(f *facts) { f.owner.UID = "new" }}, "", reasonOwnerReplaced},
		"owner of the other kind":         {changes{func(f *facts) { f.owner.Owner = kubeadm }}, "", reasonOwnerReplaced},
		"owner with its UID after a move": {changes{func(f *facts) { f.owner.UID = "new" }, of(moved(start.Add(time.Minute)))}, "", ""},
		"owner in deletion":               {changes{func(f *facts) { f.owner.deleting = true }}, reasonOwnerDeleting, reasonOwnerDeleting},

		"template vanished":        {changes{func(f *facts) { f.template = template{} }}, reasonTemplateMissing, ""},
		"reuse switched off":       {changes{func(f *facts) { f.template.reuse = false }}, reasonReuseDisabled, reasonReuseDisabled},
		"selector matches":         {changes{selecting(t, "cluster.x-k8s.io/cluster-name=one")}, "", ""},
		"selector does not match":  {changes{selecting(t, "row=b")}, reasonSelectorMismatch, reasonSelectorMismatch},
		"host in deletion":         {changes{of(func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now })}, reasonHostDeleting, reasonHostDeleting},
		"host unhealthy":           {changes{of(annotated(v1alpha1.UnhealthyAnnotation, ""))}, reasonHostUnhealthy, reasonHostUnhealthy},
		"host unhealthy, old key":  {changes{of(annotated(v1beta2.LegacyUnhealthyAnnotation, ""))}, reasonHostUnhealthy, reasonHostUnhealthy},
		"host to be detached":      {changes{of(annotated(v1alpha1.DetachedAnnotation, ""))}, reasonHostDetached, reasonHostDetached},
		"host detached":            {changes{func(f *facts) { f.host.Status.OperationalStatus = v1alpha1.OperationalStatusDetached }}, reasonHostDetached, reasonHostDetached},
		"externally provisioned":   {changes{func(f *facts) { f.host.Spec.ExternallyProvisioned = true }}, reasonHostExternallyProvisioned, reasonHostExternallyProvisioned},
		"waiting for a review":     {changes{of(notReviewed)}, reasonHostUnreviewed, reasonHostUnreviewed},
		"given an image":           {changes{of(withImage)}, "", reasonHostDeployed},
		"given an empty image":     {changes{of(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{} })}, "", ""},
		"registration fails":       {changes{failing(v1alpha1.ErrorRegistration)}, reasonHostError, ""},
		"later registration fails": {changes{failing(v1alpha1.ErrorProvisionedRegistration)}, reasonHostError, ""},
		"power fails":              {changes{failing(v1alpha1.ErrorPowerManagement)}, reasonHostError, ""},
		"provisioning failed":      {changes{failing(v1alpha1.ErrorProvisioning)}, "", ""},

		"one more is needed":             {changes{func(f *facts) { f.rank, f.need = 1, 2 }}, "", ""},
		"enough are reserved":            {changes{func(f *facts) { f.rank, f.need = 2, 2 }}, reasonNotNeeded, reasonNotNeeded},
		"scaled down during a rollout":   {changes{func(f *facts) { f.rank, f.need = 0, 0 }}, reasonNotNeeded, reasonNotNeeded},
		"not counted yet":                {changes{func(f *facts) { f.counted, f.need = false, 0 }}, "", ""},
		"unhealthy and not needed":       {changes{of(annotated(v1alpha1.UnhealthyAnnotation, "")), func(f *facts) { f.need = 0 }}, reasonHostUnhealthy, reasonHostUnhealthy},
		"waits for ever":                 {changes{func(f *facts) { f.now = start.AddDate(1, 0, 0) }}, "", ""},
		"waits within its limit":         {changes{waiting(time.Hour + time.Second)}, "", ""},
		"waited to its limit":            {changes{waiting(time.Hour)}, "", reasonWaitedTooLong},
		"limit after a pause of Cluster": {changes{waiting(time.Hour), func(f *facts) { f.cluster.Status.Conditions = resumedAt(start.Add(time.Second)) }}, "", ""},
		"limit after a pause of owner":   {changes{waiting(time.Hour), func(f *facts) { f.owner.resumed = start.Add(time.Second) }}, "", ""},
		"limit, pause before":            {changes{waiting(time.Hour), func(f *facts) { f.owner.resumed = start.Add(-time.Second) }}, "", reasonWaitedTooLong},
		"limit, time unknown":            {changes{waiting(time.Hour), of(annotated(v1beta2.ReservedAtAnnotation, ""))}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := needed(tt.changes...)
			for when, want := range map[moment]Reason{atDeletion: tt.deletion, whileReserved: tt.reserved} {
				got, text := f.against(when)
				if got != want {
					t.Errorf("moment %d: %q, want %q", when, got, want)
				}
				if (got == "") != (text == "") {
					t.Errorf("reason %q is told as %q", got, text)
				}
			}
		})
	}
}

func notReviewed(h *v1alpha1.BareMetalHost) { h.Labels[v1alpha1.UnreviewedLabel] = "" }

func withImage(h *v1alpha1.BareMetalHost) {
	h.Spec.Image = &v1alpha1.Image{URL: "https://images/os.qcow2"}
}

func TestEachReasonIsThereOnceAndHasAText(t *testing.T) {
	seen := map[Reason]bool{reasonNoOwner: true}
	for _, o := range objections {
		if seen[o.reason] || o.text == "" {
			t.Errorf("objection %s is there twice, or has no text", o.reason)
		}
		seen[o.reason] = true
	}
	for _, flaw := range hostFlaws {
		if !seen[flaw.reason] {
			t.Errorf("nothing objects to a host for %s", flaw.reason)
		}
	}
}

func resumedAt(at time.Time) []metav1.Condition {
	return []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)}}
}

func TestReservedHostIsKeptFreedOrStamped(t *testing.T) {
	// A check for no other reason comes within recheck.
	const soon = time.Duration(-1)
	paused := func(f *facts) { f.cluster.Spec.Paused = new(true) }
	legacy := func(label string, consumer ...func(*v1alpha1.BareMetalHost)) func(*facts) {
		return func(f *facts) { f.host = host("a", append(consumer, labelled(label))...) }
	}
	type changes []func(*facts)
	for name, tt := range map[string]struct {
		changes changes
		want    verdict
	}{
		"kept":                         {nil, verdict{again: soon}},
		"freed":                        {changes{func(f *facts) { f.need = 0 }}, verdict{release: reasonNotNeeded}},
		"Cluster paused":               {changes{func(f *facts) { f.need = 0 }, paused}, verdict{again: soon}},
		"owner paused":                 {changes{func(f *facts) { f.need = 0; f.owner.paused = true }}, verdict{again: soon}},
		"host paused":                  {changes{func(f *facts) { f.need = 0 }, of(annotated(v1alpha1.PausedAnnotation, ""))}, verdict{again: soon}},
		"Cluster paused, owner gone":   {changes{func(f *facts) { f.owner = nil }, paused}, verdict{again: soon}},
		"Cluster paused, limit passed": {changes{waiting(time.Minute), paused}, verdict{again: soon}},
		"Cluster paused, UID of before a move": {
			changes{func(f *facts) { f.owner.UID = "new" }, of(moved(start)), paused},
			verdict{again: soon},
		},

		"limit comes first":  {changes{waiting(time.Hour + time.Second)}, verdict{again: time.Second}},
		"recheck comes next": {changes{waiting(2 * time.Hour)}, verdict{again: soon}},

		"owner may come for a while": {changes{func(f *facts) {
			f.owner, f.appearing, f.host.CreationTimestamp = nil, true, metav1.NewTime(f.now.Add(-appearance+time.Second))
		}}, verdict{again: time.Second}},
		"Cluster may come for a while": {changes{func(f *facts) {
			f.cluster, f.appearing, f.host.CreationTimestamp = nil, true, metav1.NewTime(f.now.Add(-appearance+time.Second))
		}}, verdict{again: time.Second}},

		"moved: UID is written anew": {
			changes{func(f *facts) { f.owner.UID = "new" }, of(moved(start.Add(50 * time.Minute)))},
			verdict{stamp: true, at: start, again: soon},
		},
		"moved, UID known":    {changes{of(moved(start.Add(50 * time.Minute)))}, verdict{stamp: true, at: start, again: soon}},
		"without a UID":       {changes{of(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.UID = "" })}, verdict{stamp: true, at: start, again: soon}},
		"without a namespace": {changes{of(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Namespace = "" })}, verdict{stamp: true, at: start, again: soon}},
		"without the label":   {changes{of(labelled(""))}, verdict{stamp: true, at: start, again: soon}},
		"without the Cluster's label": {changes{of(func(h *v1alpha1.BareMetalHost) {
			delete(h.Labels, clusterv1.ClusterNameLabel)
		})}, verdict{stamp: true, at: start, again: soon}},
		"with another's label": {changes{of(labelled("cp-one"))}, verdict{stamp: true, at: start, again: soon}},
		"with an older label":  {changes{func(f *facts) { f.owner.Owner = kubeadm }, of(reservedFor(kubeadm, start)), of(labelled("kcp-one"))}, verdict{stamp: true, at: start, again: soon}},
		"without a time":       {changes{of(annotated(v1beta2.ReservedAtAnnotation, "soon"))}, verdict{stamp: true, at: start.Add(time.Hour), again: soon}},
		"label alone":          {changes{legacy("md-one")}, verdict{stamp: true, at: start.Add(time.Hour), again: soon}},
		"label and Cluster": {
			changes{legacy("md-one", consumedBy("cluster.x-k8s.io/v1beta1", "Cluster", "one", "x"))},
			verdict{stamp: true, at: start.Add(time.Hour), again: soon},
		},
		"label, not needed":      {changes{legacy("md-one"), func(f *facts) { f.need = 0 }}, verdict{release: reasonNotNeeded}},
		"label, owner not there": {changes{legacy("md-two"), func(f *facts) { f.owner = nil }}, verdict{release: reasonOwnerMissing}},
	} {
		t.Run(name, func(t *testing.T) {
			got := needed(tt.changes...).verdict()
			if tt.want.again == soon {
				if got.again < recheck/2 || got.again > recheck {
					t.Errorf("looks again after %s, want about %s", got.again, recheck)
				}
				got.again = soon
			}
			if got.text = ""; !got.stamp {
				got.at = time.Time{}
			} else {
				tt.want.cluster = "one"
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewestReservationIsTheFirstThatIsNotNeeded(t *testing.T) {
	second := start.Add(time.Second)
	hosts := []v1alpha1.BareMetalHost{
		*host("newest", reservedFor(deployment, start.Add(time.Minute))),
		*host("b", reservedFor(deployment, second)),
		*host("a", reservedFor(deployment, second)),
		*host("oldest", reservedFor(deployment, start)),
		*host("unhealthy", reservedFor(deployment, start), annotated(v1alpha1.UnhealthyAnnotation, "")),
		*host("detached", reservedFor(deployment, start), annotated(v1alpha1.DetachedAnnotation, "")),
		*host("control-plane", reservedFor(kubeadm, start)),
		*host("free"),
	}
	for name, want := range map[string]int{"oldest": 0, "a": 1, "b": 2, "newest": 3, "free": 4} {
		for i := range hosts {
			if hosts[i].Name != name {
				continue
			}
			if got := rankOf(&hosts[i], &deployment, template{known: true}, hosts); got != want {
				t.Errorf("%d hosts before %s, want %d", got, name, want)
			}
		}
	}
}

func TestNewMachineWaitsOnlyForHostsThatWillBeItsOwners(t *testing.T) {
	deprovisioning := inState(v1alpha1.StateDeprovisioning)
	kept := func(name string, changes ...func(*v1alpha1.BareMetalHost)) blocker {
		return blocker{host: host(name, append([]func(*v1alpha1.BareMetalHost){reservedFor(deployment, start), deprovisioning}, changes...)...)}
	}
	leaving := func(name string, changes ...func(*v1alpha1.BareMetalHost)) blocker {
		h := host(name, append([]func(*v1alpha1.BareMetalHost){consumedBy("infrastructure.cluster.x-k8s.io/v1beta2", "Metal3Machine", "m", ""), inState(v1alpha1.StateProvisioned)}, changes...)...)
		return blocker{host: h, machine: "m-" + name, since: start}
	}
	broken := func(h *v1alpha1.BareMetalHost) {
		h.Status.ErrorType, h.Status.ErrorMessage = v1alpha1.ErrorPowerManagement, "no answer"
	}
	flaws := map[string]func(*v1alpha1.BareMetalHost){
		"unhealthy":              annotated(v1alpha1.UnhealthyAnnotation, ""),
		"unhealthy, old key":     annotated(v1beta2.LegacyUnhealthyAnnotation, ""),
		"detached":               annotated(v1alpha1.DetachedAnnotation, ""),
		"in deletion":            func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = new(metav1.NewTime(start)) },
		"externally provisioned": func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true },
		"broken":                 broken,
		"with an error message":  func(h *v1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no answer" },
		"with an error status":   func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusError },
		"not reviewed":           notReviewed,
		"not selected":           func(h *v1alpha1.BareMetalHost) { h.Labels["row"] = "b" },
	}
	type row struct {
		blockers []blocker
		wait     time.Duration
		from     time.Time
		waits    string // part of what it waits for; empty when it does not wait
		again    time.Duration
		skipped  string
	}
	rows := map[string]row{
		"nothing there":                        {},
		"reserved and deprovisioning":          {blockers: []blocker{kept("a")}, waits: "host a (deprovisioning), which is reserved"},
		"reserved and paused":                  {blockers: []blocker{kept("a", annotated(v1alpha1.PausedAnnotation, ""))}, waits: "host a (deprovisioning, paused)"},
		"reserved, without its ramdisk":        {blockers: []blocker{kept("a", inState(v1alpha1.StateAvailable))}, waits: "host a (available, without a BMC whose ramdisk does not answer)"},
		"reserved, given an image":             {blockers: []blocker{kept("a", withImage)}},
		"machine in deletion, with its image":  {blockers: []blocker{leaving("a", withImage)}, waits: "host a (provisioned) of"},
		"machine in deletion":                  {blockers: []blocker{leaving("a")}, waits: "host a (provisioned) of Machine m-a, which is being deleted"},
		"broken one does not block":            {blockers: []blocker{kept("a", broken), kept("b")}, waits: "host b"},
		"oldest is told":                       {blockers: []blocker{kept("a", reservedFor(deployment, start.Add(time.Minute))), kept("b")}, waits: "host b"},
		"machine in deletion within the limit": {blockers: []blocker{leaving("a")}, wait: 90 * time.Minute, waits: "host a", again: 30 * time.Minute},
		"machine in deletion past the limit":   {blockers: []blocker{leaving("a")}, wait: time.Hour, skipped: "longer than 1h0m0s for host a"},
		"limit counts from the new machine":    {blockers: []blocker{leaving("a")}, wait: time.Hour, from: start.Add(time.Minute), waits: "host a", again: time.Minute},
		"one past the limit, one reserved":     {blockers: []blocker{leaving("a"), kept("b")}, wait: time.Hour, waits: "host b"},
		"limit of reserved hosts is not here":  {blockers: []blocker{kept("a")}, wait: time.Second, waits: "host a"},
	}
	for name, flaw := range flaws {
		rows["reserved, "+name] = row{blockers: []blocker{kept("a", flaw)}}
		rows["machine in deletion, host "+name] = row{blockers: []blocker{leaving("a", flaw)}}
	}
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			f := needed(selecting(t, "row!=b"))
			p := Preference{Owner: &deployment, Wanted: true}
			queue{now: start.Add(time.Hour), wait: tt.wait, from: tt.from, template: f.template}.waiting(&p, tt.blockers)
			if p.Waiting != (tt.waits != "") || !strings.Contains(p.WaitingFor, tt.waits) {
				t.Errorf("waits: %t, for %q, want %q", p.Waiting, p.WaitingFor, tt.waits)
			}
			if p.RequeueAfter != tt.again {
				t.Errorf("asks again after %s, want %s", p.RequeueAfter, tt.again)
			}
			if (p.Skipped == "") != (tt.skipped == "") || !strings.Contains(p.Skipped, tt.skipped) {
				t.Errorf("tells %q, want %q", p.Skipped, tt.skipped)
			}
		})
	}
}
