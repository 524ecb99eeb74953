package redfish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// attribute is what the driver reads of a BIOS attribute in a registry (DSP0268,
// AttributeRegistry).
type attribute struct {
	AttributeName string
	Type          schemas.AttributeType

	ReadOnly, ResetRequired, IsSystemUniqueProperty bool

	Value []attributeValue // that it can have
	// LowerBound and UpperBound have any sign and size. One that is out of range must not cost the
	// whole registry.
	LowerBound, UpperBound json.Number
	MinLength, MaxLength   *int64
}

type attributeValue struct{ ValueName string }

// maxAttributes bounds the attributes of a registry; machines have at most some thousands.
const maxAttributes = 10_000

// attributeList has at most maxAttributes. The size of a registry is no bound: an empty attribute
// takes three bytes of it, and a hundred of memory.
type attributeList []attribute

// UnmarshalJSON reads the attributes one by one.
func (l *attributeList) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	begin, err := decoder.Token()
	switch {
	case err != nil || begin == nil: // null
		return err
	case begin != json.Delim('['):
		return errors.New("the attributes are no list")
	}
	for decoder.More() {
		if len(*l) == maxAttributes {
			return fmt.Errorf("it has more than %d attributes", maxAttributes)
		}
		var one attribute
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// registry reads an attribute registry by its name, in English where there is a choice.
func (c *call) registry(name string) (map[string]attribute, error) {
	if name == "" {
		return nil, nil
	}
	file, err := c.registryFile(name)
	if err != nil {
		return nil, err
	}
	english := func(l schemas.MessageRegistryFileLocation) bool { return strings.HasPrefix(l.Language, "en") }
	place := max(0, slices.IndexFunc(file.Location, english))
	if place >= len(file.Location) || file.Location[place].URI == "" {
		return nil, noRegistry(name)
	}
	var found struct {
		RegistryEntries struct{ Attributes attributeList }
	}
	if err := c.readRegistry(file.Location[place].URI, &found); err != nil {
		return nil, err
	}
	attributes := make(map[string]attribute, len(found.RegistryEntries.Attributes))
	for _, one := range found.RegistryEntries.Attributes {
		attributes[one.AttributeName] = one
	}
	return attributes, nil
}

// registryFile finds the resource that says where a registry is. A BMC lists dozens, so those whose
// link has the name are read first. One that cannot be read is passed over, because it may be that
// of another registry.
func (c *call) registryFile(name string) (*schemas.MessageRegistryFile, error) {
	paths, err := c.members(c.bmc.serviceLinks().Registries.String())
	if err != nil {
		return nil, err
	}
	likely := func(link string) bool { return isNamed(strings.ToLower(path.Base(link)), strings.ToLower(name)) }
	slices.SortStableFunc(paths, func(a, b string) int { return first(likely(a), likely(b)) })
	var unread error
	for _, path := range paths {
		file, err := schemas.GetMessageRegistryFile(c.api, path)
		switch {
		case endsCall(err):
			return nil, err
		case err != nil:
			unread = cmp.Or(unread, err)
		case file.ID == name || isNamed(file.Registry, name):
			return file, nil
		}
	}
	return nil, cmp.Or(unread, noRegistry(name))
}

func noRegistry(name string) error { return fmt.Errorf("the BMC has no registry %s", name) }

// isNamed reports whether a registry has a name. The name may have a version that the registry's
// own name does not have.
func isNamed(registry, name string) bool {
	return registry == name || registry != "" && strings.HasPrefix(name, registry+".")
}

// endsCall reports whether a call can read nothing more after an error.
func endsCall(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errAnswers)
}
