package redfish_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// slots returns the virtual media of the system, or else those of its manager.
func slots(t *testing.T, client *gofish.APIClient) []*schemas.VirtualMedia {
	t.Helper()
	media, err := system(t, client).VirtualMedia()
	if err != nil {
		t.Fatal(err)
	}
	if len(media) > 0 {
		return inOrder(media)
	}
	managers, err := client.Service.Managers()
	if err != nil || len(managers) != 1 {
		t.Fatalf("managers %v, %v", managers, err)
	}
	if media, err = managers[0].VirtualMedia(); err != nil {
		t.Fatal(err)
	}
	return inOrder(media)
}

// inOrder sorts what gofish fetches concurrently.
func inOrder(media []*schemas.VirtualMedia) []*schemas.VirtualMedia {
	slices.SortFunc(media, func(a, b *schemas.VirtualMedia) int { return strings.Compare(a.ID, b.ID) })
	return media
}

func cd(t *testing.T, client *gofish.APIClient) *schemas.VirtualMedia {
	t.Helper()
	media := slots(t, client)
	i := slices.IndexFunc(media, func(m *schemas.VirtualMedia) bool {
		return slices.Contains(m.MediaTypes, schemas.CDVirtualMediaType)
	})
	if i < 0 {
		t.Fatal("no slot takes a CD")
	}
	return media[i]
}

func TestMediumIsInsertedBootedAndEjected(t *testing.T) {
	const image = "https://192.0.2.1/images/ramdisk.iso"
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			booted := &recordingComputer{}
			s := redfishtest.Start(t, vendor, redfishtest.Options{Computer: booted})
			client := connect(t, s)
			parameters := &schemas.VirtualMediaInsertMediaParameters{Image: image, UserName: gofish.ToRef("u"), Password: gofish.ToRef("p")}
			if _, err := cd(t, client).InsertMedia(parameters); err != nil {
				t.Fatal(err)
			}
			got := cd(t, client)
			if got.Image != image || got.ImageName != "ramdisk.iso" || got.Inserted == nil || !*got.Inserted || got.UserName != "u" || got.Password != "" {
				t.Errorf("slot has %q %q, inserted %v, user %q, password %q", got.Image, got.ImageName, got.Inserted, got.UserName, got.Password)
			}
			if _, err := cd(t, client).InsertMedia(parameters); statusOf(err) == 0 {
				t.Errorf("a second medium in the slot: %v, want it refused", err)
			}
			if err := s.SetOverride(&bmc.Call{}, bmc.Override{Target: bmc.Target(cdTarget[vendor]), Enabled: bmc.Once}); err != nil {
				t.Fatal(err)
			}
			power(t, s, bmc.ResetOn)
			if len(booted.boots) != 1 || booted.boots[0].Image(bmc.FromCD) != image || booted.boots[0].Source != bmc.FromCD {
				t.Errorf("boots %+v, want one from the medium", booted.boots)
			}
			if _, err := cd(t, client).EjectMedia(); err != nil {
				t.Fatal(err)
			}
			if got := cd(t, client); *got.Inserted || got.Image != "" {
				t.Errorf("slot has %q after its ejection", got.Image)
			}
			_, err := cd(t, client).EjectMedia()
			if refused := err != nil; refused != (vendor != "supermicro") {
				t.Errorf("ejection from an empty slot: %v", err)
			}
		})
	}
}

// recordingComputer remembers its boots.
type recordingComputer struct {
	boots []bmc.Boot
	on    bool
}

func (c *recordingComputer) PowerOn(b bmc.Boot) { c.boots, c.on = append(c.boots, b), true }
func (c *recordingComputer) PowerOff()          { c.on = false }
func (c *recordingComputer) Shutdown() bool     { return true }
func (c *recordingComputer) On() bool           { return c.on }

func TestDellShowsTheSameSlotsAtSystemAndManager(t *testing.T) {
	s := redfishtest.Start(t, "dell")
	const system, manager = "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/1", "/redfish/v1/Managers/iDRAC.Embedded.1/VirtualMedia/CD"
	if status, text, _ := call(t, s, "POST", system+"/Actions/VirtualMedia.InsertMedia", `{"Image":"http://192.0.2.1/a.iso"}`); status != 204 {
		t.Fatalf("status %d, %s", status, text)
	}
	if _, text, _ := call(t, s, "GET", manager, ""); !strings.Contains(text, "http://192.0.2.1/a.iso") {
		t.Errorf("the slot at the manager is %s", text)
	}
}

func TestSupermicroTakesNoParametersOfMediaThatItImplies(t *testing.T) {
	const slot = "/redfish/v1/Managers/1/VirtualMedia/VirtualMedia1"
	for parameter, want := range map[string]int{`"Inserted":true`: 400, `"WriteProtected":true`: 400, `"TransferProtocolType":"HTTP"`: 204} {
		s := redfishtest.Start(t, "supermicro")
		status, text, _ := call(t, s, "POST", slot+"/Actions/VirtualMedia.InsertMedia", `{"Image":"http://192.0.2.1/a.iso",`+parameter+`}`)
		if refused := strings.Contains(text, "PropertyUnknown"); status != want || refused != (want == 400) {
			t.Errorf("%s: status %d, %s, want %d", parameter, status, text, want)
		}
	}
}
