package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

const clientPage = "../../docs/client.md"

// documentedLines returns the command lines of ingot in a page's examples. Continued lines are
// joined. Whatever only the shell reads is left out: pipes, standard input, comments, commands in
// the background and the output of other commands.
func documentedLines(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	rest := strings.ReplaceAll(string(content), "\\\n", "")
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		command, found := strings.CutPrefix(strings.TrimSpace(line), "$ ingot ")
		if !found {
			continue
		}
		for strings.Count(command, "'")%2 == 1 && rest != "" { // a quoted value goes on
			line, rest, _ = strings.Cut(rest, "\n")
			command += "\n" + line
		}
		command = substitution.ReplaceAllString(command, "OUTPUT")
		for _, end := range []string{" | ", " <", " &", " # ", " …"} {
			command, _, _ = strings.Cut(command, end)
		}
		lines = append(lines, strings.TrimSpace(command))
	}
	return lines
}

var substitution = regexp.MustCompile(`\$\([^)]*\)`)

// parse finds the command of a line and checks its flags and arguments, as far
// as no engine is needed for that.
func parse(line string) (*cobra.Command, error) {
	root := newRootCommand()
	root.SetIn(strings.NewReader("correct-horse\n")) // a password, where a flag says "-"
	cmd, rest, err := root.Find(spaces(line))
	if err != nil {
		return nil, err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return nil, unknownCommand(cmd, cmd.Flags().Arg(0))
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
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, page := range append(pages, "../../README.md") {
		if page != clientPage {
			lines = append(lines, documentedLines(t, page)...)
		}
	}
	if len(lines) == 0 {
		t.Fatal("no page has an example")
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"steps.yaml": "[]", "raid.json": "{}", "user-data.json": "{}"} {
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

func TestExamplesAreReadAsTheShellReadsThem(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "$ ingot a --b \\\n    --c 'x\n  \"y\" z' | jq .\n   $ ingot d \"e f\" &\n$ kubectl get\n$ ingot g $(cat h) … # i\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, line := range documentedLines(t, page) {
		got = append(got, spaces(line))
	}
	want := [][]string{{"a", "--b", "--c", "x\n  \"y\" z"}, {"d", "e f"}, {"g", "OUTPUT"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
