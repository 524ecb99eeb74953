// Package cluster_test tells what users of Cluster API experience with Ingot, one file per story.
// Cluster API's own managers, all of Ingot and simulated machines with BMCs run on a real etcd and
// kube-apiserver. The machines become Nodes of other API servers.
//
// The stories share one management cluster and run concurrently. Each has a namespace with hosts of
// its own.
package cluster_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/test/cluster"
)

// shared is the world of the stories.
var shared = &cluster.Shared{Machines: 64}

// sideBySide is how many stories run at the same time, whatever the number of cores: they wait more
// than they compute. The flag -parallel overrides it.
const sideBySide = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		panic(err)
	}
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	os.Exit(shared.Run(m))
}
