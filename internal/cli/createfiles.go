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

	"github.com/ingot-metal/ingot/internal/ironic"
)

// CreateFiles creates everything that files describe: chassis and nodes, with the objects that
// belong to them.
type CreateFiles struct {
	Stdin io.Reader // read for the file name -
}

// collection is a member of a file, or of an object in a file, that lists
// objects of one resource.
type collection struct {
	resource Resource
	// parentFields are the fields of an object that hold the UUIDs of the objects that it belongs
	// to. parentField is the field with which its children refer to it.
	parentFields []string
	parentField  string
	// children are the members of an object that list further objects.
	children map[string]*collection
}

// fileCollections are the lists that a file may have. Other clients of this API read the same
// lists.
var fileCollections = map[string]*collection{
	"chassis": {resource: Chassis, parentField: "chassis_uuid", children: map[string]*collection{"nodes": nodeCollection}},
	"nodes":   nodeCollection,
}

var nodeCollection = &collection{
	resource: Nodes, parentFields: []string{"chassis_uuid"}, parentField: "node_uuid",
	children: map[string]*collection{
		"ports": {resource: Ports, parentFields: []string{"node_uuid"}},
		"portgroups": {
			resource: Portgroups, parentFields: []string{"node_uuid"}, parentField: "portgroup_uuid",
			children: map[string]*collection{"ports": {resource: Ports, parentFields: []string{"node_uuid", "portgroup_uuid"}}},
		},
	},
}

// Run reads all files before it creates anything. When an object cannot be created, the failure is
// reported on its own line, the object's children are skipped and the rest is created. The error
// then carries only the exit code of the first failure.
func (c CreateFiles) Run(ctx context.Context, engine *ironic.Client, files []string, to Streams) error {
	documents := make([]map[string]any, len(files))
	for i, file := range files {
		var err error
		if documents[i], err = c.read(file); err != nil {
			return &UsageError{fmt.Errorf("file %s: %w", file, err)}
		}
	}
	creation := creation{engine: engine, to: to}
	for _, document := range documents {
		if err := creation.createAll(ctx, fileCollections, document, nil); err != nil {
			return err
		}
	}
	if creation.failed != nil {
		return creation.failed
	}
	return nil
}

// read returns the content of a file after checking its shape.
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
		if fileCollections[name] == nil {
			return nil, fmt.Errorf("it has %q; it may have %s", name, strings.Join(slices.Sorted(maps.Keys(fileCollections)), " and "))
		}
	}
	return document, checkCollections(fileCollections, document)
}

// checkCollections returns an error unless every collection, at any depth, is a list
// of objects.
func checkCollections(collections map[string]*collection, parent map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(collections)) {
		list, isList := parent[name].([]any)
		if parent[name] != nil && !isList {
			return fmt.Errorf("%s must be a list", name)
		}
		for i, item := range list {
			object, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("%s[%d] must be an object", name, i)
			}
			if err := checkCollections(collections[name].children, object); err != nil {
				return fmt.Errorf("%s[%d]: %w", name, i, err)
			}
		}
	}
	return nil
}

// creation is the state of creating the objects that files describe.
type creation struct {
	engine *ironic.Client
	to     Streams
	failed *SilentError // the first failure
}

// createAll creates the objects in the collections of parent, which already exists. uuids are the
// values for their parentFields.
func (c *creation) createAll(ctx context.Context, collections map[string]*collection, parent, uuids map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(collections)) {
		list, _ := parent[name].([]any)
		for _, item := range list {
			object, _ := item.(map[string]any)
			err := c.create(ctx, collections[name], object, uuids)
			if errors.Is(err, context.Canceled) || errors.Is(err, ironic.ErrUnreachable) {
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

// create creates an object and then its children. Fields of the object itself win
// over the UUIDs of its parents.
func (c *creation) create(ctx context.Context, in *collection, object, uuids map[string]any) error {
	body := map[string]any{}
	for _, name := range in.parentFields {
		if uuid := uuids[name]; uuid != nil {
			body[name] = uuid
		}
	}
	maps.Copy(body, object)
	maps.DeleteFunc(body, func(name string, _ any) bool { return in.children[name] != nil })
	label := document{fields: body}.label()
	raw, err := c.engine.Do(ctx, ironic.Request{
		Op: strings.TrimSpace("create " + in.resource.Name + " " + label), Method: http.MethodPost, Path: in.resource.path(), Body: body,
	})
	if err != nil {
		return adviseExisting(err)
	}
	created, err := parseDocument(raw)
	if err != nil {
		return err
	}
	if err := printDone(c.to.Out, nil, "Created %s %s\n", in.resource.Name, created.label()); err != nil {
		return err
	}
	below := map[string]any{in.parentField: created.text("uuid")}
	if in.parentField != "node_uuid" {
		below["node_uuid"] = body["node_uuid"]
	}
	return c.createAll(ctx, in.children, object, below)
}
