// Package inspect decides what a machine's inspection data means: which node it belongs to, and
// which ports, properties and plugin data follow from it. The conductor reads and stores the nodes.
package inspect

import (
	"fmt"
	"slices"
)

// Hook is one step of the inspection pipeline as data. To add a hook, add a file hook_<name>.go and
// a line in knownHooks.
//
// Hooks read the inventory and change plugin data, properties and ports, only through the Context.
// They do no I/O, so a pipeline that was interrupted anywhere can simply run again.
type Hook struct {
	// Name is the name of the hook in the configuration, lower case with dashes.
	Name string
	// Requires names hooks that must be enabled and come before this one.
	Requires []string
	// ReadsPrevious requests Input.Previous, which costs reading and parsing an inventory for every
	// inspected machine.
	ReadsPrevious bool
	// Prepare, if set, checks and compiles the options that the hook reads. It runs once, when the
	// pipeline is built. Its error names the option.
	Prepare func(*Config) error
	// Preprocess, if set, runs before the Process functions of all hooks. All its failures are
	// reported together, so it should check and prepare rather than change the node.
	Preprocess func(*Context) error
	// Process, if set, is the main phase. The first failure ends the pipeline.
	Process func(*Context) error
}

// knownHooks lists every hook that configuration can name.
var knownHooks = []Hook{
	ramdiskErrorHook,
	architectureHook,
	validateInterfacesHook,
	portsHook,

	acceleratorsHook,
	bootModeHook,
	cpuCapabilitiesHook,
	extraHardwareHook,
	localLinkConnectionHook,
	memoryHook,
	parseLLDPHook,
	pciDevicesHook,
	physicalNetworkHook,
	raidDeviceHook,
	rootDeviceHook,
}

// Pipeline is a checked, ordered list of hooks with their options. It keeps no
// state between runs and is safe for concurrent use.
type Pipeline struct {
	hooks []Hook
	// outOfBand are the hooks for data from a BMC, see Input.OutOfBand.
	outOfBand []Hook
	config    Config
	warnings  []string
}

// NewPipeline resolves the configured hook names. Its error names the option to correct when a name
// is unknown, a hook comes twice, a required hook is missing or comes later, or an option has an
// invalid value.
func NewPipeline(cfg Config) (*Pipeline, error) {
	warnings, err := cfg.check()
	if err != nil {
		return nil, err
	}
	names, err := cfg.expand()
	if err != nil {
		return nil, err
	}
	p := &Pipeline{config: cfg, warnings: warnings}
	for _, configured := range names {
		hook, err := p.resolve(configured)
		if err != nil {
			return nil, err
		}
		if hook.Prepare != nil {
			if err := hook.Prepare(&p.config); err != nil {
				return nil, err
			}
		}
		p.hooks = append(p.hooks, hook)
	}
	p.outOfBand = outOfBandHooks(p.hooks)
	return p, nil
}

// outOfBandHooks returns the configured hooks, and adds those that an inspection through the BMC
// always runs.
func outOfBandHooks(configured []Hook) []Hook {
	hooks := slices.Clone(configured)
	for _, hook := range []Hook{memoryHook, bootModeHook, rootDeviceHook} {
		if _, there := findHook(hooks, hook.Name); !there {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

// ReadsPrevious reports whether any of the hooks needs Input.Previous.
func (p *Pipeline) ReadsPrevious() bool {
	return slices.ContainsFunc(p.hooks, func(hook Hook) bool { return hook.ReadsPrevious })
}

// Hooks returns the names of the hooks in the order they run.
func (p *Pipeline) Hooks() []string {
	names := make([]string, len(p.hooks))
	for i, hook := range p.hooks {
		names[i] = hook.Name
	}
	return names
}

// Warnings returns one sentence for each part of the configuration that is accepted but should be
// changed.
func (p *Pipeline) Warnings() []string { return p.warnings }

// Run applies the pipeline to one machine. It does not change its input; the caller stores the
// result in one commit. The error is a *RunError with the message for the node's last_error.
func (p *Pipeline) Run(in Input) (*Result, error) {
	ctx := newContext(in, p.config)
	hooks := p.hooks
	if in.OutOfBand {
		hooks = p.outOfBand
	}
	failure := &RunError{}
	for _, hook := range hooks {
		if hook.Preprocess == nil {
			continue
		}
		if err := hook.Preprocess(ctx); err != nil {
			failure.add(hook, err)
		}
	}
	if failure.Hooks != nil {
		return nil, failure
	}
	for _, hook := range hooks {
		if hook.Process == nil {
			continue
		}
		if err := hook.Process(ctx); err != nil {
			failure.add(hook, err)
			return nil, failure
		}
	}
	return ctx.result(), nil
}

// resolve finds a hook by its configured name and checks that it may follow the hooks resolved so
// far.
func (p *Pipeline) resolve(configured string) (Hook, error) {
	name := dashed(configured)
	if name != configured {
		p.warnings = append(p.warnings, fmt.Sprintf("Inspection hook %q is spelled %q; correct inspector.hooks", configured, name))
	}
	hook, known := findHook(knownHooks, name)
	if !known {
		return Hook{}, fmt.Errorf("inspector.hooks: unknown hook %q, want one of %s", configured, hookNames())
	}
	if _, twice := findHook(p.hooks, name); twice {
		return Hook{}, fmt.Errorf("inspector.hooks: hook %q comes twice", name)
	}
	for _, required := range hook.Requires {
		if _, before := findHook(p.hooks, required); !before {
			return Hook{}, fmt.Errorf("inspector.hooks: hook %q needs %q before it", name, required)
		}
	}
	return hook, nil
}
