//go:build fault

package fault_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ingot-metal/ingot/test/process"
)

// killableOperator is an operator that its proxy kills at some of its writes.
type killableOperator struct {
	*killable

	kills int // kills after which the process has not been started again yet
}

// startKillableOperator starts the operator behind a proxy, and keeps it running until the test
// ends.
func startKillableOperator(t *testing.T, proxy *kubeProxy, args ...string) *killableOperator {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: proxy.URL}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it"}
	config.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"operator", "--kubeconfig", kubeconfig, "--poll-interval", "1s", "--backoff-max", "2s", "--max-provisioning-retries", "0", "--allow-local-image-urls"}, args...)
	o := &killableOperator{killable: &killable{t: t, name: "operator", log: filepath.Join(dir, "operator.log")}}
	o.launch = func() (*process.Process, error) { return process.Start(exec.Command(binary, args...), o.log) }
	o.killed = o.wasKilled
	proxy.kill = o.kill
	t.Cleanup(func() { o.stop() })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the operator:\n%s", o.logEnd(16<<10))
		}
	})
	o.run()
	return o
}

// kill ends the present process.
func (o *killableOperator) kill() {
	o.mu.Lock()
	p := o.process
	o.kills++
	o.mu.Unlock()
	p.Kill()
}

// wasKilled reports whether the process that has just ended was killed by the proxy.
func (o *killableOperator) wasKilled() (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kills == 0 {
		return false, nil
	}
	o.kills--
	return true, nil
}
