package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// call is one call of the engine to the BMC of a node.
type call struct {
	bmc    *bmc
	api    *gofish.APIClient
	trace  *trace
	turn   driver.Turn
	wanted string // redfish_system_id
}

// with makes a call: do gets the BMC of the node. What fails becomes an error of the
// driver, in which op is what was tried. A call that only reads has the zero turn.
func (d Driver) with(ctx context.Context, n *node.Node, op string, turn driver.Turn, do func(*call) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := accessOf(n)
	if err != nil {
		return err
	}
	c := &call{turn: turn}
	if c.wanted, err = systemPathOf(n); err != nil {
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

// systemPath is the path of the node's system: the one that driver_info names, or the
// only one that the BMC has, which is remembered.
func (c *call) systemPath() (string, error) {
	if c.wanted != "" {
		return c.wanted, nil
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

// maxPages bounds how many pages of a collection are read.
const maxPages = 100

// members lists the members of a collection, which may have several pages.
func (c *call) members(path string) ([]string, error) {
	var all []string
	for range maxPages {
		page, err := schemas.GetCollection(c.api, path)
		if err != nil {
			return nil, err
		}
		all = append(all, page.ItemLinks...)
		if path = page.MembersNextLink; path == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("a collection has more than %d pages", maxPages)
}

// read reads a document for those parts that the library keeps to itself.
func (c *call) read(path string, into any) error {
	answer, err := c.api.Get(path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
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
