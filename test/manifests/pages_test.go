package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsOfThePagesNameOneFolder holds because kubectl applies only the last of several.
func TestCommandsOfThePagesNameOneFolder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, command := range strings.Split(line, "kubectl ")[1:] {
				folders := strings.Count(command, " -k ")
				if folders > 1 {
					t.Errorf("%s: kubectl %s", filepath.Base(file), command)
				}
				commands += folders
			}
		}
	}
	if commands == 0 {
		t.Error("no page has a command with a folder")
	}
}
