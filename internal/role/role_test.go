package role

import "testing"

func TestNamesOfRolesAreReadBack(t *testing.T) {
	for _, want := range []Role{Reader, Operator, Admin} {
		if got, err := Parse(want.String()); got != want || err != nil {
			t.Errorf("Parse(%q) is %v, %v", want, got, err)
		}
	}
	for _, name := range []string{"", "none", "Admin", "root", "admin "} {
		if got, err := Parse(name); got != None || err == nil {
			t.Errorf("Parse(%q) is %v, %v, want an error", name, got, err)
		}
	}
}
