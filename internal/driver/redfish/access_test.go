package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func nodeWith(info map[string]any) *node.Node {
	return &node.Node{UUID: "11111111-2222-4333-8444-555555555555", Driver: "redfish", DriverInfo: node.ObjectOf(info)}
}

func TestDriverInfoSaysHowABMCIsReached(t *testing.T) {
	full := map[string]any{"redfish_username": "root", "redfish_password": "calvin"}
	with := func(changes map[string]any) map[string]any {
		all := map[string]any{"redfish_address": "192.0.2.7"}
		for _, m := range []map[string]any{full, changes} {
			for key, value := range m {
				all[key] = value
			}
		}
		return all
	}
	base := access{endpoint: "https://192.0.2.7", username: "root", password: "calvin", auth: authAuto}
	changed := func(change func(*access)) access {
		a := base
		change(&a)
		return a
	}
	for name, test := range map[string]struct {
		info map[string]any
		want access
		err  string
	}{
		"host":              {with(nil), base, ""},
		"host and port":     {with(map[string]any{"redfish_address": "bmc.example:8443"}), changed(func(a *access) { a.endpoint = "https://bmc.example:8443" }), ""},
		"URL":               {with(map[string]any{"redfish_address": "http://192.0.2.7/"}), changed(func(a *access) { a.endpoint = "http://192.0.2.7" }), ""},
		"service root":      {with(map[string]any{"redfish_address": "https://192.0.2.7/redfish/v1/"}), base, ""},
		"IPv6 address":      {with(map[string]any{"redfish_address": "2001:db8::7"}), changed(func(a *access) { a.endpoint = "https://[2001:db8::7]" }), ""},
		"no check":          {with(map[string]any{"redfish_verify_ca": false}), changed(func(a *access) { a.verify.off = true }), ""},
		"no check, as text": {with(map[string]any{"redfish_verify_ca": "False"}), changed(func(a *access) { a.verify.off = true }), ""},
		"authorities":       {with(map[string]any{"redfish_verify_ca": "/etc/ca.pem"}), changed(func(a *access) { a.verify.file = "/etc/ca.pem" }), ""},
		"basic":             {with(map[string]any{"redfish_auth_type": "basic"}), changed(func(a *access) { a.auth = authBasic }), ""},

		"no address":             {full, access{}, "redfish_address of node 11111111-2222-4333-8444-555555555555 is missing"},
		"another scheme":         {with(map[string]any{"redfish_address": "ftp://192.0.2.7"}), access{}, "http or https URL"},
		"credentials in the URL": {with(map[string]any{"redfish_address": "https://root:calvin@192.0.2.7"}), access{}, "must not hold credentials"},
		"a path":                 {with(map[string]any{"redfish_address": "https://192.0.2.7/redfish/v1/Systems/1"}), access{}, "without a path"},
		"relative authorities":   {with(map[string]any{"redfish_verify_ca": "ca.pem"}), access{}, "absolute path"},
		"unknown auth":           {with(map[string]any{"redfish_auth_type": "kerberos"}), access{}, "basic, session or auto"},
		"user without password":  {with(map[string]any{"redfish_password": ""}), access{}, "must be set together"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := accessOf(nodeWith(test.info))
			if test.err == "" && (err != nil || got != test.want) {
				t.Errorf("accessOf = %+v, %v, want %+v", got, err, test.want)
			}
			var invalid *node.ValidationError
			if test.err != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "calvin")) {
				t.Errorf("error = %v, want a ValidationError with %q and without the password", err, test.err)
			}
		})
	}
}

func TestTheSystemIsNamedByItsPath(t *testing.T) {
	for text, valid := range map[string]bool{
		"": true, "/redfish/v1/Systems/1": true, "/redfish/v1/Systems/System.Embedded.1": true,
		"1": false, "https://192.0.2.7/redfish/v1/Systems/1": false, "//evil.example/x": false, "/a/../b": false, "/a?b": false,
	} {
		if got, err := systemPathOf(nodeWith(map[string]any{"redfish_system_id": text})); valid != (err == nil) || valid && got != text {
			t.Errorf("systemPathOf(%q) = %q, %v, want valid: %v", text, got, err, valid)
		}
	}
}
