package httpapi

import (
	"fmt"
	"strings"
)

// apiPage returns the text of docs/api.md.
func apiPage() string {
	var page strings.Builder
	oldest, newest := versionText[minVersion], versionText[maxVersion]
	fmt.Fprintf(&page, `<!-- Generated from the tables of internal/httpapi and internal/node; run go generate ./internal/httpapi. -->

# The Bare Metal API of the engine

Any client of OpenStack's Bare Metal API v1 can use an engine. This page lists routes,
fields and verbs with the versions that introduced them.
[The reference](https://docs.openstack.org/api-ref/baremetal/) says what the fields mean.
[status.md](status.md) lists what is missing.

## Versions

The engine supports the versions %s to %s. A request names its version in a header. A
request without one has version %s. The answer has the version that was used and the
supported range.

`+"```"+`console
$ curl -H 'X-OpenStack-Ironic-API-Version: %s' http://127.0.0.1:6385/v1/nodes
$ curl -H 'OpenStack-API-Version: baremetal latest' http://127.0.0.1:6385/v1/nodes
`+"```"+`

- A version outside the range is a 406. "latest" means %s.
- "Since" in the tables is the version that introduced the row. "Before" is the status
  that older requests get.
- A request that names a newer field, filter or key is a 406. Answers omit newer fields.
- Paths below /ingot are Ingot's own and the same in every version.

## Roles

"Role" is the least role that a request needs. Each role may do what the roles before it
may; a request of another user is a 403. [security.md](security.md#roles) says who has
which role.

| Role | May |
|---|---|
| none | send the requests without a role, which need no password |
| reader | read; secrets are masked and `+"`driver_info`"+` is empty |
| operator | create and change, and run verbs, power and maintenance; reads what a reader does |
| admin | everything: delete records, read and write `+"`driver_info`"+`, call vendor methods |

In the tables of fields, "Role" is the least role that reads and writes the field. Others
read {}, and a request that names it in a POST or a PATCH is a 403, so nobody empties it by
writing back what was read.

## Routes

"{ident}" is a UUID, or a name if the resource has one. "Success" is the status of a
successful answer. 202 means that the request is accepted: poll the node until its
`+"`target_provision_state` or `target_power_state`"+` is null, then read its
`+"`last_error`"+`. A vendor method answers 200 with its result, or 202 when it still runs.
Ingot adds one of a hardware type, [identify](redfish.md#which-machine-it-is). "–" marks routes that never succeed in this engine.
`, oldest, newest, oldest, newest, newest)
	writeRoutes(&page)
	fmt.Fprintf(&page, `
## Lists

| Argument | Since | Meaning |
|---|---|---|
| `+"`limit`"+` | %[1]s | Items of a page; default and maximum %[5]d. |
| `+"`marker`"+` | %[1]s | The UUID of the last item of the previous page; for conductors the host name. |
| `+"`sort_key`"+` | %[1]s | A field with "yes" under Sort. The default is the time of creation. |
| `+"`sort_dir`"+` | %[1]s | asc or desc. |
| `+"`fields`"+` | %[2]s (drivers: %[3]s) | The fields to show, separated by commas. It cannot be combined with detail. |
| `+"`detail`"+` | %[4]s (drivers: %[9]s; volume connectors and targets: %[10]s) | true shows all fields, false only those of the short list. |

Version %[6]s introduced `+"`include_children`"+` and `+"`parent_node`"+`, %[7]s `+"`conductor`"+`, %[9]s `+"`type`"+` of
drivers, and %[8]s `+"`reset_interfaces`"+` of a PATCH.

A full page has "next": the address of the next page with all arguments of the request.
An item must match all filters. An argument that is not in the tables is a 400, and so
is a repeated argument that takes one value.

## Fields

"Create" and "Patch": a POST or a PATCH may set the field. The engine sets the others.
"Short list": lists without detail show the field. A PATCH is a list of JSON Patch
operations (RFC 6902), at most %[11]d. Either all of them take effect, or none.
`, oldest, versionText[fieldsSince], versionText[driverFieldsSince], versionText[detailSince], maxPage,
		versionText[parentSince], versionText[conductorSince], versionText[resetSince],
		versionText[dynamicDriversSince], versionText[volumesSince], maxPatchOps)
	writeAllFields(&page)
	page.WriteString(`
## Provision verbs

` + "`PUT /v1/nodes/{ident}/states/provision`" + ` with ` + "`{\"target\": \"manage\"}`" + ` starts a verb. In a
state that does not allow the verb it is a 400, and while a conductor works on the node
a 409. A version in brackets introduced the verb in that state. "Then" is the state at
the end of the work that the verb starts.

`)
	writeVerbs(&page)
	page.WriteString("\nFurther keys of the body:\n\n")
	writeVerbKeys(&page)
	page.WriteString(`
A step of ` + "`clean_steps` and `service_steps` has `interface` and `step`, and may have `args`" + `
and ` + "`order`. With `execute_on_child_nodes`" + ` it runs on the node's children, one after the other,
and not on the node itself. ` + "`limit_child_node_execution`" + ` limits it to some children, by UUID or
name. A child is locked meanwhile. When the step fails on a child, the work on the node
fails. Steps that hold or wait cannot run on children.

The steps of a ` + "`runbook`" + ` run in their order. With ` + "`active` and `rebuild`" + ` they run before the steps of the
deployment. If no step needs the ramdisk, the node needs no deploy interface. With ` + "`disable_ramdisk`" + `,
a step that runs in the ramdisk is a 400.

The history of the node has every request, its user and its outcome. The engine keeps the
newest rows (` + "`conductor.history_max_entries` in [configuration.md](configuration.md)" + `).
`)
	page.WriteString("\n## Power\n\n`PUT /v1/nodes/{ident}/states/power` with `{\"target\": \"power on\"}`:\n\n")
	writePowerTargets(&page)
	fmt.Fprintf(&page, "\n`timeout` (%s) is the time that the machine may take, in seconds, at least 1.\n", versionText[softPowerSince])
	fmt.Fprintf(&page, `
## Errors

Errors are JSON. The fault is JSON text inside a JSON string, as every client of this API
expects:

`+"```json\n%s\n```"+`

For an unknown path, a wrong method and an unusable version it has three more keys:

`+"```json\n%s\n```"+`

For a body over its limit (413) there is no outer string:

`+"```json\n%s\n```"+`

| Status | Means |
|---|---|
| 400 | The request is wrong, or the state of the node does not allow it. The text says what to change. |
| 401 | The user and password are missing or wrong (`+"`http_basic`"+`). |
| 403 | The request is forbidden for this node, such as undeploying a protected node, or the route is disabled. |
| 404 | The resource does not exist, or the version does not have the route. Unauthenticated machines get it whenever the engine does not serve them. |
| 405 | The path does not have the method, or not in this version. `+"`Allow`"+` has the methods of the path. |
| 406 | The version is unusable, or too old for something that the request names. |
| 409 | The resource exists already or is in use, or a conductor works on the node. In the last case, retry after a second. |
| 413 | The body is over the limit of its route. |
| 500 | The engine failed. Its log has the reason with the request ID of the answer. |
| 503 | A limit is reached, or the database or a BMC did not answer. Retry after `+"`Retry-After`"+` seconds. |

Every answer has `+"`Openstack-Request-Id`"+`. The log has it too.
`, errorBody(faultForm), errorBody(routerForm), errorBody(bareForm))
	return page.String()
}
