package conductor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameserver is a DNS server on loopback (RFC 1035, over UDP). Names that it does
// not have do not exist.
type nameserver struct {
	conn    net.PacketConn
	mu      sync.Mutex
	records map[string][]netip.Addr // by name with a dot at the end
	asked   map[string]int
}

func newNameserver(t *testing.T, records map[string][]string) *nameserver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameserver{conn: conn, records: map[string][]netip.Addr{}, asked: map[string]int{}}
	for name, texts := range records {
		for _, text := range texts {
			s.records[name+"."] = append(s.records[name+"."], netip.MustParseAddr(text))
		}
	}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return s
}

func (s *nameserver) serve() {
	buffer := make([]byte, 1500)
	for {
		n, client, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply, err := s.reply(buffer[:n]); err == nil {
			_, _ = s.conn.WriteTo(reply, client)
		}
	}
}

func (s *nameserver) reply(request []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(request); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	q := m.Questions[0]
	s.mu.Lock()
	addresses, known := s.records[q.Name.String()]
	s.asked[q.Name.String()]++
	s.mu.Unlock()
	m.Response, m.Additionals = true, nil
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
	for _, a := range addresses {
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return m.Pack()
}

// resolver asks this server and no other.
func (s *nameserver) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

// bmcNames is a network whose BMCs have names.
var bmcNames = map[string][]string{
	"bmc1.example.com":  {"192.0.2.17", "2001:db8::17"},
	"bmc2.example.com":  {"192.0.2.18", "127.0.0.1"},
	"local.example.com": {"127.0.0.1", "::1"},
}

func withNames(t *testing.T) func(*Config) {
	t.Helper()
	return func(c *Config) { c.Inspection.Resolver = newNameserver(t, bmcNames).resolver() }
}
