package host

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestMemoKeepsWhatAnUpdateReturnsUntilOneDropsIt(t *testing.T) {
	var m memo[string]
	add := func(text string, keep bool) func(string, bool) (string, bool) {
		return func(last string, known bool) (string, bool) {
			if known != (last != "") {
				t.Errorf("value %q, known is %t", last, known)
			}
			return last + text, keep
		}
	}
	m.update("a", add("x", true))
	if value, kept := m.update("a", add("y", true)); value != "xy" || !kept {
		t.Errorf("value %q, kept is %t, want xy", value, kept)
	}
	m.put("b", "z")
	if value, kept := m.update("a", add("!", false)); value != "xy!" || kept {
		t.Errorf("value %q, kept is %t, want that xy! is dropped", value, kept)
	}
	if value, known := m.get("a"); value != "" || known {
		t.Errorf("value %q after it was dropped", value)
	}
	if value, known := m.get("b"); value != "z" || !known {
		t.Errorf("value %q of the other host, want z", value)
	}
	m.forget("b")
	if value, known := m.get("b"); value != "" || known {
		t.Errorf("value %q after it was forgotten", value)
	}
}

func TestNothingOfAForgottenHostIsRemembered(t *testing.T) {
	const gone, other types.UID = "gone", "other"
	var m memos
	for _, host := range []types.UID{gone, other} {
		m.applied.put(host, appliedMark{})
		m.answers.put(host, answer{})
		m.hiddenFailures.put(host, v1alpha1.OperationStatus{})
		m.written.put(host, "1")
		m.busy.add(host)
		m.missing.add(host)
	}
	m.forget(gone)
	remembers := map[string]func(types.UID) bool{
		"applied": knows(&m.applied.memo), "answers": knows(&m.answers.memo), "hiddenFailures": knows(&m.hiddenFailures.memo),
		"written": knows(&m.written.memo), "busy": knows(&m.busy.memo), "missing": knows(&m.missing.memo),
	}
	if all := reflect.TypeFor[memos]().NumField(); all != len(remembers) {
		t.Errorf("%d of %d memos are tested", len(remembers), all)
	}
	for name, known := range remembers {
		if known(gone) || !known(other) {
			t.Errorf("%s: remembers the forgotten host: %t, the other one: %t", name, known(gone), known(other))
		}
	}
}

// knows returns whether a memo has a value of a host.
func knows[T any](m *memo[T]) func(types.UID) bool {
	return func(host types.UID) bool {
		_, known := m.get(host)
		return known
	}
}
