// Command controlplane gets the Kubernetes control plane that Ingot's tests and
// "ingot up" run on: etcd, kube-apiserver and kubectl at the versions of this
// module's go.mod.
//
// It first asks the index of programs that the Kubernetes project publishes for
// controller-runtime's envtest (tools/envtest). Programs that it lacks, or all if it cannot be
// reached, are built from the published Go modules. kube-controller-manager, which
// is not published there, is built when -controller-manager asks for it, and so are the
// managers of Cluster API (tools/clusterapi) when -cluster-api does.
//
// The programs land in a cache folder outside the work tree whose name holds
// both versions, so that every clone on a machine shares them. The folder
// appears there as a whole or not at all, and only one process works on it at a
// time. When it is there already, or KUBEBUILDER_ASSETS names another one,
// nothing is done.
//
// Run it inside this module: go -C tools/controlplane run .
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// assetsVariable is the environment variable by which controller-runtime's
// envtest, and so Ingot, is told to use other programs than these.
const assetsVariable = "KUBEBUILDER_ASSETS"

// options are the flags.
type options struct {
	pathOnly          bool
	controllerManager bool
	clusterAPI        bool
	fromSource        bool
	index             string
}

func main() {
	var opts options
	flag.BoolVar(&opts.pathOnly, "path", false, "print the folder of the programs and do nothing else")
	flag.BoolVar(&opts.controllerManager, "controller-manager", false, "build kube-controller-manager, too")
	flag.BoolVar(&opts.clusterAPI, "cluster-api", false, "build the managers of Cluster API, too; with -path: print their folder")
	flag.BoolVar(&opts.fromSource, "from-source", false, "build everything from source")
	flag.StringVar(&opts.index, "index", "", "URL of the index of published programs (default: that of setup-envtest)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, opts); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		stop()
		os.Exit(1)
	}
}

// run gets what is missing and reports its progress on out.
func run(ctx context.Context, out io.Writer, opts options) error {
	dir := os.Getenv(assetsVariable)
	if dir != "" {
		if !opts.pathOnly {
			dir = fmt.Sprintf("%s is set: using %s, building nothing", assetsVariable, dir)
		}
		_, err := fmt.Fprintln(out, dir)
		return err
	}
	v, err := readVersions(ctx, opts.clusterAPI)
	if err != nil {
		return err
	}
	if dir, err = v.dir(); err != nil {
		return err
	}
	if opts.pathOnly {
		if opts.clusterAPI {
			dir = filepath.Join(dir, v.clusterAPIFolder())
		}
		_, err = fmt.Fprintln(out, dir)
		return err
	}
	i := installer{dir: dir, versions: v, fetch: published(opts.index), build: build, render: render, out: out}
	if opts.fromSource {
		i.fetch = nil
	}
	var wanted []addition
	if opts.controllerManager {
		wanted = append(wanted, addControllerManager)
	}
	if opts.clusterAPI {
		wanted = append(wanted, addClusterAPI(v))
	}
	return i.install(ctx, wanted...)
}
