package process

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/polltest"
)

// shownOutput is how much of the output a failed test shows, in bytes.
const shownOutput = 16 << 10

// Run runs a command as Start does, and ends it with the test. A test that fails shows the end of
// the output.
func Run(t testing.TB, cmd *exec.Cmd, log string) *Process {
	t.Helper()
	p, err := Start(cmd, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			output := p.Output(t)
			t.Logf("%s:\n%s", filepath.Base(log), output[max(0, len(output)-shownOutput):])
		}
	})
	return p
}

// Output returns what the process has written so far.
func (p *Process) Output(t testing.TB) string {
	t.Helper()
	output, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// AwaitAnswer waits until an HTTP server that runs in the process answers at host:port.
func (p *Process) AwaitAnswer(t testing.TB, address string) {
	t.Helper()
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	Eventually(t, time.Minute, "the answer of "+address, func() bool {
		if p.Ended() {
			t.Fatal(p.Failure())
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// Address is FreeAddress for tests.
func Address(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Eventually polls until a condition holds, and fails the test if it does not in time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	polltest.UntilTrue(t, within, what, holds)
}
