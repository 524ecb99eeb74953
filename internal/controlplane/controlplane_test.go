package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// parentVariable makes the test binary run a control plane on the folder that
// it names until it is killed, instead of the tests.
const parentVariable = "INGOT_TEST_CONTROLPLANE_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		if err := runParent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runParent starts a control plane, prints its children's process numbers in
// one line and waits to be killed.
func runParent(dir string) error {
	c, err := Start(context.Background(), Options{DataDir: dir})
	if err != nil {
		return err
	}
	var pids []string
	for _, p := range c.processes {
		pids = append(pids, strconv.Itoa(p.cmd.Process.Pid))
	}
	fmt.Println(strings.Join(pids, " "))
	select {}
}

func start(t *testing.T, opts Options) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stop(t *testing.T, c *ControlPlane) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	config.WarningHandler = rest.NoWarnings{} // for fields that a test expects to be unknown
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestControlPlaneKeepsItsDataAndKeysOverARestart(t *testing.T) {
	dir := t.TempDir()
	c := start(t, Options{DataDir: dir, ControllerManager: true})
	kubeconfig, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	api := newClient(t, c.Config())
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "passing"}},
	} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	token := &authenticationv1.TokenRequest{}
	poll(t, "the default service account, which the controller manager makes", func() bool {
		return api.SubResource("token").Create(t.Context(), account, token) == nil
	})

	_, err = Start(t.Context(), Options{DataDir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("a second start on the folder: error = %v, want ErrInUse", err)
	}
	firstHost := c.Config().Host
	stop(t, c)
	if err := <-c.Failed(); err != nil {
		t.Errorf("a stop is reported as a failure: %v", err)
	}

	c = start(t, Options{DataDir: dir, ControllerManager: true})
	t.Cleanup(func() { stop(t, c) })
	if got := c.Config().Host; got != firstHost {
		t.Errorf("API server moved from %s to %s", firstHost, got)
	}
	oldConfig, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	api = newClient(t, oldConfig)
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kept"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("read object with the kubeconfig of the first start: %v", err)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
	if err := api.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if !review.Status.Authenticated {
		t.Errorf("token of the first start is refused: %s", review.Status.Error)
	}
	passing := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "passing"}}
	if err := api.Delete(t.Context(), passing); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of the namespace, which the controller manager finishes", func() bool {
		return apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(passing), passing))
	})
}

func TestChildrenDieWithAKilledParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read children of parent: %v", err)
	}
	var pids []int
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if !alive(pid) {
			t.Fatalf("child %d does not run", pid)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("children = %v, want etcd and kube-apiserver", pids)
	}

	if err := parent.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = parent.Wait() // reports the kill
	for _, pid := range pids {
		poll(t, fmt.Sprintf("the end of child %d", pid), func() bool { return !alive(pid) })
	}
	stop(t, start(t, Options{DataDir: dir})) // and the folder is usable
}

func TestFailedReportsAChildThatEndedUnasked(t *testing.T) {
	c := start(t, Options{DataDir: t.TempDir(), Volatile: true})
	c.processes[1].kill()
	err := <-c.Failed()
	stop(t, c)
	if err == nil {
		t.Fatal("no error was reported")
	}
	for _, want := range []string{apiServerProgram, "killed", c.dir.log(apiServerProgram)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestStartNamesABusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), Options{DataDir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port, Volatile: true})
	assertOneLine(t, err, l.Addr().String(), "address already in use", "choose another")
}

func TestStartNamesADamagedDataFolder(t *testing.T) {
	for name, damage := range map[string]func(dataDir) string{
		"certificates": func(d dataDir) string { return d.pki(authorityFile) },
		"database":     func(d dataDir) string { return filepath.Join(d.etcd(), "member", "snap", "db") },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openDataDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			file := damage(d)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.Repeat("damaged ", 4096)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.unlock(); err != nil {
				t.Fatal(err)
			}
			_, err = Start(t.Context(), Options{DataDir: d.root})
			assertOneLine(t, err, "delete "+d.own()+" to start with an empty cluster")
		})
	}
}

func assertOneLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	t.Log(err)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error = %v, want one with %q", err, part)
		}
	}
}

// widgetCRD is a CRD whose objects have the given integer fields.
func widgetCRD(fields ...string) fstest.MapFS {
	crd := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.example}
spec:
  group: test.example
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
`
	for _, field := range fields {
		crd += "          " + field + ": {type: integer}\n"
	}
	return fstest.MapFS{"widgets.yaml": {Data: []byte(crd)}}
}

func TestInstallCRDsUpdatesWhatIsThere(t *testing.T) {
	c := start(t, Options{DataDir: t.TempDir(), Volatile: true})
	t.Cleanup(func() { stop(t, c) })
	if err := InstallCRDs(t.Context(), c.Config(), widgetCRD("size")); err != nil {
		t.Fatal(err)
	}
	api := newClient(t, c.Config())
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.example/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"namespace": "default", "name": "one"},
		"size":       int64(3),
		"weight":     int64(5),
	}}
	created := widget.DeepCopy()
	if err := api.Create(t.Context(), created); err != nil {
		t.Fatalf("create an object of the installed kind: %v", err)
	}
	if _, ok := created.Object["weight"]; ok {
		t.Fatal("the API server keeps a field that the CRD does not have")
	}
	if err := InstallCRDs(t.Context(), c.Config(), widgetCRD("size", "weight")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the new field to be served", func() bool {
		patched := widget.DeepCopy()
		if err := api.Patch(t.Context(), patched, client.Merge); err != nil {
			t.Fatal(err)
		}
		_, ok := patched.Object["weight"]
		return ok
	})
}

func TestNobodyReadsEtcdWithoutACertificate(t *testing.T) {
	c := start(t, Options{DataDir: t.TempDir(), Volatile: true})
	t.Cleanup(func() { stop(t, c) })
	var server string
	for _, arg := range c.processes[0].cmd.Args {
		if value, ok := strings.CutPrefix(arg, "--advertise-client-urls="); ok {
			server = value
		}
	}
	config := c.Config()
	if _, err := get(t, config, server+"/version"); err != nil {
		t.Fatalf("with a certificate of the authority: %v", err)
	}
	config.CertData, config.KeyData = nil, nil
	if answer, err := get(t, config, server+"/version"); err == nil {
		t.Errorf("without a certificate etcd answers %s", answer)
	}
}

func get(t *testing.T, config *rest.Config, url string) (status string, err error) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer httpClient.CloseIdleConnections()
	resp, err := httpClient.Get(url)
	if err != nil {
		return "", err
	}
	return resp.Status, resp.Body.Close()
}
