// Command envtest fetches programs of a Kubernetes control plane that are published
// for controller-runtime's envtest, with the client of its setup-envtest, and puts
// those that its arguments name into a folder.
//
// It is a module of its own because setup-envtest needs other versions of
// Kubernetes' libraries than the Kubernetes that tools/controlplane builds.
//
//	go run . -kubernetes 1.36.3 -dir FOLDER etcd kube-apiserver kubectl
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

const (
	// indexTimeout bounds the request for the index, a file of some kilobytes.
	indexTimeout = 10 * time.Second
	// stallTimeout is how long nothing may come from a download.
	stallTimeout = 15 * time.Second
	// downloadTimeout bounds a download, because building takes no longer than that.
	downloadTimeout = 5 * time.Minute
)

func main() {
	s := source{
		platform:     versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH},
		indexTimeout: indexTimeout, stallTimeout: stallTimeout, downloadTimeout: downloadTimeout,
	}
	dir := flag.String("dir", "", "folder for the programs")
	flag.StringVar(&s.kubernetes, "kubernetes", "", "version of Kubernetes, such as 1.36.3")
	flag.StringVar(&s.index, "index", remote.DefaultIndexURL, "URL of the index of published programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.fetch(ctx, *dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}
