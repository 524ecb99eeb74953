package httpapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// localLinkKey is one key that a local_link_connection may have.
type localLinkKey struct {
	name  string
	since int // microversion 1.N
	until int // first version without the key; 0 means that every later version has it
}

var localLinkKeys = []localLinkKey{
	{"switch_id", 1, 0},
	{"port_id", 1, 0},
	{"switch_info", 1, 0},
	{"hostname", 1, 0},
	{"network_type", 64, 0},
	{"vtep-logical-switch", 90, 105},
	{"vtep-physical-switch", 90, 105},
}

// localLinkForms has the required keys of each form of a connection: a switch and its
// port, a smart NIC and its host, or a tunnel endpoint of a virtual switch.
var localLinkForms = [][]string{
	{"switch_id", "port_id"},
	{"hostname", "port_id"},
	{"vtep-logical-switch", "vtep-physical-switch", "port_id"},
}

// datapathID is the form of the ID of a virtual switch: 16 hexadecimal digits.
var datapathID = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)

// checkLocalLink returns what is wrong with a local_link_connection. A connection must be empty,
// unmanaged, or one of localLinkForms.
func checkLocalLink(link node.Object, version int) error {
	if link.IsEmpty() {
		return nil
	}
	values := link.Values()
	if err := checkLocalLinkKeys(values, version); err != nil {
		return err
	}
	switch values["network_type"] {
	case nil:
	case "unmanaged":
		return nil
	default:
		return errors.New("the only network_type is unmanaged")
	}
	complete := func(form []string) bool {
		return !slices.ContainsFunc(form, func(key string) bool { return values[key] == nil })
	}
	switch {
	case !slices.ContainsFunc(localLinkForms, complete):
		var forms []string
		for _, form := range localLinkForms {
			forms = append(forms, strings.Join(form, " and "))
		}
		return fmt.Errorf("want %s", strings.Join(forms, ", or "))
	case values["hostname"] != nil || values["switch_id"] == nil:
		return nil
	}
	id, _ := values["switch_id"].(string)
	if _, ok := node.ParseMAC(id); !ok && !datapathID.MatchString(strings.TrimPrefix(id, "0x")) {
		return fmt.Errorf("switch_id must be a MAC address or a datapath ID, got %q", id)
	}
	return nil
}

func checkLocalLinkKeys(values map[string]any, version int) error {
	for key := range values {
		i := slices.IndexFunc(localLinkKeys, func(known localLinkKey) bool { return known.name == key })
		switch {
		case i < 0:
			return fmt.Errorf("unknown key %q", node.CutText(key))
		case version < localLinkKeys[i].since || localLinkKeys[i].until != 0 && version >= localLinkKeys[i].until:
			return notAcceptable(fmt.Sprintf("The key %q of a local_link_connection", key), localLinkKeys[i].since)
		}
	}
	return nil
}
