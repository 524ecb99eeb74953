package v1beta2

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// HostSelector selects hosts by their labels. A host has to match all that is set.
type HostSelector struct {
	// matchLabels are labels that a host must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions are what its labels must be like.
	// +optional
	// +listType=atomic
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// HostSelectorRequirement is what a label of a host must be like.
type HostSelectorRequirement struct {
	// key is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key,omitempty"`
	// operator is one of In, NotIn, Exists, DoesNotExist, =, ==, !=, gt, lt and !, in any
	// case of letters.
	// +required
	// +kubebuilder:validation:MinLength=1
	Operator string `json:"operator,omitempty"`
	// values are what the label is compared with. Exists, DoesNotExist and ! ignore them; gt
	// and lt take one number, and =, == and != one value.
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// doesNotExist is how a label selector of Kubernetes spells the operator that
// labels.Requirement writes as an exclamation mark.
const doesNotExist selection.Operator = "doesnotexist"

// Requirement returns the requirement in the form that matches labels. An error says what
// is wrong with it.
func (r HostSelectorRequirement) Requirement() (labels.Requirement, error) {
	operator, values := selection.Operator(strings.ToLower(r.Operator)), r.Values
	switch operator {
	case doesNotExist, selection.DoesNotExist:
		operator, values = selection.DoesNotExist, nil
	case selection.Exists:
		values = nil
	}
	requirement, err := labels.NewRequirement(r.Key, operator, values)
	if err != nil {
		return labels.Requirement{}, fmt.Errorf("select by label %q: %w", r.Key, err)
	}
	return *requirement, nil
}

// Selector returns the selector in the form that matches labels. A nil selector matches
// everything. An error says which part cannot match anything.
func (s *HostSelector) Selector() (labels.Selector, error) {
	selector := labels.NewSelector()
	if s == nil {
		return selector, nil
	}
	for _, key := range sets.List(sets.KeySet(s.MatchLabels)) {
		requirement, err := labels.NewRequirement(key, selection.Equals, []string{s.MatchLabels[key]})
		if err != nil {
			return nil, fmt.Errorf("select by label %q: %w", key, err)
		}
		selector = selector.Add(*requirement)
	}
	for _, expression := range s.MatchExpressions {
		requirement, err := expression.Requirement()
		if err != nil {
			return nil, err
		}
		selector = selector.Add(requirement)
	}
	return selector, nil
}
