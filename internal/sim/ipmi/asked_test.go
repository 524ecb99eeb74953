package ipmi_test

import (
	"net"
	"slices"
	"testing"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/ipmi"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
)

// asking makes connections that note what each datagram asks for.
type asking struct {
	service *ipmi.Service
	asked   *[]ipmi.Asked
}

// askingConn is such a connection.
type askingConn struct {
	net.Conn
	asking
}

func (a asking) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return askingConn{conn, a}, err
}

func (c askingConn) Write(datagram []byte) (int, error) {
	*c.asked = append(*c.asked, c.service.Asks(datagram))
	return c.Conn.Write(datagram)
}

func TestDatagramIsNamedWithoutBeingObeyed(t *testing.T) {
	s := ipmitest.Start(t, "dell")
	asked := []ipmi.Asked{}
	c := connect(t, s, types.CipherSuiteID17, func(c *client.Client) { c.WithUDPProxy(asking{s.IPMI, &asked}) })
	if _, err := c.ChassisControl(t.Context(), chassis.ChassisControlPowerUp); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetChassisStatus(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []ipmi.Asked{
		{Name: "open session"},
		{Name: "RAKP message 1"},
		{Name: "RAKP message 3"},
		{Name: "Set Session Privilege Level"},
		{Name: "Chassis Control On", Changes: true},
		{Name: "Get Chassis Status", Power: true},
	} {
		if !slices.Contains(asked, want) {
			t.Errorf("datagrams asked for %+v, want %+v among them", asked, want)
		}
	}
	if got := s.Effects(); !slices.Equal(got, []string{"power on"}) {
		t.Errorf("effects = %q, want one", got)
	}
	if got := s.IPMI.Asks([]byte("no datagram")); got != (ipmi.Asked{}) {
		t.Errorf("what is no datagram asks for %+v", got)
	}
}
