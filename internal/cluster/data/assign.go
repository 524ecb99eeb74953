package data

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// action is what has to be done for a claim.
type action int

const (
	actionNone    action = iota // the claim is being deleted, and nothing is left to do
	actionPoint                 // the claim has data: name the data in the status
	actionCreate                // make the Metal3Data with the index
	actionRefuse                // the claim cannot have data: say why
	actionRemove                // the claim is being deleted: delete its data
	actionWait                  // the claim is being deleted, and its data, too
	actionRelease               // the data of the claim is gone: let the claim go
)

// claimFinalizers are removed when a claim is let go: the claim's own finalizer, and the one with
// which Metal3's provider makes the claim wait for its machine.
var claimFinalizers = []string{v1beta2.DataClaimFinalizer, v1beta2.MachineFinalizer}

// dataFinalizers are removed when the addresses and Secrets of data are given back: the data's own
// finalizer, and the one that Metal3's provider adds.
var dataFinalizers = []string{v1beta2.DataFinalizer, v1beta2.DataClaimFinalizer}

// hasAny reports whether an object has one of some finalizers.
func hasAny(obj client.Object, finalizers []string) bool {
	return slices.ContainsFunc(finalizers, func(f string) bool { return controllerutil.ContainsFinalizer(obj, f) })
}

// removeAll removes finalizers from an object.
func removeAll(obj client.Object, finalizers []string) {
	for _, finalizer := range finalizers {
		controllerutil.RemoveFinalizer(obj, finalizer)
	}
}

// step is what has to be done for one claim.
type step struct {
	claim  *v1beta2.Metal3DataClaim
	action action
	data   *v1beta2.Metal3Data // for actionPoint and actionRemove
	index  int32               // for actionCreate
	text   string              // for actionRefuse
}

// assignment is what one pass over a template has to do.
type assignment struct {
	// steps are in the order in which claims get indexes: the oldest first.
	steps []step
	// extra is data that no claim has.
	extra []*v1beta2.Metal3Data
}

// needsCertainty reports whether the assignment makes data or lets a claim go, so that the data
// that exists has to be read from the API server.
func (a assignment) needsCertainty() bool {
	return slices.ContainsFunc(a.steps, func(s step) bool { return s.action == actionCreate || s.action == actionRelease })
}

// assign decides what to do for the claims of the template with this name. t is nil when the
// template does not exist. existing is all data of the namespace.
func assign(name string, t *v1beta2.Metal3DataTemplate, claims []*v1beta2.Metal3DataClaim, existing []*v1beta2.Metal3Data) assignment {
	slices.SortFunc(claims, func(a, b *v1beta2.Metal3DataClaim) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	used, ofClaim := map[int32]bool{}, map[string][]*v1beta2.Metal3Data{}
	for _, d := range existing {
		if index, named := indexInName(name, d.Name); named {
			used[index] = true
		}
		if refersTo(d.Spec.Template, d.Namespace, name) {
			used[d.Spec.Index] = true
			ofClaim[d.Spec.Claim.Name] = append(ofClaim[d.Spec.Claim.Name], d)
		}
	}
	var a assignment
	for _, claim := range claims {
		own := own(claim, ofClaim[claim.Name])
		s := decide(name, t, claim, own, used)
		if s.action == actionCreate {
			used[s.index] = true
		}
		a.steps = append(a.steps, s)
		ofClaim[claim.Name] = slices.DeleteFunc(ofClaim[claim.Name], func(d *v1beta2.Metal3Data) bool { return d == own })
	}
	for _, left := range ofClaim {
		a.extra = append(a.extra, left...)
	}
	slices.SortFunc(a.extra, func(a, b *v1beta2.Metal3Data) int { return cmp.Compare(a.Name, b.Name) })
	return a
}

// decide decides what to do for one claim. own is its data, or nil. used are the indexes in use.
func decide(name string, t *v1beta2.Metal3DataTemplate, claim *v1beta2.Metal3DataClaim, own *v1beta2.Metal3Data, used map[int32]bool) step {
	s := step{claim: claim, data: own}
	refuse := func(format string, args ...any) step {
		s.action, s.text = actionRefuse, fmt.Sprintf(format, args...)
		return s
	}
	deleting := !claim.DeletionTimestamp.IsZero()
	switch {
	case deleting && own != nil && own.DeletionTimestamp.IsZero():
		s.action = actionRemove
	case deleting && own != nil:
		s.action = actionWait
	case deleting && hasAny(claim, claimFinalizers):
		s.action = actionRelease
	case deleting:
		s.action = actionNone
	case own != nil:
		s.action = actionPoint
	case !refersTo(claim.Spec.Template, claim.Namespace, name):
		return refuse("Metal3DataTemplate %s is in namespace %s; data is rendered only from templates of the machine's own namespace %s",
			name, claim.Spec.Template.Namespace, claim.Namespace)
	case t == nil:
		return refuse("Metal3DataTemplate %s does not exist in namespace %s; create it, or name another one in the Metal3Machine", name, claim.Namespace)
	case !t.DeletionTimestamp.IsZero():
		return refuse("Metal3DataTemplate %s is being deleted, which waits for the machines that have data of it; name another one in the Metal3Machine", name)
	case len(used) >= maxIndexes:
		return refuse("Metal3DataTemplate %s has %d indexes in use, the most that are possible; make another template for more machines", name, len(used))
	default:
		s.action, s.index = actionCreate, lowestFree(used)
		if longest := dataName(name, s.index) + "-networkdata"; len(longest) > maxName {
			return refuse("Metal3DataTemplate %s has too long a name: that of the Secret %s would exceed %d characters", name, longest, maxName)
		}
	}
	return s
}

// own returns the data of a claim: the data that its status names, or else that with the lowest
// index.
func own(claim *v1beta2.Metal3DataClaim, candidates []*v1beta2.Metal3Data) *v1beta2.Metal3Data {
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *v1beta2.Metal3Data) int {
		return cmp.Or(cmp.Compare(rank(claim, a), rank(claim, b)), cmp.Compare(a.Spec.Index, b.Spec.Index))
	})
}

func rank(claim *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data) int {
	if isRendered(claim, d) {
		return 0
	}
	return 1
}

// isRendered reports whether the status of a claim names data.
func isRendered(claim *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data) bool {
	return claim.Status.RenderedData != nil && refersTo(*claim.Status.RenderedData, claim.Namespace, d.Name)
}

// indexInName returns the index in the name of a template's data, and false for any other name.
func indexInName(template, name string) (int32, bool) {
	digits, ok := strings.CutPrefix(name, template+"-")
	index, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || index < 0 || dataName(template, int32(index)) != name {
		return 0, false
	}
	return int32(index), true
}

func lowestFree(used map[int32]bool) int32 {
	var index int32
	for used[index] {
		index++
	}
	return index
}

// indexes returns the indexes of a template that are in use, as its status has them.
func indexes(template string, existing []*v1beta2.Metal3Data) []v1beta2.IndexEntry {
	var all []v1beta2.IndexEntry
	for _, d := range existing {
		if refersTo(d.Spec.Template, d.Namespace, template) {
			all = append(all, v1beta2.IndexEntry{Name: d.Spec.Claim.Name, Index: d.Spec.Index})
		}
	}
	slices.SortFunc(all, func(a, b v1beta2.IndexEntry) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b v1beta2.IndexEntry) bool { return a.Index == b.Index })
}
