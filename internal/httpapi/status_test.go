package httpapi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/status.md from the route table")

const statusPath = "../../docs/status.md"

func TestStatusPageIsUpToDate(t *testing.T) {
	want := statusPage()
	if *update {
		if err := os.WriteFile(statusPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(statusPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date; run go generate ./internal/httpapi", statusPath)
	}
}

func statusPage() string {
	var page strings.Builder
	fmt.Fprintf(&page, `<!-- Generated from the tables of internal/httpapi; run go generate there. -->

# Implementation status

The engine implements the microversions %s to %s of the Bare Metal API, with one
exception: inspection rules (1.96) are missing. %s/v1/inspection_rules%s answers 404, and
GET /v1 does not list it.

All hardware types exist. Nodes of the types redfish and ipmi are driven through their BMC,
see [redfish.md](redfish.md) and [ipmi.md](ipmi.md), and cleaned, deployed and serviced
through their ramdisk, see [deployment.md](deployment.md), which the engine boots over the
network, see [boot.md](boot.md). A verb that needs an interface that is not in this version
fails with an error that says so. With fake-hardware every verb works.

`, versionText[minVersion], versionText[maxVersion], "`", "`")
	served := 0
	for _, rt := range sortedRoutes() {
		if rt.since <= maxVersion { // others are hidden
			served++
		}
	}
	fmt.Fprintf(&page, "All %d routes are implemented.\n", served)
	page.WriteString(operatorStatus)
	return page.String()
}

// operatorStatus is what the operator does differently from Metal3's.
const operatorStatus = `
The operator manages all kinds of metal3.io/v1alpha1 that [kinds.md](kinds.md) lists. Left out, or different from
Metal3's operator, are:

| What | Instead |
|---|---|
| a node that a person put into maintenance is a registration error | the condition Progressing says who has to act, and no error is counted |
| an event when spec.externallyProvisioned is set on a provisioned host | the webhook refuses it; without webhooks the condition Progressing says that it has no effect |
| status.appliedNetworkAttachmentConfigs, HostClaim, HostDeployPolicy, BareMetalSwitch and HostNetworkAttachment | the field is kept as it is, the kinds do not exist |
| hosts own the Secrets with their credentials | they own none, so that deleting a host deletes no Secret; a finalizer keeps one that is in use |
| software RAID on a host without a BMC, and cleaning its disks when it is discovered | a preparation error that says so; conductor.automated_clean of the engine decides about that cleaning, and not about the one after a deployment |
| IRONIC_CLIENT_CERT_FILE, IRONIC_CLIENT_PRIVATE_KEY_FILE, IRONIC_NAME, IRONIC_NAMESPACE, IRONIC_EXTERNAL_URL_V6, PROVISIONING_NETWORK_DISABLED and tls-* | these are not read; the engine is named by its address, with a user and a password |
| the reason DiscoveryDisabled of a discovery resource | the engine does not tell whether its discovery is on; see its configuration |
| the events BMCCredentialError and ProfileSet; ingot_host_state_seconds and ingot_queue_wait_seconds, or the like | a Secret that cannot be used is a RegistrationError, and hardware profiles are only root device hints; metal3_operation_*_duration_seconds, and the conditions with their times |
| images, firmware and files of checksums on the engine's own machine or link | refused, by webhooks too, unless the operator has --allow-local-image-urls |
| annotations and Secrets end the wait after a failure | after a registration, of the annotations only metal3.io/allow-duplicate does, because each try calls the BMC with the same credentials; a change of the spec or of the Secret ends it, also when the Secret did not exist. After a live update, only reboot.metal3.io and the keys below it do, and no Secret |
| live updates are for hosts in the state provisioned, by Metal3's design of them | externally provisioned hosts get them, too, as with Metal3's operator by now; there is none without a HostUpdatePolicy that allows it |
| the engine alone restarts the machine for a live update, and reboot.metal3.io is removed after it was asked, by the same design | as with Metal3's operator, the system is shut down, or powered off, before; the annotation goes when the update is recorded, just before the engine is asked, and what it refuses is tried again without the annotation |
| IdentityVerified, IdentityMismatch and IdentityUnverified as conditions | one condition, IdentityVerified; the others are its reasons |
| a Secret of spec.preprovisioningNetworkDataName that is missing is a registration error | only what boots the ramdisk waits for it, as for a ramdisk that is not built; the condition Progressing says so |
| Metal3's provider for Cluster API claims addresses of an IPPool of ipam.metal3.io with IPClaims | IPAddressClaims do that for each IPAM provider; an IPClaim that it has left keeps its finalizer, metal3data.infrastructure.cluster.x-k8s.io, until somebody removes that |
| 10 writes to the API server for a new host | 9 of the host, its Secret and HardwareData; about 4 more of its HostFirmwareSettings and HostFirmwareComponents, and the events |
| a new reboot.metal3.io/KEY always powers the machine off | while the engine works on the machine it waits for the end of that, see [hosts.md](hosts.md#power) |
| work on a host that reboot.metal3.io/KEY holds off | an available host begins none, and what failed is not tried again before the last key is gone |
| HostFirmwareSettings and HostFirmwareComponents of a paused host | nothing is read or compared until the pause ends |
| firmware with ftp, gopher or oci URLs, images with a user in front of their registry | webhooks refuse them |
| BMC addresses with #, a user or an IPv6 zone; paths of systems with .. or an escaped ? or # | webhooks refuse them, and without webhooks they are a registration error |
| libvirt addresses for a driver of tests | they use ipmi, as with Metal3's operator |
| notifications of the engine make changes visible at once | the operator polls the engine every 5 s, and every second while it expects a change |
| discovery skips locally administered MAC addresses | they come last, because virtual machines have no others |
| a live update ends when its outcome was compared | it also ends two minutes after the engine has done it |
| the defaults of --metrics-addr, --health-addr, --webhook-port, --kube-api-qps, --kube-api-burst and --controller-concurrency | none, none, 0, 1000, 2000, and 16 for --concurrency; --leader-elect and the flags that begin so are those of leases, see [operator.md](operator.md#options) |
`

func sortedRoutes() []route {
	routes := (&api{}).routes()
	slices.SortFunc(routes, func(a, b route) int {
		return strings.Compare(a.pattern+" "+a.method, b.pattern+" "+b.method)
	})
	return routes
}

func TestEveryRouteHasAHandlerAndIsListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range sortedRoutes() {
		key := rt.method + " " + rt.pattern
		if seen[key] {
			t.Errorf("the table has %s twice", key)
		}
		if rt.handler == nil {
			t.Errorf("%s has no handler", key)
		}
		seen[key] = true
	}
}
