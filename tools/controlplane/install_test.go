package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var wanted = versions{kubernetes: "1.36.3", etcd: "3.6.16", clusterAPI: "1.14.2"}

// answers are what the programs of the wanted versions say when they are asked.
func answers() map[string]string {
	all := map[string]string{}
	for _, p := range programs {
		all[p.name] = p.answer(wanted)
	}
	return all
}

// fetching fetches programs that only tell their version.
func fetching(says map[string]string) func(context.Context, versions, string) error {
	return func(_ context.Context, _ versions, dir string) error {
		for name, version := range says {
			script := fmt.Sprintf("#!/bin/sh\necho '%s'\necho more\n", version)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
				return err
			}
		}
		return nil
	}
}

// trial is an installer into an empty cache, whose builds only leave a mark.
type trial struct {
	installer

	built  []string
	output bytes.Buffer
}

func newTrial(t *testing.T, fetch func(context.Context, versions, string) error) *trial {
	t.Helper()
	x := &trial{}
	x.installer = installer{
		dir: filepath.Join(t.TempDir(), "cache", "programs"), versions: wanted, fetch: fetch, out: &x.output,
		build: func(_ context.Context, p program, _ versions, dir string) error {
			x.built = append(x.built, p.name)
			return os.WriteFile(filepath.Join(dir, p.name), []byte("built"), 0o600)
		},
		render: func(_ context.Context, kubectl string, m manager, file string) error {
			return os.WriteFile(file, []byte(kubectl+" rendered "+m.folder), 0o600)
		},
	}
	return x
}

// check installs and looks at what was built, what is in the folder, and what was said.
func (x *trial) check(t *testing.T, built, said string) {
	t.Helper()
	if err := x.install(t.Context()); err != nil {
		t.Fatalf("install: %v\n%s", err, &x.output)
	}
	if got := strings.Join(x.built, " "); got != built {
		t.Errorf("built %q, want %q\n%s", got, built, &x.output)
	}
	if !strings.Contains(x.output.String(), said) {
		t.Errorf("the output lacks %q:\n%s", said, &x.output)
	}
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if got := strings.Join(there, " "); got != everything {
		t.Errorf("the folder has %q", got)
	}
	beside, err := filepath.Glob(x.dir + building + "*")
	if err != nil || len(beside) > 0 {
		t.Errorf("left behind: %v, %v", beside, err)
	}
}

const everything = "etcd kube-apiserver kubectl"

func TestPublishedProgramsAreUsedWithoutABuild(t *testing.T) {
	x := newTrial(t, fetching(answers()))
	x.check(t, "", "Kubernetes 1.36.3 and etcd 3.6.16 are in "+x.dir)
	if err := checkVersion(t.Context(), programs[0], wanted, x.dir); err != nil {
		t.Errorf("the installed etcd: %v", err)
	}
}

func TestAProgramOfAnotherVersionIsBuilt(t *testing.T) {
	other := answers()
	other["etcd"] = "etcd Version: 3.6.6"
	x := newTrial(t, fetching(other))
	x.check(t, "etcd", `the published etcd says "etcd Version: 3.6.6", where "etcd Version: 3.6.16" is wanted`)
	if content, err := os.ReadFile(filepath.Join(x.dir, "etcd")); err != nil || string(content) != "built" {
		t.Errorf("etcd in the folder is %q, %v", content, err)
	}
}

func TestAProgramThatIsNotPublishedIsBuilt(t *testing.T) {
	some := answers()
	delete(some, "kubectl")
	newTrial(t, fetching(some)).check(t, "kubectl", "kubectl has to be built")
}

func TestEverythingIsBuiltWhereNothingIsPublished(t *testing.T) {
	refuse := func(context.Context, versions, string) error { return errors.New("checksum mismatch") }
	newTrial(t, refuse).check(t, everything, "There are none to use: checksum mismatch")
}

func TestAnIndexWithoutTheVersionLeadsToABuild(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "releases: {v1.35.0: {envtest-v1.35.0-linux-amd64.tar.gz: {hash: abc, selfLink: http://127.0.0.1:1/}}}")
	}))
	t.Cleanup(index.Close)
	newTrial(t, published(index.URL)).check(t, everything, "There are none to use: unable to find archive for 1.36.3")
}

func TestAFolderThatIsThereIsLeftAsItIs(t *testing.T) {
	x := newTrial(t, nil)
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := x.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(x.built) > 0 || x.output.Len() > 0 {
		t.Errorf("built %v and said %q", x.built, &x.output)
	}
}

func TestControllerManagerIsAddedOnlyOnDemandAndOnce(t *testing.T) {
	x := newTrial(t, nil)
	x.check(t, everything, "")
	x.built = nil
	for range 2 {
		if err := x.install(t.Context(), addControllerManager); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(x.built, " "); got != "kube-controller-manager" {
		t.Errorf("built %q", got)
	}
	if content, err := os.ReadFile(filepath.Join(x.dir, "kube-controller-manager")); err != nil || string(content) != "built" {
		t.Errorf("kube-controller-manager in the folder is %q, %v", content, err)
	}
}

func TestClusterAPIIsAddedAsAWholeAndOnce(t *testing.T) {
	x := newTrial(t, fetching(answers()))
	render := x.render
	x.render = func(context.Context, string, manager, string) error { return errors.New("no such folder") }
	if err := x.install(t.Context(), addControllerManager, addClusterAPI(wanted)); err == nil ||
		!strings.Contains(err.Error(), "manifests of cluster-api-controller: no such folder") {
		t.Fatalf("error = %v, want that manifests could not be rendered", err)
	}
	dir := filepath.Join(x.dir, "cluster-api-1.14.2")
	if exists(dir) {
		t.Fatal("a part of Cluster API is there")
	}

	x.render, x.built = render, nil
	for range 2 {
		if err := x.install(t.Context(), addControllerManager, addClusterAPI(wanted)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(x.built, " "); got != "cluster-api-controller kubeadm-bootstrap-controller kubeadm-control-plane-controller" {
		t.Errorf("built %q", got)
	}
	for _, m := range managers {
		if content, err := os.ReadFile(filepath.Join(dir, m.name)); err != nil || string(content) != "built" {
			t.Errorf("%s is %q, %v", m.name, content, err)
		}
		want := filepath.Join(x.dir, "kubectl") + " rendered " + m.folder
		if content, err := os.ReadFile(filepath.Join(dir, m.name+".yaml")); err != nil || string(content) != want {
			t.Errorf("manifests of %s are %q, %v, want %q", m.name, content, err, want)
		}
	}
}

func TestAnInterruptBeginsNoBuild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := newTrial(t, func(context.Context, versions, string) error { cancel(); return ctx.Err() })
	if err := x.install(ctx); err == nil || err.Error() != "interrupted" {
		t.Errorf("error = %v, want that it was interrupted", err)
	}
	if len(x.built) > 0 || exists(x.dir) {
		t.Errorf("built %v, folder there: %v", x.built, exists(x.dir))
	}
}
