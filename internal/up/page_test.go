package up

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pageTimeout bounds each command of a page, and each wait of a reader.
const pageTimeout = 3 * time.Minute

// page runs the commands of a documentation page as its reader does, in the folder of the sources.
type page struct {
	text string
	// data is the data folder that the page names, and folder is used instead of it.
	data, folder string
	// env is the environment of the next command, as the shell of a terminal would keep it.
	env []string
	// until says when the reader types Ctrl-C to end a command that watches, judging by its output.
	// The key is a part of the command.
	until map[string]func(output string) bool
}

// openPage opens a page for a reader who has no program but Go.
func openPage(t *testing.T, name, data, folder string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(tool, filepath.Join(path, "go")); err != nil {
		t.Fatal(err)
	}
	return &page{text: string(text), data: data, folder: folder, env: append(os.Environ(), "PATH="+path)}
}

// follow runs the commands of a section in their order.
func (p *page) follow(t *testing.T, section string) {
	t.Helper()
	_, text, found := strings.Cut(p.text, "\n## "+section+"\n")
	if !found {
		t.Fatalf("the page has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		began := time.Now()
		switch {
		case !is, strings.HasPrefix(command, "ingot "): // ingot is not built
		case strings.Contains(command, " --watch"):
			p.watch(t, command)
		default:
			p.run(t, command)
		}
		if is {
			t.Logf("%5.1fs $ %s", time.Since(began).Seconds(), command)
		}
	}
}

// shell returns a command with the environment that the commands before have left.
func (p *page) shell(ctx context.Context, t *testing.T, command string) *exec.Cmd {
	t.Helper()
	command = strings.ReplaceAll(command, "$PWD/"+p.data, p.folder)
	command = strings.ReplaceAll(command, " "+p.data, " "+p.folder)
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", command)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), p.env
	return cmd
}

// run runs a command that ends, and keeps the variables that it sets.
func (p *page) run(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	kept := filepath.Join(t.TempDir(), "environment")
	output, err := p.shell(ctx, t, "set -ea; "+command+"\n/usr/bin/env -0 >"+kept).CombinedOutput()
	if err != nil {
		t.Fatalf("$ %s\n%s%v", command, output, err)
	}
	env, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	p.env = strings.Split(strings.TrimSuffix(string(env), "\x00"), "\x00")
}

// watch runs a command until the reader types Ctrl-C.
func (p *page) watch(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	cmd := p.shell(ctx, t, "exec "+command)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output, ends := "", p.ends(t, command)
	for lines := bufio.NewScanner(stdout); !ends(output); {
		if !lines.Scan() {
			t.Fatalf("$ %s\n%sended before its reader saw what the page promises: %v, %v", command, output, lines.Err(), cmd.Wait())
		}
		output += lines.Text() + "\n"
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the interruption
}

// ends returns the function that says when a command that watches is interrupted.
func (p *page) ends(t *testing.T, command string) func(string) bool {
	t.Helper()
	for part, ends := range p.until {
		if strings.Contains(command, part) {
			return ends
		}
	}
	t.Fatalf("nothing says when to interrupt %q", command)
	return nil
}
