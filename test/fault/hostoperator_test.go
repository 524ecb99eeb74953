//go:build fault

package fault_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ingot-metal/ingot/test/process"
)

// mortalOperator is an operator that is started again whenever it was killed.
type mortalOperator struct {
	t    *testing.T
	args []string
	log  string

	mu      sync.Mutex
	process *process.Process
	killed  int
	stopped bool
	ended   chan struct{} // closed when nothing is started any more
	broken  error         // why
}

// startMortalOperator starts the operator behind a proxy, and keeps it running until the test ends.
func startMortalOperator(t *testing.T, proxy *kubeProxy, args ...string) *mortalOperator {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: proxy.url}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it"}
	config.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	o := &mortalOperator{t: t, log: filepath.Join(dir, "operator.log"), ended: make(chan struct{})}
	o.args = append([]string{"operator", "--kubeconfig", kubeconfig, "--poll-interval", "1s", "--backoff-max", "2s", "--max-provisioning-retries", "0"}, args...)
	proxy.kill = o.kill
	t.Cleanup(o.stop)
	t.Cleanup(func() {
		if text, err := os.ReadFile(o.log); t.Failed() {
			t.Logf("log of the operator (%v):\n%s", err, text[max(0, len(text)-16<<10):])
		}
	})
	if err := o.start(); err != nil {
		t.Fatal(err)
	}
	go o.keep()
	return o
}

func (o *mortalOperator) start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		return nil
	}
	p, err := process.Start(exec.Command(binary, o.args...), o.log)
	o.process = p
	return err
}

// kill ends the present process.
func (o *mortalOperator) kill() {
	o.mu.Lock()
	p := o.process
	o.killed++
	o.mu.Unlock()
	p.Kill()
}

// keep starts the operator again whenever it was killed. That it ends by itself is a failure.
func (o *mortalOperator) keep() {
	defer close(o.ended)
	for seen := 0; ; seen++ {
		<-o.process.Done()
		o.mu.Lock()
		stopped, killed := o.stopped, o.killed
		o.mu.Unlock()
		if stopped {
			return
		}
		if killed <= seen {
			o.broken = fmt.Errorf("the operator ended by itself: %w", o.process.Failure())
			return
		}
		if o.broken = o.start(); o.broken != nil {
			return
		}
	}
}

// check fails the test when the operator has ended by itself.
func (o *mortalOperator) check() {
	o.t.Helper()
	select {
	case <-o.ended:
		o.t.Fatalf("the operator runs no more: %v", o.broken)
	default:
	}
}

// stop ends the operator for good.
func (o *mortalOperator) stop() {
	o.mu.Lock()
	was := o.stopped
	o.stopped = true
	p := o.process
	o.mu.Unlock()
	if was || p == nil {
		return
	}
	if err := p.Stop(stopWithin); err != nil && !p.Ended() {
		o.t.Error(err)
	}
	<-o.ended
}

// panics are the lines of the log about what must not happen in any process.
func (o *mortalOperator) panics() (lines []string) {
	text, err := os.ReadFile(o.log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			lines = append(lines, line)
		}
	}
	return lines
}
