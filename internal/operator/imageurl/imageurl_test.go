package imageurl_test

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/operator/imageurl"
)

func TestURLsOfTheEnginesOwnMachineAreRefused(t *testing.T) {
	for _, text := range []string{
		"file:///etc/shadow", "FILE:///etc/shadow", "file:/etc/shadow", "file://localhost/etc/shadow",
		"http://localhost/a", "http://LOCALHOST:6385/v1/nodes", "http://localhost./a", "http://a.localhost/a", "http://localhost.localdomain/a",
		"http://ip6-localhost/a", "http://127.0.0.1/a", "https://127.9.9.9:443/a", "ftp://127.0.0.1./a", "oci://127.0.0.1:5000/a",
		"http://user:pass@127.0.0.1/a", "http://0.0.0.0/a", "http://169.254.169.254/latest/meta-data", "http://224.0.0.1/a",
		"http://[::1]/a", "http://[::]/a", "http://[fe80::1]/a", "http://[fe80::1%25eth0]/a", "http://[::ffff:127.0.0.1]/a",
		"http://[::ffff:a9fe:a9fe]/a", "http://[::127.0.0.1]/a", "http://[64:ff9b::7f00:1]/a", "http://[ff02::1]/a",
		"http://2130706433/a", "http://127.1/a", "http://0x7f.1/a", "http://0177.0.0.1/a", "http://0x7f000001/a", "http://１２７.0.0.1/a",
		"http:///a", "http:/127.0.0.1/a", "http:127.0.0.1/a", "http://a b/", "http://\\127.0.0.1/a",
	} {
		if imageurl.Check(text) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestURLsOfServersAreAccepted(t *testing.T) {
	for _, text := range []string{
		"", "http://images.example.org/a.qcow2", "https://images/a?x=1#y", "http://192.0.2.1:8080/a", "http://10.0.0.1/a",
		"http://[2001:db8::1]/a", "http://[fd00::1]:80/a", "http://[::ffff:192.0.2.1]/a", "oci://registry.example.org/os@sha256:00", "ftp://example.org/a",
		"http://3com.example.org/a", "http://node1/a", "http://a.b.c.3d/a", "9d1f9b0a-1f0e-4b1e-9d5e-0d3b1f1f1f1f",
	} {
		if err := imageurl.Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
