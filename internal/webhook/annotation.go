package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

func checkAnnotations(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	for _, key := range slices.Sorted(maps.Keys(h.Annotations)) {
		path, value := field.NewPath("metadata", "annotations").Key(key), h.Annotations[key]
		switch {
		case key == v1alpha1.StatusAnnotation:
			checkStatusAnnotation(path, value, f)
		case key == v1alpha1.HardwareDetailsAnnotation:
			checkDetailsAnnotation(path, value, inspectionDisabled(h), f)
		case key == v1alpha1.InspectAnnotation:
			if value != "" && value != v1alpha1.InspectDisabled {
				f.refuse(path, value, "is neither empty, for a new inspection, nor %s", v1alpha1.InspectDisabled)
			}
		case key == v1alpha1.RebootAnnotation, strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix):
			checkRebootAnnotation(path, value, f)
		}
	}
}

// What the schema of the status allows. The operator could not write any other value.
var (
	operationalStatuses = []v1alpha1.OperationalStatus{
		v1alpha1.OperationalStatusNone, v1alpha1.OperationalStatusOK, v1alpha1.OperationalStatusDiscovered, v1alpha1.OperationalStatusError,
		v1alpha1.OperationalStatusDelayed, v1alpha1.OperationalStatusDetached, v1alpha1.OperationalStatusServicing,
	}
	errorTypes = []v1alpha1.ErrorType{
		v1alpha1.ErrorNone, v1alpha1.ErrorProvisionedRegistration, v1alpha1.ErrorRegistration, v1alpha1.ErrorInspection, v1alpha1.ErrorPreparation,
		v1alpha1.ErrorProvisioning, v1alpha1.ErrorPowerManagement, v1alpha1.ErrorServicing, v1alpha1.ErrorDetach,
	}
)

// checkStatusAnnotation checks the status that a host is to start with. The status of a newer
// operator may have fields that this version does not know.
func checkStatusAnnotation(path *field.Path, value string, f *Findings) {
	if value == "" {
		return
	}
	var status v1alpha1.BareMetalHostStatus
	if err := json.Unmarshal([]byte(value), &status); err != nil {
		f.refuseHidden(path, "is not the status of a host in JSON: %v", jsonError(err))
		return
	}
	if !slices.Contains(operationalStatuses, status.OperationalStatus) {
		f.refuseHidden(path, "operationalStatus %s is not one of %s", quoted(status.OperationalStatus), list(operationalStatuses))
	}
	if !slices.Contains(errorTypes, status.ErrorType) {
		f.refuseHidden(path, "errorType %s is not one of %s", quoted(status.ErrorType), list(errorTypes))
	}
	if err := decodeStrictly(value, &v1alpha1.BareMetalHostStatus{}); err != nil {
		f.warn(path, "%v; what this version does not know is not restored", err)
	}
}

func checkDetailsAnnotation(path *field.Path, value string, disabled bool, f *Findings) {
	if value == "" {
		return
	}
	if !disabled {
		f.forbid(path, "an inspection would replace these details; set spec.inspectionMode to %s, or remove the annotation", v1alpha1.InspectionModeDisabled)
	}
	if err := decodeStrictly(value, &v1alpha1.HardwareDetails{}); err != nil {
		f.refuseHidden(path, "is not a description of hardware in JSON, like status.hardware: %v", err)
	}
}

var rebootModes = []v1alpha1.RebootMode{"", v1alpha1.RebootModeSoft, v1alpha1.RebootModeHard}

func checkRebootAnnotation(path *field.Path, value string, f *Findings) {
	if value == "" {
		return
	}
	var arguments v1alpha1.RebootArguments
	if err := json.Unmarshal([]byte(value), &arguments); err != nil {
		f.refuse(path, value, `is neither empty nor of the form {"mode": "soft", "force": false}: %v`, jsonError(err))
		return
	}
	if !slices.Contains(rebootModes, arguments.Mode) {
		f.refuse(path, value, "mode is not one of %s", list(rebootModes))
	}
}

// decodeStrictly decodes JSON and returns an error for unknown fields.
func decodeStrictly(text string, into any) error {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	return jsonError(decoder.Decode(into))
}

// jsonError shortens the text that an error of the JSON decoder repeats.
func jsonError(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	return errors.New(node.CutTextTo(text, maxShown))
}

// quoted returns a value in quotes, shortened if necessary.
func quoted[T ~string](value T) string {
	return fmt.Sprintf("%q", node.CutTextTo(string(value), maxShown))
}

// list returns the values in quotes, without the empty one.
func list[T ~string](values []T) string {
	var texts []string
	for _, v := range values {
		if v != "" {
			texts = append(texts, fmt.Sprintf("%q", string(v)))
		}
	}
	return strings.Join(texts, ", ")
}
