package store

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// pageClause turns a query into the WHERE, ORDER BY and LIMIT clauses of a SELECT from table. Only
// columns that the function column knows get into the text of the statement.
func pageClause(tx *Tx, table string, q node.Query, column func(field string) (string, bool)) (string, []any, error) {
	var conditions []string
	var args []any
	for _, f := range q.Filters {
		condition, values, err := anyCondition(table, f, column)
		if err != nil {
			return "", nil, err
		}
		conditions = append(conditions, condition)
		args = append(args, values...)
	}
	key := q.SortKey
	if key == "" {
		key = "id"
	}
	if name, ok := column(key); !ok || name != table+"."+key {
		return "", nil, fmt.Errorf("sort %s by %q: no such column", table, key)
	}
	if q.Marker != "" {
		condition, values, err := afterMarker(tx, table, key, q)
		if err != nil {
			return "", nil, err
		}
		conditions = append(conditions, condition)
		args = append(args, values...)
	}
	var clause strings.Builder
	if len(conditions) > 0 {
		clause.WriteString(" WHERE " + strings.Join(conditions, " AND "))
	}
	direction, nulls := " ASC", " NULLS FIRST"
	if q.Desc {
		direction, nulls = " DESC", " NULLS LAST"
	}
	clause.WriteString(" ORDER BY ")
	if key != "id" {
		clause.WriteString(table + "." + key + direction + nulls + ", ")
	}
	clause.WriteString(table + ".id" + direction)
	if q.Limit > 0 {
		clause.WriteString(" LIMIT ?")
		args = append(args, q.Limit)
	}
	return clause.String(), args, nil
}

// afterMarker returns the condition for rows that come after the marker in the order of key and id.
// Null sorts before every value.
func afterMarker(tx *Tx, table, key string, q node.Query) (string, []any, error) {
	var id int64
	var value any
	found, err := tx.one("SELECT id, "+key+" FROM "+table+" WHERE uuid = ?", []any{q.Marker}, &id, &value)
	if err != nil {
		return "", nil, err
	}
	if !found {
		return "", nil, &node.NotFoundError{Kind: "Marker", Ident: q.Marker}
	}
	than := ">"
	if q.Desc {
		than = "<"
	}
	column, ident := table+"."+key, table+".id"
	switch {
	case key == "id":
		return ident + " " + than + " ?", []any{id}, nil
	case value == nil && q.Desc:
		return "(" + column + " IS NULL AND " + ident + " < ?)", []any{id}, nil
	case value == nil:
		return "(" + column + " IS NOT NULL OR " + ident + " > ?)", []any{id}, nil
	case q.Desc:
		return "(" + column + " < ? OR " + column + " IS NULL OR (" + column + " = ? AND " + ident + " < ?))", []any{value, value, id}, nil
	default:
		return "(" + column + " > ? OR (" + column + " = ? AND " + ident + " > ?))", []any{value, value, id}, nil
	}
}

// anyCondition returns the condition of a filter and of its alternatives in Or.
func anyCondition(table string, f node.Filter, column func(string) (string, bool)) (string, []any, error) {
	name, ok := column(f.Field)
	if !ok {
		return "", nil, fmt.Errorf("filter %s by %q: no such column", table, f.Field)
	}
	condition, args, err := filterCondition(name, f)
	if err != nil || f.Or == nil {
		return condition, args, err
	}
	other, more, err := anyCondition(table, *f.Or, column)
	return "(" + condition + " OR " + other + ")", append(args, more...), err
}

func filterCondition(column string, f node.Filter) (string, []any, error) {
	switch value := f.Value.(type) {
	case bool:
		switch {
		case f.Op == node.IsSet && value:
			return column + " IS NOT NULL", nil, nil
		case f.Op == node.IsSet:
			return column + " IS NULL", nil, nil
		case f.Op == node.Equal:
			return column + " = ?", []any{asBit(value)}, nil
		}
	case string:
		switch {
		case f.Op == node.Equal && value == "":
			return "(" + column + " IS NULL OR " + column + " = '')", nil, nil
		case f.Op == node.Equal:
			return column + " = ?", []any{value}, nil
		case f.Op == node.Contains:
			// Case is ignored only in ASCII, because databases agree on no more.
			return "lower(" + column + `) LIKE ? ESCAPE '\'`, []any{"%" + likeEscaper.Replace(lowerASCII(value)) + "%"}, nil
		}
	case int64:
		if f.Op == node.Equal {
			return column + " = ?", []any{value}, nil
		}
	case []string:
		if f.Op == node.OneOf && len(value) == 0 {
			return "1 = 0", nil, nil
		}
		if f.Op == node.OneOf {
			args := make([]any, len(value))
			for i, v := range value {
				args[i] = v
			}
			return column + " IN (" + marks(len(args)) + ")", args, nil
		}
	}
	return "", nil, fmt.Errorf("filter by %s: operator %d does not take a %T", column, f.Op, f.Value)
}

// lowerASCII converts ASCII letters to lower case, which the lower function of every database does.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, text)
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)
