package bmc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// IDs of firmware components. Network adapters have nic:1, nic:2 and so on.
const (
	BIOSComponent = "bios"
	BMCComponent  = "bmc"
	adapterPrefix = "nic:"
)

// Component is a part of the machine that has firmware.
type Component struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// Adapter is a network adapter with its ports.
type Adapter struct {
	Vendor, Product string // PCI identifiers
	Ports           []hardware.Interface
}

// Adapters groups the interfaces of a machine by adapter: neighbouring interfaces of the same
// product are ports of one adapter.
func Adapters(m hardware.Machine) []Adapter {
	var adapters []Adapter
	for _, port := range m.Inspection.Inventory.Interfaces {
		last := len(adapters) - 1
		if last < 0 || adapters[last].Vendor != port.Vendor || adapters[last].Product != port.Product {
			adapters = append(adapters, Adapter{Vendor: port.Vendor, Product: port.Product})
			last++
		}
		adapters[last].Ports = append(adapters[last].Ports, port)
	}
	return adapters
}

// Components returns the components with firmware: the BIOS, the BMC and each adapter.
func (b *BMC) Components() []Component {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.components()
}

func (b *BMC) components() []Component {
	machine := b.hardware()
	components := []Component{
		{BIOSComponent, machine.Inspection.Inventory.SystemVendor.Firmware.Version},
		{BMCComponent, b.config.Profile.BMCVersion},
	}
	for i := range Adapters(machine) {
		components = append(components, Component{adapterPrefix + strconv.Itoa(i+1), b.config.Profile.AdapterVersion})
	}
	for i, c := range components {
		if version, ok := b.versions[c.ID]; ok {
			components[i].Version = version
		}
	}
	return components
}

// Limits of fetching a firmware file.
const (
	maxFirmware  = 4 << 10 // bytes
	fetchTimeout = 5 * time.Second
)

// image is what a firmware file says.
type image struct{ component, version string }

// firmwareMagic begins a firmware file, which is one line of text:
//
//	ingot-firmware component=bios version=2.19.1
//
// The component is bios, bmc, nic for all network adapters, or nic:1 for one.
const firmwareMagic = "ingot-firmware"

// parseImage reads a firmware file.
func parseImage(text []byte) (image, error) {
	words := strings.Fields(string(text))
	if len(words) != 3 || words[0] != firmwareMagic {
		return image{}, fmt.Errorf("want %q, a component and a version", firmwareMagic)
	}
	component, isComponent := strings.CutPrefix(words[1], "component=")
	version, isVersion := strings.CutPrefix(words[2], "version=")
	if !isComponent || !isVersion || component == "" || version == "" {
		return image{}, fmt.Errorf("want component=… version=…, got %q", words[1:])
	}
	return image{component, version}, nil
}

// fetch gets a firmware file over HTTP.
func (b *BMC) fetch(ctx context.Context, from string) (image, Failure) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return image{}, FetchFailed
	}
	client := b.config.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return image{}, FetchFailed
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxFirmware+1))
	if err != nil || response.StatusCode != http.StatusOK {
		return image{}, FetchFailed
	}
	file, err := parseImage(bytes.TrimSpace(text))
	if err != nil || len(text) > maxFirmware {
		return image{}, ImageInvalid
	}
	return file, NoFailure
}

// Update fetches a firmware file and begins to install it, as a task. If component is not empty,
// the file must be for that component. Update returns when the file is fetched or cannot be
// fetched; the task then has the failure. The end of ctx does not stop the fetching. The error is a
// *RefusedError.
func (b *BMC) Update(ctx context.Context, c *Call, from, component string) (task *Task, err error) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &RefusedError{Reason: UnknownTransferURI, Property: "ImageURI", Value: from}
	}
	file, failure := b.fetch(context.WithoutCancel(ctx), from)
	err = b.apply(c, change{
		kind: Flash, detail: strings.TrimSpace(component + " " + from),
		check: func(time.Time) *RefusedError {
			if component != "" && !b.has(component) {
				return &RefusedError{Reason: UnknownComponent, Property: "Targets", Value: component}
			}
			return nil
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			task = b.addTask(b.flashTask(file, failure, component, now, fate)).copied()
			return task
		},
	})
	return task, err
}

// flashTask returns the task that installs a file. The BMC installs its own firmware at once, and
// that of other components when the machine boots next.
func (b *BMC) flashTask(file image, failure Failure, component string, now time.Time, fate effect.Fate) Task {
	t := Task{
		Kind: FlashTask, Component: file.component, Version: file.version, Failure: failure, Begun: now, Ended: now,
		fails: fate.FailTask, lasts: b.config.Times.Flash + fate.TaskTime,
	}
	if component != "" && t.Component == "nic" && strings.HasPrefix(component, adapterPrefix) {
		t.Component = component
	}
	if failure == NoFailure && (!b.has(t.Component) || component != "" && component != t.Component) {
		t.Failure = ImageInvalid
	}
	switch {
	case t.Failure != NoFailure: // ends at once
	case t.Component == BMCComponent:
		t.Ended = now.Add(t.lasts)
	default:
		t.State = Scheduled
	}
	return t
}

// has reports whether the machine has a component. The word nic stands for all adapters.
func (b *BMC) has(component string) bool {
	return slices.ContainsFunc(b.components(), func(c Component) bool {
		return c.ID == component || component == "nic" && strings.HasPrefix(c.ID, adapterPrefix)
	})
}

// flashWaiting begins the updates that wait for a boot. It returns when the last of them ends.
func (b *BMC) flashWaiting(now time.Time) time.Time {
	end := now
	for _, t := range b.tasks {
		if t.Kind == FlashTask && t.State == Scheduled {
			end = end.Add(t.lasts)
			t.State, t.Ended = Running, end
		}
	}
	return end
}

// Writing returns the components whose firmware is being written.
func (b *BMC) Writing() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writing(b.actDue())
}

// writing returns the components that are being written at a moment. It checks the end of each
// task, because tasks whose time is over may not have ended yet.
func (b *BMC) writing(at time.Time) []string {
	components := []string{}
	for _, t := range b.tasks {
		if t.Kind == FlashTask && t.State == Running && t.Ended.After(at) {
			components = append(components, t.Component)
		}
	}
	return components
}

// noteInterrupted logs that a machine loses its power or is restarted while firmware is being
// written. A real machine may never start again; this one goes on.
func (b *BMC) noteInterrupted(at time.Time) {
	for _, component := range b.writing(at) {
		b.config.Recorder.Add(effect.Effect{
			Machine: b.name, Time: at.UTC(), Ended: at.UTC(), Kind: string(InterruptFlash), Detail: component, Task: "done",
		})
	}
}

// finishFlash puts the new version into force.
func (b *BMC) finishFlash(t *Task) {
	if t.Kind != FlashTask {
		return
	}
	if b.versions == nil {
		b.versions = map[string]string{}
	}
	for _, c := range b.components() {
		if c.ID == t.Component || t.Component == "nic" && strings.HasPrefix(c.ID, adapterPrefix) {
			b.versions[c.ID] = t.Version
		}
	}
	if t.Component == BMCComponent {
		b.restarts++
		b.downUntil = t.Ended.Add(b.config.Times.BMCRestart)
	}
}
