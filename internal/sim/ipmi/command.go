package ipmi

import (
	"errors"
	"regexp"
	"slices"
	"strconv"

	gobmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// request is one command in a session.
type request struct {
	data []byte
	call *bmc.Call
}

// commandKey is a network function with the number of a command (appendix G).
type commandKey struct{ function, id uint8 }

// commandRow is one row of the table of commands.
type commandRow struct {
	privilege gobmc.PrivilegeLevel // the lowest that may use the command
	do        func(*Service, *request) ([]byte, types.CompletionCode)
}

// commands are the commands that do not concern sessions.
var commands = map[commandKey]commandRow{
	{0x06, 0x01}: {gobmc.PrivilegeLevelUser, (*Service).deviceID},
	{0x06, 0x02}: {gobmc.PrivilegeLevelAdministrator, (*Service).restart},
	{0x06, 0x03}: {gobmc.PrivilegeLevelAdministrator, (*Service).restart},
	{0x06, 0x37}: {gobmc.PrivilegeLevelUser, (*Service).systemGUID},
	{0x00, 0x01}: {gobmc.PrivilegeLevelUser, (*Service).chassisStatus},
	{0x00, 0x02}: {gobmc.PrivilegeLevelOperator, (*Service).chassisControl},
	{0x00, 0x08}: {gobmc.PrivilegeLevelOperator, (*Service).setBootOptions},
	{0x00, 0x09}: {gobmc.PrivilegeLevelOperator, (*Service).bootOptions},
}

// Completion codes (table 5-2) for which the library has no names.
const (
	codeBusy             = 0xC0
	codeWrongLength      = 0xC7
	codeInvalidField     = 0xCC
	codeWrongState       = 0xD5
	codeNoSuchParameter  = 0x80
	codeUnspecifiedError = 0xFF
)

// do runs a command, and returns the answer to the client.
func (s *Service) do(row commandRow, level gobmc.PrivilegeLevel, q *request) ([]byte, types.CompletionCode) {
	if level < row.privilege {
		return nil, types.CodeInsufficientPrivilege
	}
	data, code := row.do(s, q)
	switch {
	case q.call.Fate.Refuse:
		return nil, codeBusy
	case q.call.Fate.Error:
		return nil, codeUnspecifiedError
	case code != types.CodeOK:
		return nil, code
	}
	return data, types.CodeOK
}

// changed returns the answer to a change that has ended with err.
func changed(err error) ([]byte, types.CompletionCode) {
	var refused *bmc.RefusedError
	switch {
	case !errors.As(err, &refused):
		return nil, types.CodeOK
	case refused.Reason == bmc.AlreadyOn, refused.Reason == bmc.AlreadyOff, refused.Reason == bmc.DuringPOST:
		return nil, codeWrongState
	}
	return nil, codeInvalidField
}

// controls are the actions of Chassis Control (section 28.3).
var controls = map[uint8]bmc.ResetType{
	0: bmc.ResetForceOff, 1: bmc.ResetOn, 2: bmc.ResetPowerCycle, 3: bmc.ResetForceRestart, 4: bmc.ResetNMI, 5: bmc.ResetGracefulShutdown,
}

// chassisControl changes the power. It is no error to switch on what is on, or to switch off what
// is off.
func (s *Service) chassisControl(q *request) ([]byte, types.CompletionCode) {
	if len(q.data) != 1 {
		return nil, codeWrongLength
	}
	kind, ok := controls[q.data[0]&0x0F]
	if !ok {
		return nil, codeInvalidField
	}
	if kind == bmc.ResetPowerCycle && !slices.Contains(s.bmc.Profile().Resets, kind) {
		kind = bmc.ResetForceRestart // a power cycle without a pause
	}
	err := s.bmc.Reset(q.call, kind)
	var refused *bmc.RefusedError
	if errors.As(err, &refused) && (kind == bmc.ResetOn && refused.Reason == bmc.AlreadyOn || kind == bmc.ResetForceOff && refused.Reason == bmc.AlreadyOff) {
		return nil, types.CodeOK
	}
	return changed(err)
}

// restart restarts the BMC, warm or cold (sections 20.2 and 20.3).
func (s *Service) restart(q *request) ([]byte, types.CompletionCode) {
	return changed(s.bmc.Restart(q.call))
}

// chassisStatus returns the power state (section 28.2). A machine that is powering on is still off,
// and one that is powering off is still on.
func (s *Service) chassisStatus(q *request) ([]byte, types.CompletionCode) {
	s.bmc.Read(q.call)
	var power uint8
	if state := s.bmc.Power(); state == bmc.On || state == bmc.PoweringOff {
		power = 1
	}
	return []byte{power, 0, 0}, types.CodeOK
}

// manufacturers are the enterprise numbers of vendors, from the registry of IANA.
var manufacturers = map[string]uint32{"dell": 674, "hpe": 47196, "supermicro": 10876}

var firstNumbers = regexp.MustCompile(`(\d+)\.(\d+)`)

// deviceID returns the version of the firmware and the vendor (section 20.1).
func (s *Service) deviceID(q *request) ([]byte, types.CompletionCode) {
	s.bmc.Read(q.call)
	profile := s.bmc.Profile()
	var major, minor uint64
	if numbers := firstNumbers.FindStringSubmatch(profile.BMCVersion); numbers != nil {
		major, _ = strconv.ParseUint(numbers[1], 10, 7)
		minor, _ = strconv.ParseUint(numbers[2], 16, 8) // the answer has it as binary-coded decimal
	}
	const device, revision, version, chassisDevice = 0x20, 0x01, 0x02, 1 << 7
	data := []byte{device, revision, uint8(major), uint8(minor), version, chassisDevice}
	return append(append(data, littleEndian24(manufacturers[profile.Vendor])...), 0, 0), types.CodeOK
}

// systemGUID returns the system's UUID (section 22.14).
func (s *Service) systemGUID(q *request) ([]byte, types.CompletionCode) {
	s.bmc.Read(q.call)
	id := s.guid()
	return id[:], types.CodeOK
}
