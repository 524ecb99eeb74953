// Command image writes Ingot's container image, for one platform or several, without
// a daemon and without a base image: the program, the certificate authorities that it
// should trust, and two empty folders.
//
// What it writes depends on the source tree, the version of Go and its flags only, so that
// everybody can check a published image.
//
// Run it inside this module: go -C tools/image run . -h
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
)

// options are the flags.
type options struct {
	name      string // of the image, with its tag
	version   string
	commit    string
	created   time.Time
	platforms []oci.Platform
	caBundle  string // PEM file; empty for none
	output    string // folder of the image layout; the archive is beside it
	build     builder
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	digest, err := write(ctx, opts)
	if err != nil {
		return err
	}
	fmt.Printf("%s is in %s and %s\n%s\n", opts.name, opts.output, archiveOf(opts.output), digest)
	return nil
}

// parse reads the flags.
func parse(args []string) (options, error) {
	var opts options
	var platforms string
	var created int64
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&opts.name, "name", "ingot:dev", "name and tag of the image")
	f.StringVar(&opts.version, "version", "", "version of Ingot")
	f.StringVar(&opts.commit, "commit", "", "commit of Ingot")
	f.Int64Var(&created, "created", 0, "time of everything in the image, in seconds since 1970; that of the commit, so that the same commit gives the same image")
	f.StringVar(&platforms, "platforms", "linux/amd64", "platforms, separated by commas, such as linux/amd64,linux/arm64")
	f.StringVar(&opts.caBundle, "ca-bundle", "", "PEM file of the certificate authorities that the image trusts (default none)")
	f.StringVar(&opts.output, "output", "", "folder of the OCI image layout, which is replaced; beside it is an archive of it")
	if err := f.Parse(args); err != nil {
		return opts, err
	}
	if opts.output == "" {
		return opts, errors.New("-output: want a folder")
	}
	var err error
	if opts.output, err = filepath.Abs(opts.output); err != nil {
		return opts, fmt.Errorf("-output: %w", err)
	}
	for name := range strings.SplitSeq(platforms, ",") {
		p, err := oci.ParsePlatform(name)
		if err != nil || p.OS != "linux" || p.Architecture == "" || p.Variant != "" {
			return opts, fmt.Errorf("-platforms: %q is not a platform such as linux/arm64", name)
		}
		opts.platforms = append(opts.platforms, *p)
	}
	opts.created = time.Unix(created, 0).UTC()
	opts.build = goBuild(opts.version, opts.commit, "-trimpath")
	return opts, nil
}
