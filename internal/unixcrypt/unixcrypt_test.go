package unixcrypt

import (
	"strings"
	"testing"
)

// TestHashesAreThoseOfThePublishedVectors uses the vectors of the specification that have the
// default number of rounds.
func TestHashesAreThoseOfThePublishedVectors(t *testing.T) {
	for _, tc := range []struct {
		algorithm            Algorithm
		password, salt, want string
	}{
		{SHA256, "Hello world!", "saltstring", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{SHA512, "Hello world!", "saltstring", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
	} {
		if got, err := hashWith(tc.algorithm, tc.password, tc.salt); err != nil || got != tc.want {
			t.Errorf("%s of %q: %q, %v, want %q", tc.algorithm, tc.password, got, err, tc.want)
		}
	}
}

func TestEachHashHasASaltOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 8 {
		hash, err := Hash(SHA512, "hush")
		parts := strings.Split(hash, "$")
		if err != nil || len(parts) != 4 || parts[1] != "6" || len(parts[2]) != saltLength || strings.Trim(parts[2], saltDigits) != "" {
			t.Fatalf("%q, %v, want $6$SALT$HASH", hash, err)
		}
		if again, err := hashWith(SHA512, "hush", parts[2]); err != nil || again != hash {
			t.Errorf("%q cannot be verified: %q, %v", hash, again, err)
		}
		seen[parts[2]] = true
	}
	if len(seen) != 8 {
		t.Errorf("8 hashes have %d salts", len(seen))
	}
}

func TestWhatCannotBeHashedIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		algorithm Algorithm
		password  string
	}{
		"empty":             {SHA256, ""},
		"too long":          {SHA256, strings.Repeat("x", MaxPassword+1)},
		"unknown algorithm": {"md5", "hush"},
	} {
		if got, err := Hash(tc.algorithm, tc.password); err == nil {
			t.Errorf("%s: %q, want an error", name, got)
		}
	}
}
