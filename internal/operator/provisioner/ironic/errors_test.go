package ironic

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	client "github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// allKinds are the kinds of errors that exclude each other.
var allKinds = []error{
	provisioner.ErrNotFound, provisioner.ErrBusy, provisioner.ErrConflict, provisioner.ErrInvalid,
	provisioner.ErrUnsupported, provisioner.ErrDenied, provisioner.ErrUnreachable,
}

func TestErrorsHaveOneOfTheOperatorsKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
		want   error
	}{
		"unknown node":                {404, "Node a could not be found.", provisioner.ErrNotFound},
		"lock":                        {409, "Node a is locked by host c1, please retry after the current operation is completed.", provisioner.ErrBusy},
		"patch during work, Ironic":   {409, "Node a can not be updated while a state transition is in progress.", provisioner.ErrBusy},
		"patch during work, Ingot":    {409, `Node a cannot be changed while it is in state "cleaning"; wait until the work ends, or abort it.`, provisioner.ErrBusy},
		"firmware is being written":   {409, "Node a runs the step firmware.update, which cannot be interrupted: wait until it ends", provisioner.ErrBusy},
		"another conductor":           {409, "Another conductor took the node over, please retry.", provisioner.ErrBusy},
		"patch during inspection":     {409, `Cannot update node "a" while it is in state "inspecting".`, provisioner.ErrBusy},
		"name is taken":               {409, "A node with name metal~web already exists.", provisioner.ErrConflict},
		"MAC address is taken":        {409, "A port with MAC address 52:54:00:12:34:56 already exists.", provisioner.ErrConflict},
		"instance is elsewhere":       {409, "Instance i is already associated with a node, it cannot be associated with this other node a", provisioner.ErrConflict},
		"node has another instance":   {409, "Node a is associated with instance i.", provisioner.ErrConflict},
		"interface of an active node": {409, "Node a can not have driver updated unless it is in one of allowed (enroll, manageable) states or in maintenance mode.", provisioner.ErrConflict},
		"suspended work":              {409, "Node a has work from before the database was restored, which is suspended: let it go on", provisioner.ErrConflict},
		"conflict without text":       {409, "", provisioner.ErrConflict},
		"verb in the wrong state":     {400, `The requested action "deploy" can not be performed on node "a" while it is in state "enroll".`, provisioner.ErrConflict},
		"verb in maintenance, Ironic": {400, "The deploy operation can't be performed on node a because it's in maintenance mode.", provisioner.ErrConflict},
		"verb in maintenance, Ingot":  {400, `Node a is in maintenance, in which "active" is not allowed: end maintenance first.`, provisioner.ErrConflict},
		"missing ability, Ironic":     {400, "Driver ipmi does not support soft power off (disabled or not implemented).", provisioner.ErrUnsupported},
		"missing ability, Ingot":      {400, `Node a does not support soft power off: its power_interface is "fake".`, provisioner.ErrUnsupported},
		"missing interface":           {400, "boot interface implementation 'x' is not supported by hardware type ipmi.", provisioner.ErrUnsupported},
		"method":                      {405, "Method not allowed", provisioner.ErrUnsupported},
		"version":                     {406, "Request not acceptable.", provisioner.ErrUnsupported},
		"value":                       {400, "Expected a MAC address but received x.", provisioner.ErrInvalid},
		"body":                        {413, "too large", provisioner.ErrInvalid},
		"credentials":                 {401, "Authorization required", provisioner.ErrDenied},
		"protected node":              {403, "Node a is protected and cannot be undeployed, rebuilt or deleted.", provisioner.ErrDenied},
		"no worker":                   {503, "Requested action cannot be performed due to lack of free conductor workers.", provisioner.ErrUnreachable},
		"busy BMC":                    {503, "call the BMC of node a: earlier calls to it took longer than 30s; check that it answers, and try again.", provisioner.ErrUnreachable},
		"error in the engine":         {500, "oops", provisioner.ErrUnreachable},
		"proxy without an engine":     {502, "", provisioner.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			e := &upstream{answers: map[string][]int{"GET /v1/nodes/a": {tt.status}}, refusal: tt.text}
			_, err := newEngine(t, e).Node(t.Context(), "a")
			for _, kind := range allKinds {
				if errors.Is(err, kind) != errors.Is(tt.want, kind) {
					t.Errorf("%v: is %q: %v", err, kind, errors.Is(err, kind))
				}
			}
			if tt.text != "" && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q lacks the engine's text", err)
			}
		})
	}
}

func TestEngineThatDoesNotAnswerIsUnreachable(t *testing.T) {
	gone, err := client.New(client.Options{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(gone, Options{}).Nodes(t.Context(), provisioner.ListOptions{}); !errors.Is(err, provisioner.ErrUnreachable) {
		t.Errorf("error = %v, want unreachable", err)
	}
}

func TestProxyThatHasLostItsEngineLosesNoNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "default backend - 404", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	proxied, err := client.New(client.Options{Endpoint: server.URL, Microversion: "1.84"}) // asks for no root document
	if err != nil {
		t.Fatal(err)
	}
	e := New(proxied, Options{})
	_, read := e.Node(t.Context(), "a")
	for name, err := range map[string]error{"read": read, "delete": e.Delete(t.Context(), "a", "c1/metal/web")} {
		if !errors.Is(err, provisioner.ErrUnreachable) || errors.Is(err, provisioner.ErrNotFound) {
			t.Errorf("%s: %v, want unreachable", name, err)
		}
	}
}

func TestNodeWithoutInventoryIsNamedSo(t *testing.T) {
	e := &upstream{answers: map[string][]int{"GET /v1/nodes/a/inventory": {http.StatusNotFound}}}
	if _, err := newEngine(t, e).Inventory(t.Context(), "a"); !errors.Is(err, provisioner.ErrNoInventory) {
		t.Errorf("error = %v, want no inventory", err)
	}
}
