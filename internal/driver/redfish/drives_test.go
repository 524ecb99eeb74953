package redfish_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// sharing returns the nodes of two systems that have the virtual devices of one manager.
func sharing(t *testing.T, answer func(http.ResponseWriter, *http.Request, http.Handler)) (m *machine, d redfish.Driver, a, b *node.Node) {
	t.Helper()
	m, d = newMachine(t, "hpe", redfishtest.Options{Systems: 2})
	const manager = "/redfish/v1/Managers/1"
	links := map[string]string{
		manager: fmt.Sprintf(`{"Links": {"ManagerForServers": [{"@odata.id": %q}, {"@odata.id": %q}]}}`, m.SystemPath(0), m.SystemPath(1)),
	}
	for position := range 2 {
		links[m.SystemPath(position)] = `{"Links": {"ManagedBy": [{"@odata.id": "` + manager + `"}]}}`
	}
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		m.shows(links, w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if answer != nil {
				answer(w, r, bmc)
				return
			}
			bmc.ServeHTTP(w, r)
		}))
	})
	a, b = m.system(0), m.system(1)
	b.UUID = "22222222-2222-4333-8444-555555555555"
	return m, d, a, b
}

// bootOf is the medium of a new boot of a node.
func bootOf(n *node.Node) node.Medium {
	path := node.RamdiskBoot{Secret: node.NewBootSecret()}.Path(n.UUID, node.BootMediumFile)
	return node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1" + path}
}

// inDrives lists the images that the virtual devices of the first system have.
func inDrives(m *machine) []string {
	var images []string
	for _, medium := range m.Media() {
		if medium.Image != "" {
			images = append(images, medium.Image)
		}
	}
	return images
}

// detachCD detaches the CD of a node, and returns the note about it.
func detachCD(t *testing.T, d redfish.Driver, n *node.Node) string {
	t.Helper()
	out, err := d.DetachMedia(t.Context(), n, []string{"cdrom"}, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if out.Apply != nil {
		out.Apply(n)
	}
	return out.Note
}

func TestSystemsThatShareVirtualDevicesLeaveEachOthersMedia(t *testing.T) {
	m, d, a, b := sharing(t, nil)
	running := bootOf(b)
	if err := insert(t, d, b, running); err != nil {
		t.Fatal(err)
	}
	err := insert(t, d, a, bootOf(a))
	if err == nil || !strings.Contains(err.Error(), "by node "+b.UUID) || !strings.Contains(err.Error(), m.SystemPath(1)) {
		t.Errorf("error = %v, want a refusal that names node %s and its system", err, b.UUID)
	}
	if detachCD(t, d, a); !slices.Equal(inDrives(m), []string{running.ImageURL}) {
		t.Errorf("the virtual devices have %q, want that of the machine that runs from it", inDrives(m))
	}
	if media, err := d.Media(t.Context(), a); err != nil || len(media) != 1 || !media[0].Stays {
		t.Errorf("media = %+v, %v, want one that stays", media, err)
	}
	if detachCD(t, d, b); len(inDrives(m)) > 0 {
		t.Errorf("after its own node has left it: %q", inDrives(m))
	}
	for range 2 { // the second replaces the first
		next := bootOf(a)
		if err := insert(t, d, a, next); err != nil || !slices.Equal(inDrives(m), []string{next.ImageURL}) {
			t.Errorf("error = %v, the virtual devices have %q, want %q", err, inDrives(m), next.ImageURL)
		}
	}
}

func TestImageThatNobodyBootedIsThatOfTheNodeThatHasAttachedIt(t *testing.T) {
	m, d, a, b := sharing(t, nil)
	if err := insert(t, d, b, bootISO); err != nil {
		t.Fatal(err)
	}
	if err := insert(t, d, a, bootOf(a)); err == nil || !slices.Equal(inDrives(m), []string{bootISO.ImageURL}) {
		t.Errorf("error = %v, the virtual devices have %q, want a refusal", err, inDrives(m))
	}
	if detachCD(t, d, a); !slices.Equal(inDrives(m), []string{bootISO.ImageURL}) {
		t.Errorf("after detaching for the other node: %q, want the image to stay", inDrives(m))
	}
	running := bootOf(b)
	if err := insert(t, d, b, running); err != nil || !slices.Equal(inDrives(m), []string{running.ImageURL}) {
		t.Errorf("error = %v, the virtual devices have %q, want that it makes room for its own node", err, inDrives(m))
	}
	if detachCD(t, d, b); len(inDrives(m)) > 0 {
		t.Errorf("after detaching: %q", inDrives(m))
	}
	if !b.DriverInternalInfo.IsEmpty() {
		t.Errorf("the node still has %s", b.DriverInternalInfo)
	}
	if err := insert(t, d, b, bootOf(b)); err != nil {
		t.Fatal(err)
	}
	m.node = a
	if _, err := vendorCall(m, d, "eject_vmedia", nil); err != nil || len(inDrives(m)) > 0 {
		t.Errorf("error = %v, the virtual devices have %q, want that the vendor method ejects everything", err, inDrives(m))
	}
}

func TestDetachingTellsOfAnImageThatMayBeTheNodes(t *testing.T) {
	two := virtualSlots{{}, {}}
	_, d, a, b := sharing(t, two.answer)
	two[0].image = bootOf(a).ImageURL
	if note := detachCD(t, d, b); note != "" {
		t.Errorf("note = %q, want none about an image that is surely the other node's", note)
	}
	two[1].image = otherISO // by an earlier release, which left no record
	if note := detachCD(t, d, b); two[1].image != otherISO || !strings.Contains(note, "nobody can tell whose it is") || !strings.Contains(note, "eject_vmedia") || strings.Contains(note, otherISO) {
		t.Errorf("note = %q, the virtual device has %q; want that the image stays, and how to eject it", note, two[1].image)
	}
	two[0].image = bootOf(b).ImageURL
	if note := detachCD(t, d, b); note != "" || two[0].image != "" {
		t.Errorf("note = %q, the virtual device has %q; want the node's own image ejected, and no note", note, two[0].image)
	}
}

// TestImageThatAnEarlierReleaseHasAttachedIsTheNodesWhenItAttachesItAgain has a node without a
// record of its image.
func TestImageThatAnEarlierReleaseHasAttachedIsTheNodesWhenItAttachesItAgain(t *testing.T) {
	m, d, _, b := sharing(t, nil)
	if err := insert(t, d, b, bootISO); err != nil {
		t.Fatal(err)
	}
	b.DriverInternalInfo = node.Object{}
	if detachCD(t, d, b); len(inDrives(m)) == 0 {
		t.Error("an image is ejected of which nobody can tell whose it is")
	}
	if err := insert(t, d, b, bootISO); err != nil {
		t.Fatal(err)
	}
	if detachCD(t, d, b); len(inDrives(m)) > 0 {
		t.Errorf("after detaching: %q", inDrives(m))
	}
}

func TestMediumWithoutAURLIsThatOfTheNodeThatHasAttachedIt(t *testing.T) {
	unnamed := virtualSlots{{shows: json.RawMessage("null")}, {shows: json.RawMessage("null")}}
	_, d, a, b := sharing(t, unnamed.answer)
	ofA, ofB := bootOf(a), bootOf(b)
	if err := insert(t, d, a, ofA); err != nil || strings.Contains(a.DriverInternalInfo.String(), "192.0.2.1") {
		t.Fatalf("error = %v, the node has %s; want no URL, which has a secret", err, a.DriverInternalInfo)
	}
	if detachCD(t, d, b); unnamed[0].image != ofA.ImageURL {
		t.Errorf("it has %q, want that of the machine that runs from it", unnamed[0].image)
	}
	if err := insert(t, d, b, ofB); err != nil || unnamed[0].image != ofA.ImageURL || unnamed[1].image != ofB.ImageURL {
		t.Errorf("error = %v, the virtual devices have %q and %q", err, unnamed[0].image, unnamed[1].image)
	}
	if detachCD(t, d, a); unnamed[0].image != "" || unnamed[1].image != ofB.ImageURL {
		t.Errorf("the virtual devices have %q and %q, want the second one alone", unnamed[0].image, unnamed[1].image)
	}
}

func TestImageOfAnotherSystemStaysWhenTheNodesOwnMakesRoom(t *testing.T) {
	two := virtualSlots{{image: otherISO}, {}}
	_, d, a, _ := sharing(t, two.answer)
	if err := insert(t, d, a, bootOf(a)); err != nil {
		t.Fatal(err)
	}
	if detachCD(t, d, a); two[0].image != otherISO || two[1].image != "" {
		t.Errorf("the virtual devices have %q and %q, want the first one alone", two[0].image, two[1].image)
	}
}

func TestNodeReplacesItsOwnMediumBesideThatOfAnotherSystem(t *testing.T) {
	two := virtualSlots{{}, {}}
	_, d, a, b := sharing(t, two.answer)
	ofB, next := bootOf(b), bootOf(a)
	for _, attached := range []struct {
		n      *node.Node
		medium node.Medium
	}{{b, ofB}, {a, bootOf(a)}, {a, next}} {
		if err := insert(t, d, attached.n, attached.medium); err != nil {
			t.Fatal(err)
		}
	}
	if two[0].image != ofB.ImageURL || two[1].image != next.ImageURL {
		t.Errorf("the virtual devices have %q and %q, want %q and %q", two[0].image, two[1].image, ofB.ImageURL, next.ImageURL)
	}
}
