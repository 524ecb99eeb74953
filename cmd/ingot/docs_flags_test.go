package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestEveryFlagOfTheSimulatorsIsDocumented(t *testing.T) {
	for pages, cmd := range map[string]*cobra.Command{
		"try-cluster.md": newUpCommand(),
		"simulated-machines.md, simulated-bmcs.md": newSimCommand(),
		"fake-hardware.md":                         newFakeMachinesCommand(),
	} {
		var text strings.Builder
		for page := range strings.SplitSeq(pages, ", ") {
			content, err := os.ReadFile("../../docs/" + page)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(content)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(text.String(), "`--"+f.Name+"`") {
				t.Errorf("%s: no page names --%s", pages, f.Name)
			}
		})
	}
}

// TestSwitchesHaveNoValueInTheHelp holds because backquotes in the text of a flag name its value.
func TestSwitchesHaveNoValueInTheHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); f.Value.Type() == "bool" && value != "" {
				t.Errorf("%s: the help of --%s has the value %q", cmd.CommandPath(), f.Name, value)
			}
		})
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(newRootCommand())
}
