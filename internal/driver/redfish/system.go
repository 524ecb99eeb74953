package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// call is one call of the engine to the BMC of a node.
type call struct {
	bmc      *bmc
	api      *gofish.APIClient
	trace    *trace
	turn     driver.Turn
	systemID string // redfish_system_id
}

// with makes a call to the BMC of the node, in do. Errors of do become errors of the driver, in
// which op says what was tried. A call that only reads has the zero turn.
func (d Driver) with(ctx context.Context, n *node.Node, op string, turn driver.Turn, do func(*call) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := accessOf(n)
	if err != nil {
		return err
	}
	c := &call{turn: turn}
	if c.systemID, err = systemPathOf(n); err != nil {
		return err
	}
	if c.bmc, err = d.pool.take(a); err != nil {
		return &node.DriverError{Op: op, Retryable: true, Refused: true, Reason: node.CutText(err.Error())}
	}
	defer d.pool.release(c.bmc)
	ctx, c.trace = withTrace(ctx, turn.Origin)
	if err := c.bmc.tries.Permitted(); err != nil {
		return c.failure(op, err)
	}
	if c.api, err = c.bmc.client(ctx); err != nil {
		return c.failure(op, err)
	}
	return c.failure(op, do(c))
}

// system reads the node's system.
func (c *call) system() (*schemas.ComputerSystem, error) {
	path, err := c.systemPath()
	if err != nil {
		return nil, err
	}
	system, err := schemas.GetComputerSystem(c.api, path)
	if statusOf(err) == http.StatusNotFound {
		c.bmc.forget() // another BMC may have the address now, or other firmware
	}
	return system, err
}

// systemPath returns the path of the node's system: the one that driver_info names, or the only one
// that the BMC has, which is remembered.
func (c *call) systemPath() (string, error) {
	if c.systemID != "" {
		return c.systemID, nil
	}
	if path := c.bmc.systemPath(); path != "" {
		return path, nil
	}
	paths, err := c.systemPaths()
	if err != nil {
		return "", err
	}
	if len(paths) != 1 {
		return "", node.Invalid("The BMC has %d systems: set driver_info.%s to the path of one of them%s.", len(paths), systemKey, examples(paths))
	}
	c.bmc.setSystemPath(paths[0])
	return paths[0], nil
}

// systemPaths lists the systems of the BMC.
func (c *call) systemPaths() ([]string, error) {
	systems := c.bmc.serviceLinks().Systems
	if systems == "" {
		return nil, &node.DriverError{Op: "find the system", Reason: "the BMC lists no systems"}
	}
	return c.members(systems.String())
}

// maxPages and maxListed bound how many pages of a collection are read, and how many links a
// list may have, which are the members on all pages of a collection.
const maxPages, maxListed = 100, 10_000

var errListed = fmt.Errorf("a list of the BMC has more than %d members", maxListed)

// members lists the members of a collection, which may have several pages. An empty path is
// that of a collection that the BMC does not link.
func (c *call) members(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	var all []string
	for range maxPages {
		page, err := schemas.GetCollection(c.api, path)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.ItemLinks...); len(all) > maxListed {
			return nil, errListed
		}
		if path = page.MembersNextLink; path == "" {
			return withPath(all), nil
		}
	}
	return nil, fmt.Errorf("a collection has more than %d pages", maxPages)
}

// withPath leaves out links without a path, which the library would take for that of the
// service root.
func withPath(links []string) []string {
	return slices.DeleteFunc(links, func(path string) bool { return path == "" })
}

// relations are the links of a system that the library keeps to itself.
type relations struct {
	VirtualMedia schemas.Link
	Links        struct{ ManagedBy, Chassis schemas.Links }
}

func relationsOf(system *schemas.ComputerSystem) (relations, error) {
	var found relations
	if err := json.Unmarshal(system.RawData, &found); err != nil {
		return found, fmt.Errorf("read the links of the system: %w", err)
	}
	return found, nil
}

// readEach reads the documents of a list, one after the other. The library reads lists in
// goroutines of its own, in which an answer that it does not expect ends the process.
func readEach[T any](c *call, links []string) ([]T, error) {
	if len(links) > maxListed {
		return nil, errListed
	}
	var all []T
	for _, path := range withPath(links) {
		var one T
		if err := c.read(path, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// read reads a document for those parts that the library keeps to itself.
func (c *call) read(path string, into any) error {
	answer, err := c.api.Get(path)
	if err != nil {
		return err
	}
	defer discard(answer)
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// readRegistry reads a document that may be as large as the registry of BIOS attributes.
func (c *call) readRegistry(path string, into any) error {
	c.trace.registry = true
	defer func() { c.trace.registry = false }()
	return c.read(path, into)
}

// examples lists some paths.
func examples(paths []string) string {
	const most = 8
	if len(paths) == 0 {
		return ""
	}
	text := ": " + strings.Join(paths[:min(len(paths), most)], ", ")
	if len(paths) > most {
		text += fmt.Sprintf(" and %d others", len(paths)-most)
	}
	return node.CutText(text)
}
