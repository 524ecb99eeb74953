package ipmi

import (
	"fmt"

	"github.com/bougou/go-ipmi/pkg/protocol"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Asked is what a datagram asks for.
type Asked struct {
	// Name is that of a message which opens a session, or of a command. Other datagrams have none.
	Name string
	// Changes says that the command is recorded as an effect when the BMC obeys.
	Changes bool
	// Power says that the command reads the power state.
	Power bool
}

// openerNames are the names of the messages that open a session.
var openerNames = map[types.PayloadType]string{
	types.PayloadTypeRmcpOpenSessionRequest: "open session", types.PayloadTypeRAKPMessage1: "RAKP message 1", types.PayloadTypeRAKPMessage3: "RAKP message 3",
}

// commandNames are the names of commands.
var commandNames = map[commandKey]string{
	{0x06, 0x01}: "Get Device ID", {0x06, 0x37}: "Get System GUID", {0x06, 0x3B}: "Set Session Privilege Level", {0x06, 0x3C}: "Close Session",
	{0x00, 0x01}: "Get Chassis Status", {0x00, 0x02}: "Chassis Control", {0x00, 0x08}: "Set Boot Options", {0x00, 0x09}: "Get Boot Options",
}

// Asks returns what a datagram asks for, without doing it.
func (s *Service) Asks(datagram []byte) Asked {
	id, sequence, kind, flags, payload, ok := protocol.ParseRMCPPlusHeader(datagram)
	if !ok {
		return Asked{}
	}
	if name, opens := openerNames[types.PayloadType(kind)]; opens {
		return Asked{Name: name}
	}
	session, err := s.present().state.Sessions.Get(id)
	if err != nil {
		return Asked{}
	}
	session.ProcMu.Lock()
	message, ok := opened(session, received{id, sequence, flags, payload})
	session.ProcMu.Unlock()
	if !ok {
		return Asked{}
	}
	function, command, data, _, ok := protocol.ParseIPMIRequest(message)
	if !ok {
		return Asked{}
	}
	key := commandKey{function, command}
	asked := Asked{Name: commandNames[key], Power: key == commandKey{0x00, 0x01}}
	switch {
	case asked.Name == "":
		asked.Name = fmt.Sprintf("command %#02x of function %#02x", command, function)
	case key == commandKey{0x00, 0x02} && len(data) > 0:
		asked.Name, asked.Changes = asked.Name+" "+string(controls[data[0]&0x0F]), true
	case key == commandKey{0x00, 0x08} && len(data) > 0:
		parameter := data[0] & 0x7F
		asked.Name, asked.Changes = fmt.Sprintf("%s %d", asked.Name, parameter), parameter == parameterFlags
	}
	return asked
}
