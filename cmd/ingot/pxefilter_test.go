package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryOptionOfThePXEFilterIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/pxe-filter.md")
	if err != nil {
		t.Fatal(err)
	}
	newPXEFilterCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("docs/pxe-filter.md does not name --%s", f.Name)
		}
	})
}
