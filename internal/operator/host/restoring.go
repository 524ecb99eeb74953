package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// restoring copies the status from an annotation into a host that
// was never reconciled: discovery created it, or it was moved from another cluster.
type restoring struct {
	data hardwareData
}

func (p restoring) reconcile(ctx context.Context, s *scope) (result, error) {
	text, there := s.host.Annotations[v1alpha1.StatusAnnotation]
	if !there {
		return result{}, nil
	}
	delete(s.host.Annotations, v1alpha1.StatusAnnotation)
	if s.host.Status.LastUpdated != nil {
		return result{}, nil
	}
	status, err := decodeStatus(text)
	if err != nil {
		s.warn(eventInvalidAnnotationValue, "Annotation %s is ignored: %v", v1alpha1.StatusAnnotation, err)
		return result{}, nil
	}
	details, err := p.data.read(ctx, s.host)
	if err != nil {
		return result{}, err
	}
	if details != nil {
		status.HardwareDetails = details
	}
	s.host.Status = *status
	return result{}, nil
}

// knownStatuses and knownErrors are what the schema allows; anything else would
// make the API server refuse the status.
var (
	knownStatuses = []v1alpha1.OperationalStatus{
		v1alpha1.OperationalStatusNone, v1alpha1.OperationalStatusOK, v1alpha1.OperationalStatusDiscovered,
		v1alpha1.OperationalStatusError, v1alpha1.OperationalStatusDelayed, v1alpha1.OperationalStatusDetached,
		v1alpha1.OperationalStatusServicing,
	}
	knownErrors = []v1alpha1.ErrorType{
		v1alpha1.ErrorNone, v1alpha1.ErrorProvisionedRegistration, v1alpha1.ErrorRegistration, v1alpha1.ErrorInspection,
		v1alpha1.ErrorPreparation, v1alpha1.ErrorProvisioning, v1alpha1.ErrorPowerManagement, v1alpha1.ErrorServicing,
		v1alpha1.ErrorDetach,
	}
)

// decodeStatus reads a status. Keys that it does not know are ignored, so that
// hosts can come from newer operators.
func decodeStatus(text string) (*v1alpha1.BareMetalHostStatus, error) {
	var status v1alpha1.BareMetalHostStatus
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if !slices.Contains(knownStatuses, status.OperationalStatus) {
		return nil, fmt.Errorf("operationalStatus %q is unknown", status.OperationalStatus)
	}
	if !slices.Contains(knownErrors, status.ErrorType) {
		return nil, fmt.Errorf("errorType %q is unknown", status.ErrorType)
	}
	status.Conditions = usableConditions(status.Conditions)
	return &status, nil
}

// usableConditions keeps of each type the first condition that the schema
// allows, for the times of the last changes.
func usableConditions(list []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for _, c := range list {
		known := c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown
		if c.Type != "" && c.Reason != "" && known && !c.LastTransitionTime.IsZero() && meta.FindStatusCondition(kept, c.Type) == nil {
			kept = append(kept, c)
		}
	}
	return kept
}
