package node_test

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBMCsGetTheNameOfAFirmwareFileAsFarAsTheyCanReadIt(t *testing.T) {
	for from, want := range map[string]string{
		"http://h/a/BIOS_2.19.1.EXE":                    "BIOS_2.19.1.EXE",
		"http://h/bmc.bin?signature=x#sha1=00":          "bmc.bin",
		"http://h/a%20b/c%2Fd é.bin":                    "d__.bin",
		"http://h":                                      "firmware.bin",
		"http://h/..":                                   "firmware.bin",
		"http://h/" + strings.Repeat("x", 200) + ".bin": strings.Repeat("x", 96) + ".bin",
	} {
		if got := node.NewFirmwareFile(from, "").Name; got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

func TestFirmwareFileIsServedUntilItIsWithdrawn(t *testing.T) {
	n, file := &node.Node{UUID: "u"}, node.NewFirmwareFile("http://h/bmc.bin", "v")
	file.StoreIn(n)
	got, serves := node.FirmwareFileOf(n)
	if !serves || got != file || !got.Opens(file.Secret) || got.Opens(node.NewBootSecret()) || got.Path("u") != "/boot/u/"+file.Secret+"/firmware/bmc.bin" {
		t.Errorf("served is %+v, %v", got, serves)
	}
	node.WithdrawFirmwareFile(n)
	if _, serves := node.FirmwareFileOf(n); serves || !n.DriverInternalInfo.IsEmpty() {
		t.Errorf("left is %s", n.DriverInternalInfo)
	}
}
