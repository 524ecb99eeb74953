package ipmi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func nodeWith(info map[string]any) *node.Node {
	return &node.Node{UUID: "n", DriverInfo: node.ObjectOf(info)}
}

func TestDriverInfoSaysHowTheBMCIsReached(t *testing.T) {
	for name, test := range map[string]struct {
		info map[string]any
		want access
	}{
		"address alone": {map[string]any{"ipmi_address": "192.0.2.7"}, access{address: "192.0.2.7:623", privilege: 4}},
		"IPv6":          {map[string]any{"ipmi_address": "2001:db8::7", "ipmi_port": "6230"}, access{address: "[2001:db8::7]:6230", privilege: 4}},
		"all": {
			map[string]any{
				"ipmi_address": "bmc7.example.com", "ipmi_port": 6230, "ipmi_username": "u", "ipmi_password": "p", "ipmi_priv_level": "operator",
				"ipmi_protocol_version": "2.0", "ipmi_cipher_suite": "3", "ipmi_verify_ca": false, "ipmi_bridging": "no", "ipmi_disable_boot_timeout": false,
			},
			access{address: "bmc7.example.com:6230", username: "u", password: "p", privilege: 3, suite: 3},
		},
	} {
		got, err := accessOf(nodeWith(test.info))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(access{})); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestDriverInfoThatCannotWorkIsRefusedWithoutSecrets(t *testing.T) {
	const secret = "secret-word-that-is-longer-than-it-may-be"
	for key, value := range map[string]any{
		"ipmi_address": "https://192.0.2.7", "ipmi_port": 70000, "ipmi_username": secret, "ipmi_password": secret, "ipmi_priv_level": "CALLBACK",
		"ipmi_protocol_version": "1.5", "ipmi_cipher_suite": 0, "ipmi_hex_kg_key": secret, "ipmi_bridging": "single", "ipmi_target_channel": 0,
		"ipmi_disable_boot_timeout": "perhaps",
	} {
		info := map[string]any{"ipmi_address": "192.0.2.7"}
		info[key] = value
		if _, err := accessOf(nodeWith(info)); err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s %v: %v, want an error that names the key and no secret", key, value, err)
		}
	}
	if _, err := accessOf(nodeWith(nil)); err == nil || !strings.Contains(err.Error(), "ipmi_address") {
		t.Errorf("no address: %v", err)
	}
}

func TestDatagramsThatTheBMCDidNotSendAreIgnored(t *testing.T) {
	for _, s := range suites {
		k := s.deriveKeys(s.code([]byte("password"), []byte("randoms")))
		message := encodeRequest(getChassisStatus, 7, []byte{1, 2, 3})
		sealed := s.seal(k, packet{session: 5, sequence: 1, payload: message})
		if got, ok := s.unseal(k, 5, sealed); !ok || !cmp.Equal(message, got) {
			t.Fatalf("suite %d: %v, %v, want the message", s.id, got, ok)
		}
		if _, ok := s.unseal(k, 6, sealed); ok {
			t.Errorf("suite %d: a datagram of another session is accepted", s.id)
		}
		for i := range sealed {
			forged := append([]byte(nil), sealed...)
			forged[i] ^= 0x10
			if _, ok := s.unseal(k, 5, forged); ok && i >= len(rmcpHeader) {
				t.Errorf("suite %d: a datagram with another byte %d is accepted", s.id, i)
			}
		}
	}
}

func FuzzDatagram(f *testing.F) {
	s := suites[0]
	k := s.deriveKeys([]byte("key"))
	f.Add(s.seal(k, packet{session: 5, sequence: 1, payload: encodeRequest(getBootOptions, 7, []byte{5, 0, 0})}))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		if message, ok := s.unseal(k, 5, datagram); ok {
			decodeAnswer(message, getBootOptions, 7)
		}
		if p, ok := decodePacket(datagram); ok {
			decodeAnswer(p.payload, getBootOptions, 7)
			decrypt(k.cipher, p.payload)
		}
	})
}
