package webhook

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/internal/node"
)

// Findings are what a check has found in an object.
type Findings struct {
	// Errors are reasons to refuse the object.
	Errors field.ErrorList
	// Warnings are shown to whoever writes the object.
	Warnings []string
}

// refuse adds an error about a value. The error shows the value.
func (f *Findings) refuse(path *field.Path, value any, format string, args ...any) {
	if text, ok := value.(string); ok && !showable(text) {
		value = field.OmitValueType{}
	}
	f.Errors = append(f.Errors, field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// refuseHidden adds an error about a value without showing the value.
func (f *Findings) refuseHidden(path *field.Path, format string, args ...any) {
	f.Errors = append(f.Errors, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...)))
}

// require adds an error about a missing value.
func (f *Findings) require(path *field.Path, format string, args ...any) {
	f.Errors = append(f.Errors, field.Required(path, fmt.Sprintf(format, args...)))
}

// forbid adds an error about a field that must not be set or changed.
func (f *Findings) forbid(path *field.Path, format string, args ...any) {
	f.Errors = append(f.Errors, field.Forbidden(path, fmt.Sprintf(format, args...)))
}

func (f *Findings) warn(path *field.Path, format string, args ...any) {
	f.Warnings = append(f.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// tolerate turns each error that old also has into a warning. What was wrong before must not stop
// other changes, least of all those of the operator, which writes finalizers and annotations.
func (f *Findings) tolerate(old Findings) {
	known := make(map[string]bool, len(old.Errors))
	for _, err := range old.Errors {
		known[err.Error()] = true
	}
	kept := f.Errors[:0]
	for _, err := range f.Errors {
		if known[err.Error()] {
			f.Warnings = append(f.Warnings, err.Error())
			continue
		}
		kept = append(kept, err)
	}
	f.Errors = kept
}

// answer returns the findings in the form of a validator. An error becomes an answer with status
// 422 and the path of each field.
func (f *Findings) answer(kind schema.GroupKind, name string) (admission.Warnings, error) {
	if len(f.Errors) == 0 {
		return f.Warnings, nil
	}
	return f.Warnings, apierrors.NewInvalid(kind, name, f.Errors)
}

// maxShown bounds how much of a value an error repeats, in bytes.
const maxShown = 200

// showable reports whether an error may repeat a text. A URL may have a password before an @, or a
// signature in its query.
func showable(text string) bool {
	return !strings.Contains(text, "@") && node.CutTextTo(text, maxShown) == text
}
