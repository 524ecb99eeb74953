package bootservice_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/iso9660"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestRamdiskFindsTheNetworkOfItsBootOnTheMedium changes the network of the node while its
// medium is read.
func TestRamdiskFindsTheNetworkOfItsBootOnTheMedium(t *testing.T) {
	const data = `{"links":[{"id":"eth0","type":"phy"}],"networks":[]}`
	s := newTestService(t)
	boot := s.network()
	boot.BootLoader, boot.NetworkData = s.put("esp", "boot loader"), node.Object(data)
	n := s.register("52:54:00:00:00:01", boot)
	path := boot.Path(n.UUID, "boot.iso")
	_, whole := s.get(http.MethodGet, path)
	image, err := iso9660.Open(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := image.ReadFile("openstack/latest/network_data.json", 4096); err != nil || image.Label() != "config-2" || string(got) != data {
		t.Errorf("label %q, %v, network data %q", image.Label(), err, got)
	}
	err = s.db.Write(t.Context(), func(tx *store.Tx) error {
		before, err := tx.Node(n.UUID)
		if err != nil {
			return err
		}
		after := *before
		after.NetworkData = node.Object(`{"links":[]}`)
		return tx.UpdateNode(before, &after)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, again := s.get(http.MethodGet, path); again != whole {
		t.Error("the medium changes with the node")
	}
	if answer, part := s.get(http.MethodGet, path, "Range", "bytes=32808-32815"); answer.StatusCode != http.StatusPartialContent || part != "config-2" {
		t.Errorf("the label read alone: status %d, %q", answer.StatusCode, part)
	}
}
