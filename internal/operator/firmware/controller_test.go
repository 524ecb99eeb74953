package firmware

import (
	"testing"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestChangeThatTheHostControllerSeesFirstBringsAPass(t *testing.T) {
	nodes := nodecache.New(nil, nodecache.Options{})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	if err := New(Config{Cluster: "c1"}).nodeChanges(nodes).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	nodes.Note(provisioner.Node{ID: "a", State: node.Available, Mark: provisioner.MarkOf("c1", "metal", "web")})
	if queue.Len() != 1 {
		t.Fatalf("%d hosts wait for a pass, want one", queue.Len())
	}
	if got, _ := queue.Get(); got.String() != "metal/web" {
		t.Errorf("a pass over %s, want one over metal/web", got)
	}
}
