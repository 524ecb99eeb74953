package httpapi

import (
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func connectorUUID(v *node.VolumeConnector) string { return v.UUID }

// connectorTable is every field of a volume connector, in the order of output.
var connectorTable = newTable("volume connector", []field[node.VolumeConnector]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(v *node.VolumeConnector) *string { return &v.UUID })},
	{name: "node_uuid", since: 1, access: patchable, brief: true, noSort: true, value: uuidOf(func(v *node.VolumeConnector) *string { return &v.NodeUUID })},
	{name: "type", since: 1, access: patchable, brief: true, value: textUpTo(32, func(v *node.VolumeConnector) *string { return &v.Type })},
	{name: "connector_id", since: 1, access: patchable, brief: true, value: textOf(func(v *node.VolumeConnector) *string { return &v.ConnectorID })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(v *node.VolumeConnector) *node.Object { return &v.Extra })},
}, stampsOf("volume/connectors", connectorUUID,
	func(v *node.VolumeConnector) *time.Time { return &v.CreatedAt }, func(v *node.VolumeConnector) *time.Time { return &v.UpdatedAt }))

func targetUUID(v *node.VolumeTarget) string { return v.UUID }

// targetTable is every field of a volume target, in the order of output.
var targetTable = newTable("volume target", []field[node.VolumeTarget]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(v *node.VolumeTarget) *string { return &v.UUID })},
	{name: "node_uuid", since: 1, access: patchable, brief: true, noSort: true, value: uuidOf(func(v *node.VolumeTarget) *string { return &v.NodeUUID })},
	{name: "volume_type", since: 1, access: patchable, brief: true, value: textUpTo(64, func(v *node.VolumeTarget) *string { return &v.VolumeType })},
	{name: "volume_id", since: 1, access: patchable, brief: true, value: textUpTo(36, func(v *node.VolumeTarget) *string { return &v.VolumeID })},
	{name: "boot_index", since: 1, access: patchable, brief: true, value: numberOf(func(v *node.VolumeTarget) *int64 { return &v.BootIndex })},
	{name: "properties", since: 1, access: patchable, noSort: true, value: secretOf(func(v *node.VolumeTarget) *node.Object { return &v.Properties })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(v *node.VolumeTarget) *node.Object { return &v.Extra })},
}, stampsOf("volume/targets", targetUUID,
	func(v *node.VolumeTarget) *time.Time { return &v.CreatedAt }, func(v *node.VolumeTarget) *time.Time { return &v.UpdatedAt }))

var volumeFilters = []filter{{name: "node", since: 1, find: nodeFilter}}

func (a *api) volumeConnectors() *collection[node.VolumeConnector] {
	return &collection[node.VolumeConnector]{
		api: a, table: connectorTable, path: "volume/connectors", name: "connectors", since: volumesSince,
		filters: volumeFilters, all: Engine.VolumeConnectors, uuid: connectorUUID,
		check: func(v *node.VolumeConnector, _ int) error {
			return needAll("volume connector", required{"node_uuid", v.NodeUUID}, required{"type", v.Type}, required{"connector_id", v.ConnectorID})
		},
	}
}

func (a *api) volumeTargets() *collection[node.VolumeTarget] {
	return &collection[node.VolumeTarget]{
		api: a, table: targetTable, path: "volume/targets", name: "targets", since: volumesSince,
		filters: volumeFilters, all: Engine.VolumeTargets, uuid: targetUUID,
		defaults: func() *node.VolumeTarget { return &node.VolumeTarget{BootIndex: -1} },
		restore: func(old, changed *node.VolumeTarget) (err error) {
			changed.Properties, err = restoreMasked("properties", old.Properties, changed.Properties)
			return err
		},
		check: func(v *node.VolumeTarget, _ int) error {
			if v.BootIndex < 0 {
				return node.Invalid("A volume target needs a boot_index.")
			}
			return needAll("volume target", required{"node_uuid", v.NodeUUID}, required{"volume_type", v.VolumeType}, required{"volume_id", v.VolumeID})
		},
	}
}

// required is a required field of a record.
type required struct{ name, value string }

// needAll refuses a record that lacks one of the required fields.
func needAll(kind string, fields ...required) error {
	for _, f := range fields {
		if f.value == "" {
			return node.Invalid("A %s needs a %s.", kind, f.name)
		}
	}
	return nil
}

// volumesSince is the microversion 1.N that introduced volume connectors and targets.
const volumesSince = 32

// volumeRoutes are the routes of volume connectors and targets, and of those of a node.
func (a *api) volumeRoutes() []route {
	connectors, targets := a.volumeConnectors(), a.volumeTargets()
	routes := append(connectors.routes(), targets.routes()...)
	args := filterArgs(volumeFilters)
	return append(routes,
		route{method: get, pattern: "/v1/volume", role: reader, since: volumesSince, handler: a.showVolume},
		route{method: get, pattern: "/v1/nodes/{ident}/volume", role: reader, since: volumesSince, handler: a.showNodeVolume},
		route{method: get, pattern: "/v1/nodes/{ident}/volume/connectors", role: reader, since: volumesSince, args: args, handler: connectors.ofNode(false)},
		route{method: get, pattern: "/v1/nodes/{ident}/volume/targets", role: reader, since: volumesSince, args: args, handler: targets.ofNode(false)},
	)
}

func (a *api) showVolume(w http.ResponseWriter, r *http.Request) error {
	return writeVolume(w, r, "volume")
}

func (a *api) showNodeVolume(w http.ResponseWriter, r *http.Request) error {
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	return writeVolume(w, r, "nodes/"+n.UUID+"/volume")
}

// writeVolume answers with links to the volume connectors and targets.
func writeVolume(w http.ResponseWriter, r *http.Request, path string) error {
	c := callOf(r)
	return answerValue(w, map[string]any{
		"links":      linksOf(c, path+"/"),
		"connectors": linksOf(c, path+"/connectors"),
		"targets":    linksOf(c, path+"/targets"),
	})
}
