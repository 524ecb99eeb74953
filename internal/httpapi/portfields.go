package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

type portField = field[node.Port]

// portTable is every field of a port, in the order of output.
var portTable = newTable("port", []portField{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(p *node.Port) *string { return &p.UUID })},
	{name: "address", since: 1, access: patchable, brief: true, value: addressValue},
	{name: "node_uuid", since: 1, access: patchable, noSort: true, value: uuidOf(func(p *node.Port) *string { return &p.NodeUUID })},
	{name: "node_ident", since: 94, access: atCreate, noSort: true, instead: "node_uuid", value: identOf(func(p *node.Port) *string { return &p.NodeUUID })},
	{name: "name", since: portNamesSince, access: patchable, value: textOf(func(p *node.Port) *string { return &p.Name })},
	{name: "description", since: 97, access: patchable, value: textOf(func(p *node.Port) *string { return &p.Description })},
	{name: "vendor", since: 100, access: patchable, value: textUpTo(32, func(p *node.Port) *string { return &p.Vendor })},
	{name: "category", since: 101, access: patchable, value: textUpTo(80, func(p *node.Port) *string { return &p.Category })},
	{name: "portgroup_uuid", since: 24, access: patchable, noSort: true, value: uuidOf(func(p *node.Port) *string { return &p.PortgroupUUID })},
	{name: "pxe_enabled", since: 19, access: patchable, value: flagWithDefault(true, func(p *node.Port) *bool { return &p.PXEEnabled })},
	{name: "physical_network", since: 34, access: patchable, value: textUpTo(64, func(p *node.Port) *string { return &p.PhysicalNetwork })},
	{name: "is_smartnic", since: 53, access: patchable, value: flagOf(func(p *node.Port) *bool { return &p.IsSmartNIC })},
	{name: "local_link_connection", since: 19, access: patchable, noSort: true, value: objectOf(func(p *node.Port) *node.Object { return &p.LocalLinkConnection })},
	{name: "internal_info", since: 18, noSort: true, value: secretOf(func(p *node.Port) *node.Object { return &p.InternalInfo })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(p *node.Port) *node.Object { return &p.Extra })},
	{name: "created_at", since: 1, value: timeOf(func(p *node.Port) *time.Time { return &p.CreatedAt })},
	{name: "updated_at", since: 1, value: timeOf(func(p *node.Port) *time.Time { return &p.UpdatedAt })},
	{name: "links", since: 1, brief: true, noSort: true, value: computed(func(dst []byte, v *view, p *node.Port) []byte {
		return v.links.appendLinks(dst, "ports/", p.UUID, "")
	})},
})

// addressValue is a MAC address in lower case with colons. It is never null.
var addressValue = value[node.Port]{
	append: func(dst []byte, _ *view, p *node.Port) []byte { return appendString(dst, p.Address) },
	read: func(p *node.Port, raw json.RawMessage) error {
		text, err := readText(raw, maxText)
		if err != nil {
			return err
		}
		mac, ok := node.ParseMAC(text)
		if !ok {
			return fmt.Errorf("want a MAC address, got %q", text)
		}
		p.Address = mac
		return nil
	},
}
