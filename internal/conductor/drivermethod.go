package conductor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// identifyMethod is the vendor method that reads which machine a BMC belongs to, before any
// node has the BMC's address.
const identifyMethod = "identify"

var identifyDescription = node.VendorMethod{
	HTTPMethods: []string{"POST"},
	Description: "Read through the BMC that driver_info leads to which machine it belongs to: uuid, serial_number, sku, mac_addresses. " +
		"What the BMC does not tell is left out. Nothing is changed or stored.",
}

// DriverMethods lists the vendor methods of a hardware type, which need no node. A type
// whose BMCs tell too little has none: the GUID of IPMI often differs from the UUID that an
// operating system finds.
func (c *Conductor) DriverMethods(name string) map[string]node.VendorMethod {
	methods := map[string]node.VendorMethod{}
	if _, err := c.machineReader(c.unregistered(name, node.Object{})); err == nil {
		methods[identifyMethod] = identifyDescription
	}
	return methods
}

// unregistered returns a node that is not stored, with the default interfaces of a driver.
func (c *Conductor) unregistered(driverName string, info node.Object) *node.Node {
	n := &node.Node{UUID: "(none)", Driver: driverName, DriverInfo: info}
	if t, ok := c.drivers.Type(driverName); ok {
		n.Interfaces = t.Default
	}
	return n
}

func (c *Conductor) machineReader(n *node.Node) (driver.MachineReader, error) {
	return driver.Ability[driver.MachineReader](c.drivers, n, node.ManagementInterface, "telling the facts of its machine")
}

// CallDriver runs a vendor method of a hardware type and returns a JSON value. If the BMC
// cannot be read, the error is a *node.ValidationError, because the request names the BMC.
func (c *Conductor) CallDriver(ctx context.Context, name string, call node.VendorCall) ([]byte, error) {
	if _, known := c.DriverMethods(name)[call.Method]; !known {
		return nil, node.Invalid("The driver %s has no vendor method %q.", name, node.CutText(call.Method))
	}
	if call.HTTPMethod != "POST" {
		return nil, node.Invalid("The vendor method %s takes POST, not %s.", call.Method, call.HTTPMethod)
	}
	info, err := node.ParseObject(call.Body.Fields()["driver_info"])
	if err != nil || len(info.Fields()) == 0 {
		return nil, node.Invalid("The vendor method %s needs driver_info, an object with the address of a BMC and its credentials.", call.Method)
	}
	n := c.unregistered(name, info)
	reader, err := c.machineReader(n)
	if err != nil {
		return nil, err
	}
	var facts node.MachineFacts
	err = c.runner.Ask(ctx, n, func(ctx context.Context) (err error) {
		facts, err = reader.MachineFacts(ctx, n)
		return err
	})
	var failed *node.DriverError
	if errors.As(err, &failed) {
		return nil, node.Invalid("The BMC does not tell which machine it belongs to: %s.", failed.Reason)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(facts)
}
