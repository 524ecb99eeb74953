package redfish_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

// virtualSlot is a virtual device that behaves as no simulated one does.
type virtualSlot struct {
	plain   bool // it has no actions: its own document is changed
	refuses int  // the status with which it refuses an image; 0 for none
	// wants are properties without which it refuses an image, one after the other.
	wants  []string
	shows  any  // what it shows for the URL of an image; nil for the URL itself
	sticks bool // it accepts to eject, and does not
	ghost  bool // it shows an image that is not there, until it gets one
	keeps  int  // the status with which it refuses to eject; 0 for none

	image string           // in it
	asked []map[string]any // requests to insert an image
}

// virtualSlots stand in for a BMC at its virtual devices, which can be a CD each.
type virtualSlots []*virtualSlot

// answer answers requests to the virtual devices, which are called 0, 1 and so on.
func (b virtualSlots) answer(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
	owner, below, found := strings.Cut(strings.TrimRight(r.URL.Path, "/"), "/VirtualMedia")
	at := owner + "/VirtualMedia"
	switch {
	case !found:
		bmc.ServeHTTP(w, r)
		return
	case below == "":
		members := []map[string]string{}
		for i := range b {
			members = append(members, map[string]string{"@odata.id": fmt.Sprintf("%s/%d", at, i)})
		}
		shown(w, map[string]any{"@odata.id": at, "Members": members})
		return
	}
	var i int
	if _, err := fmt.Sscanf(below, "/%d", &i); err != nil || i >= len(b) {
		said(w, http.StatusNotFound, `{}`)
		return
	}
	one, body := b[i], map[string]any{}
	if r.Method != http.MethodGet {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	switch {
	case r.Method == http.MethodGet:
		shown(w, one.document(fmt.Sprintf("%s/%d", at, i)))
	case (r.Method == http.MethodPatch) != one.plain:
		said(w, http.StatusMethodNotAllowed, `{}`)
	case body["Image"] == nil && one.ghost:
		said(w, http.StatusBadRequest, `{"error": {"@Message.ExtendedInfo": [{"MessageId": "iLO.2.14.NoVirtualMediaConnectionAvailable"}]}}`)
	case body["Image"] == nil && one.keeps != 0:
		said(w, one.keeps, `{}`)
	case body["Image"] == nil:
		if _, named := body["Image"]; !one.sticks && (named || !one.plain) {
			one.image = ""
		}
		said(w, http.StatusOK, `{}`)
	default:
		one.insert(w, body)
	}
}

// insert answers a request to insert an image. Without actions it has to say that the image is
// inserted, and an image that is in there stays.
func (b *virtualSlot) insert(w http.ResponseWriter, body map[string]any) {
	b.asked = append(b.asked, body)
	if b.refuses != 0 {
		said(w, b.refuses, `{}`)
		return
	}
	for _, property := range b.wants {
		if body[property] == nil {
			said(w, http.StatusBadRequest, generalError(property))
			return
		}
	}
	if !b.plain || body["Inserted"] == true && b.image == "" {
		b.ghost = false
		b.image, _ = body["Image"].(string)
	}
	said(w, http.StatusOK, `{}`)
}

func (b *virtualSlot) document(at string) map[string]any {
	document := map[string]any{
		"@odata.id": at, "Id": path.Base(at), "MediaTypes": []string{"CD", "DVD"}, "Inserted": b.image != "", "Image": nil,
	}
	switch {
	case b.image != "" && b.shows != nil:
		document["Image"] = b.shows
	case b.image != "":
		document["Image"] = b.image
	}
	if !b.plain {
		actions := at + "/Actions/VirtualMedia."
		document["Actions"] = map[string]any{
			"#VirtualMedia.InsertMedia": map[string]string{"target": actions + "InsertMedia"},
			"#VirtualMedia.EjectMedia":  map[string]string{"target": actions + "EjectMedia"},
		}
	}
	return document
}

// generalError is an answer that names a property in its text only.
func generalError(property string) string {
	return `{"error": {"code": "Base.1.0.GeneralError", "message": "A general error has occurred.", "@Message.ExtendedInfo": [
		{"MessageId": "Base.1.0.GeneralError", "Message": "The parameter ` + property + ` is required."}]}}`
}

// shown answers with a document.
func shown(w http.ResponseWriter, document any) {
	text, _ := json.Marshal(document)
	said(w, http.StatusOK, string(text))
}

// bootISO is the image that the tests of virtual devices insert.
var bootISO = node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"}

func TestVirtualDeviceWithoutAnActionIsToldThatItIsInserted(t *testing.T) {
	m, d := newMachine(t, "hpe")
	only := &virtualSlot{plain: true}
	m.behind(virtualSlots{only}.answer)
	err := insert(t, d, m.node, bootISO)
	if err != nil || only.image != bootISO.ImageURL || only.asked[0]["WriteProtected"] != true {
		t.Errorf("error = %v, it was sent %v, want the image, inserted and protected", err, only.asked)
	}
}

func TestVirtualDeviceWithoutAnActionIsToldThatItHasNoImage(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*machine, redfish.Driver) error
		left   string
	}{
		"for another": {func(m *machine, d redfish.Driver) error { return insert(m.t, d, m.node, bootISO) }, bootISO.ImageURL},
		"to detach": {func(m *machine, d redfish.Driver) error {
			_, err := d.DetachMedia(m.t.Context(), m.node, nil, fresh)
			return err
		}, ""},
		"as its method": {func(m *machine, d redfish.Driver) error {
			_, err := vendorCall(m, d, "eject_vmedia", nil)
			return err
		}, ""},
	} {
		m, d := newMachine(t, "hpe")
		only := &virtualSlot{plain: true, image: "http://192.0.2.9/other.iso"}
		m.behind(virtualSlots{only}.answer)
		if err := test.change(m, d); err != nil || only.image != test.left {
			t.Errorf("%s: error = %v, it has the image %q, want %q", name, err, only.image, test.left)
		}
	}
}

func TestMediumIsInTheFirstVirtualDeviceThatTakesIt(t *testing.T) {
	const other = "http://192.0.2.9/other.iso"
	for name, test := range map[string]struct {
		virtualSlots virtualSlots
		in           int // the virtual device with the image; -1 for none
		asked        []int
	}{
		"all do":                       {virtualSlots{{}, {}}, 0, []int{1, 0}},
		"one has no action":            {virtualSlots{{plain: true}, {}}, 1, []int{0, 1}},
		"one refuses the request":      {virtualSlots{{refuses: http.StatusBadRequest}, {}}, 1, []int{1, 1}},
		"one refuses the method":       {virtualSlots{{refuses: http.StatusMethodNotAllowed}, {}}, 1, []int{1, 1}},
		"one is busy":                  {virtualSlots{{refuses: http.StatusConflict}, {}}, -1, []int{1, 0}},
		"one breaks":                   {virtualSlots{{refuses: http.StatusInternalServerError}, {}}, -1, []int{1, 0}},
		"only one without an action":   {virtualSlots{{refuses: http.StatusBadRequest}, {plain: true}}, 1, []int{1, 1}},
		"the other one has an image":   {virtualSlots{{refuses: http.StatusBadRequest}, {image: other}}, -1, []int{1, 0}},
		"both refuse":                  {virtualSlots{{refuses: http.StatusBadRequest}, {refuses: http.StatusBadRequest}}, -1, []int{1, 1}},
		"all have an image of another": {virtualSlots{{image: other}, {image: other}}, 0, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "hpe")
			m.behind(test.virtualSlots.answer)
			before := test.virtualSlots[1].image
			err := insert(t, d, m.node, bootISO)
			if (err == nil) != (test.in >= 0) {
				t.Errorf("error = %v, want one: %t", err, test.in < 0)
			}
			for i, one := range test.virtualSlots {
				if (one.image == bootISO.ImageURL) != (i == test.in) || len(one.asked) != test.asked[i] {
					t.Errorf("the virtual device %d has %q after %d requests, want %d", i, one.image, len(one.asked), test.asked[i])
				}
			}
			if test.in != 1 && test.virtualSlots[1].image != before {
				t.Errorf("the image %q of somebody else is gone", before)
			}
		})
	}
}

func TestImageIsSentWithThePropertiesThatTheBMCMisses(t *testing.T) {
	for _, wants := range [][]string{{"TransferProtocolType"}, {"TransferProtocolType", "TransferMethod"}, {"TransferMethod", "TransferProtocolType"}} {
		m, d := newMachine(t, "hpe")
		only := &virtualSlot{wants: wants}
		m.behind(virtualSlots{only}.answer)
		if err := insert(t, d, m.node, bootISO); err != nil || len(only.asked) != len(wants)+1 {
			t.Errorf("%v: error = %v after %v", wants, err, only.asked)
			continue
		}
		last := only.asked[len(wants)]
		for property, value := range map[string]any{"TransferProtocolType": "HTTP", "TransferMethod": "Stream"} {
			if last[property] != nil && last[property] != value {
				t.Errorf("%v: %s is %v, want %v", wants, property, last[property], value)
			}
		}
	}
}

func TestBMCThatRefusesWhatItMissedIsNotAskedForever(t *testing.T) {
	m, d := newMachine(t, "hpe")
	only := &virtualSlot{wants: []string{"TransferMethod", "no property of TransferMethod"}}
	m.behind(virtualSlots{only}.answer)
	if err := insert(t, d, m.node, bootISO); err == nil || len(only.asked) != 2 {
		t.Errorf("error = %v after %v, want a failure after two requests", err, only.asked)
	}
}

func TestInsertedMediumMayBeShownWithAnotherURL(t *testing.T) {
	const image = "http://192.0.2.1:80/a%20b/boot.iso"
	for name, test := range map[string]struct {
		virtualSlot virtualSlot
		fails       bool
	}{
		"none":                  {virtualSlot{shows: json.RawMessage("null")}, false},
		"its end":               {virtualSlot{shows: "boot.iso"}, false},
		"its beginning":         {virtualSlot{shows: "http://192.0.2.1:80/a%20b/bo"}, false},
		"without escapes":       {virtualSlot{shows: "http://192.0.2.1:80/a b/boot.iso"}, false},
		"without a port":        {virtualSlot{shows: "http://192.0.2.1/a%20b/boot.iso"}, false},
		"that of another":       {virtualSlot{shows: "http://192.0.2.9/boot.iso"}, true},
		"instead of an earlier": {virtualSlot{image: "http://192.0.2.9/other.iso", shows: json.RawMessage("null")}, false},
		"an earlier that stays": {virtualSlot{image: "http://192.0.2.9/other.iso", shows: json.RawMessage("null"), sticks: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "hpe")
			m.behind(virtualSlots{&test.virtualSlot}.answer)
			if err := insert(t, d, m.node, node.Medium{DeviceType: "cdrom", ImageURL: image}); (err != nil) != test.fails {
				t.Errorf("error = %v, want one: %t", err, test.fails)
			}
		})
	}
}

func TestMediaWithoutAURLAreBesideEachOther(t *testing.T) {
	m, d := newMachine(t, "hpe")
	unnamed := virtualSlots{{shows: json.RawMessage("null")}, {shows: json.RawMessage("null")}}
	m.behind(unnamed.answer)
	second, third := bootISO, bootISO
	second.ImageURL, second.Beside = "http://192.0.2.1/second.iso", bootISO.ImageURL
	third.ImageURL, third.Beside = "http://192.0.2.1/third.iso", bootISO.ImageURL
	for _, medium := range []node.Medium{bootISO, second} {
		if err := insert(t, d, m.node, medium); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody can tell which of them the third may replace.
	err := insert(t, d, m.node, third)
	if err == nil || unnamed[0].image != bootISO.ImageURL || unnamed[1].image != second.ImageURL {
		t.Errorf("error = %v, the virtual devices have %q and %q, want a refusal", err, unnamed[0].image, unnamed[1].image)
	}
}

const otherISO = "http://192.0.2.9/other.iso"

func TestMediumThatIsShownAndNotThereIsDetached(t *testing.T) {
	m, d := newMachine(t, "hpe")
	two := virtualSlots{{image: otherISO, ghost: true}, {image: otherISO, sticks: true}}
	m.behind(two.answer)
	turns := 0
	_, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		if turns++; turns == 3 { // the BMC has ejected the other one at last
			two[1].image = ""
		}
		return d.DetachMedia(ctx, m.node, nil, turn)
	})
	if err != nil || turns != 3 {
		t.Errorf("error = %v after %d turns, want that both are detached", err, turns)
	}
}

func TestMediumThatIsNotEjectedKeepsNoOtherAttached(t *testing.T) {
	for name, detach := range map[string]func(*machine, redfish.Driver) error{
		"detach": func(m *machine, d redfish.Driver) error {
			_, err := d.DetachMedia(m.t.Context(), m.node, nil, fresh)
			return err
		},
		"as a vendor method": func(m *machine, d redfish.Driver) error {
			_, err := vendorCall(m, d, "eject_vmedia", nil)
			return err
		},
	} {
		m, d := newMachine(t, "hpe")
		two := virtualSlots{{image: otherISO, keeps: http.StatusForbidden}, {image: otherISO}}
		m.behind(two.answer)
		if err := detach(m, d); err == nil || two[0].image == "" || two[1].image != "" {
			t.Errorf("%s: error = %v, the virtual devices have %q and %q, want an error and the second one empty", name, err, two[0].image, two[1].image)
		}
	}
}

func TestImageIsInsertedThoughTheOneBeforeIsNotEjected(t *testing.T) {
	for name, test := range map[string]struct {
		slot  virtualSlot
		fails bool
	}{
		"it is not there":                    {virtualSlot{image: otherISO, ghost: true}, false},
		"the BMC refuses, and replaces it":   {virtualSlot{image: otherISO, keeps: http.StatusBadRequest}, false},
		"the BMC refuses both":               {virtualSlot{image: otherISO, keeps: http.StatusBadRequest, refuses: http.StatusBadRequest}, true},
		"the BMC cannot do anything for now": {virtualSlot{image: otherISO, keeps: http.StatusServiceUnavailable}, true},
	} {
		m, d := newMachine(t, "hpe")
		m.behind(virtualSlots{&test.slot}.answer)
		if err := insert(t, d, m.node, bootISO); (err != nil) != test.fails || (test.slot.image == bootISO.ImageURL) == test.fails {
			t.Errorf("%s: error = %v, it has %q; want an error: %t", name, err, test.slot.image, test.fails)
		}
	}
}
