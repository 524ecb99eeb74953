// Package conversion converts objects of infrastructure.cluster.x-k8s.io between version v1beta1,
// in which clusters of earlier years have stored them, and v1beta2, in which they are stored now.
//
// In JSON, the versions differ in a few places. A table for each kind has these differences
// (rules.go). Nothing is lost that the other version has no place for: if converting an object back
// would not restore it, the converted object carries the original in the annotation
// [DataAnnotation]. The conversion back applies the changes that were made in between to the
// original, and leaves everything else as it was.
package conversion

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta1"
	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// DataAnnotation holds the object before its conversion, as JSON without metadata. Providers of
// Cluster API use the same key.
const DataAnnotation = "cluster.x-k8s.io/conversion-data"

// Convert converts an object to another version of its group. It may change obj. It returns an
// object that already has the version as it is.
func Convert(obj *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	from := obj.GroupVersionKind()
	if from.GroupVersion() == to {
		return obj, nil
	}
	r, known := rules[from.Kind]
	var forth, back mapping
	switch {
	case !known || from.Group != to.Group:
		return nil, fmt.Errorf("convert %s %s to %s: the kind is not known", from.GroupVersion(), from.Kind, to)
	case from.GroupVersion() == v1beta1.GroupVersion && to == v1beta2.GroupVersion:
		forth, back = r.up, r.down
	case from.GroupVersion() == v1beta2.GroupVersion && to == v1beta1.GroupVersion:
		forth, back = r.down, r.up
	default:
		return nil, fmt.Errorf("convert %s %s to %s: the version is not known", from.GroupVersion(), from.Kind, to)
	}
	before := content(obj)
	original := takeOriginal(obj, to)
	after := forth(before)
	if original != nil {
		after, _ = merge(original, forth(back(original)), after).(map[string]any)
	}
	converted := &unstructured.Unstructured{Object: maps.Clone(after)}
	if metadata, there := obj.Object["metadata"]; there {
		converted.Object["metadata"] = metadata
	}
	converted.SetGroupVersionKind(to.WithKind(from.Kind))
	if !reflect.DeepEqual(back(after), before) {
		if err := keepOriginal(converted, from.GroupVersion(), before); err != nil {
			return nil, fmt.Errorf("convert %s %s/%s: %w", from.Kind, obj.GetNamespace(), obj.GetName(), err)
		}
	}
	return converted, nil
}

// mapping returns the content of an object in another version. It does not change its argument.
// Mapping forth, back and forth again gives the same as mapping forth once.
type mapping func(map[string]any) map[string]any

// content returns everything in an object but its identity and its metadata.
func content(obj *unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for key, value := range obj.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" {
			all[key] = value
		}
	}
	return all
}

// takeOriginal removes the annotation with the original of an object, and returns the original. It
// returns nil if there is no original in the given version. An original that cannot be read, or
// does not look like an object of its kind, was not written by the API server and counts as none:
// one tenant's object must not break a list of all objects, in the API server or in its clients.
func takeOriginal(obj *unstructured.Unstructured, version schema.GroupVersion) map[string]any {
	annotations := obj.GetAnnotations()
	text, there := annotations[DataAnnotation]
	if !there {
		return nil
	}
	var original map[string]any
	if json.Unmarshal([]byte(text), &original) != nil || original["apiVersion"] != version.String() {
		return nil // by a person, by another provider, or of a version that no longer exists
	}
	delete(original, "apiVersion")
	typed, err := versions().New(version.WithKind(obj.GetKind()))
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(original, typed) != nil {
		return nil
	}
	delete(annotations, DataAnnotation)
	if len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
	return original
}

// versions has the types of both versions.
var versions = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1beta1.AddToScheme(s))
	utilruntime.Must(v1beta2.AddToScheme(s))
	return s
})

// keepOriginal writes the annotation with the original.
func keepOriginal(obj *unstructured.Unstructured, version schema.GroupVersion, original map[string]any) error {
	kept := clone(original)
	kept["apiVersion"] = version.String()
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[DataAnnotation] = string(text)
	obj.SetAnnotations(annotations)
	return nil
}

// merge returns the original with the changes between then and now. then is the mapping of the
// original, and now the mapped object as it is today. Lists are replaced, not merged.
func merge(original, then, now any) any {
	if reflect.DeepEqual(then, now) {
		return original
	}
	originals, ok := original.(map[string]any)
	thens, ok2 := then.(map[string]any)
	nows, ok3 := now.(map[string]any)
	if !ok || !ok2 || !ok3 {
		return now
	}
	merged := map[string]any{}
	for key, value := range originals {
		if _, was := thens[key]; !was {
			merged[key] = value // the other version has no place for it
		}
	}
	for key, value := range nows {
		originalValue, was := originals[key]
		switch {
		case was:
			merged[key] = merge(originalValue, thens[key], value)
		case !reflect.DeepEqual(thens[key], value):
			merged[key] = value
		}
	}
	return merged
}

// field is a path to a value in the content of an object, such as "spec.image.url". A step that
// ends with [] goes through all entries of a list.
type field string

// each calls do for each place that the path leads to, with the map that has the last step as a
// key, and with that step. It replaces the maps on its way by copies, so that do may change them.
// If create is set, it creates missing maps.
func (f field) each(root map[string]any, create bool, do func(parent map[string]any, key string)) {
	step, rest, more := strings.Cut(string(f), ".")
	if !more {
		do(root, step)
		return
	}
	if name, list := strings.CutSuffix(step, "[]"); list {
		entries, _ := root[name].([]any)
		if entries == nil {
			return
		}
		copied := make([]any, len(entries))
		for i, entry := range entries {
			if values, ok := entry.(map[string]any); ok {
				values = clone(values)
				field(rest).each(values, create, do)
				entry = values
			}
			copied[i] = entry
		}
		root[name] = copied
		return
	}
	values, there := root[step].(map[string]any)
	if !there && !create {
		return
	}
	values = clone(values)
	root[step] = values
	field(rest).each(values, create, do)
}

// clone returns a copy of a map. The copy is never nil.
func clone(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return maps.Clone(values)
}
