package remediation

import "testing"

func TestEachActionEitherWritesOrShowsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for a, row := range actions {
		if writes, shows := row.do != nil, row.progress != nil; writes == shows {
			t.Errorf("action %d writes: %t, shows a condition: %t, want one of both", a, writes, shows)
		}
		if row.event != nil && row.do == nil {
			t.Errorf("action %d has an event, and writes nothing", a)
		}
	}
}
