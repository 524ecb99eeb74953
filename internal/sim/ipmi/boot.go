package ipmi

import (
	"slices"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Parameters of the boot options (section 28.14).
const (
	parameterProgress    = 0
	parameterClearing    = 3
	parameterAcknowledge = 4
	parameterFlags       = 5

	parameterVersion = 1
	flagsSize        = 5
)

// Bits of the boot flags.
const (
	flagUEFI       = 1 << 5
	flagPersistent = 1 << 6
	flagValid      = 1 << 7
)

// bootFlags are the boot flags, parameter 5.
type bootFlags struct{ bits, selector byte }

// bootSelectors are the device selectors of the boot flags, with the targets that stand
// for each, the best first.
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

// bootTarget returns the target that the machine has for a selector.
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

// setBootOptions changes a parameter. The simulated BMC clears the boot flags only when
// the machine boots, so it has no use for the others and accepts them.
func (s *Service) setBootOptions(q *request) ([]byte, types.CompletionCode) {
	if len(q.data) < 1 {
		return nil, codeWrongLength
	}
	switch parameter := q.data[0] & 0x7F; {
	case parameter == parameterFlags && len(q.data) == 1+flagsSize:
		return s.setFlags(q, bootFlags{bits: q.data[1], selector: q.data[2] >> 2 & 0x0F})
	case parameter == parameterFlags && len(q.data) > 1:
		return nil, codeWrongLength
	case slices.Contains([]byte{parameterProgress, parameterClearing, parameterAcknowledge, parameterFlags}, parameter):
		s.bmc.Read(q.call)
		return nil, types.CodeOK
	}
	return nil, codeNoSuchParameter
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
	err := s.bmc.SetOverride(q.call, wanted)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.newest = f
	}
	return changed(err)
}

// bootOptions returns the boot flags; there are no other parameters to read.
func (s *Service) bootOptions(q *request) ([]byte, types.CompletionCode) {
	if len(q.data) < 1 {
		return nil, codeWrongLength
	}
	if q.data[0]&0x7F != parameterFlags {
		return nil, codeNoSuchParameter
	}
	s.bmc.Read(q.call)
	data := make([]byte, 2+flagsSize)
	data[0], data[1] = parameterVersion, parameterFlags
	override := s.bmc.Override()
	if override.Enabled == bmc.Disabled {
		return data, types.CodeOK
	}
	f := s.flagsOf(override)
	data[2], data[3] = f.bits, f.selector<<2
	return data, types.CodeOK
}

// flagsOf are the boot flags that stand for an override: those that a client has set, if
// they do. A BMC that cannot change the boot mode shows the one that was set.
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
