package ironic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestCredentialsAreWrittenWhenTheNodeNamesAnotherVersionOfThem(t *testing.T) {
	written := []string{`add /extra/ingot_credentials "v2"`, `add /driver_info/redfish_password "new"`, `add /driver_info/redfish_username "admin"`}
	for name, tt := range map[string]struct {
		extra map[string]any
		want  []string
	}{
		"another version":                 {map[string]any{"ingot_credentials": "v1"}, written},
		"the same version":                {map[string]any{"ingot_credentials": "v2"}, nil},
		"a node that an earlier one made": {map[string]any{"rack": "7"}, written},
	} {
		t.Run(name, func(t *testing.T) {
			r := webHost(t)
			r.Credentials.Password, r.CredentialsVersion = "new", "v2"
			got, _, err := changesOf(decoded(t, webNode(map[string]any{"extra": tt.extra})), r, provisioner.UpdateOptions{}, everything, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, operationsOf(t, got)); diff != "" {
				t.Errorf("operations differ (-want +got):\n%s", diff)
			}
		})
	}
}
