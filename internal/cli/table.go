package cli

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Table prints rows that do not come from an engine, under the titles of their columns. As JSON or
// YAML it prints value, which the rows were made of.
func (o Output) Table(w io.Writer, titles []string, rows [][]string, value any) error {
	switch o {
	case OutputJSON, OutputYAML:
		return o.structured(w, value)
	case OutputName:
		for _, row := range rows {
			if _, err := fmt.Fprintln(w, printable(row[0])); err != nil {
				return err
			}
		}
		return nil
	}
	header, cells := make(table.Row, len(titles)), make([]table.Row, len(rows))
	for i, title := range titles {
		header[i] = title
	}
	for i, row := range rows {
		cells[i] = make(table.Row, len(row))
		for j, cell := range row {
			cells[i][j] = printable(cell)
		}
	}
	if o == OutputValue {
		return printValues(w, cells)
	}
	return printTable(w, header, cells, maxCellWidth)
}
