package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// CreateFiles creates everything that files describe: chassis and nodes, and
// in them what belongs to them.
type CreateFiles struct {
	Stdin io.Reader // what - stands for
}

// part is a member of a description that lists things of their own.
type part struct {
	resource Resource
	// links are the fields that such a thing has from what it belongs to, and
	// gives is the one that its own parts have from it.
	links []string
	gives string
	// parts are the members of such a thing that list things again.
	parts map[string]*part
}

// described are the parts of a file, as other clients of this API have them.
var described = map[string]*part{
	"chassis": {resource: Chassis, gives: "chassis_uuid", parts: map[string]*part{"nodes": describedNodes}},
	"nodes":   describedNodes,
}

var describedNodes = &part{
	resource: Nodes, links: []string{"chassis_uuid"}, gives: "node_uuid",
	parts: map[string]*part{
		"ports": {resource: Ports, links: []string{"node_uuid"}},
		"portgroups": {
			resource: Portgroups, links: []string{"node_uuid"}, gives: "portgroup_uuid",
			parts: map[string]*part{"ports": {resource: Ports, links: []string{"node_uuid", "portgroup_uuid"}}},
		},
	},
}

// Run reads all files before it creates anything. A thing that cannot be
// created gets a line of its own and keeps nothing but its own parts from
// being created; the error then carries only the exit code of the first.
func (c CreateFiles) Run(ctx context.Context, engine *baremetal.Client, files []string, to Streams) error {
	documents := make([]map[string]any, len(files))
	for i, file := range files {
		var err error
		if documents[i], err = c.read(file); err != nil {
			return &UsageError{fmt.Errorf("file %s: %w", file, err)}
		}
	}
	creation := creation{engine: engine, to: to}
	for _, document := range documents {
		if err := creation.parts(ctx, described, document, nil); err != nil {
			return err
		}
	}
	if creation.failed != nil {
		return creation.failed
	}
	return nil
}

// read returns the description in a file after a look at its shape.
func (c CreateFiles) read(file string) (map[string]any, error) {
	content, err := readInput(file, c.Stdin)
	if err != nil {
		return nil, err
	}
	value, err := decodeInput(content)
	if err != nil {
		return nil, err
	}
	document, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it must be an object with chassis or nodes")
	}
	for name := range document {
		if described[name] == nil {
			return nil, fmt.Errorf("it has %q; it may have %s", name, strings.Join(slices.Sorted(maps.Keys(described)), " and "))
		}
	}
	return document, checkParts(described, document)
}

// checkParts makes sure that parts are lists of objects, all the way down.
func checkParts(parts map[string]*part, owner map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		list, isList := owner[name].([]any)
		if owner[name] != nil && !isList {
			return fmt.Errorf("%s must be a list", name)
		}
		for i, item := range list {
			thing, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("%s[%d] must be an object", name, i)
			}
			if err := checkParts(parts[name].parts, thing); err != nil {
				return fmt.Errorf("%s[%d]: %w", name, i, err)
			}
		}
	}
	return nil
}

// creation is the state of creating what files describe.
type creation struct {
	engine *baremetal.Client
	to     Streams
	failed *SilentError // the first failure
}

// parts creates what the parts of an owner list. The fields are those that an
// owner, which has been created, gives to them.
func (c *creation) parts(ctx context.Context, parts map[string]*part, owner, fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		list, _ := owner[name].([]any)
		for _, item := range list {
			thing, _ := item.(map[string]any)
			err := c.create(ctx, parts[name], thing, fields)
			if errors.Is(err, context.Canceled) || errors.Is(err, baremetal.ErrUnreachable) {
				return err
			}
			if err != nil {
				code := Report(c.to.Err, err)
				if c.failed == nil {
					c.failed = &SilentError{Code: code}
				}
			}
		}
	}
	return nil
}

// create creates a thing and then its parts. What the owner gives to it gives
// way to fields of its own.
func (c *creation) create(ctx context.Context, p *part, thing, fields map[string]any) error {
	body := map[string]any{}
	for _, name := range p.links {
		if value := fields[name]; value != nil {
			body[name] = value
		}
	}
	maps.Copy(body, thing)
	maps.DeleteFunc(body, func(name string, _ any) bool { return p.parts[name] != nil })
	label := document{fields: body}.label()
	raw, err := c.engine.Do(ctx, baremetal.Request{
		Op: strings.TrimSpace("create " + p.resource.Name + " " + label), Method: http.MethodPost, Path: p.resource.path(), Body: body,
	})
	if err != nil {
		return existing(err)
	}
	created, err := parseDocument(raw)
	if err != nil {
		return err
	}
	if err := tell(c.to.Out, nil, "Created %s %s\n", p.resource.Name, created.label()); err != nil {
		return err
	}
	below := map[string]any{p.gives: created.text("uuid")}
	if p.gives != "node_uuid" {
		below["node_uuid"] = body["node_uuid"]
	}
	return c.parts(ctx, p.parts, thing, below)
}
