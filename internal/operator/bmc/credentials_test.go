package bmc_test

import (
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

func TestCredentialsAreTrimmedAndNeedBothPartsThemselves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data                   map[string][]byte
		want                   bmc.Credentials
		noUser, noPass, masked bool
	}{
		"complete":       {data: map[string][]byte{"username": []byte("admin"), "password": []byte("p w")}, want: bmc.Credentials{Username: "admin", Password: "p w"}},
		"with line feed": {data: map[string][]byte{"username": []byte(" admin\n"), "password": []byte("\tsecret\r\n")}, want: bmc.Credentials{Username: "admin", Password: "secret"}},
		"no user":        {data: map[string][]byte{"password": []byte("secret")}, want: bmc.Credentials{Password: "secret"}, noUser: true},
		"no password":    {data: map[string][]byte{"username": []byte("admin"), "password": []byte("\n")}, want: bmc.Credentials{Username: "admin"}, noPass: true},
		"nothing":        {noUser: true, noPass: true},
		"masked password": {
			data: map[string][]byte{"username": []byte("admin"), "password": []byte("******\n")},
			want: bmc.Credentials{Username: "admin", Password: "******"}, masked: true,
		},
		"masked user": {
			data: map[string][]byte{"username": []byte("******"), "password": []byte("secret")},
			want: bmc.Credentials{Username: "******", Password: "secret"}, masked: true,
		},
		"masked user, no password": {data: map[string][]byte{"username": []byte("******")}, want: bmc.Credentials{Username: "******"}, noPass: true, masked: true},
		"mask in a password": {
			data: map[string][]byte{"username": []byte("admin"), "password": []byte("*******")},
			want: bmc.Credentials{Username: "admin", Password: "*******"},
		},
	} {
		got, err := bmc.ReadCredentials(tc.data)
		if got != tc.want || errors.Is(err, bmc.ErrNoUsername) != tc.noUser || errors.Is(err, bmc.ErrNoPassword) != tc.noPass ||
			errors.Is(err, bmc.ErrMasked) != tc.masked || (err != nil) != (tc.noUser || tc.noPass || tc.masked) {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}
