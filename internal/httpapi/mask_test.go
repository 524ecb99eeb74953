package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
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
		`{"sshKey":"x","X-Api-Key":"y"}`:  `{"sshKey":"******","X-Api-Key":"******"}`,
		`{"private.key":1,"TLS Key":2}`:   `{"private.key":"******","TLS Key":"******"}`,
		`{"user-data":"x","pass":"y"}`:    `{"user-data":"******","pass":"******"}`,
		`{"rootPass":"x","ssl_key":"y"}`:  `{"rootPass":"******","ssl_key":"******"}`,
		`{"public_key":"x","bypass":"y"}`: `{"public_key":"x","bypass":"y"}`,
		`{"host_pubkey":"x","keys":"y"}`:  `{"host_pubkey":"x","keys":"y"}`,
		`{"a":"http:\u002f/u:p\u0040h/"}`: `{"a":"http://******@h/"}`,
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
		if got := string(appendMasked(nil, node.Object(text), keepQueries)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestQueriesAreMaskedForUsersBelowAdministrators(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"https://u:p@h/i?sig=x&exp=1","b":["/i?sig=x","why?"]}`: `{"a":"https://******@h/i?sig=******&exp=******","b":["/i?sig=******","why?"]}`,
		`{"a":"http:\/\/h\/i?sig=x","b":"say \"why?\""}`:              `{"a":"http://h/i?sig=******","b":"say \"why?\""}`,
		`{"user_data":"#cloud-config","a":1}`:                         `{"user_data":"******","a":1}`,
	} {
		for _, user := range []role.Role{role.None, role.Reader, role.Operator} {
			if got := string(appendMasked(nil, node.Object(text), maskingFor(user))); got != want {
				t.Errorf("%s as %s: got %s, want %s", text, user, got, want)
			}
		}
	}
}

// instanceInfo has what clients write before they deploy.
const instanceInfo = `{"deep":{"password":"hunter2"},"image_source":"https://u:hunter2@h/os.qcow2?sig=hunter2","user_data":"hunter2","configdrive":{"meta_data":{"a":"b"}},"capabilities":{"boot_mode":"uefi"}}`

func TestAdministratorReadsInstanceInfoAsItWasWritten(t *testing.T) {
	for user, want := range map[role.Role]string{
		role.Admin:    instanceInfo,
		role.Operator: `{"deep":{"password":"******"},"image_source":"https://******@h/os.qcow2?sig=******","user_data":"******","configdrive":"******","capabilities":{"boot_mode":"uefi"}}`,
		role.Reader:   `{"deep":{"password":"******"},"image_source":"https://******@h/os.qcow2?sig=******","user_data":"******","configdrive":"******","capabilities":{"boot_mode":"uefi"}}`,
	} {
		s := newServer(t, asRole(user))
		s.addNode(uuid1, func(n *node.Node) { n.InstanceInfo = node.Object(instanceInfo) })
		for _, path := range []string{"/v1/nodes/" + uuid1, "/v1/nodes/detail", "/v1/nodes?fields=instance_info"} {
			if got := s.get(path).want(200); !contains(got.body, `"instance_info":`+want) {
				t.Errorf("%s as %s: got %s, want %s", path, user, got.body, want)
			}
		}
	}
}

func TestRescuePasswordIsForTheRamdisk(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.InstanceInfo = node.Object(`{"a":{"password":"b"},"rescue_password":"hunter2"}`) })
	if got := s.get("/v1/nodes/" + uuid1).want(200); !contains(got.body, `"instance_info":{"a":{"password":"b"},"rescue_password":"******"}`) {
		t.Errorf("got %s", got.body)
	}
}

func TestWritingBackWhatWasReadKeepsInstanceInfo(t *testing.T) {
	for _, user := range []role.Role{role.Operator, role.Admin} {
		s := newServer(t, asRole(user))
		stored := node.Object(strings.Replace(instanceInfo, "{", `{"rescue_password":"hunter2",`, 1))
		s.addNode(uuid1, func(n *node.Node) { n.InstanceInfo = stored })
		read, err := json.Marshal(s.get("/v1/nodes/" + uuid1).want(200).json()["instance_info"])
		if err != nil {
			t.Fatal(err)
		}
		s.do("PATCH", "/v1/nodes/"+uuid1, "latest", `[{"op":"replace","path":"/instance_info","value":`+string(read)+`}]`).want(200)
		if got := s.engine.nodes[0].InstanceInfo; !sameJSON(t, got, stored) {
			t.Errorf("%s wrote back %s, and stored is %s", user, read, got)
		}
		for _, changed := range []string{"https://******@other/", "https://h/other?sig=******"} {
			s.do("PATCH", "/v1/nodes/"+uuid1, "latest", `[{"op":"replace","path":"/instance_info/image_source","value":"`+changed+`"}]`).want(400).
				wantFault("in place of credentials of its URL")
		}
	}
}

func TestMaskIsNotStoredWhereNoSecretIs(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"note":"******"}`:            true,
		`{"deep":[{"note":"******"}]}`: true,
		`{"token":"******"}`:           true, // none is stored
		`{"notes":["******"]}`:         true,
		`{"deep":{"a":[["******"]]}}`:  true,
		`{"old":"******"}`:             false,
		`{"note":"*** ******"}`:        false,
	} {
		_, err := restoreMasked("extra", node.Object(`{"old":"******"}`), node.Object(text))
		if (err != nil) != refused {
			t.Errorf("%s: %v, want it refused: %v", text, err, refused)
		}
	}
}

func TestSecretsInAListAreRestoredOnlyTogether(t *testing.T) {
	const stored = `{"users":[{"name":"a","password":"A"},{"name":"b","password":"B"}]}`
	for changed, want := range map[string]string{
		`{"users":[{"name":"a","password":"******"},{"name":"b","password":"******"}]}`: stored,
		`{"users":[{"name":"b","password":"******"}]}`:                                  "",
		`{"users":[{"name":"b","password":"******"},{"name":"a","password":"******"}]}`: "",
		`{"users":[{"name":"b","password":"B"}]}`:                                       `{"users":[{"name":"b","password":"B"}]}`,
	} {
		kept, err := restoreMasked("driver_info", node.Object(stored), node.Object(changed))
		if (err != nil) != (want == "") || err == nil && !sameJSON(t, kept, node.Object(want)) {
			t.Errorf("writing %s gives %s, %v", changed, kept, err)
		}
	}
}

func TestMaskingLeavesNoSecretInAnyNode(t *testing.T) {
	secret := node.ObjectOf(map[string]any{"my_password": "hunter2", "deep": []any{map[string]any{"api_token": "hunter2"}}, "url": "http://a:hunter2@h/"})
	fill := func(n *node.Node) {
		n.DriverInfo, n.DriverInternalInfo, n.CleanStep, n.DeployStep = secret, secret, secret, secret
	}
	s := newServer(t)
	s.addNode(uuid1, fill)
	for _, path := range []string{"/v1/nodes/" + uuid1, "/v1/nodes/detail", "/v1/nodes?fields=driver_info,instance_info,driver_internal_info"} {
		if got := s.get(path).want(200); contains(got.body, "hunter2") {
			t.Errorf("%s shows a secret: %s", path, got.body)
		}
	}
	s = newServer(t, asRole(role.Operator))
	s.addNode(uuid1, fill, func(n *node.Node) { n.InstanceInfo = secret })
	if got := s.get("/v1/nodes/" + uuid1).want(200); contains(got.body, "hunter2") {
		t.Errorf("an operator reads a secret: %s", got.body)
	}
}

func FuzzMask(f *testing.F) {
	f.Add([]byte(`{"password":"x","a":[{"token":{"b":1}}],"u":"http://a:b@c/?d=e"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := node.ParseObject(text)
		if err != nil {
			return
		}
		for _, user := range []role.Role{role.Operator, role.Admin} {
			masked := appendMasked(nil, o, maskingFor(user))
			if !json.Valid(masked) {
				t.Fatalf("masking %s gives %s", o, masked)
			}
			if again := appendMasked(nil, masked, maskingFor(user)); string(again) != string(masked) {
				t.Fatalf("masking twice differs: %s, %s", masked, again)
			}
			kept, err := restoreMasked("f", o, masked)
			if err == nil && !sameJSON(t, kept, o) {
				t.Fatalf("writing %s back over %s gives %s", masked, o, kept)
			}
		}
	})
}

func sameJSON(t *testing.T, a, b node.Object) bool {
	t.Helper()
	return string(node.ObjectOf(a.Values())) == string(node.ObjectOf(b.Values()))
}

func TestOnlyAdministratorsReadWhereBMCsAre(t *testing.T) {
	for user, want := range map[role.Role]string{role.Admin: `["192.0.2.7"]`, role.Operator: `"******"`, role.Reader: `"******"`} {
		s := newServer(t, asRole(user))
		s.addNode(uuid1, func(n *node.Node) { n.DriverInternalInfo = node.Object(`{"lookup_bmc_addresses":["192.0.2.7"]}`) })
		if got := s.get("/v1/nodes/" + uuid1).want(200); !contains(got.body, `"lookup_bmc_addresses":`+want) {
			t.Errorf("as %s: got %s, want %s", user, got.body, want)
		}
	}
}

func TestNobodyReadsTheSecretOfABoot(t *testing.T) {
	boot := node.RamdiskBoot{Secret: node.NewBootSecret(), Kernel: "http://images/kernel", Ramdisk: "http://images/ramdisk", KernelParams: "nofb"}
	for user, sees := range map[role.Role]bool{role.Admin: true, role.Operator: false, role.Reader: false} {
		s := newServer(t, asRole(user))
		s.addNode(uuid1, boot.StoreIn)
		for _, path := range []string{"/v1/nodes/" + uuid1, "/v1/nodes/detail"} {
			got := s.get(path).want(200)
			if contains(got.body, boot.Secret) || contains(got.body, boot.Kernel) != sees {
				t.Errorf("%s reads of %s: %s", user, path, got.body)
			}
		}
	}
}
