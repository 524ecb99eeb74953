package redfish

import (
	"encoding/json"
	"fmt"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// bootChange is a change of the boot override.
type bootChange struct {
	schemas.Boot
	// clears: it removes the URL of an earlier UEFI HTTP boot, which firmware would boot
	// from instead of asking DHCP for one.
	clears bool
	// shown is the BootSourceOverrideEnabled that the BMC shows. It is empty where each change must
	// name the value.
	shown schemas.BootSourceOverrideEnabled
	// keeps: it leaves BootSourceOverrideEnabled out, because the BMC has the value already.
	keeps bool
}

// urlless are boot settings with null for the URL. The library would leave the URL out.
type urlless struct {
	schemas.Boot
	HTTPBootURI *string `json:"HttpBootUri"`
}

// body returns the change as it is sent.
func (b bootChange) body() any {
	if b.keeps {
		b.BootSourceOverrideEnabled = ""
	}
	if b.clears {
		return map[string]any{"Boot": urlless{Boot: b.Boot}}
	}
	return map[string]any{"Boot": b.Boot}
}

// override changes the boot override unless the system has it already. Some BMCs refuse a change to
// what they have.
func (c *call) override(system *schemas.ComputerSystem, want schemas.Boot, q quirks) error {
	change := bootChange{Boot: want, clears: want.HTTPBootURI == "" && system.Boot.HTTPBootURI != ""}
	present := overrides(system.Boot, want)
	if present && !change.clears {
		return nil
	}
	switch {
	case !q.wholeOverride:
		change.shown = system.Boot.BootSourceOverrideEnabled
	case change.BootSourceOverrideMode == "":
		change.BootSourceOverrideMode = system.Boot.BootSourceOverrideMode
	}
	if present {
		if err := c.patchBoot(system, change); !isRefusal(err) {
			return err
		}
		return nil // it boots from what was asked for, whatever the URL is
	}
	before := c.pendingOverride(system)
	if c.turn.Attempt == driver.Unknown && shows(before, want) {
		return nil // the request before was the same
	}
	if before != nil && before.HTTPBootURI != "" && want.HTTPBootURI == "" {
		change.clears = true
	}
	accepted, err := requestOverride(change, func(try bootChange) error { return c.patchBoot(system, try) })
	if err != nil {
		return err
	}
	want.BootSourceOverrideEnabled = accepted.BootSourceOverrideEnabled
	if system, err = c.keepMode(accepted, system.Boot.BootSourceOverrideMode); err != nil {
		return err
	}
	return c.confirmOverride(system, want, accepted, before)
}

// keepMode returns the system after a change of its override. Some BMCs set the boot mode to BIOS
// with every boot source. keepMode then asks once for the mode of before. If the BMC refuses, its
// own mode stays, because the caller did not ask for a mode.
func (c *call) keepMode(accepted bootChange, before schemas.BootSourceOverrideMode) (*schemas.ComputerSystem, error) {
	system, err := c.system()
	if err != nil || before == "" || accepted.BootSourceOverrideMode != "" || system.Boot.BootSourceOverrideMode == before {
		return system, err
	}
	restored, err := c.patchMode(system, before)
	if isRefusal(err) {
		return system, nil
	}
	return restored, err
}

// confirmOverride checks that the BMC shows an override that it has accepted, in the system or in
// the settings resource, which the next reset applies. If the request to the system had no effect,
// confirmOverride sends it to the settings resource. An override that the settings resource showed
// before proves nothing: it may be left from an earlier boot. Finally, once instead of always (or
// the reverse) is accepted: some BMCs always show the same.
func (c *call) confirmOverride(system *schemas.ComputerSystem, want schemas.Boot, accepted bootChange, before *schemas.Boot) error {
	if overrides(system.Boot, want) {
		return nil
	}
	pending := c.pendingOverride(system)
	if shows(pending, want) && !shows(before, want) {
		return nil
	}
	if pending != nil {
		path := settingsPath(system)
		accepted.keeps = false // the settings may have another value
		taken, err := requestOverride(accepted, func(try bootChange) error { return c.patchSettings(path, try.body()) })
		switch {
		case isRefusal(err) && shows(pending, want):
			return nil // it has that
		case err != nil:
			return err
		}
		want.BootSourceOverrideEnabled = taken.BootSourceOverrideEnabled
		if system, err = c.system(); err != nil {
			return err
		}
		pending = c.pendingOverride(system)
	}
	if bootsFrom(system.Boot, want) || pending != nil && bootsFrom(*pending, want) {
		return nil
	}
	return &node.DriverError{Op: "set boot device", Retryable: true, Reason: node.CutText("the BMC accepted " +
		describe(want) + " and shows " + describe(system.Boot))}
}

// pendingOverride returns the override that the next reset applies, as the settings resource of the
// system shows it (DSP0266, settings resource). It returns nil for a BMC that shows none there, and
// changes the system itself.
func (c *call) pendingOverride(system *schemas.ComputerSystem) *schemas.Boot {
	path := settingsPath(system)
	if path == "" {
		return nil
	}
	var next struct{ Boot *schemas.Boot }
	if c.read(path, &next) != nil {
		return nil
	}
	return next.Boot
}

// shows reports whether an override, if there is one, has all that is wanted.
func shows(has *schemas.Boot, want schemas.Boot) bool { return has != nil && overrides(*has, want) }

// requestOverride requests an override, and returns the variant that the BMC accepted. If the BMC
// refuses null for the URL, the next request leaves the URL out. If it refuses a persistent
// override, the next request is for one boot. The error is that of the first request without null,
// if there was one.
func requestOverride(change bootChange, send func(bootChange) error) (bootChange, error) {
	var refusal error
	mayBeNull := true // for the URL, which may be the reason of the refusal
	for _, try := range change.tries() {
		err := send(try)
		switch {
		case err == nil:
			return try, nil
		case !isRefusal(err) || temporary(err):
			return bootChange{}, err
		case mayBeNull:
			refusal, mayBeNull = err, try.clears
		}
	}
	return bootChange{}, refusal
}

// tries returns the variants of a change to request, the best first. Some BMCs refuse
// BootSourceOverrideEnabled when they have the value already, so a variant leaves it out. UEFI HTTP
// boot is not requested while it may have the URL of an earlier one.
func (b bootChange) tries() []bootChange {
	durations := []bootChange{b}
	if b.BootSourceOverrideEnabled == schemas.ContinuousBootSourceOverrideEnabled {
		once := b
		once.BootSourceOverrideEnabled = schemas.OnceBootSourceOverrideEnabled
		durations = append(durations, once)
	}
	var all []bootChange
	add := func(try bootChange) {
		all = append(all, try)
		if try.clears && try.BootSourceOverrideTarget != schemas.UefiHTTPBootSource {
			try.clears = false
			all = append(all, try)
		}
	}
	for _, try := range durations {
		add(try)
		if try.keeps = try.BootSourceOverrideEnabled == b.shown; try.keeps {
			add(try)
		}
	}
	return all
}

// patchBoot sends a change to the system. Some BMCs refuse it there and take it at the settings
// resource, which the next reset applies.
func (c *call) patchBoot(system *schemas.ComputerSystem, change bootChange) error {
	err := system.Patch(system.ODataID, change.body())
	if err == nil {
		return nil
	}
	path := settingsPath(system)
	if path == "" {
		return err
	}
	if refusal := c.patchSettings(path, change.body()); refusal != nil {
		return fmt.Errorf("system resource: %w, settings resource: %w", err, refusal)
	}
	return nil
}

// settingsPath returns the path of the system's settings resource. It is empty for a BMC that has
// none, or names the system itself.
func settingsPath(system *schemas.ComputerSystem) string {
	var document settingsDocument
	if json.Unmarshal(system.RawData, &document) != nil {
		return ""
	}
	if path := document.Settings.SettingsObject.String(); path != system.ODataID {
		return path
	}
	return ""
}

// patchSettings sends a change to a settings resource, with the resource's entity tag.
func (c *call) patchSettings(path string, body any) error {
	answer, err := c.api.Get(path)
	if err != nil {
		return err
	}
	discard(answer)
	headers := map[string]string{}
	if tag := answer.Header.Get("ETag"); tag != "" {
		headers[ifMatch] = tag
	}
	answer, err = c.api.PatchWithHeaders(path, body, headers)
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}

// overrides reports whether an override has all that is wanted.
func overrides(has, want schemas.Boot) bool {
	return has.BootSourceOverrideEnabled == want.BootSourceOverrideEnabled && bootsFrom(has, want)
}

// bootsFrom reports whether an override has all that is wanted for the next boot at least. Where no
// URL is wanted, the URL of an earlier request matters only for UEFI HTTP boot.
func bootsFrom(has, want schemas.Boot) bool {
	inForce := has.BootSourceOverrideEnabled == schemas.OnceBootSourceOverrideEnabled ||
		has.BootSourceOverrideEnabled == schemas.ContinuousBootSourceOverrideEnabled
	anyURL := want.HTTPBootURI == "" && want.BootSourceOverrideTarget != schemas.UefiHTTPBootSource
	return inForce && has.BootSourceOverrideTarget == want.BootSourceOverrideTarget &&
		(anyURL || has.HTTPBootURI == want.HTTPBootURI) &&
		(want.BootSourceOverrideMode == "" || has.BootSourceOverrideMode == want.BootSourceOverrideMode)
}

// describe says what an override is. The URL itself may hold secrets.
func describe(boot schemas.Boot) string {
	text := string(boot.BootSourceOverrideTarget) + " (" + string(boot.BootSourceOverrideEnabled) + ")"
	switch {
	case boot.BootSourceOverrideTarget != schemas.UefiHTTPBootSource:
		return text
	case boot.HTTPBootURI == "":
		return text + " without a URL"
	}
	return text + " with a URL"
}
