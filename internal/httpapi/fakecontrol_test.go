package httpapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeMachine is the machine behind every node of the fake engine, with the requests
// that it got.
type fakeMachine struct {
	validation map[node.InterfaceKind]node.Validation
	device     node.BootDevice
	hardware   node.Hardware
	events     []*node.Event
	media      []node.Medium
	answer     []byte
	async      bool
	asked      []string
}

// did keeps a request for an existing node.
func (f *fakeEngine) did(ident, format string, args ...any) error {
	if _, err := f.find(ident); err != nil {
		return err
	}
	f.machine.asked = append(f.machine.asked, fmt.Sprintf(format, args...))
	return nil
}

func (f *fakeEngine) Validate(_ context.Context, ident string) (map[node.InterfaceKind]node.Validation, error) {
	_, err := f.find(ident)
	return f.machine.validation, err
}

func (f *fakeEngine) BootDevices(_ context.Context, ident string) ([]string, error) {
	_, err := f.find(ident)
	return []string{"pxe", "disk"}, err
}

func (f *fakeEngine) BootDevice(_ context.Context, ident string) (node.BootDevice, error) {
	_, err := f.find(ident)
	return f.machine.device, err
}

func (f *fakeEngine) SetBootDevice(_ context.Context, ident string, device node.BootDevice) error {
	return f.did(ident, "boot from %s, persistent %v", device.Device, *device.Persistent)
}

func (f *fakeEngine) InjectNMI(_ context.Context, ident string) error {
	return f.did(ident, "interrupt")
}

func (f *fakeEngine) SetBootMode(_ context.Context, ident, mode string) error {
	return f.did(ident, "boot mode %s", mode)
}

func (f *fakeEngine) SetSecureBoot(_ context.Context, ident string, on bool) error {
	return f.did(ident, "secure boot %v", on)
}

func (f *fakeEngine) SetRAIDConfig(_ context.Context, ident string, config node.Object) error {
	return f.did(ident, "RAID %s", config)
}

func (f *fakeEngine) SetConsole(_ context.Context, ident string, on bool) error {
	return f.did(ident, "console %v", on)
}

func (f *fakeEngine) AttachMedium(_ context.Context, ident string, m node.Medium) error {
	return f.did(ident, "attach %s %s %s", m.DeviceType, m.ImageURL, m.Source)
}

func (f *fakeEngine) DetachMedia(_ context.Context, ident string, types []string) error {
	return f.did(ident, "detach %q", types)
}

func (f *fakeEngine) Media(_ context.Context, ident string) ([]node.Medium, error) {
	_, err := f.find(ident)
	return f.machine.media, err
}

func (f *fakeEngine) VendorMethods(_ context.Context, ident string) (map[string]node.VendorMethod, error) {
	_, err := f.find(ident)
	return map[string]node.VendorMethod{"sing": {HTTPMethods: []string{"POST"}, Async: true, Description: "Sings."}}, err
}

func (f *fakeEngine) CallVendor(_ context.Context, ident string, call node.VendorCall) ([]byte, bool, error) {
	return f.machine.answer, f.machine.async, f.did(ident, "%s %s %s", call.HTTPMethod, call.Method, call.Body)
}

func (f *fakeEngine) DriverMethods(driver string) map[string]node.VendorMethod {
	if driver != "fake-hardware" {
		return nil
	}
	return map[string]node.VendorMethod{"whistle": {HTTPMethods: []string{"POST"}, Description: "Whistles."}}
}

func (f *fakeEngine) CallDriver(_ context.Context, driver string, call node.VendorCall) ([]byte, error) {
	f.machine.asked = append(f.machine.asked, fmt.Sprintf("driver %s: %s %s %s", driver, call.HTTPMethod, call.Method, call.Body))
	if call.Method != "whistle" {
		return nil, node.Invalid("The driver %s has no vendor method %q.", driver, call.Method)
	}
	return f.machine.answer, nil
}

func (f *fakeEngine) Hardware(_ context.Context, ident string) (node.Hardware, error) {
	_, err := f.find(ident)
	return f.machine.hardware, err
}

func (f *fakeEngine) History(_ context.Context, ident string, q node.Query) ([]*node.Event, error) {
	if _, err := f.find(ident); err != nil {
		return nil, err
	}
	return pageOf(f.machine.events, q, func(e *node.Event) string { return e.UUID })
}

func (f *fakeEngine) Event(_ context.Context, _, uuid string) (*node.Event, error) {
	if i := slices.IndexFunc(f.machine.events, func(e *node.Event) bool { return e.UUID == uuid }); i >= 0 {
		return f.machine.events[i], nil
	}
	return nil, &node.NotFoundError{Kind: "History event", Ident: uuid}
}
