package engine

import (
	"strings"
	"testing"
)

func TestWhoMayReachTheAPIIsDecidedBeforeTheStart(t *testing.T) {
	const listen, open = "api.listen", "0.0.0.0:6385"
	basic := map[string]string{"api.auth": "http_basic", "api.htpasswd_file": "users"}
	tls := map[string]string{"api.tls_certificate": "tls.crt", "api.tls_key": "tls.key"}
	join := func(parts ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, part := range parts {
			for key, value := range part {
				all[key] = value
			}
		}
		return all
	}
	on := func(key, value string) map[string]string { return map[string]string{key: value} }
	tests := map[string]struct {
		set  map[string]string
		want string // part of the error; empty means that it is fine
	}{
		"loopback":                                     {nil, ""},
		"loopback by name":                             {on(listen, "localhost:1"), ""},
		"loopback of IPv6":                             {on(listen, "[::1]:1"), ""},
		"loopback with passwords":                      {basic, ""},
		"loopback with all":                            {join(basic, tls), ""},
		"open":                                         {on(listen, open), "api.listen: 0.0.0.0:6385 is not a loopback address, and without authentication"},
		"every address":                                {on(listen, ":6385"), "without authentication"},
		"open by name":                                 {on(listen, "engine.example:6385"), "without authentication"},
		"open with TLS only":                           {join(on(listen, open), tls), "without authentication"},
		"open with plain http only":                    {join(on(listen, open), on("api.allow_plain_http", "true")), "without authentication"},
		"open with passwords in plain text":            {join(on(listen, open), basic), "api.listen: 0.0.0.0:6385 is not a loopback address, and without TLS"},
		"open, passwords in plain text, trusted":       {join(on(listen, open), basic, on("api.allow_unauthenticated", "true")), "without TLS"},
		"open with both":                               {join(on(listen, open), basic, tls), ""},
		"open by switch":                               {join(on(listen, open), on("api.allow_unauthenticated", "true")), ""},
		"passwords behind a proxy":                     {join(on(listen, open), basic, on("api.allow_plain_http", "true")), ""},
		"unknown way":                                  {on("api.auth", "keystone"), `api.auth: want none or http_basic, got "keystone"`},
		"passwords without a file":                     {on("api.auth", "http_basic"), "api.htpasswd_file: is required"},
		"file without passwords":                       {on("api.htpasswd_file", "users"), "api.htpasswd_file: does nothing while api.auth is none"},
		"roles without passwords":                      {on("api.role_file", "roles"), "api.role_file: does nothing while api.auth is none"},
		"roles and passwords":                          {join(basic, on("api.role_file", "roles")), ""},
		"certificate without key":                      {on("api.tls_certificate", "tls.crt"), "want both or none"},
		"key without certificate":                      {on("api.tls_key", "tls.key"), "want both or none"},
		"figures on loopback":                          {on("api.metrics_listen", "127.0.0.1:9090"), ""},
		"figures open":                                 {on("api.metrics_listen", "0.0.0.0:9090"), "api.metrics_listen: 0.0.0.0:9090 is not a loopback address"},
		"figures open with both":                       {join(on("api.metrics_listen", "0.0.0.0:9090"), basic, tls), ""},
		"figures at no port":                           {on("api.metrics_listen", "9090"), "api.metrics_listen: want host:port"},
		"address that begins as a loopback one does":   {on(listen, "127.0.0.1.example:1"), "without authentication"},
		"address that is the loopback one by its name": {on(listen, "localhost.example:1"), "without authentication"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(Sources{Set: test.set})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("got %q, want one sentence", err)
			}
		})
	}
}
