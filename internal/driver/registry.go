package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Config says what of the table of hardware types is used. The zero value
// enables the types that need no BMC, with everything they support.
type Config struct {
	// EnabledHardwareTypes in the order in which they are listed; empty means
	// fake-hardware and manual-management.
	EnabledHardwareTypes []string
	// EnabledInterfaces narrows what nodes may choose, by interface. An
	// interface that is absent or empty allows all that the enabled types
	// support.
	EnabledInterfaces map[node.InterfaceKind][]string
	// DefaultInterfaces is what nodes get that do not choose, by interface,
	// when their type supports it. Without, the type's first enabled one counts.
	DefaultInterfaces map[node.InterfaceKind]string
	// AgentAlive reports whether a node's ramdisk showed life recently. Nil
	// means that no ramdisk ever does.
	AgentAlive func(*node.Node) bool
	// AgentReboot asks a node's ramdisk to restart the machine. Nil means that
	// machines without a BMC cannot be rebooted.
	AgentReboot AgentReboot
}

// defaultTypes need no BMC.
var defaultTypes = []string{"fake-hardware", "manual-management"}

// Registry is the enabled hardware types and the implementations behind them.
// It never changes and is safe for concurrent use.
type Registry struct {
	names []string
	types map[string]Type
	built [node.InterfaceCount]map[string]Implementation // by name of the interface
}

// New builds the registry. Its error says what of the configuration cannot
// work: an unknown type or implementation, or an interface of an enabled type
// that is left without any.
func New(config Config) (*Registry, error) {
	names := config.EnabledHardwareTypes
	if len(names) == 0 {
		names = defaultTypes
	}
	if err := checkKnown(config); err != nil {
		return nil, err
	}
	r := &Registry{
		types: map[string]Type{},
		built: implementations(config),
	}
	for _, name := range names {
		i := slices.IndexFunc(hardwareTypes, func(t hardwareType) bool { return t.name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("enable hardware type %q: there is none of this name", name)
		case slices.Contains(r.names, name):
			continue
		}
		t, err := enable(hardwareTypes[i], config)
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
				return fmt.Errorf("enable %s interface %q: there is none of this name", kind, name)
			}
		}
	}
	for kind, name := range config.DefaultInterfaces {
		if name != "" && !known(kind, name) {
			return fmt.Errorf("make %q the default %s interface: there is none of this name", name, kind)
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

// Resolve completes the interfaces that a node asked for: empty ones become the
// type's default. A driver that is not enabled, or an interface that it does not
// support or the configuration left out, is a *node.ValidationError.
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

// Properties describes the driver_info keys that a hardware type reads; nil for
// one that is not enabled.
func (r *Registry) Properties(name string) map[string]string {
	if _, ok := r.types[name]; !ok {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, commonProperties)
	maps.Copy(all, typeProperties[name])
	return all
}

// LogicalDiskProperties describes the keys of a logical disk, as nodes of a
// hardware type that choose nothing take them; nil when they have no RAID.
func (r *Registry) LogicalDiskProperties(name string) map[string]string {
	if t, ok := r.types[name]; !ok || isAbsent(t.Default[node.RAIDInterface]) {
		return nil
	}
	return maps.Clone(logicalDiskProperties)
}
