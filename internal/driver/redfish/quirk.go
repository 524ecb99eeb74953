package redfish

import (
	"errors"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// quirks are the ways in which a BMC differs from the schemas. The zero value has none.
type quirks struct {
	// wholeOverride: a change of the boot override must name its target, whether it is
	// for one boot, and its mode.
	wholeOverride bool
	// cdTarget is the boot source of a virtual CD; empty means Cd.
	cdTarget schemas.BootSource
}

// quirkTable has the known quirks by vendor. A vendor is recognised by the beginning of
// the Vendor of the service root or the Manufacturer of the system.
var quirkTable = []struct {
	vendor string
	quirks quirks
}{
	// Supermicro boards of the generations X11 and X12 present a virtual CD as a USB
	// device, and answer a partial boot override with an error.
	{"Supermicro", quirks{wholeOverride: true, cdTarget: schemas.BootSource("UsbCd")}},
}

// quirksOf returns the quirks of a BMC, and the vendor of their row in the table. It finds them by
// the names that the BMC gives itself. The vendor is empty when there is no row.
func quirksOf(names ...string) (vendor string, of quirks) {
	for _, row := range quirkTable {
		if slices.ContainsFunc(names, func(name string) bool {
			return len(name) >= len(row.vendor) && strings.EqualFold(name[:len(row.vendor)], row.vendor)
		}) {
			return row.vendor, row.quirks
		}
	}
	return "", quirks{}
}

// describe returns the quirks in words.
func (q quirks) describe() []string {
	var all []string
	if q.wholeOverride {
		all = append(all, "a change of the boot override names target, duration and mode")
	}
	if q.cdTarget != "" {
		all = append(all, "a virtual CD is the boot source "+string(q.cdTarget))
	}
	return all
}

// temporaryMessages are the messages, by the end of their identifier, of refusals that end by
// themselves although their status says otherwise.
var temporaryMessages = []string{
	startsMessage,
	"InvalidOperationForSystemState", // iLO: a reset while the power state changes
	"ServiceTemporarilyUnavailable",  // Base registry
	"ResourceInUse",                  // Base registry
	"CreateLimitReachedForResource",  // Base registry: others hold all sessions
	"ServiceInUnknownState",          // Base registry
	"SWC0700",                        // iDRAC: it starts and is not ready
	"SYS518",                         // iDRAC: it cannot read its data for now
}

// startsMessage is how an iLO refuses boot settings while the machine starts.
const startsMessage = "UnableToModifyDuringSystemPOST"

// temporary reports whether the messages of an answer say that a refusal will end.
func temporary(err error) bool { return saysOneOf(err, temporaryMessages) }

// emptyMessages are the messages, by the end of their identifier, with which a BMC refuses to eject
// because there is nothing to eject. Some BMCs show a medium that is not there any more.
var emptyMessages = []string{
	"NoVirtualMediaConnectionAvailable", // iLO
	"VRM0009",                           // iDRAC
}

// isEmpty reports whether a BMC refuses to eject because there is nothing to eject.
func isEmpty(err error) bool { return saysOneOf(err, emptyMessages) }

// isCommitted reports whether a BMC refuses a change of the BIOS because an earlier one waits
// for the next start of the machine.
func isCommitted(err error) bool {
	return says(err, func(info schemas.ErrExtendedInfo) bool {
		return strings.HasSuffix(info.MessageID, "SYS011") // iDRAC: the earlier one has a job
	})
}

// refusedFor reports whether a BMC refused a request because the request lacks a property, or has
// one that it should not have. The answer names the property; some BMCs name it only in the text of
// a general error.
func refusedFor(err error, property string) bool {
	var answer *schemas.Error
	return isRefusal(err) && errors.As(err, &answer) && (strings.Contains(answer.Message, property) ||
		says(err, func(info schemas.ErrExtendedInfo) bool {
			return strings.Contains(info.Message, property) ||
				slices.ContainsFunc(slices.Concat(info.RelatedProperties, info.MessageArgs), func(text string) bool { return strings.HasSuffix(text, property) })
		}))
}

// saysOneOf reports whether a BMC answered with an error that has one of the given messages. ids
// are the ends of message identifiers.
func saysOneOf(err error, ids []string) bool {
	return says(err, func(info schemas.ErrExtendedInfo) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(info.MessageID, id) })
	})
}

// says reports whether a BMC answered with an error that has such a message.
func says(err error, such func(schemas.ErrExtendedInfo) bool) bool {
	var answer *schemas.Error
	return errors.As(err, &answer) && slices.ContainsFunc(answer.ExtendedInfos, such)
}
