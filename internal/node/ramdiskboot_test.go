package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestRamdiskBootIsReadBackUntilItIsWithdrawn(t *testing.T) {
	n := &node.Node{DriverInternalInfo: node.ObjectOf(map[string]any{"agent_url": "http://192.0.2.1"})}
	want := node.RamdiskBoot{Secret: node.NewBootSecret(), Kernel: "http://k", Ramdisk: "http://r", KernelParams: "nofb"}
	want.StoreIn(n)
	got, ok := node.RamdiskBootOf(n)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("read back %v:\n%s", ok, diff)
	}
	node.WithdrawRamdiskBoot(n)
	if _, ok := node.RamdiskBootOf(n); ok || n.DriverInternalInfo.Text("agent_url") == "" {
		t.Errorf("after the withdrawal: %s", n.DriverInternalInfo)
	}
}

func TestRamdiskBootOpensForItsSecretOnly(t *testing.T) {
	boot := node.RamdiskBoot{Secret: node.NewBootSecret()}
	if !boot.Opens(boot.Secret) {
		t.Error("it does not open for its own secret")
	}
	for _, other := range []string{"", node.NewBootSecret(), boot.Secret[:31], boot.Secret + "0"} {
		if boot.Opens(other) {
			t.Errorf("it opens for %q", other)
		}
	}
}

func TestBootIsKnownByTheURLsOfItsFiles(t *testing.T) {
	const uuid = "11111111-2222-4333-8444-555555555555"
	path := node.RamdiskBoot{Secret: node.NewBootSecret()}.Path(uuid, node.BootMediumFile)
	for url, want := range map[string]string{
		"https://192.0.2.1:6386" + path: uuid, "http://192.0.2.1/prefix" + path: uuid, path: uuid,
		"http://192.0.2.1/boot.iso": "", "http://192.0.2.1/boot/" + uuid + "/boot.iso": "", "": "",
	} {
		if got := node.BootedFrom(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

func TestRecordWithoutAWholeSecretServesNothing(t *testing.T) {
	for _, info := range []map[string]any{nil, {"ramdisk_boot": "x"}, {"ramdisk_boot": map[string]any{}}, {"ramdisk_boot": map[string]any{"secret": "abc"}}} {
		if boot, ok := node.RamdiskBootOf(&node.Node{DriverInternalInfo: node.ObjectOf(info)}); ok {
			t.Errorf("%v: %+v", info, boot)
		}
	}
}
