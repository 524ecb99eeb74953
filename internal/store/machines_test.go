package store_test

import (
	"fmt"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
)

// TestMachinesThatEarlierReleasesNotedAreFound opens the database of a release that noted in a node which machine it
// stands for, and claimed nothing.
func TestMachinesThatEarlierReleasesNotedAreFound(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		s, err := store.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, info := range []string{
			`{"machine_identity":{"uuid":"00112233-4455-6677-8899-aabbccddeeff","serial_number":"4PRJM2"}}`,
			`{"machine_identity":{"serial_number":"S2"},"last_power_state_change":"x"}`,
			`{"is_whole_disk_image":true}`,
		} {
			if err := s.Write(t.Context(), func(tx *store.Tx) error {
				return tx.Exec(fmt.Sprintf("INSERT INTO nodes (uuid, driver, provision_state, created_at, driver_internal_info) VALUES ('node-%d', 'redfish', 'active', 1, '%s')", i, info))
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.Exec("DELETE FROM goose_db_version WHERE version_id = 14") }); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openWith(t, opts)
		for text, owner := range map[string]string{"00112233-4455-6677-8899-aabbccddeeff": "node-0", "4prjm2": "node-0", "s2": "node-1", "": ""} {
			var found []store.ClaimMatch
			if err := s.Read(t.Context(), func(tx *store.Tx) (err error) {
				found, err = tx.MatchClaims([]store.Claim{{Kind: store.Machine, Address: text}})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if len(found) != min(1, len(owner)) || owner != "" && found[0].UUID != owner {
				t.Errorf("%q is found at %+v, want %q", text, found, owner)
			}
		}
	})
}
