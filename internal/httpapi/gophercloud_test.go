package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/ingot-metal/ingot/internal/node"
)

// gopherClient returns a client of the library that most tools use. It talks to the API
// over a real connection.
func gopherClient(t *testing.T, s *server) *gophercloud.ServiceClient {
	t.Helper()
	web := httptest.NewServer(s.handler)
	t.Cleanup(web.Close)
	client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: web.URL + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "1.84"
	return client
}

func TestGophercloudReadsWhatTheAPIWrites(t *testing.T) {
	s := newServer(t)
	client := gopherClient(t, s)
	ctx := t.Context()

	created, err := nodes.Create(ctx, client, nodes.CreateOpts{
		Driver: "manual-management", Name: "rack-1", Properties: map[string]any{"cpu_arch": "x86_64"},
	}).Extract()
	if err != nil {
		t.Fatalf("create node: %v", err)
	}
	if created.ProvisionState != "enroll" || created.PowerInterface != "agent" || !created.CreatedAt.Equal(testTime) {
		t.Errorf("created node: got %+v", created)
	}
	updated, err := nodes.Update(ctx, client, "rack-1", nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/extra/owner", Value: "me"},
	}).Extract()
	if err != nil || updated.Extra["owner"] != "me" {
		t.Errorf("update node: got %+v, %v", updated, err)
	}
	if err := nodes.SetMaintenance(ctx, client, "rack-1", nodes.MaintenanceOpts{Reason: "fan"}).ExtractErr(); err != nil {
		t.Errorf("set maintenance: %v", err)
	}
	if err := nodes.ChangeProvisionState(ctx, client, "rack-1", nodes.ProvisionStateOpts{Target: nodes.TargetManage}).ExtractErr(); err != nil {
		t.Errorf("manage: %v", err)
	}
	port, err := ports.Create(ctx, client, ports.CreateOpts{NodeUUID: created.UUID, Address: "52:54:00:12:34:56"}).Extract()
	if err != nil || !port.PXEEnabled {
		t.Errorf("create port: got %+v, %v", port, err)
	}
	s.engine.inspections[created.UUID] = &node.InspectionData{
		Inventory: []byte(`{"cpu":{"count":16,"architecture":"x86_64"},"memory":{"physical_mb":65536}}`), PluginData: []byte(`{"macs":[]}`),
	}
	data, err := nodes.GetInventory(ctx, client, created.UUID).Extract()
	if err != nil || data.Inventory.CPU.Count != 16 {
		t.Errorf("inventory: got %+v, %v", data, err)
	}
	found, err := drivers.GetDriverDetails(ctx, client, "manual-management").Extract()
	if err != nil || found.DefaultPowerInterface != "agent" {
		t.Errorf("driver: got %+v, %v", found, err)
	}
	conductor, err := conductors.Get(ctx, client, "ingot-1").Extract()
	if err != nil || !conductor.Alive {
		t.Errorf("conductor: got %+v, %v", conductor, err)
	}
}

func TestGophercloudFollowsPages(t *testing.T) {
	s := newServer(t)
	client := gopherClient(t, s)
	for _, uuid := range []string{uuid1, uuid2, uuid3} {
		s.addNode(uuid)
		s.engine.ports = append(s.engine.ports, &node.Port{UUID: uuid, NodeUUID: uuid1, Address: "52:54:00:12:34:56"})
	}
	nodePages, err := nodes.ListDetail(client, nodes.ListOpts{Limit: 1}).AllPages(t.Context())
	if err != nil {
		t.Fatalf("list nodes: %v", err)
	}
	if all, err := nodes.ExtractNodes(nodePages); err != nil || len(all) != 3 {
		t.Errorf("nodes: got %d, %v, want 3", len(all), err)
	}
	portPages, err := ports.List(client, ports.ListOpts{Limit: 2}).AllPages(t.Context())
	if err != nil {
		t.Fatalf("list ports: %v", err)
	}
	if all, err := ports.ExtractPorts(portPages); err != nil || len(all) != 3 {
		t.Errorf("ports: got %d, %v, want 3", len(all), err)
	}
}
