package ipmi

import (
	"slices"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Parameters of the boot options (section 28.13, table 28-14).
const (
	parameterProgress    = 0
	parameterClearing    = 3
	parameterAcknowledge = 4
	parameterFlags       = 5

	parameterVersion = 1
	acknowledgeSize  = 2 // a mask of the bits to write, and the bits
	flagsSize        = 5

	// acknowledgeBIOS is the bit of parameter 4 that BIOS and POST clear when they have handled the
	// boot flags. The bits of other parties are not stored.
	acknowledgeBIOS = 1 << 0
)

// Bits of the boot flags.
const (
	flagUEFI       = 1 << 5
	flagPersistent = 1 << 6
	flagValid      = 1 << 7
)

// bootFlags are the boot flags, parameter 5.
type bootFlags struct{ bits, selector byte }

// bootSelectors are the device selectors of the boot flags, with the targets that each may mean,
// the best first.
var bootSelectors = []struct {
	selector byte
	targets  []bmc.Target
}{
	{1, []bmc.Target{bmc.TargetPXE}},
	{2, []bmc.Target{bmc.TargetDisk}},
	{3, []bmc.Target{bmc.TargetDisk}}, // in safe mode
	{4, []bmc.Target{bmc.TargetDiags, bmc.TargetUtilities}},
	{5, []bmc.Target{bmc.TargetVirtualCD, bmc.TargetCD}},
	{6, []bmc.Target{bmc.TargetBIOSSetup}},
	{8, []bmc.Target{bmc.TargetVirtualCD, bmc.TargetCD}}, // attached remotely
}

// bootTarget returns the target that a selector means on this machine.
func (s *Service) bootTarget(selector byte) (bmc.Target, bool) {
	for _, row := range bootSelectors {
		if row.selector != selector {
			continue
		}
		for _, target := range row.targets {
			if _, ok := s.bmc.Profile().Targets[target]; ok {
				return target, true
			}
		}
	}
	return "", false
}

// setBootOptions changes a parameter. Parameters 0 and 3 are accepted and have no effect, because
// the simulated BMC clears the boot flags only when the machine boots.
func (s *Service) setBootOptions(q *request) ([]byte, types.CompletionCode) {
	if len(q.data) < 1 {
		return nil, codeWrongLength
	}
	parameter := q.data[0] & 0x7F
	if code, lacks := s.lacks(parameter); lacks {
		s.bmc.Read(q.call)
		return nil, code
	}
	switch {
	case parameter == parameterFlags && len(q.data) == 1+flagsSize:
		return s.setFlags(q, bootFlags{bits: q.data[1], selector: q.data[2] >> 2 & 0x0F})
	case parameter == parameterAcknowledge && len(q.data) == 1+acknowledgeSize:
		s.setAcknowledge(q, q.data[1], q.data[2])
		return nil, types.CodeOK
	case (parameter == parameterFlags || parameter == parameterAcknowledge) && len(q.data) > 1:
		return nil, codeWrongLength
	case slices.Contains([]byte{parameterProgress, parameterClearing, parameterAcknowledge, parameterFlags}, parameter):
		s.bmc.Read(q.call)
		return nil, types.CodeOK
	}
	return nil, codeNoSuchParameter
}

// setAcknowledge changes acknowledgeBIOS, if the mask allows it. The firmware of the machine
// applies the boot flags only while the bit is set, and then clears it.
func (s *Service) setAcknowledge(q *request, mask, bits byte) {
	s.bmc.Read(q.call)
	if q.call.Fate.Spared() && mask&acknowledgeBIOS != 0 {
		s.bmc.HandleBootFlags(bits&acknowledgeBIOS != 0)
	}
}

// setFlags changes the boot override of the machine.
func (s *Service) setFlags(q *request, f bootFlags) ([]byte, types.CompletionCode) {
	wanted := bmc.Override{Target: bmc.TargetNone, Enabled: bmc.Disabled}
	if f.bits&flagValid != 0 && f.selector != 0 {
		target, ok := s.bootTarget(f.selector)
		if !ok {
			return nil, codeInvalidField
		}
		wanted = bmc.Override{Target: target, Enabled: bmc.Once}
		if f.bits&flagPersistent != 0 {
			wanted.Enabled = bmc.Continuous
		}
	}
	if !s.bmc.Profile().FixedMode && f.bits&flagValid != 0 {
		wanted.Mode = bmc.Legacy
		if f.bits&flagUEFI != 0 {
			wanted.Mode = bmc.UEFI
		}
	}
	err := s.bmc.SetBootFlags(q.call, wanted)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.newest = f
	}
	return changed(err)
}

// bootOptions returns the boot flags or their acknowledge bits. No other parameters can be read.
func (s *Service) bootOptions(q *request) ([]byte, types.CompletionCode) {
	if len(q.data) < 1 {
		return nil, codeWrongLength
	}
	switch q.data[0] & 0x7F {
	case parameterAcknowledge:
		s.bmc.Read(q.call)
		data := []byte{parameterVersion, parameterAcknowledge, 0, 0} // the mask always reads as zero
		if s.bmc.HandlesBootFlags() {
			data[3] = acknowledgeBIOS
		}
		return data, types.CodeOK
	case parameterFlags:
		s.bmc.Read(q.call)
		return s.readFlags(), types.CodeOK
	}
	return nil, codeNoSuchParameter
}

// readFlags returns parameter 5 as clients read it.
func (s *Service) readFlags() []byte {
	data := make([]byte, 2+flagsSize)
	data[0], data[1] = parameterVersion, parameterFlags
	override := s.bmc.Override()
	if override.Enabled == bmc.Disabled {
		return data
	}
	f := s.flagsOf(override)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plain {
		f.bits = flagValid
	}
	data[2], data[3] = f.bits, f.selector<<2
	return data
}

// flagsOf returns the boot flags that mean an override: those that a client has set, if they mean
// it. A BMC that cannot change the boot mode shows the mode that the client has set.
func (s *Service) flagsOf(o bmc.Override) bootFlags {
	f := bootFlags{bits: flagValid}
	if o.Enabled == bmc.Continuous {
		f.bits |= flagPersistent
	}
	if o.Mode == bmc.UEFI {
		f.bits |= flagUEFI
	}
	s.mu.Lock()
	newest := s.newest
	s.mu.Unlock()
	if set, ok := s.bootTarget(newest.selector); ok && set == o.Target {
		f.selector = newest.selector
		if s.bmc.Profile().FixedMode {
			f.bits = f.bits&^flagUEFI | newest.bits&flagUEFI
		}
		return f
	}
	for _, row := range bootSelectors {
		if slices.Contains(row.targets, o.Target) {
			f.selector = row.selector
			break
		}
	}
	return f
}
