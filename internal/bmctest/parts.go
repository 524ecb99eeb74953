package bmctest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

func (t *redfishTest) virtualMedia(ctx context.Context) (finding, error) {
	slots, err := t.driver.SlotFacts(ctx, t.node)
	if err != nil {
		return finding{}, err
	}
	var texts []string
	cd, acts := false, false
	for _, slot := range slots {
		text := join(slot.Devices) + " at the " + slot.Owner
		if slot.Occupied {
			text += " (occupied)"
		}
		if !slot.Inserts {
			text += " (no action to insert)"
		}
		texts = append(texts, text)
		if slices.Contains(slot.Devices, "cdrom") {
			cd, acts = true, acts || slot.Inserts
		}
	}
	if !cd {
		return finding{
			fails: true, text: "no virtual CD: " + cmp.Or(strings.Join(texts, "; "), "none"),
			advice: "Check whether the BMC needs a license for it, or boot over the network.",
		}, nil
	}
	advice := ""
	if !acts {
		advice = "Try it with --medium: not every BMC takes an image without the action."
	}
	return finding{text: strings.Join(texts, "; "), advice: advice}, nil
}

func (t *redfishTest) bios(ctx context.Context) (finding, error) {
	facts, err := t.driver.BIOSFacts(ctx, t.node)
	switch {
	case err != nil:
		return finding{}, err
	case facts.Attributes == 0:
		return finding{fails: true, text: "the BMC shows no settings", advice: "Start the machine once: some BMCs know them only then."}, nil
	}
	text := count(facts.Attributes, "setting", "settings")
	advice := ""
	switch {
	case facts.RegistryError != "":
		text += ", the registry cannot be read: " + facts.RegistryError
		advice = "Values are checked by the BMC only: look at the results of BIOS steps."
	case facts.Registry == "":
		text += ", no registry"
		advice = "Values are checked by the BMC only: look at the results of BIOS steps."
	default:
		text += fmt.Sprintf(", %d of them in the registry %s", facts.Described, facts.Registry)
	}
	if !facts.Pending {
		text += ", changed in place"
	}
	if len(facts.ApplyTimes) > 0 {
		text += ", applied " + join(facts.ApplyTimes)
	}
	return finding{text: text, advice: advice}, nil
}

func (t *redfishTest) firmware(ctx context.Context) (finding, error) {
	reader, ok := t.driver.Interfaces()[node.FirmwareInterface].(driver.Firmware)
	if !ok { // a mistake in this program
		panic("the driver redfish reads no firmware")
	}
	components, err := reader.FirmwareComponents(ctx, t.node)
	if err == nil && len(components) == 0 {
		return finding{fails: true, text: "the BMC tells no versions", advice: "Update the firmware of the BMC."}, nil
	}
	texts := make([]string, len(components))
	for i, one := range components {
		texts[i] = one.Component + " " + one.CurrentVersion
	}
	slices.Sort(texts) // adapters come in any order
	return finding{text: join(texts)}, err
}

func (t *redfishTest) updates(ctx context.Context) (finding, error) {
	facts, err := t.driver.UpdateFacts(ctx, t.node)
	if err != nil {
		return finding{}, err
	}
	push := ""
	if facts.Push {
		push = "; the BMC also takes files that are sent to it, which the driver does not do"
	}
	if !facts.SimpleUpdate {
		return finding{fails: true, text: "the BMC has no action SimpleUpdate" + push, advice: "Update firmware by other means."}, nil
	}
	text := "SimpleUpdate"
	if len(facts.Protocols) > 0 {
		text += " by " + join(facts.Protocols)
	}
	return finding{text: text + push}, nil
}

func (t *redfishTest) storage(ctx context.Context) (finding, error) {
	controllers, err := t.driver.StorageFacts(ctx, t.node)
	if err == nil && len(controllers) == 0 {
		return finding{fails: true, text: "the BMC shows no storage controllers", advice: "Start the machine once, or let the ramdisk inspect it."}, nil
	}
	texts := make([]string, len(controllers))
	for i, one := range controllers {
		texts[i] = one.ID + " with " + count(one.Drives, "drive", "drives") + " and " + count(one.Volumes, "volume", "volumes")
		if len(one.RAIDTypes) > 0 {
			texts[i] += " (" + join(one.RAIDTypes) + ")"
		}
	}
	return finding{text: join(texts)}, err
}

func (t *redfishTest) ports(ctx context.Context) (finding, error) {
	ports, err := t.driver.PortFacts(ctx, t.node)
	var texts []string
	for _, port := range ports {
		if port.MAC != "" {
			texts = append(texts, portText(port))
		}
	}
	if err == nil && len(texts) == 0 {
		return finding{
			fails: true, text: "the BMC shows no MAC addresses",
			advice: "Start the machine once, or let the ramdisk inspect it, or create its ports by hand.",
		}, nil
	}
	return finding{text: join(texts)}, err
}

func portText(port redfish.PortFacts) string {
	if port.Link == "" {
		return port.MAC
	}
	return port.MAC + " (" + port.Link + ")"
}
