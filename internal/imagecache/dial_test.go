package imagecache

import "testing"

func TestNamesDoNotLeadInside(t *testing.T) {
	for address, inside := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "0.0.0.0:80": true, "[::]:80": true, "169.254.169.254:80": true,
		"[fe80::1%eth0]:80": true, "[::ffff:169.254.169.254]:80": true, "224.0.0.1:80": true,
		"192.0.2.1:80": false, "10.0.0.1:80": false, "[2001:db8::1]:80": false, "[fd00::1]:80": false,
	} {
		if err := refuseInternal("tcp", address, nil); (err != nil) != inside {
			t.Errorf("%s: error = %v, want one: %v", address, err, inside)
		}
	}
}
