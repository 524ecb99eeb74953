package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

const (
	// maxName is the greatest length of a name. It keeps names usable as values of labels.
	maxName = validation.LabelValueMaxLength
	// hashLength is the number of hexadecimal digits that replace a part that was cut off.
	hashLength = 6
	// uuidGuard is put before names that look like a UUID. A host must not have such a name,
	// because engine and clients treat a UUID as the identifier of a node.
	uuidGuard = "host-"
)

// errMissingDetail means that the machine does not report the detail that its name is made of, and
// that the template allows no fallback.
var errMissingDetail = errors.New("machine does not report the hardware detail that the name template uses")

// errNameInvalid means that the template's prefix or suffix makes every name invalid.
var errNameInvalid = errors.New("name is not valid for a host")

// nameFacts are the facts about a machine that its name can be made of.
type nameFacts struct {
	NodeID   string
	BootMAC  string // lower case, with colons
	Hostname string
	IP       string // without zone
	Serial   string
}

// baseName returns the name that a machine gets if no other host has it. Its errors are
// errMissingDetail and errNameInvalid.
func baseName(t discoveryv1.ResourceNameTemplate, facts nameFacts) (string, error) {
	detail := detailOf(t.HardwareDetails, facts)
	if detail == "" && t.Fallback != discoveryv1.FallbackNone {
		detail = sanitize(facts.BootMAC)
	}
	if detail == "" {
		return "", fmt.Errorf("%s: %w", t.HardwareDetails, errMissingDetail)
	}
	name := assemble(t.Prefix, detail, t.Suffix, facts.NodeID)
	if _, err := uuid.Parse(name); err == nil {
		name = assemble(uuidGuard+t.Prefix, detail, t.Suffix, facts.NodeID)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q: %w: %s", name, errNameInvalid, strings.Join(problems, "; "))
	}
	return name, nil
}

// candidateNames returns the names to try for a machine, in this order. The first one is the base
// name, which another host may already have.
func candidateNames(base string, facts nameFacts) []string {
	names := []string{base}
	if mac := strings.ReplaceAll(facts.BootMAC, ":", ""); len(mac) >= hashLength {
		names = append(names, assemble("", base, "-"+mac[len(mac)-hashLength:], facts.NodeID))
	}
	return append(names, assemble("", base, "-"+hashOf(facts.NodeID), facts.NodeID))
}

// checkTemplate returns why no name of the template can be valid, or nil.
func checkTemplate(t discoveryv1.ResourceNameTemplate) error {
	sample := nameFacts{
		NodeID: "8f4d3a52-0f5e-4c1b-9a53-4d5c7b1f2a10", BootMAC: "00:1b:21:00:00:01",
		Hostname: "h", IP: "192.0.2.1", Serial: "s1",
	}
	_, err := baseName(t, sample)
	return err
}

// readsAsUUID reports whether a host's name has the guard because it would look like a UUID
// without.
func readsAsUUID(t discoveryv1.ResourceNameTemplate, name string) bool {
	return strings.HasPrefix(name, uuidGuard) && !strings.HasPrefix(t.Prefix, uuidGuard) &&
		uuid.Validate(strings.TrimPrefix(name, uuidGuard)) == nil
}

// details says how each detail is read from the facts and turned into a part of a name.
var details = map[discoveryv1.HardwareDetail]func(nameFacts) string{
	discoveryv1.DetailHostname: func(f nameFacts) string {
		if isPlaceholder(f.Hostname) {
			return ""
		}
		label, _, _ := strings.Cut(f.Hostname, ".")
		if isPlaceholder(label) {
			return ""
		}
		return sanitize(label)
	},
	discoveryv1.DetailIP: func(f nameFacts) string { return sanitize(f.IP) },
	discoveryv1.DetailSerialNumber: func(f nameFacts) string {
		if isPlaceholder(f.Serial) || node.IsPlaceholderSerial(f.Serial) {
			return ""
		}
		return sanitize(f.Serial)
	},
	discoveryv1.DetailBootMAC:        func(f nameFacts) string { return sanitize(f.BootMAC) },
	discoveryv1.DetailProvisioningID: func(f nameFacts) string { return sanitize(f.NodeID) },
}

func detailOf(which discoveryv1.HardwareDetail, facts nameFacts) string {
	read, known := details[which]
	if !known {
		return ""
	}
	return read(facts)
}

// isPlaceholder reports whether firmware or an image left a filler text in place of a real value.
func isPlaceholder(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	return strings.Trim(text, "0-. ") == "" || text == "localhost" || text == "localhost.localdomain" || node.IsPlaceholder(text)
}

// sanitize lower-cases text and replaces each run of characters that are not legal in a name by one
// dash. The result neither begins nor ends with a dash.
func sanitize(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			b.WriteByte(c)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// assemble joins the parts of a name. If the name would be too long, a hash of the node's ID
// replaces the end of the middle part.
func assemble(prefix, middle, suffix, nodeID string) string {
	if len(prefix)+len(middle)+len(suffix) > maxName {
		room := max(maxName-len(prefix)-len(suffix)-len("-")-hashLength, 0)
		middle = strings.TrimRight(middle[:min(room, len(middle))], "-.") + "-" + hashOf(nodeID)
		if room == 0 {
			middle = hashOf(nodeID)
		}
	}
	return prefix + middle + suffix
}

func hashOf(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return hex.EncodeToString(sum[:])[:hashLength]
}
