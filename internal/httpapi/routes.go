package httpapi

import (
	"net/http"

	"github.com/ingot-metal/ingot/internal/role"
)

const healthPath = "/healthcheck"

// Short names keep a route on one line.
const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete

	reader   = role.Reader
	operator = role.Operator
	admin    = role.Admin
)

// routes returns every route of the API. A route newer than maxVersion is hidden from every
// request.
//
// The roles follow three rules. A reader may read. An operator may also change everything, but may
// not delete records; maintenance, media, traits and VIFs are not records but parts of a node. Only
// an administrator may call vendor methods, because no table says what they do.
func (a *api) routes() []route {
	var all []route
	for _, part := range [][]route{
		a.serviceRoutes(), a.nodeRoutes(), a.nodeControlRoutes(), a.nodePartRoutes(),
		a.portRoutes(), a.driverRoutes(), a.ramdiskRoutes(), a.collectionRoutes(), a.suspensionRoutes(),
	} {
		all = append(all, part...)
	}
	return all
}

func (a *api) serviceRoutes() []route {
	return []route{
		{method: get, pattern: "/", public: true, handler: a.showRoot},
		{method: get, pattern: "/v1", public: true, handler: a.showVersion},
		{method: get, pattern: healthPath, public: true, handler: a.showHealth},
	}
}

func (a *api) nodeRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes", role: reader, args: nodeListArgs(), handler: a.listNodes},
		{method: get, pattern: "/v1/nodes/detail", role: reader, args: nodeListArgs(), handler: a.listNodesDetail},
		{method: post, pattern: "/v1/nodes", role: operator, handler: a.createNode},
		{method: get, pattern: "/v1/nodes/{ident}", role: reader, args: []string{"fields"}, handler: a.showNode},
		{method: patch, pattern: "/v1/nodes/{ident}", role: operator, args: []string{"reset_interfaces"}, handler: a.patchNode},
		{method: remove, pattern: "/v1/nodes/{ident}", role: admin, handler: a.deleteNode},
		{method: get, pattern: "/v1/nodes/{ident}/states", role: reader, handler: a.showNodeStates},
		{method: put, pattern: "/v1/nodes/{ident}/states/provision", role: operator, handler: a.provisionNode},
		{method: put, pattern: "/v1/nodes/{ident}/maintenance", role: operator, handler: a.startMaintenance},
		{method: remove, pattern: "/v1/nodes/{ident}/maintenance", role: operator, handler: a.endMaintenance},
		{method: get, pattern: "/v1/nodes/{ident}/inventory", role: reader, since: 81, handler: a.showInventory},
		{method: get, pattern: "/v1/nodes/{ident}/children", role: reader, since: 83, handler: a.listChildren},
		{method: get, pattern: "/v1/nodes/{ident}/ports", role: reader, args: partPortArgs, handler: a.listNodePorts},
		{method: get, pattern: "/v1/nodes/{ident}/ports/detail", role: reader, args: partPortArgs, handler: a.listNodePortsDetail},
	}
}

// nodeControlRoutes read and change the machine behind a node.
func (a *api) nodeControlRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes/{ident}/validate", role: reader, handler: a.validateNode},
		{method: put, pattern: "/v1/nodes/{ident}/states/power", role: operator, handler: a.setPower},
		{method: put, pattern: "/v1/nodes/{ident}/states/raid", role: operator, since: 12, below: http.StatusNotAcceptable, handler: a.setRAID},
		{method: put, pattern: "/v1/nodes/{ident}/states/boot_mode", role: operator, since: 76, handler: a.setBootMode},
		{method: put, pattern: "/v1/nodes/{ident}/states/secure_boot", role: operator, since: 76, handler: a.setSecureBoot},
		{method: get, pattern: "/v1/nodes/{ident}/states/console", role: operator, handler: a.showConsole},
		{method: put, pattern: "/v1/nodes/{ident}/states/console", role: operator, handler: a.setConsole},
		{method: get, pattern: "/v1/nodes/{ident}/management/boot_device", role: reader, handler: a.showBootDevice},
		{method: put, pattern: "/v1/nodes/{ident}/management/boot_device", role: operator, handler: a.setBootDevice},
		{method: get, pattern: "/v1/nodes/{ident}/management/boot_device/supported", role: reader, handler: a.showBootDevices},
		{method: put, pattern: "/v1/nodes/{ident}/management/inject_nmi", role: operator, since: 29, handler: a.injectNMI},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators", role: reader, since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators/{component}", role: reader, since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators/{component}/{name}", role: reader, since: 63, handler: a.noIndicators},
		{method: put, pattern: "/v1/nodes/{ident}/management/indicators/{component}/{name}", role: operator, since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru/methods", role: reader, handler: a.listVendorMethods},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callVendor},
		{method: post, pattern: "/v1/nodes/{ident}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callVendor},
		{method: put, pattern: "/v1/nodes/{ident}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callVendor},
		{method: patch, pattern: "/v1/nodes/{ident}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callVendor},
		{method: remove, pattern: "/v1/nodes/{ident}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callVendor},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", role: admin, handler: a.callVendor},
		{method: post, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", role: admin, handler: a.callVendor},
		{method: put, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", role: admin, handler: a.callVendor},
		{method: patch, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", role: admin, handler: a.callVendor},
		{method: remove, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", role: admin, handler: a.callVendor},
	}
}

// nodePartRoutes read and change the hardware data, the history and the media of a
// node.
func (a *api) nodePartRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes/{ident}/bios", role: reader, since: 40, args: []string{"detail", "fields"}, handler: a.listBIOS},
		{method: get, pattern: "/v1/nodes/{ident}/bios/{setting}", role: reader, since: 40, handler: a.showBIOS},
		{method: get, pattern: "/v1/nodes/{ident}/history", role: reader, since: 78, args: []string{"detail", "limit", "marker"}, handler: a.listHistory},
		{method: get, pattern: "/v1/nodes/{ident}/history/detail", role: reader, since: 78, args: []string{"limit", "marker"}, handler: a.listHistoryDetail},
		{method: get, pattern: "/v1/nodes/{ident}/history/{uuid}", role: reader, since: 78, handler: a.showEvent},
		{method: get, pattern: "/v1/nodes/{ident}/firmware", role: reader, since: firmwareSince, args: []string{"detail", "fields"}, handler: a.listFirmware},
		{method: post, pattern: "/v1/nodes/{ident}/vmedia", role: operator, since: 89, handler: a.attachMedium},
		{method: remove, pattern: "/v1/nodes/{ident}/vmedia", role: operator, since: 89, args: []string{"device_types"}, handler: a.detachMedia},
		{method: get, pattern: "/v1/nodes/{ident}/vmedia", role: reader, since: 93, handler: a.listMedia},
	}
}

func (a *api) portRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/ports", role: reader, args: portListArgs, handler: a.listPorts},
		{method: get, pattern: "/v1/ports/detail", role: reader, args: portListArgs, handler: a.listPortsDetail},
		{method: post, pattern: "/v1/ports", role: operator, handler: a.createPort},
		{method: get, pattern: "/v1/ports/{uuid}", role: reader, args: []string{"fields"}, handler: a.showPort},
		{method: patch, pattern: "/v1/ports/{uuid}", role: operator, handler: a.patchPort},
		{method: remove, pattern: "/v1/ports/{uuid}", role: admin, handler: a.deletePort},
	}
}

func (a *api) driverRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/drivers", role: reader, args: []string{"type", "detail", "fields"}, handler: a.listDrivers},
		{method: get, pattern: "/v1/drivers/{name}", role: reader, args: []string{"fields"}, handler: a.showDriver},
		{method: get, pattern: "/v1/drivers/{name}/properties", role: reader, handler: a.showDriverProperties},
		{method: get, pattern: "/v1/drivers/{name}/raid/logical_disk_properties", role: reader, since: 12, below: http.StatusNotAcceptable, handler: a.showLogicalDiskProperties},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru/methods", role: reader, handler: a.listDriverMethods},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callDriverVendor},
		{method: post, pattern: "/v1/drivers/{name}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callDriverVendor},
		{method: put, pattern: "/v1/drivers/{name}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callDriverVendor},
		{method: patch, pattern: "/v1/drivers/{name}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callDriverVendor},
		{method: remove, pattern: "/v1/drivers/{name}/vendor_passthru", role: admin, args: []string{"method"}, handler: a.callDriverVendor},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", role: admin, handler: a.callDriverVendor},
		{method: post, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", role: admin, handler: a.callDriverVendor},
		{method: put, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", role: admin, handler: a.callDriverVendor},
		{method: patch, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", role: admin, handler: a.callDriverVendor},
		{method: remove, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", role: admin, handler: a.callDriverVendor},
		{method: get, pattern: "/v1/conductors", role: reader, since: 49, args: conductorListArgs, handler: a.listConductors},
		{method: get, pattern: "/v1/conductors/{hostname}", role: reader, since: 49, args: []string{"fields"}, handler: a.showConductor},
	}
}

// ramdiskRoutes serve unauthenticated machines.
func (a *api) ramdiskRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/lookup", public: true, since: 22, args: []string{"addresses", "node_uuid"}, handler: a.ramdiskMiddleware(a.agents.bounded(nodeOfQuery, a.lookup))},
		{method: post, pattern: "/v1/heartbeat/{ident}", public: true, since: 22, handler: a.ramdiskMiddleware(a.agents.bounded(nodeOfPath, a.heartbeat))},
		{
			method: post, pattern: "/v1/continue_inspection", public: true, since: 84, orUnversioned: true,
			args: []string{"node_uuid"}, handler: a.ramdiskMiddleware(a.inspections.bounded(nodeOfQuery, a.continueInspection)),
		},
	}
}
