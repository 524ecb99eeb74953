package redfish

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Document is an unchanged answer of a BMC.
type Document struct {
	Status int
	Header http.Header
	Body   []byte
}

// Document reads the resource at a path, which may have a query. It returns the answer whatever its
// status is. A body of more than most bytes, or of more than 1 MiB, is an error.
func (d Driver) Document(ctx context.Context, n *node.Node, path string, most int64) (Document, error) {
	var document Document
	err := d.with(ctx, n, "read "+path, driver.Turn{}, func(c *call) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.bmc.access.endpoint+path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", "application/json")
		client := http.Client{Transport: c.bmc, CheckRedirect: c.bmc.checkRedirect}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("the answer has more than %d bytes", most)
		}
		document = Document{Status: answer.StatusCode, Header: answer.Header, Body: text}
		return err
	})
	return document, err
}
