package firmware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Script boots from the network: it downloads an iPXE script, and runs it with all scripts that it
// chains to. Commands that this package does not know fail, as they do in an iPXE that was built
// without them.
func (l *Loader) Script(ctx context.Context, first string, id Identity, trace *Trace) Result {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	r := &run{loader: l, commands: commands(), settings: id.settings(), trace: trace, images: map[string]*image{}}
	err := r.chain(ctx, first)
	switch {
	case r.over != nil:
		return *r.over
	case err != nil:
		return Result{Action: NextDevice, Reason: err.Error()}
	}
	return Result{Action: NextDevice, Reason: "the script of " + first + " ended"}
}

// run is one boot with scripts.
type run struct {
	loader   *Loader
	commands map[string]func(context.Context, invocation) error
	settings map[string]string
	trace    *Trace
	images   map[string]*image // by their names
	selected *image            // the kernel that boot starts
	steps    int
	depth    int
	over     *Result // set once the machine has left iPXE
}

// image is a downloaded file.
type image struct {
	name    string
	source  string
	kernel  bool
	ramdisk bool
	words   []string // arguments
}

// script is one script that runs.
type script struct {
	source *url.URL
	lines  []string
	next   int
	exited bool
	status error // that of the command exit
}

// errTooMuch ends a boot whose scripts do not end in time.
var errTooMuch = errors.New("the scripts go on for too long")

// chain downloads a script and runs it to its end.
func (r *run) chain(ctx context.Context, target string) error {
	if r.depth >= maxDepth {
		return r.leave(fmt.Errorf("%w: %d scripts wait for another one", errTooMuch, r.depth))
	}
	var text bytes.Buffer
	n, err := r.loader.fetch(ctx, target, maxScript, &text)
	if err != nil {
		r.trace.Add("%v", err)
		return err
	}
	r.trace.Add("%s: %d bytes", target, n)
	lines := strings.Split(strings.ReplaceAll(text.String(), "\r\n", "\n"), "\n")
	if strings.TrimSpace(lines[0]) != "#!ipxe" {
		err := fmt.Errorf("%s is no script: it does not begin with #!ipxe", target)
		r.trace.Add("%v", err)
		return err
	}
	source, err := url.Parse(target)
	if err != nil {
		return err
	}
	r.depth++
	defer func() { r.depth-- }()
	return r.execute(ctx, &script{source: source, lines: lines[1:]})
}

// leave leaves iPXE because of err.
func (r *run) leave(err error) error {
	r.trace.Add("%v", err)
	r.over = &Result{Action: Halt, Reason: err.Error()}
	return err
}

// execute runs a script to its end. As in iPXE, a line that fails ends the script.
func (r *run) execute(ctx context.Context, s *script) error {
	for r.over == nil && !s.exited && s.next < len(s.lines) {
		if ctx.Err() != nil {
			return r.leave(fmt.Errorf("%w: %w", errTooMuch, context.Cause(ctx)))
		}
		if r.steps++; r.steps > maxSteps {
			return r.leave(fmt.Errorf("%w: %d lines", errTooMuch, maxSteps))
		}
		line := strings.TrimSpace(s.lines[s.next])
		s.next++
		if err := r.line(ctx, s, line); err != nil && !s.exited && r.over == nil {
			r.trace.Add("line %d of %s failed: %s: %v", s.next+1, s.source, line, err)
			return err
		}
	}
	return s.status
}

// line runs the commands of a line, which are joined by || and &&.
func (r *run) line(ctx context.Context, s *script, line string) (err error) {
	if strings.HasPrefix(line, ":") {
		return nil
	}
	words := strings.Fields(line)
	wanted := true // whether the next command runs
	for r.over == nil && !s.exited {
		end := slices.IndexFunc(words, func(w string) bool { return w == "||" || w == "&&" || strings.HasPrefix(w, "#") })
		command := words
		if end >= 0 {
			command = words[:end]
		}
		if wanted {
			err = nil // the empty command succeeds
			if len(command) > 0 {
				err = r.command(ctx, s, command)
			}
		}
		if end < 0 || strings.HasPrefix(words[end], "#") {
			break
		}
		wanted = (words[end] == "&&") == (err == nil)
		words = words[end+1:]
	}
	return err
}

// command runs one command.
func (r *run) command(ctx context.Context, s *script, words []string) error {
	expanded := make([]string, len(words))
	for i, word := range words { // the words are split before, so that values may have spaces
		expanded[i] = r.expand(word)
	}
	do, ok := r.commands[expanded[0]]
	if !ok {
		return fmt.Errorf("%s: command not found", expanded[0])
	}
	options, args := split(expanded[1:])
	return do(ctx, invocation{run: r, script: s, options: options, args: args})
}
