// Package conversion converts objects of infrastructure.cluster.x-k8s.io between version
// v1beta1, which clusters of earlier years have stored, and v1beta2, which is stored.
//
// Both versions are JSON that differs in a few places, and these are a table for each kind
// (rules.go). What the other version has no place for is not lost: where an object would not
// come back as it was, the converted one carries the original in the annotation
// [DataAnnotation]. When that is converted back, what was changed in between is changed in the
// original, and everything else is as it was.
package conversion

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta1"
	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// DataAnnotation has what an object was before its conversion, as JSON without its metadata.
// Providers of Cluster API use the same key.
const DataAnnotation = "cluster.x-k8s.io/conversion-data"

// Convert converts an object to another version of its group. The object may be changed
// by it. An object that has the version already is returned as it is.
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

// mapping returns the content of an object in another version. It leaves its argument as it
// is. To map, to map back and to map again gives the same as to map once.
type mapping func(map[string]any) map[string]any

// content is what an object has besides its identity and its metadata.
func content(obj *unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for key, value := range obj.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" {
			all[key] = value
		}
	}
	return all
}

// takeOriginal removes the annotation with what an object was in another version, and returns that, or nil when there is
// none of that version. One that cannot be read, or is not like an object of its kind, was not written by the API server and
// counts as none: the object of one tenant must not fail a list of all, for the API server or in its clients.
func takeOriginal(obj *unstructured.Unstructured, version schema.GroupVersion) map[string]any {
	annotations := obj.GetAnnotations()
	text, there := annotations[DataAnnotation]
	if !there {
		return nil
	}
	var original map[string]any
	if json.Unmarshal([]byte(text), &original) != nil || original["apiVersion"] != version.String() {
		return nil // of a person, of another provider, or of a version that is gone
	}
	delete(original, "apiVersion")
	typed, err := versions.New(version.WithKind(obj.GetKind()))
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

// versions are the types of both.
var versions = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1beta1.AddToScheme(s))
	utilruntime.Must(v1beta2.AddToScheme(s))
	return s
}()

// keepOriginal writes that annotation.
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

// merge returns the original with what differs between two mappings: that of the original
// and that of what the object is now. Lists are values, and not merged.
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
			merged[key] = value // nothing in the other version stands for it
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

// field is a path to a value in the content of objects, such as "spec.image.url". A step
// that ends with [] goes through all entries of a list.
type field string

// each calls a function with the map that has the last step of the path, and that step, for
// each place that the path leads to. It goes into copies that replace what was there, so that
// the function may change them, and creates maps on the way when create is set.
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

// clone returns a copy of a map, which is never nil.
func clone(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return maps.Clone(values)
}
