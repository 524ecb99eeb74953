package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// A document is one object as the engine sent it, with its decoded fields.
type document struct {
	raw    json.RawMessage
	fields map[string]any
}

func parseDocument(raw json.RawMessage) (document, error) {
	d := document{raw: raw}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&d.fields); err != nil {
		return document{}, &ironic.Error{Op: "read the answer", Kind: ironic.ErrProtocol, Message: "it is not a JSON object", Cause: err}
	}
	return d, nil
}

// labelFields are the fields that name an object to people and to other commands. The first field
// that an object has counts.
var labelFields = []string{"name", "uuid", "hostname", "id", "component"}

// label returns the name of the object for people.
func (d document) label() string {
	for _, field := range labelFields {
		if text := d.text(field); text != "" {
			return text
		}
	}
	return ""
}

// text returns the string in a field, empty if the field is missing or no string.
func (d document) text(field string) string {
	text, _ := d.fields[field].(string)
	return text
}

// cell returns the field as a table shows it. None, True and False are spelled as other clients of
// this API print them, because scripts look for them.
func (d document) cell(field string) string {
	switch value := d.fields[field].(type) {
	case nil:
		return "None"
	case bool:
		if value {
			return "True"
		}
		return "False"
	case string:
		return printable(value)
	case json.Number:
		return value.String()
	default:
		return printable(compact(value))
	}
}

func compact(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(b.String())
}

// hiddenInTables are fields with links for programs. They say nothing to people.
var hiddenInTables = map[string]bool{"links": true, "nodes": true, "ports": true, "portgroups": true, "states": true, "volume": true}

// titleWords are the words of field names that are not simply capitalised in a title.
var titleWords = map[string]string{
	"uuid": "UUID", "raid": "RAID", "bios": "BIOS", "id": "ID", "pxe": "PXE", "mac": "MAC", "cpu": "CPU", "wwn": "WWN", "hctl": "HCTL", "ipv4": "IPv4", "ipv6": "IPv6", "bmc": "BMC", "smartnic": "Smart NIC", "http": "HTTP", "usb": "USB", "provision": "Provisioning",
}

// columnTitle turns a field's name into the title of its column.
func columnTitle(field string) string {
	words := strings.Split(field, "_")
	for i, word := range words {
		switch special, ok := titleWords[word]; {
		case ok:
			words[i] = special
		case word != "":
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return printable(strings.Join(words, " "))
}
