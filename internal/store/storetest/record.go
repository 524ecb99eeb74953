package storetest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/ingot-metal/ingot/internal/node"
)

// leaf is one stored field of a record. The leaves are found by reflection, so a
// field without a column fails the suite on the day it is added.
type leaf struct {
	name   string // for messages
	column string // as queries name it
	index  []int  // path of reflect.Value.FieldByIndex
	item   int    // position in an array field, -1 for other fields
}

// irregular columns, whose names do not follow from their fields.
var irregular = map[string]string{"IsSmartNIC": "is_smartnic", "PortgroupUUID": "portgroup_uuid"}

// leaves lists the fields of a record type that are stored in columns of their
// own and are not set by the store itself.
func leaves[T any](except ...string) []leaf {
	skip := map[string]bool{"ID": true, "NodeID": true, "NodeUUID": true, "CreatedAt": true, "Lease": true}
	for _, name := range except {
		skip[name] = true
	}
	var found []leaf
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		field := t.Field(i)
		switch {
		case skip[field.Name]:
		case field.Type == reflect.TypeFor[node.Interfaces]():
			for kind := range node.InterfaceCount {
				found = append(found, leaf{"Interfaces[" + kind.String() + "]", kind.Field(), field.Index, int(kind)})
			}
		default:
			found = append(found, leaf{field.Name, columnOf(field.Name), field.Index, -1})
		}
	}
	return found
}

// columnOf turns RAIDConfig into raid_config.
func columnOf(field string) string {
	if name, ok := irregular[field]; ok {
		return name
	}
	var column strings.Builder
	letters := []rune(field)
	for i, letter := range letters {
		startsWord := i > 0 && unicode.IsUpper(letter) &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if startsWord {
			column.WriteByte('_')
		}
		column.WriteRune(unicode.ToLower(letter))
	}
	return column.String()
}

// in returns the leaf's value in the record that pointer points to.
func (l leaf) in(pointer any) reflect.Value {
	v := reflect.ValueOf(pointer).Elem().FieldByIndex(l.index)
	if l.item >= 0 {
		v = v.Index(l.item)
	}
	return v
}

// set gives the leaf a value that depends on its name and on salt, and is never
// the zero value unless salt is -1.
func (l leaf) set(pointer any, salt int) {
	v := l.in(pointer)
	if salt < 0 {
		v.SetZero()
		return
	}
	switch v.Interface().(type) {
	case node.Object:
		v.Set(reflect.ValueOf(node.ObjectOf(map[string]any{l.column: salt, "text": `ü "quoted"`})))
		return
	case node.Array:
		v.Set(reflect.ValueOf(node.Array(fmt.Sprintf(`[%d]`, salt))))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2030, 1, 2+salt, 3, 4, 5, 678901000, time.UTC)))
		return
	case *bool:
		value := salt%2 == 1 // false first: it must not come back as nil
		v.Set(reflect.ValueOf(&value))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s ü'%d", l.name, salt))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(salt) + 1)
	default:
		panic(fmt.Sprintf("storetest: teach leaf.set about %s of field %s", v.Type(), l.name))
	}
}

// compare orders two records by the leaf as a database must: null first, then by
// value, text by bytes.
func (l leaf) compare(a, b any) int {
	av, bv := l.in(a), l.in(b)
	switch x := av.Interface().(type) {
	case node.Object:
		return strings.Compare(string(x), string(bv.Interface().(node.Object)))
	case node.Array:
		return strings.Compare(string(x), string(bv.Interface().(node.Array)))
	case int64:
		return cmp.Compare(x, bv.Int())
	case time.Time:
		return x.Compare(bv.Interface().(time.Time))
	case *bool:
		return cmp.Compare(rank(x), rank(bv.Interface().(*bool)))
	}
	if av.Kind() == reflect.Bool {
		x, y := av.Bool(), bv.Bool()
		return cmp.Compare(rank(&x), rank(&y))
	}
	return strings.Compare(av.String(), bv.String())
}

func rank(b *bool) int {
	switch {
	case b == nil:
		return 0
	case !*b:
		return 1
	default:
		return 2
	}
}

// fieldOf returns a field of the record that pointer points to.
func fieldOf(pointer any, name string) (reflect.Value, bool) {
	v := reflect.ValueOf(pointer).Elem().FieldByName(name)
	return v, v.IsValid()
}

func setText(pointer any, name, text string) {
	v, _ := fieldOf(pointer, name)
	v.SetString(text)
}

// identOf returns the UUID of a record of any kind.
func identOf[T any](record *T) string {
	v, _ := fieldOf(record, "UUID")
	return v.String()
}

// fill sets every leaf of a record.
func fill(pointer any, fields []leaf, salt int) {
	for _, l := range fields {
		l.set(pointer, salt)
	}
}
