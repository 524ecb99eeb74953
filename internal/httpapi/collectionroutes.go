package httpapi

import "slices"

// collectionRoutes are the routes of all resources besides nodes and ports, and of the
// traits and VIFs of a node.
func (a *api) collectionRoutes() []route {
	return slices.Concat(
		a.chassisRoutes(), a.portgroupRoutes(), a.allocationRoutes(), a.deployTemplates().routes(), a.runbooks().routes(),
		a.volumeRoutes(), a.traitRoutes(), a.vifRoutes(),
		[]route{
			{method: get, pattern: "/v1/shards", role: reader, since: 82, handler: a.listShards},
			{method: post, pattern: "/v1/events", role: operator, since: 54, handler: a.postEvents},
		},
	)
}
