package httpapi

import "slices"

// recordRoutes are the resources that clients keep beside nodes and ports, and
// what belongs to a node besides its ports.
func (a *api) recordRoutes() []route {
	return slices.Concat(
		a.chassisRoutes(), a.portgroupRoutes(), a.allocationRoutes(), a.deployTemplates().routes(), a.runbooks().routes(),
		a.volumeRoutes(), a.traitRoutes(), a.vifRoutes(),
		[]route{
			{method: get, pattern: "/v1/shards", since: 82, handler: a.listShards},
			{method: post, pattern: "/v1/events", since: 54, handler: a.postEvents},
		},
	)
}
