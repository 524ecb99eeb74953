package redact

import (
	"slices"
	"strings"
)

// class is a kind of secret.
type class int

const (
	open       class = iota // no secret
	credential              // of an account, or of whatever can be unlocked
	name                    // of a user
	identity                // of a machine or a part of it
	address                 // MAC addresses and other addresses of hexadecimal digits
	host                    // name of a computer
	place                   // where a machine is, and whom it belongs to
)

// keyRow says which properties have secrets of a class. Their names contain one of the parts, or
// are one of the words. Case and punctuation do not matter.
type keyRow struct {
	class        class
	parts, words []string
}

// keyTable is searched from the top.
var keyTable = []keyRow{
	{credential, []string{
		"password", "passphrase", "secret", "token", "community", "credential", "privatekey", "publickey", "hostkey", "sshkey",
		"encryptionkey", "authenticationkey", "apikey", "accesskey", "licensekey", "licensestring", "activationkey", "certificatestring",
	}, []string{"pin", "otp", "license"}},
	{name, []string{"username", "loginname", "accountname", "emailaddress"}, []string{"createdby", "email", "login", "user"}},
	{address, []string{"macaddress", "wwpn", "wwnn", "wwname", "networkaddresses"}, []string{"wwn", "mac", "permanentaddress", "currentaddress"}},
	{identity, []string{
		"serialnumber", "serialno", "servicetag", "assettag", "servicecode", "uuid", "guid", "durablename", "nodeid", "licensenumber",
		"entitlementid", "iqn", "initiatorname", "targetname",
	}, []string{"sku", "serial"}},
	{host, []string{
		"hostname", "fqdn", "domainname", "dnsname", "nameserver", "ntpserver", "dnsserver", "serveraddress", "smtpserver", "syslogserver", "qualifieddomain",
	}, []string{"server", "servers", "destination", "domain"}},
	{place, []string{"postaladdress", "contactname", "datacenter"}, []string{
		"rack", "row", "room", "building", "aisle", "contact", "location", "latitude", "longitude", "altitude", "street", "city", "postalcode",
		"territory", "houseno", "owner", "department", "locationtext",
	}},
}

// settings are endings of the names of properties that say how secrets are handled.
var settings = []string{
	"status", "state", "type", "mode", "policy", "enabled", "required", "supported", "format", "length", "control", "protocol", "algorithm", "count",
}

// classOf returns the class of a property's values. It is open for annotations and actions.
func classOf(property string) class {
	if strings.ContainsAny(property, "@#") {
		return open
	}
	bare := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, property)
	if slices.ContainsFunc(settings, func(ending string) bool { return strings.HasSuffix(bare, ending) }) {
		return open
	}
	for _, row := range keyTable {
		if slices.Contains(row.words, bare) || slices.ContainsFunc(row.parts, func(part string) bool { return strings.Contains(bare, part) }) {
			return row.class
		}
	}
	return open
}

// isVersion reports whether the values of a property are versions, which may look like
// addresses.
func isVersion(property string) bool {
	lower := strings.ToLower(property)
	return strings.Contains(lower, "version") || strings.Contains(lower, "revision") || strings.Contains(lower, "release")
}

// placeholders are values that mean "no value", in lower case. Drivers know them.
var placeholders = []string{
	"n/a", "na", "none", "null", "nil", "unknown", "empty", "not available", "not specified", "not applicable", "undefined", "default string", "default",
	"to be filled by o.e.m.", "system serial number", "chassis serial number", "o.e.m.", "oem", "localhost", "no asset tag", "asset tag",
	"0123456789", "123456789", "1234567890", "true", "false", "enabled", "disabled",
	"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc",
}

// isPlaceholder reports whether a value means "no value".
func isPlaceholder(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-:. _/*", r) {
			return -1
		}
		return r
	}, value)
	return digits == "" || slices.Contains(placeholders, value) || strings.Count(digits, digits[:1]) == len(digits)
}
