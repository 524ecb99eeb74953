package httpapi

import "net/http"

const healthPath = "/healthcheck"

// Short names keep a route on one line.
const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

// routes returns every route of the API. A route newer than maxVersion is hidden from
// every request.
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
		{method: get, pattern: "/", handler: a.showRoot},
		{method: get, pattern: "/v1", handler: a.showVersion},
		{method: get, pattern: healthPath, handler: a.showHealth},
	}
}

func (a *api) nodeRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes", args: nodeListArgs(), handler: a.listNodes},
		{method: get, pattern: "/v1/nodes/detail", args: nodeListArgs(), handler: a.listNodesDetail},
		{method: post, pattern: "/v1/nodes", handler: a.createNode},
		{method: get, pattern: "/v1/nodes/{ident}", args: []string{"fields"}, handler: a.showNode},
		{method: patch, pattern: "/v1/nodes/{ident}", args: []string{"reset_interfaces"}, handler: a.patchNode},
		{method: remove, pattern: "/v1/nodes/{ident}", handler: a.deleteNode},
		{method: get, pattern: "/v1/nodes/{ident}/states", handler: a.showNodeStates},
		{method: put, pattern: "/v1/nodes/{ident}/states/provision", handler: a.provisionNode},
		{method: put, pattern: "/v1/nodes/{ident}/maintenance", handler: a.startMaintenance},
		{method: remove, pattern: "/v1/nodes/{ident}/maintenance", handler: a.endMaintenance},
		{method: get, pattern: "/v1/nodes/{ident}/inventory", since: 81, handler: a.showInventory},
		{method: get, pattern: "/v1/nodes/{ident}/children", since: 83, handler: a.listChildren},
		{method: get, pattern: "/v1/nodes/{ident}/ports", args: partPortArgs, handler: a.listNodePorts},
		{method: get, pattern: "/v1/nodes/{ident}/ports/detail", args: partPortArgs, handler: a.listNodePortsDetail},
	}
}

// nodeControlRoutes read and change the machine behind a node.
func (a *api) nodeControlRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes/{ident}/validate", handler: a.validateNode},
		{method: put, pattern: "/v1/nodes/{ident}/states/power", handler: a.setPower},
		{method: put, pattern: "/v1/nodes/{ident}/states/raid", since: 12, below: http.StatusNotAcceptable, handler: a.setRAID},
		{method: put, pattern: "/v1/nodes/{ident}/states/boot_mode", since: 76, handler: a.setBootMode},
		{method: put, pattern: "/v1/nodes/{ident}/states/secure_boot", since: 76, handler: a.setSecureBoot},
		{method: get, pattern: "/v1/nodes/{ident}/states/console", handler: a.showConsole},
		{method: put, pattern: "/v1/nodes/{ident}/states/console", handler: a.setConsole},
		{method: get, pattern: "/v1/nodes/{ident}/management/boot_device", handler: a.showBootDevice},
		{method: put, pattern: "/v1/nodes/{ident}/management/boot_device", handler: a.setBootDevice},
		{method: get, pattern: "/v1/nodes/{ident}/management/boot_device/supported", handler: a.showBootDevices},
		{method: put, pattern: "/v1/nodes/{ident}/management/inject_nmi", since: 29, handler: a.injectNMI},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators", since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators/{component}", since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/management/indicators/{component}/{name}", since: 63, handler: a.noIndicators},
		{method: put, pattern: "/v1/nodes/{ident}/management/indicators/{component}/{name}", since: 63, handler: a.noIndicators},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru/methods", handler: a.listVendorMethods},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru", args: []string{"method"}, handler: a.callVendor},
		{method: post, pattern: "/v1/nodes/{ident}/vendor_passthru", args: []string{"method"}, handler: a.callVendor},
		{method: put, pattern: "/v1/nodes/{ident}/vendor_passthru", args: []string{"method"}, handler: a.callVendor},
		{method: patch, pattern: "/v1/nodes/{ident}/vendor_passthru", args: []string{"method"}, handler: a.callVendor},
		{method: remove, pattern: "/v1/nodes/{ident}/vendor_passthru", args: []string{"method"}, handler: a.callVendor},
		{method: get, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", handler: a.callVendor},
		{method: post, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", handler: a.callVendor},
		{method: put, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", handler: a.callVendor},
		{method: patch, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", handler: a.callVendor},
		{method: remove, pattern: "/v1/nodes/{ident}/vendor_passthru/{method}", handler: a.callVendor},
	}
}

// nodePartRoutes read and change the hardware data, the history and the media of a
// node.
func (a *api) nodePartRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/nodes/{ident}/bios", since: 40, args: []string{"detail", "fields"}, handler: a.listBIOS},
		{method: get, pattern: "/v1/nodes/{ident}/bios/{setting}", since: 40, handler: a.showBIOS},
		{method: get, pattern: "/v1/nodes/{ident}/history", since: 78, args: []string{"detail", "limit", "marker"}, handler: a.listHistory},
		{method: get, pattern: "/v1/nodes/{ident}/history/detail", since: 78, args: []string{"limit", "marker"}, handler: a.listHistoryDetail},
		{method: get, pattern: "/v1/nodes/{ident}/history/{uuid}", since: 78, handler: a.showEvent},
		{method: get, pattern: "/v1/nodes/{ident}/firmware", since: 86, handler: a.listFirmware},
		{method: post, pattern: "/v1/nodes/{ident}/vmedia", since: 89, handler: a.attachMedium},
		{method: remove, pattern: "/v1/nodes/{ident}/vmedia", since: 89, args: []string{"device_types"}, handler: a.detachMedia},
		{method: get, pattern: "/v1/nodes/{ident}/vmedia", since: 93, handler: a.listMedia},
	}
}

func (a *api) portRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/ports", args: portListArgs, handler: a.listPorts},
		{method: get, pattern: "/v1/ports/detail", args: portListArgs, handler: a.listPortsDetail},
		{method: post, pattern: "/v1/ports", handler: a.createPort},
		{method: get, pattern: "/v1/ports/{uuid}", args: []string{"fields"}, handler: a.showPort},
		{method: patch, pattern: "/v1/ports/{uuid}", handler: a.patchPort},
		{method: remove, pattern: "/v1/ports/{uuid}", handler: a.deletePort},
	}
}

func (a *api) driverRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/drivers", args: []string{"type", "detail", "fields"}, handler: a.listDrivers},
		{method: get, pattern: "/v1/drivers/{name}", args: []string{"fields"}, handler: a.showDriver},
		{method: get, pattern: "/v1/drivers/{name}/properties", handler: a.showDriverProperties},
		{method: get, pattern: "/v1/drivers/{name}/raid/logical_disk_properties", since: 12, below: http.StatusNotAcceptable, handler: a.showLogicalDiskProperties},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru/methods", handler: a.listDriverMethods},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru", args: []string{"method"}, handler: a.callDriverVendor},
		{method: post, pattern: "/v1/drivers/{name}/vendor_passthru", args: []string{"method"}, handler: a.callDriverVendor},
		{method: put, pattern: "/v1/drivers/{name}/vendor_passthru", args: []string{"method"}, handler: a.callDriverVendor},
		{method: patch, pattern: "/v1/drivers/{name}/vendor_passthru", args: []string{"method"}, handler: a.callDriverVendor},
		{method: remove, pattern: "/v1/drivers/{name}/vendor_passthru", args: []string{"method"}, handler: a.callDriverVendor},
		{method: get, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", handler: a.callDriverVendor},
		{method: post, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", handler: a.callDriverVendor},
		{method: put, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", handler: a.callDriverVendor},
		{method: patch, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", handler: a.callDriverVendor},
		{method: remove, pattern: "/v1/drivers/{name}/vendor_passthru/{method}", handler: a.callDriverVendor},
		{method: get, pattern: "/v1/conductors", since: 49, args: conductorListArgs, handler: a.listConductors},
		{method: get, pattern: "/v1/conductors/{hostname}", since: 49, args: []string{"fields"}, handler: a.showConductor},
	}
}

// ramdiskRoutes serve unauthenticated machines.
func (a *api) ramdiskRoutes() []route {
	return []route{
		{method: get, pattern: "/v1/lookup", since: 22, args: []string{"addresses", "node_uuid"}, handler: a.ramdiskMiddleware(a.agents.bounded(nodeOfQuery, a.lookup))},
		{method: post, pattern: "/v1/heartbeat/{ident}", since: 22, handler: a.ramdiskMiddleware(a.agents.bounded(nodeOfPath, a.heartbeat))},
		{
			method: post, pattern: "/v1/continue_inspection", since: 84, orUnversioned: true,
			args: []string{"node_uuid"}, handler: a.ramdiskMiddleware(a.inspections.bounded(nodeOfQuery, a.continueInspection)),
		},
	}
}
