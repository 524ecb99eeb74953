package ramdisklog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestLogsAreKeptWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"sync done":              "sync done",
		"user hunter2 signed in": "user ****** signed in",
		"linux /vmlinuz ipa-agent-token=abc123 quiet": "linux /vmlinuz ipa-agent-token=****** quiet",
		"POST /v1/commands/?wait=true&agent_token=xy": "POST /v1/commands/?wait=******&agent_token=******",
		"get https://bob:pw@images/i.img?sig=s3":      "get https://******@images/i.img?sig=******",
		`{"password": "a b", "x": 1}`:                 `{"password": "******", "x": 1}`,
		"{'rescue_password': u'$5$salt$hash'}":        "{'rescue_password': u'******'}",
		`rootpwd="$1$abc$XYZhash" sshkey="ssh-rsa A"`: `rootpwd="******" sshkey="******"`,
		"pwd=hunter22 passcode=123456 user_pass : x":  "pwd=****** passcode=****** user_pass : ******",
		"bypass=1 public_key=AA 12:30:01 eth0: up":    "bypass=1 public_key=AA 12:30:01 eth0: up",
		"Authorization: Basic dXNlcjpwdw==\nHost: h":  "Authorization: ******\nHost: h",
		"{'authorization': 'Bearer a b', 'Host': 'h'": "{'authorization': '******', 'Host': 'h'",
		`{"text": "{\"password\": \"a b\", \"x\": 1}`: `{"text": "{\"password\": \"******\", \"x\": 1}`,
		`password="a \" b\\" x=1`:                     `password="******" x=1`,
		`\"token\": \"a \\\" b\", \"x\": 1`:           `\"token\": \"******\", \"x\": 1`,
		"secret: 'two\nlines' x":                      "secret: '******' x",
		"secret: 'cut\nnext line":                     "secret: '******\nnext line",
		"env['token'] = b'x y'; a == b":               "env['token'] = b'******'; a == b",
		`"tokens": ["one", "two"]` + "\nnext":         `"tokens": ******` + "\nnext",
		"password=":                                   "password=",
		"x hunter2hunter3 y":                          "x ****** y",
	} {
		kept, err := repack(t.Context(), archiveOf(t, map[string]string{"journal": text}), []string{"hunter2", "a", "hunter2hunter3"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"journal": want}, filesOf(t, kept)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestEveryWordForASecretMasksALog has the words of the Bare Metal service's settings that the
// engine never shows.
func TestEveryWordForASecretMasksALog(t *testing.T) {
	for _, word := range []string{"password", "passwd", "passphrase", "passcode", "passkey", "pwd", "secret", "token", "credential", "authorization", "api-key", "private_key", "sshKey", "configdrive", "user_data", "ipmi_pass"} {
		for _, format := range []string{"NAME=VALUE", "NAME: VALUE", "'NAME': 'VALUE'", `"x_NAME": "VALUE"`} {
			text := strings.NewReplacer("NAME", word, "VALUE", "gopher").Replace(format)
			if got := masked([]byte(text), nil); bytes.Contains(got, []byte("gopher")) {
				t.Errorf("%s stays %s", text, got)
			}
		}
	}
}

func FuzzMasked(f *testing.F) {
	f.Add([]byte(`{"password": "a \" b", token=x}`))
	f.Add([]byte(`pwd: u\"a\\\" b`))
	f.Fuzz(func(t *testing.T, text []byte) {
		once := maskedValues(text)
		if limit := (len(text) + 1) * (len(node.Mask) + 1); len(once) > limit {
			t.Errorf("%d bytes became %d", len(text), len(once))
		}
	})
}
