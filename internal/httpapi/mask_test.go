package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestSecretsAreMaskedAtEveryDepth(t *testing.T) {
	for text, want := range map[string]string{
		``:                                `{}`,
		`{"a":1}`:                         `{"a":1}`,
		`{"redfish_password":"x","b":2}`:  `{"redfish_password":"******","b":2}`,
		`{"IPMI_PASSWORD":"x"}`:           `{"IPMI_PASSWORD":"******"}`,
		`{"agent_secret_token":"x\"y"}`:   `{"agent_secret_token":"******"}`,
		`{"secret":{"a":[1,"}"]},"b":[]}`: `{"secret":"******","b":[]}`,
		`{"token":12}`:                    `{"token":"******"}`,
		`{"token":true,"b":1}`:            `{"token":"******","b":1}`,
		`{"token":[{"a":"]"}]}`:           `{"token":"******"}`,
		`{"password":null,"token":""}`:    `{"password":null,"token":""}`,
		`{"a":{"b":[{"password":"x"}]}}`:  `{"a":{"b":[{"password":"******"}]}}`,
		`{"pass\u0077ord":"x"}`:           `{"pass\u0077ord":"******"}`,
		`{"snmp_auth_key":"x"}`:           `{"snmp_auth_key":"******"}`,
		`{"snmp_community":"x"}`:          `{"snmp_community":"******"}`,
		`{"root_passwd":"x","pwd":"y"}`:   `{"root_passwd":"******","pwd":"******"}`,
		`{"API_KEY":"x","apikey":"y"}`:    `{"API_KEY":"******","apikey":"******"}`,
		`{"ssh_keys":["x"]}`:              `{"ssh_keys":"******"}`,
		`{"configdrive":"H4sI"}`:          `{"configdrive":"******"}`,
		`{"a":"password"}`:                `{"a":"password"}`,
		`{"a":"http://u:p@h/x?q=1"}`:      `{"a":"http://******@h/x?q=1"}`,
		`{"a":["http://u:p@h","b@c"]}`:    `{"a":["http://******@h","b@c"]}`,
		`{"a":"http:\/\/u:p@h\/x"}`:       `{"a":"http://******@h/x"}`,
		`{"a":"http://u:p@h,ftp://q@i/"}`: `{"a":"http://******@h,ftp://******@i/"}`,
		`{"a":"http://u:p@q@h"}`:          `{"a":"http://******@h"}`,
		`{"a":"http://h/x@y"}`:            `{"a":"http://h/x@y"}`,
		`{"a":"say \"password\": \"x\""}`: `{"a":"say \"password\": \"x\""}`,
	} {
		if got := string(appendMasked(nil, node.Object(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestMaskIsNotStoredWhereNoSecretIs(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"note":"******"}`:            true,
		`{"deep":[{"note":"******"}]}`: true,
		`{"token":"******"}`:           true, // none is stored
		`{"old":"******"}`:             false,
		`{"note":"*** ******"}`:        false,
	} {
		_, err := restoreMasked("extra", node.Object(`{"old":"******"}`), node.Object(text))
		if (err != nil) != refused {
			t.Errorf("%s: %v, want it refused: %v", text, err, refused)
		}
	}
}

func TestMaskingLeavesNoSecretInAnyNode(t *testing.T) {
	s := newServer(t)
	secret := node.ObjectOf(map[string]any{"my_password": "hunter2", "deep": []any{map[string]any{"api_token": "hunter2"}}, "url": "http://a:hunter2@h/"})
	s.addNode(uuid1, func(n *node.Node) {
		n.DriverInfo, n.DriverInternalInfo, n.InstanceInfo, n.CleanStep, n.DeployStep = secret, secret, secret, secret, secret
	})
	for _, path := range []string{"/v1/nodes/" + uuid1, "/v1/nodes/detail", "/v1/nodes?fields=driver_info,instance_info,driver_internal_info"} {
		if got := s.get(path).want(200); contains(got.body, "hunter2") {
			t.Errorf("%s shows a secret: %s", path, got.body)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add([]byte(`{"password":"x","a":[{"token":{"b":1}}],"u":"http://a:b@c"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := node.ParseObject(text)
		if err != nil {
			return
		}
		masked := appendMasked(nil, o)
		if !json.Valid(masked) {
			t.Fatalf("masking %s gives %s", o, masked)
		}
		if again := appendMasked(nil, masked); string(again) != string(masked) {
			t.Fatalf("masking twice differs: %s, %s", masked, again)
		}
		kept, err := restoreMasked("f", o, masked)
		if err == nil && !sameJSON(t, kept, o) {
			t.Fatalf("writing %s back over %s gives %s", masked, o, kept)
		}
	})
}

func sameJSON(t *testing.T, a, b node.Object) bool {
	t.Helper()
	return string(node.ObjectOf(a.Values())) == string(node.ObjectOf(b.Values()))
}
