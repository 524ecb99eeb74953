package discovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

func skippedNodes(n int, reason discoveryv1.SkipReason) []discoveryv1.SkippedNode {
	list := make([]discoveryv1.SkippedNode, n)
	for i := range list {
		list[i] = discoveryv1.SkippedNode{NodeID: fmt.Sprintf("n%04d", i), Reason: reason, Message: "m"}
	}
	return list
}

func TestSkippedNodesAreNewsOncePerReason(t *testing.T) {
	before, now := metav1.NewTime(testStart), metav1.NewTime(testStart.Add(time.Hour))
	memory, fresh := memoryOf(nil, &discoveryv1.BareMetalHostDiscoveryStatus{}).update(skippedNodes(3*maxSkipped, discoveryv1.SkipNoInventory), before)
	if len(fresh) != 3*maxSkipped {
		t.Fatalf("%d nodes are news, want all", len(fresh))
	}
	next := skippedNodes(3*maxSkipped+1, discoveryv1.SkipNoInventory)
	next[7].Reason = discoveryv1.SkipMissingMAC
	_, fresh = memory.update(next, now)
	want := []discoveryv1.SkippedNode{
		{NodeID: "n0007", Reason: discoveryv1.SkipMissingMAC, Message: "m", Since: now},
		{NodeID: fmt.Sprintf("n%04d", 3*maxSkipped), Reason: discoveryv1.SkipNoInventory, Message: "m", Since: now},
	}
	if diff := cmp.Diff(want, fresh); diff != "" {
		t.Errorf("news differ (-want +got):\n%s", diff)
	}
	if got := next[3*maxSkipped-1].Since; !got.Equal(&before) {
		t.Errorf("a node beyond the list of the status is skipped since %s, want %s", got, before)
	}
}

func TestAnotherProcessRepeatsNoNews(t *testing.T) {
	before, now := metav1.NewTime(testStart), metav1.NewTime(testStart.Add(time.Hour))
	for _, tt := range []struct {
		name          string
		listed, count int
		nodes, want   int
	}{
		{"all were listed", 3, 3, 4, 1},
		{"the list was full", maxSkipped, 3 * maxSkipped, 3 * maxSkipped, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := &discoveryv1.BareMetalHostDiscoveryStatus{Skipped: skippedNodes(tt.listed, discoveryv1.SkipMissingMAC)}
			status.Counts.Skipped = int32(tt.count)
			for i := range status.Skipped {
				status.Skipped[i].Since = before
			}
			skipped := skippedNodes(tt.nodes, discoveryv1.SkipMissingMAC)
			_, fresh := memoryOf(nil, status).update(skipped, now)
			if len(fresh) != tt.want {
				t.Errorf("%d nodes are news, want %d", len(fresh), tt.want)
			}
			if got := skipped[0].Since; !got.Equal(&before) {
				t.Errorf("skipped since %s, want %s from the status", got, before)
			}
		})
	}
}

func TestListOfSkippedNodesIsOrderedAndKeepsWhatNeedsAPerson(t *testing.T) {
	nodes := skippedNodes(2*maxSkipped, discoveryv1.SkipNoInventory)
	for i := range nodes {
		nodes[i].Message = messageUnreadable + "m"
	}
	nodes[len(nodes)-2].Reason = discoveryv1.SkipDuplicateMAC
	nodes[len(nodes)-1].Message = "inspection failed: m"
	got := skippedList(nodes)
	if len(got) != maxSkipped {
		t.Fatalf("%d entries, want %d", len(got), maxSkipped)
	}
	if diff := cmp.Diff(nodes[len(nodes)-2:], got[maxSkipped-2:]); diff != "" {
		t.Errorf("the nodes with a duplicate address and a failed inspection are not listed (-want +got):\n%s", diff)
	}
	if got[0].NodeID != "n0000" || got[1].NodeID != "n0001" {
		t.Errorf("first entries %s and %s, want the order of IDs", got[0].NodeID, got[1].NodeID)
	}
	if skippedList(nil) != nil {
		t.Error("want no list for no nodes")
	}
}

func TestFailedInspectionIsNewsAfterReadingsThatFailedForTheMoment(t *testing.T) {
	start := metav1.NewTime(testStart)
	unreadable := skippedNodes(1, discoveryv1.SkipNoInventory)
	unreadable[0].Message = messageUnreadable + "m"
	failed := skippedNodes(1, discoveryv1.SkipNoInventory)
	memory, _ := skipMemory{}.update(unreadable, start)
	for i, tt := range []struct {
		skipped []discoveryv1.SkippedNode
		news    int
	}{{failed, 1}, {failed, 0}, {unreadable, 0}, {failed, 0}} {
		var fresh []discoveryv1.SkippedNode
		memory, fresh = memory.update(tt.skipped, metav1.NewTime(testStart.Add(time.Hour)))
		if len(fresh) != tt.news {
			t.Errorf("poll %d: %d nodes are news, want %d", i, len(fresh), tt.news)
		}
		if got := tt.skipped[0].Since; !got.Equal(&start) {
			t.Errorf("poll %d: skipped since %s, want %s", i, got, start)
		}
	}
}
