package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const clientPage = "../../docs/client.md"

// documentedLines are the command lines of ingot in a page's examples, with
// continued lines joined and without what follows a pipe or is standard input.
func documentedLines(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", "")) {
		if rest, ok := strings.CutPrefix(line, "$ ingot "); ok {
			command, _, _ := strings.Cut(rest, " | ")
			command, _, _ = strings.Cut(command, " <")
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// parse finds the command of a line and checks its flags and arguments, as far
// as no engine is needed for that.
func parse(line string) (*cobra.Command, error) {
	root := newRootCommand()
	root.SetIn(strings.NewReader("correct-horse\n")) // a password, where a flag says "-"
	cmd, rest, err := root.Find(spaces(strings.ReplaceAll(line, `"`, `'`)))
	if err != nil {
		return nil, err
	}
	if cmd.HasSubCommands() {
		return nil, errors.New("it is no command but a group")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	return cmd, cmd.ValidateArgs(cmd.Flags().Args())
}

func TestClientPageHasAnExampleOfEveryCommand(t *testing.T) {
	lines := documentedLines(t, clientPage)
	t.Chdir(t.TempDir())
	for _, name := range []string{"steps.yaml", "user-data.json", "raid.json", "rack1.yaml"} {
		if err := os.WriteFile(filepath.Join(".", name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := map[string]bool{}
	for _, line := range lines {
		cmd, err := parse(line)
		if err != nil {
			t.Errorf("ingot %s: %v", line, err)
			continue
		}
		shown[cmd.CommandPath()] = true
	}
	hidden := hiddenCommands(newRootCommand())
	for _, words := range clientCommands(newRootCommand()) {
		if !shown[words] && !slices.Contains(hidden, words) {
			t.Errorf("%s has no example of %q", clientPage, words)
		}
	}
}

func TestExamplesOfOtherPagesAreCommands(t *testing.T) {
	var lines []string
	for _, page := range []string{"redfish", "bmc-test"} {
		examples := documentedLines(t, "../../docs/"+page+".md")
		if len(examples) == 0 {
			t.Fatalf("the page %s has no examples", page)
		}
		lines = append(lines, examples...)
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"steps.yaml": "[]", "raid.json": "{}"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range lines {
		if _, err := parse(line); err != nil {
			t.Errorf("ingot %s: %v", line, err)
		}
	}
}

func TestClientPageNamesTheOtherNamesOfCommands(t *testing.T) {
	content, err := os.ReadFile(clientPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range hiddenCommands(newRootCommand()) {
		words = strings.TrimPrefix(words, "ingot ")
		group, _, _ := strings.Cut(words, " group ")
		if !strings.Contains(string(content), "`"+words+"`") && !strings.Contains(string(content), "`"+group+" group …`") {
			t.Errorf("%s does not name %q", clientPage, words)
		}
	}
}

// hiddenCommands are the client commands that help texts do not show, by their
// words.
func hiddenCommands(cmd *cobra.Command) []string {
	var all []string
	for _, child := range cmd.Commands() {
		if child.Hidden {
			all = append(all, clientCommands(child)...)
			continue
		}
		all = append(all, hiddenCommands(child)...)
	}
	return all
}
