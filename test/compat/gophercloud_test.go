//go:build compat

package compat_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// microversions are those that users of gophercloud ask for: the first with ramdisk calls, those of
// its acceptance tests, the first with inventories, and the newest that this engine has.
var microversions = []string{"1.22", "1.50", "1.72", "1.81", "1.84", "1.110"}

// client returns the library's client for an endpoint.
func client(t *testing.T, endpoint, microversion string) *gophercloud.ServiceClient {
	t.Helper()
	c, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint})
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	c.Microversion = microversion
	return c
}

// must fails the test on an error. what says what was done.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestGophercloudFindsTheVersions(t *testing.T) {
	c := client(t, serveEngine(t), "")
	all, err := apiversions.List(t.Context(), c).Extract()
	must(t, "list versions", err)
	one, err := apiversions.Get(t.Context(), c, "v1").Extract()
	must(t, "get version v1", err)
	want := apiversions.APIVersion{ID: "v1", MinVersion: "1.1", Status: "CURRENT", Version: one.Version}
	if diff := cmp.Diff(apiversions.APIVersions{DefaultVersion: want, Versions: []apiversions.APIVersion{want}}, *all); diff != "" {
		t.Errorf("root document (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, *one); diff != "" {
		t.Errorf("document of v1 (-want +got):\n%s", diff)
	}
}

// TestGophercloudLeadsANodeThroughItsLife does so at each microversion, with and
// without /v1 in the endpoint.
func TestGophercloudLeadsANodeThroughItsLife(t *testing.T) {
	for i, microversion := range microversions {
		t.Run(microversion, func(t *testing.T) {
			t.Parallel() // this library looks once a second whether a state is reached
			endpoint := serveEngine(t)
			if i%2 == 0 {
				endpoint += "/v1"
			}
			c := client(t, endpoint, microversion)
			ctx := t.Context()
			name := "default~worker-" + microversion
			created, err := nodes.Create(ctx, c, nodes.CreateOpts{
				Name: name, Driver: "fake-hardware",
				DriverInfo: map[string]any{"ipmi_address": "192.0.2.10", "ipmi_password": "hidden"},
				Properties: map[string]any{"cpu_arch": "x86_64"},
				Extra:      map[string]any{"rack": "r1", "deep": map[string]any{"n": 1.5}},
			}).Extract()
			must(t, "create node", err)
			if created.ProvisionState != string(nodes.Enroll) || created.Name != name || created.CreatedAt.IsZero() || created.DriverInfo["ipmi_password"] != "******" {
				t.Errorf("created node is %+v", created)
			}
			for _, ident := range []string{created.UUID, name} {
				got, err := nodes.Get(ctx, c, ident).Extract()
				must(t, "get node "+ident, err)
				if diff := cmp.Diff(created, got); diff != "" {
					t.Errorf("node by %s (-created +got):\n%s", ident, diff)
				}
			}
			checkListed(t, c, created)

			updated, err := nodes.Update(ctx, c, created.UUID, nodes.UpdateOpts{
				nodes.UpdateOperation{Op: nodes.AddOp, Path: "/extra/slot", Value: 7},
				nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/properties/cpu_arch", Value: "aarch64"},
				nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/extra/rack"},
				// gophercloud's acceptance tests send a string, too.
				nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/maintenance", Value: "true"},
			}).Extract()
			must(t, "update node", err)
			want := map[string]any{"slot": 7.0, "deep": map[string]any{"n": 1.5}}
			if diff := cmp.Diff(want, updated.Extra); diff != "" || updated.Properties["cpu_arch"] != "aarch64" || !updated.Maintenance || updated.UpdatedAt.IsZero() {
				t.Errorf("updated node is %+v; extra (-want +got):\n%s", updated, diff)
			}

			must(t, "set maintenance", nodes.SetMaintenance(ctx, c, created.UUID, nodes.MaintenanceOpts{Reason: "fans"}).ExtractErr())
			got, err := nodes.Get(ctx, c, created.UUID).Extract()
			must(t, "get node", err)
			if !got.Maintenance || got.MaintenanceReason != "fans" {
				t.Errorf("maintenance is %v because of %q", got.Maintenance, got.MaintenanceReason)
			}
			must(t, "unset maintenance", nodes.UnsetMaintenance(ctx, c, created.UUID).ExtractErr())

			for _, step := range []struct {
				verb  nodes.TargetProvisionState
				state nodes.ProvisionState
			}{{nodes.TargetManage, nodes.Manageable}, {nodes.TargetProvide, nodes.Available}} {
				must(t, "ask to "+string(step.verb), nodes.ChangeProvisionState(ctx, c, created.UUID, nodes.ProvisionStateOpts{Target: step.verb}).ExtractErr())
				must(t, "wait for "+string(step.state), nodes.WaitForProvisionState(ctx, c, created.UUID, step.state))
			}
			got, err = nodes.Get(ctx, c, created.UUID).Extract()
			must(t, "get node", err)
			if got.TargetProvisionState != "" || got.LastError != "" || got.Reservation != "" || got.Maintenance || got.MaintenanceReason != "" {
				t.Errorf("available node is %+v", got)
			}

			must(t, "delete node", nodes.Delete(ctx, c, created.UUID).ExtractErr())
			if _, err := nodes.Get(ctx, c, created.UUID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				t.Errorf("get deleted node: got %v, want 404", err)
			}
		})
	}
}

// checkListed looks for the node in the list and in the detailed list.
func checkListed(t *testing.T, c *gophercloud.ServiceClient, want *nodes.Node) {
	t.Helper()
	pages, err := nodes.List(c, nodes.ListOpts{ProvisionState: nodes.Enroll}).AllPages(t.Context())
	must(t, "list nodes", err)
	brief, err := nodes.ExtractNodes(pages)
	must(t, "extract nodes", err)
	if len(brief) != 1 || brief[0].UUID != want.UUID || brief[0].Name != want.Name || brief[0].Driver != "" {
		t.Errorf("list is %+v", brief)
	}
	pages, err = nodes.ListDetail(c, nodes.ListOpts{Driver: "fake-hardware"}).AllPages(t.Context())
	must(t, "list nodes with detail", err)
	detailed, err := nodes.ExtractNodes(pages)
	must(t, "extract nodes", err)
	if diff := cmp.Diff([]nodes.Node{*want}, detailed); diff != "" {
		t.Errorf("detailed list (-want +got):\n%s", diff)
	}
	pages, err = nodes.List(c, nodes.ListOpts{Fields: []string{"uuid", "name", "provision_state"}}).AllPages(t.Context())
	must(t, "list some fields", err)
	some, err := nodes.ExtractNodes(pages)
	must(t, "extract nodes", err)
	if diff := cmp.Diff([]nodes.Node{{UUID: want.UUID, Name: want.Name, ProvisionState: want.ProvisionState}}, some); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestGophercloudManagesPorts(t *testing.T) {
	url := serveEngine(t)
	for i, microversion := range microversions {
		t.Run(microversion, func(t *testing.T) {
			c, ctx := client(t, url, microversion), t.Context()
			n, err := nodes.Create(ctx, c, nodes.CreateOpts{Driver: "fake-hardware"}).Extract()
			must(t, "create node", err)
			address := fmt.Sprintf("52:54:00:00:01:%02x", i)
			disabled := false
			created, err := ports.Create(ctx, c, ports.CreateOpts{
				NodeUUID: n.UUID, Address: strings.ToUpper(address), PXEEnabled: &disabled, Extra: map[string]any{"slot": "1"},
				LocalLinkConnection: map[string]any{"switch_id": "00:11:22:33:44:55", "port_id": "Eth1", "switch_info": "leaf1"},
			}).Extract()
			must(t, "create port", err)
			if created.Address != address || created.NodeUUID != n.UUID || created.PXEEnabled || created.LocalLinkConnection["port_id"] != "Eth1" {
				t.Errorf("created port is %+v", created)
			}
			got, err := ports.Get(ctx, c, created.UUID).Extract()
			must(t, "get port", err)
			if diff := cmp.Diff(created, got); diff != "" {
				t.Errorf("port (-created +got):\n%s", diff)
			}
			_, err = ports.Create(ctx, c, ports.CreateOpts{NodeUUID: n.UUID, Address: address}).Extract()
			if !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
				t.Errorf("create the port again: got %v, want 409", err)
			}
			for what, opts := range map[string]ports.ListOpts{"address": {Address: address}, "node": {NodeUUID: n.UUID}} {
				pages, err := ports.ListDetail(c, opts).AllPages(ctx)
				must(t, "list ports by "+what, err)
				listed, err := ports.ExtractPorts(pages)
				must(t, "extract ports", err)
				if diff := cmp.Diff([]ports.Port{*created}, listed); diff != "" {
					t.Errorf("ports by %s (-want +got):\n%s", what, diff)
				}
			}
			moved := fmt.Sprintf("52:54:00:00:02:%02x", i)
			updated, err := ports.Update(ctx, c, created.UUID, ports.UpdateOpts{
				ports.UpdateOperation{Op: ports.ReplaceOp, Path: "/address", Value: moved},
				ports.UpdateOperation{Op: ports.ReplaceOp, Path: "/pxe_enabled", Value: true},
				ports.UpdateOperation{Op: ports.RemoveOp, Path: "/extra/slot"},
			}).Extract()
			must(t, "update port", err)
			if updated.Address != moved || !updated.PXEEnabled || len(updated.Extra) > 0 {
				t.Errorf("updated port is %+v", updated)
			}
			must(t, "delete port", ports.Delete(ctx, c, created.UUID).ExtractErr())
			if _, err := ports.Get(ctx, c, created.UUID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				t.Errorf("get deleted port: got %v, want 404", err)
			}
		})
	}
}
