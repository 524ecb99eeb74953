package cli

import (
	"encoding/json"
	"maps"
	"slices"
)

// rows splits a JSON value into rows, which have the columns as fields.
type rows func(raw json.RawMessage, columns []string) ([]document, error)

// objectRows returns a row for each object of a list.
func objectRows(raw json.RawMessage, _ []string) ([]document, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	found := make([]document, len(list))
	for i, item := range list {
		var err error
		if found[i], err = parseDocument(item); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stringRows returns a row for each string of a list, with one column.
func stringRows(raw json.RawMessage, columns []string) ([]document, error) {
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	found := make([]document, len(list))
	for i, word := range list {
		found[i] = document{fields: map[string]any{columns[0]: word, "name": word}}
	}
	return found, nil
}

// memberRows returns a row for each member of an object: the first column is the key,
// the others are fields of its value, or the value itself when it is no object.
func memberRows(raw json.RawMessage, columns []string) ([]document, error) {
	all, err := parseDocument(raw)
	if err != nil {
		return nil, err
	}
	var found []document
	for _, key := range slices.Sorted(maps.Keys(all.fields)) {
		fields := map[string]any{}
		if value, ok := all.fields[key].(map[string]any); ok {
			maps.Copy(fields, value)
		} else {
			fields[columns[1]] = all.fields[key]
		}
		fields[columns[0]] = key
		fields["name"] = key
		found = append(found, document{fields: fields})
	}
	return found, nil
}
