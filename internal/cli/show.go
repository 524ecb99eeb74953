package cli

import (
	"context"
	"io"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// Show prints one thing of a collection.
type Show struct {
	Resource Resource
	// Fields limit what is shown; none means everything.
	Fields []string
	Output Output
}

// Run reads the thing with the name or UUID ident and prints it to out.
func (s *Show) Run(ctx context.Context, engine *baremetal.Client, ident string, out io.Writer) error {
	listing := s.Resource.listing()
	listing.Fields = s.Fields
	raw, err := engine.Document(ctx, "show "+s.Resource.Name+" "+ident, listing, ident)
	if err != nil {
		return s.Resource.advise(err)
	}
	return s.Output.document(out, s.Fields, raw)
}
