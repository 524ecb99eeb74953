package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// invocation is one command with its arguments.
type invocation struct {
	*run
	script  *script
	options map[string]string
	args    []string
}

// commands returns the commands of iPXE that scripts may use (https://ipxe.org/cmd). Commands that
// change the network succeed without an effect. It is a function and not a variable, because some
// commands run other commands.
func commands() map[string]func(context.Context, invocation) error {
	nothing := func(context.Context, invocation) error { return nil }
	return map[string]func(context.Context, invocation) error{
		"dhcp": nothing, "ifopen": nothing, "ifclose": nothing, "ifconf": nothing, "ifstat": nothing, "imgstat": nothing,
		"echo": echo, "set": set, "clear": set, "isset": isset, "iseq": iseq, "inc": increment, "goto": jump, "sleep": sleep,
		"chain": chain, "imgload": load, "imgfetch": load, "module": load, "kernel": loadKernel, "initrd": loadRamdisk,
		"imgargs": arguments, "imgfree": free, "boot": boot, "imgexec": boot,
		"sanboot": bootDisk, "exit": exit, "reboot": reboot, "poweroff": stop, "shell": stop,
	}
}

// valued are the options that take a value.
var valued = []string{"-n", "--name", "-t", "--timeout", "-d", "--drive", "-f", "--filename", "-w", "--width"}

// split separates the options from the arguments that follow them.
func split(words []string) (options map[string]string, args []string) {
	options = map[string]string{}
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		name, value, given := strings.Cut(words[0], "=")
		words = words[1:]
		if !given && slices.Contains(valued, name) && len(words) > 0 {
			value, words = words[0], words[1:]
		}
		name = strings.TrimLeft(name, "-")
		options[name[:min(1, len(name))]] = value
	}
	return options, words
}

var errUsage = errors.New("wrong number of arguments")

func echo(_ context.Context, c invocation) error {
	c.trace.Add("echo %s", strings.Join(c.args, " "))
	return nil
}

// set sets a variable, or clears it if there is no value.
func set(_ context.Context, c invocation) error {
	if len(c.args) == 0 {
		return errUsage
	}
	name, _, _ := strings.Cut(c.args[0], ":")
	delete(c.settings, name)
	if len(c.args) > 1 {
		c.settings[name] = strings.Join(c.args[1:], " ")
	}
	return nil
}

func isset(_ context.Context, c invocation) error {
	if len(c.args) != 1 || c.args[0] == "" {
		return errors.New("it is not set")
	}
	return nil
}

func iseq(_ context.Context, c invocation) error {
	if len(c.args) != 2 {
		return errUsage
	}
	if c.args[0] != c.args[1] {
		return fmt.Errorf("%q is not %q", c.args[0], c.args[1])
	}
	return nil
}

func increment(_ context.Context, c invocation) error {
	if len(c.args) == 0 {
		return errUsage
	}
	step := 1
	if len(c.args) > 1 {
		step, _ = strconv.Atoi(c.args[1]) // text counts as 0
	}
	now, _ := strconv.Atoi(c.settings[c.args[0]])
	c.settings[c.args[0]] = strconv.Itoa(now + step)
	return nil
}

// jump goes to a label.
func jump(_ context.Context, c invocation) error {
	if len(c.args) != 1 {
		return errUsage
	}
	for i, line := range c.script.lines {
		if label, ok := strings.CutPrefix(strings.TrimSpace(line), ":"); ok && strings.TrimSpace(label) == c.args[0] {
			c.script.next = i + 1
			return nil
		}
	}
	return fmt.Errorf("there is no label %s", c.args[0])
}

func sleep(ctx context.Context, c invocation) error {
	if len(c.args) != 1 {
		return errUsage
	}
	seconds, err := strconv.ParseUint(c.args[0], 10, 16)
	if err != nil {
		return err
	}
	return c.loader.sleep(ctx, time.Duration(seconds)*time.Second)
}

// resolve returns the absolute URL of a target, which may be relative to the URL of the script.
func (c invocation) resolve(target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	return c.script.source.ResolveReference(u).String(), nil
}

// chain runs another script and then continues this one, unless the other script replaces it.
func chain(ctx context.Context, c invocation) error {
	if len(c.args) == 0 {
		return errUsage
	}
	target, err := c.resolve(c.args[0])
	if err != nil {
		return err
	}
	err = c.chain(ctx, target)
	if _, replaces := c.options["r"]; replaces && err == nil {
		c.script.exited = true
	}
	return err
}

// download downloads a file, which the machine keeps until it boots.
func (c invocation) download(ctx context.Context) (*image, error) {
	if len(c.args) == 0 {
		return nil, errUsage
	}
	target, err := c.resolve(c.args[0])
	if err != nil {
		return nil, err
	}
	n, err := c.loader.fetch(ctx, target, maxLoaded, io.Discard)
	if err != nil {
		return nil, err
	}
	c.trace.Add("%s: %d bytes", target, n)
	i := &image{name: c.options["n"], source: target, words: c.args[1:]}
	if u, err := url.Parse(target); i.name == "" && err == nil {
		i.name = path.Base(u.Path)
	}
	c.images[i.name] = i
	return i, nil
}

func load(ctx context.Context, c invocation) error {
	_, err := c.download(ctx)
	return err
}

func loadKernel(ctx context.Context, c invocation) error {
	i, err := c.download(ctx)
	if err == nil {
		i.kernel, c.selected = true, i
	}
	return err
}

func loadRamdisk(ctx context.Context, c invocation) error {
	i, err := c.download(ctx)
	if err == nil {
		i.ramdisk = true
	}
	return err
}

func arguments(_ context.Context, c invocation) error {
	if len(c.args) == 0 {
		return errUsage
	}
	i := c.images[c.args[0]]
	if i == nil {
		return fmt.Errorf("there is no image %s", c.args[0])
	}
	i.words = c.args[1:]
	return nil
}

func free(_ context.Context, c invocation) error {
	for _, name := range c.args {
		if c.selected != nil && c.selected.name == name {
			c.selected = nil
		}
		delete(c.images, name)
	}
	if len(c.args) == 0 {
		clear(c.images)
		c.selected = nil
	}
	return nil
}

// boot starts the selected kernel, or the kernel that its argument names or that it downloads.
func boot(ctx context.Context, c invocation) error {
	kernel := c.selected
	if len(c.args) > 0 {
		if kernel = c.images[c.args[0]]; kernel == nil {
			if err := loadKernel(ctx, c); err != nil {
				return err
			}
			kernel = c.selected
		}
	}
	if kernel == nil {
		return errors.New("there is no kernel to boot")
	}
	if problem := c.ramdiskProblem(kernel); problem != "" {
		return c.leave(errors.New(problem))
	}
	c.over = &Result{Action: StartKernel, Source: kernel.source, Parameters: map[string]string{}}
	parse(c.over.Parameters, strings.Fields(strings.Join(kernel.words, " ")))
	return nil
}

// ramdiskProblem says why a kernel would stop because of its ramdisk; empty if it would not.
func (r *run) ramdiskProblem(kernel *image) string {
	var loaded bool
	for _, i := range r.images {
		loaded = loaded || i.ramdisk
	}
	if !loaded {
		return "the kernel was started without a ramdisk and panics"
	}
	for _, word := range kernel.words {
		name, given := strings.CutPrefix(word, "initrd=")
		if i := r.images[name]; given && (i == nil || !i.ramdisk) {
			return fmt.Sprintf("the kernel finds no ramdisk named %s, which its command line asks for", name)
		}
	}
	return ""
}

// bootDisk boots from a disk of the machine, or from an ISO image on a web server as if from a CD.
// No other network disks are supported.
func bootDisk(ctx context.Context, c invocation) error {
	if len(c.args) == 0 {
		c.over = &Result{Action: StartDisk}
		return nil
	}
	target, err := c.resolve(c.args[0])
	if err != nil {
		return err
	}
	result := c.loader.Medium(ctx, target, nil, c.settings["platform"] == "efi", c.trace)
	if result.Action != StartKernel {
		return errors.New(result.Reason)
	}
	c.over = &result
	return nil
}

// exit ends the script. With a status other than 0, the script fails.
func exit(_ context.Context, c invocation) error {
	c.script.exited = true
	if len(c.args) > 0 && c.args[0] != "0" {
		c.script.status = fmt.Errorf("the script exited with status %s", c.args[0])
	}
	return nil
}

func reboot(_ context.Context, c invocation) error {
	c.over = &Result{Action: Restart, Reason: "the script of " + c.script.source.String() + " restarted the machine"}
	return nil
}

// stop makes the machine wait for a person in front of it.
func stop(_ context.Context, c invocation) error {
	c.over = &Result{Action: Halt, Reason: "the script of " + c.script.source.String() + " stopped the machine"}
	return nil
}
