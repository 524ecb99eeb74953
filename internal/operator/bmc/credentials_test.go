package bmc_test

import (
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

func TestCredentialsAreTrimmedAndNeedBothParts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data           map[string][]byte
		want           bmc.Credentials
		noUser, noPass bool
	}{
		"complete":       {data: map[string][]byte{"username": []byte("admin"), "password": []byte("p w")}, want: bmc.Credentials{Username: "admin", Password: "p w"}},
		"with line feed": {data: map[string][]byte{"username": []byte(" admin\n"), "password": []byte("\tsecret\r\n")}, want: bmc.Credentials{Username: "admin", Password: "secret"}},
		"no user":        {data: map[string][]byte{"password": []byte("secret")}, want: bmc.Credentials{Password: "secret"}, noUser: true},
		"no password":    {data: map[string][]byte{"username": []byte("admin"), "password": []byte("\n")}, want: bmc.Credentials{Username: "admin"}, noPass: true},
		"nothing":        {noUser: true, noPass: true},
	} {
		got, err := bmc.ReadCredentials(tc.data)
		if got != tc.want || errors.Is(err, bmc.ErrNoUsername) != tc.noUser || errors.Is(err, bmc.ErrNoPassword) != tc.noPass || (err != nil) != (tc.noUser || tc.noPass) {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}
