package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Show prints one object of a collection.
type Show struct {
	Resource Resource
	// Find means that the argument is a value of the resource's Finder.
	Find bool
	// Fields limit what is shown; none means everything.
	Fields []string
	Output Output
}

// Run reads the object with the name or UUID ident and prints it to out.
func (s *Show) Run(ctx context.Context, engine *ironic.Client, ident string, out io.Writer) error {
	read := s.read
	if s.Find {
		read = s.find
	}
	raw, err := read(ctx, engine, ident)
	if err != nil {
		return s.Resource.advise(err)
	}
	return s.Output.document(out, s.Fields, raw)
}

func (s *Show) op(ident string) string { return "show " + s.Resource.Name + " " + ident }

func (s *Show) read(ctx context.Context, engine *ironic.Client, ident string) (json.RawMessage, error) {
	listing := s.Resource.listing()
	listing.Fields = s.Fields
	return engine.Document(ctx, s.op(ident), listing, ident)
}

// find returns the object with the value in the finder's field; there is at most
// one.
func (s *Show) find(ctx context.Context, engine *ironic.Client, value string) (json.RawMessage, error) {
	listing := s.Resource.listing()
	listing.Op, listing.Fields = s.op(value), s.Fields
	var filter Values
	filter.Add(s.Resource.Finder.Name, value)
	if len(s.Fields) == 0 {
		filter.Add("detail", true)
	}
	listing.Query = filter.Query()
	for raw, err := range engine.Documents(ctx, listing) {
		return raw, err
	}
	return nil, &ironic.Error{
		Op: s.op(value), Kind: ironic.ErrNotFound,
		Message: fmt.Sprintf("no %s has the %s %s", s.Resource.Name, s.Resource.Finder.Flag, value),
	}
}
