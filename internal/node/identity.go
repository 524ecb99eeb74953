package node

import (
	"slices"
	"strings"
)

// MachineIdentityKey is the key of driver_internal_info for the MachineIdentity. The engine reads
// it through the BMC when the node becomes manageable or is inspected.
const MachineIdentityKey = "machine_identity"

// MachineIdentity tells one machine from another, by what its BMC reports. An empty field is
// unknown.
type MachineIdentity struct {
	// UUID is the UUID of the SMBIOS system information, in lower case with hyphens.
	UUID string `json:"uuid,omitempty"`
	// SerialNumber is the serial number of the system.
	SerialNumber string `json:"serial_number,omitempty"`
}

// MachineFacts are facts that both the BMC of a machine and an operating system on the machine can
// tell. An empty field is unknown.
type MachineFacts struct {
	MachineIdentity

	// SKU is the vendor's number of the system. Some vendors put here the text that an operating
	// system gets as the serial number.
	SKU string `json:"sku,omitempty"`
	// MACAddresses are the addresses of the machine's network interfaces, in lower case.
	MACAddresses []string `json:"mac_addresses,omitempty"`
}

// NewMachineIdentity returns the identity with these values. It leaves out the placeholders of
// vendors that set no value, because many machines share them.
func NewMachineIdentity(uuid, serialNumber string) MachineIdentity {
	uuid = strings.ToLower(strings.TrimSpace(uuid))
	if isPlaceholderUUID(uuid) {
		uuid = ""
	}
	serialNumber = CutText(strings.TrimSpace(serialNumber))
	if IsPlaceholderSerial(serialNumber) {
		serialNumber = ""
	}
	return MachineIdentity{UUID: uuid, SerialNumber: serialNumber}
}

// placeholderUUIDs are the UUIDs of machines whose vendor has set none. The order of their bytes
// varies.
var placeholderUUIDs = []string{"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc"}

// isPlaceholderUUID reports whether a text is not a UUID, is one of the placeholders, or repeats
// one byte.
func isPlaceholderUUID(uuid string) bool {
	digits := uuidDigits(uuid)
	return len(digits) != 32 || strings.Count(digits, digits[:2]) == len(digits)/2 ||
		slices.ContainsFunc(placeholderUUIDs, func(known string) bool { return sameUUID(known, uuid) })
}

// placeholders are the texts, in lower case, that firmware has where its vendor has set no value.
var placeholders = []string{
	"", "chassis serial number", "default", "default string", "empty", "invalid", "n/a", "na", "none", "not available",
	"not specified", "null", "o.e.m.", "oem", "serial number", "system serial number", "to be filled by o.e.m.", "to be filled by oem",
	"unknown", "xxxxxxx", "0123456789", "123456789", "1234567890",
}

// IsPlaceholder reports whether a text of firmware is a placeholder for a value that the vendor has
// not set.
func IsPlaceholder(text string) bool {
	return slices.Contains(placeholders, strings.ToLower(strings.TrimSpace(text)))
}

// IsPlaceholderSerial reports whether a serial number is a placeholder or one character repeated.
func IsPlaceholderSerial(serial string) bool {
	serial = strings.TrimSpace(serial)
	return IsPlaceholder(serial) || strings.Count(serial, serial[:1]) == len(serial)
}

// Known reports whether any field is known.
func (i MachineIdentity) Known() bool { return i != MachineIdentity{} }

// Compare returns how the two machines differ, such as "the UUID a, not b", and "" when all known
// fields agree. If both UUIDs are known, they alone decide, because some BMCs report the serial
// number of a board as that of the system.
func (i MachineIdentity) Compare(other MachineIdentity) string {
	switch {
	case i.UUID != "" && other.UUID != "":
		if sameUUID(i.UUID, other.UUID) {
			return ""
		}
		return "the system UUID " + other.UUID + ", not " + i.UUID
	case i.SerialNumber != "" && other.SerialNumber != "" && !strings.EqualFold(i.SerialNumber, other.SerialNumber):
		return "the serial number " + other.SerialNumber + ", not " + i.SerialNumber
	}
	return ""
}

func uuidDigits(uuid string) string { return strings.ReplaceAll(uuid, "-", "") }

// Spellings returns the texts that other sources may report for the same machine: the UUID in each
// known order of its bytes, and the serial number.
func (i MachineIdentity) Spellings() []string {
	var texts []string
	for _, digits := range uuidOrders(i.UUID) {
		texts = append(texts, strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-"))
	}
	if i.SerialNumber != "" {
		texts = append(texts, i.SerialNumber)
	}
	return texts
}

// sameUUID reports whether two UUIDs are equal in any of the known orders of their bytes.
func sameUUID(a, b string) bool {
	return a == b || slices.Contains(uuidOrders(a), uuidDigits(b))
}

// uuidOrders returns the hexadecimal digits of a UUID in each order of bytes that firmware and BMCs
// are known to use: that of RFC 9562, with the first three fields reversed (SMBIOS), or with all
// bytes reversed (IPMI). It returns none for a text that is not a UUID.
func uuidOrders(uuid string) []string {
	bytes := pairs(uuidDigits(uuid))
	if len(bytes) != 16 {
		return nil
	}
	smbios := slices.Clone(bytes)
	for _, field := range [][]string{smbios[:4], smbios[4:6], smbios[6:8]} {
		slices.Reverse(field)
	}
	reversed, both := slices.Clone(bytes), slices.Clone(smbios)
	slices.Reverse(reversed)
	slices.Reverse(both)
	var orders []string
	for _, order := range [][]string{bytes, smbios, reversed, both} {
		orders = append(orders, strings.Join(order, ""))
	}
	return orders
}

// pairs splits hexadecimal digits into bytes.
func pairs(digits string) []string {
	var bytes []string
	for ; len(digits) >= 2; digits = digits[2:] {
		bytes = append(bytes, digits[:2])
	}
	return bytes
}
