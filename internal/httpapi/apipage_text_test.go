package httpapi

import (
	"fmt"
	"strings"
)

// apiPage is docs/api.md.
func apiPage() string {
	var page strings.Builder
	oldest, newest := versionText[minVersion], versionText[maxVersion]
	fmt.Fprintf(&page, `<!-- Generated from the tables of internal/httpapi and internal/node; run go generate ./internal/httpapi. -->

# The Bare Metal API of the engine

Any client of OpenStack's Bare Metal API v1 may use an engine. This page says what
there is and since which version; [the reference](https://docs.openstack.org/api-ref/baremetal/)
says what the fields mean. What is not there is in [status.md](status.md).

## Versions

The engine speaks the versions %s to %s. A request names one in a header; without one
it is served as %s. The answer names the version that was used and the range.

`+"```"+`console
$ curl -H 'X-OpenStack-Ironic-API-Version: %s' http://127.0.0.1:6385/v1/nodes
$ curl -H 'OpenStack-API-Version: baremetal latest' http://127.0.0.1:6385/v1/nodes
`+"```"+`

- A version outside of the range is a 406. "latest" is %s here.
- "Since" in the tables is the first version with a thing. "Before" is the status that
  older requests get for a route.
- A field, filter or key that is newer than the request: 406 when the request names it.
  It is left out of answers without a word.

## Routes

"{ident}" is a UUID, or the name of what has one. "Success" is the status of an
answer that tells of success. 202 means accepted: ask for the node until its
`+"`target_provision_state` or `target_power_state`"+` is null again, and read its
`+"`last_error`"+`. A vendor method answers with 200 and its result, or with 202 when it runs on.
"–" stands for routes that this engine never answers with success.
`, oldest, newest, oldest, newest, newest)
	writeRoutes(&page)
	fmt.Fprintf(&page, `
## Lists

| Argument | Since | Meaning |
|---|---|---|
| `+"`limit`"+` | %[1]s | Items of a page, at most and by default %[5]d. |
| `+"`marker`"+` | %[1]s | The UUID of the last item that the client has; for conductors the host name. |
| `+"`sort_key`"+` | %[1]s | A field with "yes" under Sort. Without it, by age. |
| `+"`sort_dir`"+` | %[1]s | asc or desc. |
| `+"`fields`"+` | %[2]s (drivers: %[3]s) | The fields to show, with commas. Not together with detail. |
| `+"`detail`"+` | %[4]s (drivers: %[9]s) | true shows all fields and not only those of the short list. |

`+"`include_children`"+` and `+"`parent_node`"+` came with %[6]s, `+"`conductor`"+` with %[7]s, `+"`type`"+` of
drivers with %[9]s, `+"`reset_interfaces`"+` of a PATCH with %[8]s.

A full page has "next", the address of the page behind it with all arguments of
the request. Filters are combined by "and". An argument that is not in the
tables is a 400, and so is one that is given twice and takes one value.

## Fields

"Create" and "Patch": whether a POST and a PATCH may name it; what neither may name is
the engine's own. "Short list": lists without detail show it. A PATCH is a list of
JSON Patch operations (RFC 6902); all of them take effect, or none.
`, oldest, versionText[fieldsSince], versionText[driverFieldsSince], versionText[detailSince], maxPage,
		versionText[parentSince], versionText[conductorSince], versionText[resetSince],
		versionText[dynamicDriversSince])
	writeAllFields(&page)
	page.WriteString(`
## Provision verbs

` + "`PUT /v1/nodes/{ident}/states/provision`" + ` with ` + "`{\"target\": \"manage\"}`" + ` asks for a verb. From a
state that does not take it, it is a 400; while a conductor works on the node, a 409. A
version in brackets is when that state began to take the verb. "Then" is where the work
leads that the verb begins.

`)
	writeVerbs(&page)
	page.WriteString("\nFurther keys of the body:\n\n")
	writeVerbKeys(&page)
	page.WriteString(`
A step of ` + "`clean_steps` and `service_steps` has `interface` and `step`, and may have `args`" + `
and ` + "`order`. With `execute_on_child_nodes`" + ` the node's children run it, one after the other,
and not the node itself; ` + "`limit_child_node_execution`" + ` names some of them by UUID or name. A
child is under work meanwhile, and a step that fails on it fails the node. Steps that hold
or wait cannot run on children.

The steps of a ` + "`runbook`" + ` run in their order; with ` + "`active` and `rebuild`" + ` before those of the
deployment. Steps that all run without the ramdisk need no deploy interface. With ` + "`disable_ramdisk`" + `,
a step that runs in the ramdisk is a 400.

What was asked for, by whom, and how it ended stands in the history of the node, of which
the newest rows are kept (` + "`conductor.history_max_entries` in [configuration.md](configuration.md)" + `).
`)
	page.WriteString("\n## Power\n\n`PUT /v1/nodes/{ident}/states/power` with `{\"target\": \"power on\"}`:\n\n")
	writePowerTargets(&page)
	fmt.Fprintf(&page, "\n`timeout` (%s) is how long the machine may take, in seconds, at least 1.\n", versionText[softPowerSince])
	fmt.Fprintf(&page, `
## Errors

Errors of the API are JSON. What a client reads is JSON text inside of a JSON string,
because every client of this API expects it:

`+"```json\n%s\n```"+`

An unknown path, a wrong method and an unusable version have three keys more:

`+"```json\n%s\n```"+`

A body over its limit (413) is answered without the string around it:

`+"```json\n%s\n```"+`

| Status | Means |
|---|---|
| 400 | The request is wrong, or the node's state does not allow it. The text says what to change. |
| 401 | No user and password, or wrong ones (`+"`http_basic`"+`). |
| 403 | It is forbidden for this node, such as undeploying a protected one, or switched off. |
| 404 | There is no such thing, or not yet in this version. To machines: also everything that concerns them and nobody else. |
| 405 | The path has no such method, or not in this version; `+"`Allow`"+` has those there are. |
| 406 | The version is unusable, or too old for what the request names. |
| 409 | It exists already, is in use, or a conductor works on the node: then try again in a second. |
| 413 | The body is larger than its route takes. |
| 500 | The engine failed. Its log has the reason under the request ID of the answer. |
| 503 | A limit is reached, or the database or a BMC did not answer: try again after `+"`Retry-After`"+` seconds. |

Every answer has `+"`Openstack-Request-Id`"+`, which is in the log too.
`, errorBody(faultForm), errorBody(routerForm), errorBody(bareForm))
	return page.String()
}
