package v1beta2

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestHostsAreSelectedWithEveryOperator(t *testing.T) {
	t.Parallel()
	host := labels.Set{"rack": "r1", "disks": "8"}
	for _, tt := range []struct {
		key, operator string
		values        []string
		want          bool
	}{
		{"rack", "in", []string{"r0", "r1"}, true},
		{"rack", "In", []string{"r0"}, false},
		{"rack", "NotIn", []string{"r0"}, true},
		{"gpu", "notin", []string{"a"}, true},
		{"rack", "Exists", nil, true},
		{"gpu", "exists", nil, false},
		{"rack", "exists", []string{"ignored"}, true},
		{"gpu", "DoesNotExist", nil, true},
		{"gpu", "!", nil, true},
		{"rack", "!", []string{"ignored"}, false},
		{"rack", "=", []string{"r1"}, true},
		{"rack", "==", []string{"r2"}, false},
		{"rack", "!=", []string{"r2"}, true},
		{"disks", "gt", []string{"7"}, true},
		{"disks", "Gt", []string{"8"}, false},
		{"disks", "lt", []string{"9"}, true},
		{"gpu", "lt", []string{"9"}, false},
	} {
		s := &HostSelector{MatchExpressions: []HostSelectorRequirement{{Key: tt.key, Operator: tt.operator, Values: tt.values}}}
		selector, err := s.Selector()
		if err != nil {
			t.Errorf("%s %s %v: %v", tt.key, tt.operator, tt.values, err)
			continue
		}
		if got := selector.Matches(host); got != tt.want {
			t.Errorf("%s %s %v: matches %v, want %v", tt.key, tt.operator, tt.values, got, tt.want)
		}
	}
}

func TestEveryPartOfASelectorHasToMatch(t *testing.T) {
	t.Parallel()
	s := &HostSelector{
		MatchLabels:      map[string]string{"rack": "r1", "row": "a"},
		MatchExpressions: []HostSelectorRequirement{{Key: "gpu", Operator: "!"}},
	}
	selector, err := s.Selector()
	if err != nil {
		t.Fatal(err)
	}
	for want, hosts := range map[bool][]labels.Set{
		true:  {{"rack": "r1", "row": "a"}, {"rack": "r1", "row": "a", "other": ""}},
		false: {{}, {"rack": "r1"}, {"row": "a"}, {"rack": "r1", "row": "a", "gpu": "1"}},
	} {
		for _, host := range hosts {
			if got := selector.Matches(host); got != want {
				t.Errorf("%v: matches %v, want %v", host, got, want)
			}
		}
	}
	var none *HostSelector
	if selector, err := none.Selector(); err != nil || !selector.Matches(labels.Set{}) {
		t.Errorf("no selector: %v, %v; want it to match everything", selector, err)
	}
}

func TestSelectorsThatCannotMatchAreErrors(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]HostSelector{
		"key":        {MatchLabels: map[string]string{"a b": "c"}},
		"value":      {MatchLabels: map[string]string{"a": "b c"}},
		"operator":   {MatchExpressions: []HostSelectorRequirement{{Key: "a", Operator: "like", Values: []string{"b"}}}},
		"no value":   {MatchExpressions: []HostSelectorRequirement{{Key: "a", Operator: "in"}}},
		"two values": {MatchExpressions: []HostSelectorRequirement{{Key: "a", Operator: "=", Values: []string{"b", "c"}}}},
		"no number":  {MatchExpressions: []HostSelectorRequirement{{Key: "a", Operator: "gt", Values: []string{"many"}}}},
	} {
		if _, err := s.Selector(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
