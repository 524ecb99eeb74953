package classification

import (
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// counts are numbers of hosts in a namespace.
type counts struct {
	// labels has the numbers of hosts with a label, by its key.
	labels map[string]int
	// known is the number of hosts whose hardware is known.
	known int
	// failed has the numbers of hosts with an error, by its type. errors is their sum.
	failed map[v1alpha1.ErrorType]int
	errors int
}

// count counts hosts. Hosts that are being deleted count only if they have an error.
func count(hosts []v1alpha1.BareMetalHost, hardware map[string]*v1alpha1.HardwareDetails) counts {
	c := counts{labels: map[string]int{}, failed: map[v1alpha1.ErrorType]int{}}
	for i := range hosts {
		h := &hosts[i]
		if kind := h.Status.ErrorType; kind != v1alpha1.ErrorNone {
			c.failed[kind]++
			c.errors++
		}
		if h.DeletionTimestamp.IsZero() && hardware[h.Name] != nil {
			c.known++
		}
		for key := range h.Labels {
			if isOurs(key) && h.DeletionTimestamp.IsZero() {
				c.labels[key]++
			}
		}
	}
	return c
}

// statusOf returns the status of a profile.
func (c counts) statusOf(p *v1alpha1.HardwareClassification, failed failure) v1alpha1.HardwareClassificationStatus {
	matched := c.labels[v1alpha1.ClassificationLabelPrefix+p.Name]
	status := v1alpha1.HardwareClassificationStatus{
		MatchedCount: matched, UnmatchedCount: max(c.known-matched, 0), ErrorHosts: c.errors,
		ErrorType: failed.kind, ErrorMessage: failed.text,
		RegistrationErrorHosts:            c.failed[v1alpha1.ErrorRegistration],
		IntrospectionErrorHosts:           c.failed[v1alpha1.ErrorInspection],
		ProvisioningErrorHosts:            c.failed[v1alpha1.ErrorProvisioning],
		PowerMgmtErrorHosts:               c.failed[v1alpha1.ErrorPowerManagement],
		ProvisionedRegistrationErrorHosts: c.failed[v1alpha1.ErrorProvisionedRegistration],
		PreparationErrorHosts:             c.failed[v1alpha1.ErrorPreparation],
		DetachErrorHosts:                  c.failed[v1alpha1.ErrorDetach],
	}
	switch {
	case matched > 0:
		status.ProfileMatchStatus = v1alpha1.ProfileMatched
	case c.known > 0:
		status.ProfileMatchStatus = v1alpha1.ProfileUnmatched
	default:
		status.ProfileMatchStatus = v1alpha1.ProfileNoHosts
	}
	switch {
	case !restricts(p.Spec.HardwareCharacteristics):
		status.ErrorType = v1alpha1.ClassificationErrorEmpty
		status.ErrorMessage = "spec.hardwareCharacteristics restricts nothing, so that no host is labelled; set at least one characteristic"
	case len(p.Name) > longestName:
		status.ErrorType = v1alpha1.ClassificationErrorLabelUpdate
		status.ErrorMessage = fmt.Sprintf("the name has %d characters and cannot be in the key of a label; create a classification with at most %d", len(p.Name), longestName)
	}
	return status
}
