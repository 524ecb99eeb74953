package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Config enables hardware types and implementations. The zero value enables the types
// that need no BMC, with everything they support.
type Config struct {
	// EnabledHardwareTypes in the order in which they are listed; empty means
	// fake-hardware and manual-management.
	EnabledHardwareTypes []string
	// EnabledInterfaces are the implementations that nodes may choose, by interface.
	// For an interface without an entry these are all that the enabled types support.
	EnabledInterfaces map[node.InterfaceKind][]string
	// DefaultInterfaces are the implementations for nodes that choose none, by
	// interface. When the node's type does not support it, or there is no entry, the
	// default is the first enabled one of the type.
	DefaultInterfaces map[node.InterfaceKind]string
}

// defaultTypes need no BMC.
var defaultTypes = []string{"fake-hardware", "manual-management"}

// Registry has the enabled hardware types and their implementations. It never changes
// and is safe for concurrent use.
type Registry struct {
	names []string
	types map[string]Type
	built Implementations
}

// New returns a registry with the given implementations. An error means that the
// configuration has an unknown type or implementation, or leaves an interface of an
// enabled type without any.
func New(config Config, built Implementations) (*Registry, error) {
	names := config.EnabledHardwareTypes
	if len(names) == 0 {
		names = defaultTypes
	}
	if err := checkKnown(config); err != nil {
		return nil, err
	}
	r := &Registry{types: map[string]Type{}, built: built}
	for _, name := range names {
		row, ok := rowOf(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("enable hardware type %q: it does not exist", name)
		case slices.Contains(r.names, name):
			continue
		}
		t, err := enable(row, config)
		if err != nil {
			return nil, fmt.Errorf("enable hardware type %s: %w", name, err)
		}
		r.names = append(r.names, name)
		r.types[name] = t
	}
	return r, nil
}

// checkKnown finds names in the configuration that no hardware type supports.
func checkKnown(config Config) error {
	for kind, names := range config.EnabledInterfaces {
		for _, name := range names {
			if !known(kind, name) {
				return fmt.Errorf("enable %s interface %q: it does not exist", kind, name)
			}
		}
	}
	for kind, name := range config.DefaultInterfaces {
		if name != "" && !known(kind, name) {
			return fmt.Errorf("make %q the default %s interface: it does not exist", name, kind)
		}
	}
	return nil
}

func known(kind node.InterfaceKind, name string) bool {
	return slices.ContainsFunc(hardwareTypes, func(t hardwareType) bool {
		return slices.Contains(t.supported[kind], name)
	})
}

// enable applies the configuration to one row of the table.
func enable(row hardwareType, config Config) (Type, error) {
	t := Type{Name: row.name}
	for kind := range node.InterfaceCount {
		allowed := config.EnabledInterfaces[kind]
		for _, name := range row.supported[kind] {
			if len(allowed) == 0 || slices.Contains(allowed, name) {
				t.Enabled[kind] = append(t.Enabled[kind], name)
			}
		}
		if len(t.Enabled[kind]) == 0 {
			return t, fmt.Errorf("no %s interface is enabled; it supports %s", kind, strings.Join(row.supported[kind], ", "))
		}
		t.Default[kind] = t.Enabled[kind][0]
		if wanted := config.DefaultInterfaces[kind]; slices.Contains(t.Enabled[kind], wanted) {
			t.Default[kind] = wanted
		}
	}
	return t, nil
}

// Names returns the enabled hardware types.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Type returns an enabled hardware type.
func (r *Registry) Type(name string) (Type, bool) {
	t, ok := r.types[name]
	return t, ok
}

// Resolve completes the chosen interfaces of a node: empty ones become the default of
// the type. A driver that is not enabled, or an interface that it does not support or
// that the configuration does not enable, is a *node.ValidationError.
func (r *Registry) Resolve(driver string, asked node.Interfaces) (node.Interfaces, error) {
	t, ok := r.types[driver]
	if !ok {
		return asked, node.Invalid("The driver %q is not enabled on this engine; enabled are %s.",
			node.CutText(driver), strings.Join(r.names, ", "))
	}
	for kind, name := range asked {
		kind := node.InterfaceKind(kind)
		switch {
		case name == "":
			asked[kind] = t.Default[kind]
		case !slices.Contains(t.Enabled[kind], name):
			return asked, node.Invalid("The %s %q is not available for the driver %s; available are %s.",
				kind.Field(), node.CutText(name), driver, strings.Join(t.Enabled[kind], ", "))
		}
	}
	return asked, nil
}

// InterfacesOf is Resolve for a node. The machine of an auto-discovered node exists, so nothing
// about it should be pretended: where the default of the type is fake, the node gets the first
// other implementation that the type has enabled, and fake only if there is no other.
func (r *Registry) InterfacesOf(n *node.Node) (node.Interfaces, error) {
	asked, t := n.Interfaces, r.types[n.Driver]
	for kind, names := range t.Enabled {
		i := slices.IndexFunc(names, func(name string) bool { return name != "fake" })
		if n.AutoDiscovered && asked[kind] == "" && t.Default[kind] == "fake" && i >= 0 {
			asked[kind] = names[i]
		}
	}
	return r.Resolve(n.Driver, asked)
}

// Properties describes the driver_info keys of a hardware type; nil for one that is
// not enabled.
func (r *Registry) Properties(name string) map[string]string {
	t, ok := r.types[name]
	if !ok {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, commonProperties)
	maps.Copy(all, typeProperties[name])
	for kind, names := range t.Enabled {
		for _, name := range names {
			if describer, ok := r.built[kind][name].(Describer); ok {
				maps.Copy(all, describer.Properties())
			}
		}
	}
	return all
}

// LogicalDiskProperties describes the keys of a logical disk for nodes of a hardware
// type with its default interfaces; nil when these have no RAID.
func (r *Registry) LogicalDiskProperties(name string) map[string]string {
	if t, ok := r.types[name]; !ok || isAbsent(t.Default[node.RAIDInterface]) {
		return nil
	}
	return maps.Clone(logicalDiskProperties)
}
