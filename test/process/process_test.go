package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parentVariable makes the test binary a parent: it starts a child with this package and waits for
// its end.
const parentVariable = "INGOT_PROCESS_PARENT"

func TestMain(m *testing.M) {
	log := os.Getenv(parentVariable)
	if log == "" {
		os.Exit(m.Run())
	}
	p, err := Start(exec.Command("sleep", "60"), log)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID)
	<-p.Done()
}

// shell runs a script and waits until the script has written "ready".
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p := Run(t, exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"))
	Eventually(t, time.Minute, "the script", func() bool { return strings.Contains(p.Output(t), "ready") })
	return p
}

func TestChildEndsWithAKilledParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+filepath.Join(dir, "child.log"))
	p := Run(t, parent, filepath.Join(dir, "parent.log"))
	Eventually(t, time.Minute, "the parent to start its child", func() bool { return strings.HasSuffix(p.Output(t), "\n") })
	child, err := strconv.Atoi(strings.TrimSpace(p.Output(t)))
	if err != nil {
		t.Fatal(err)
	}
	if !runs(child) {
		t.Fatal("the child does not run")
	}
	p.Kill()
	Eventually(t, time.Minute, "the end of the child", func() bool { return !runs(child) })
}

// runs reports whether a process runs. A zombie does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func TestKillEndsWhatTheProcessStarted(t *testing.T) {
	p := shell(t, "sleep 60 & echo $! ready; wait")
	child, err := strconv.Atoi(strings.Fields(p.Output(t))[0])
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if !p.Ended() {
		t.Error("the process has not ended")
	}
	Eventually(t, time.Minute, "the end of its child", func() bool { return !runs(child) })
}

func TestStopLetsAProcessEndByItself(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	if err := p.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(p.Output(t), "bye\n") {
		t.Errorf("it wrote %q", p.Output(t))
	}
}

func TestStopSaysThatAProcessDidNotEndWell(t *testing.T) {
	p := shell(t, `trap 'echo no room; exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
	if err := p.Stop(time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 3): no room") {
		t.Errorf("got %v, want the status and the last line", err)
	}
}

func TestStopKillsAProcessThatDoesNotEnd(t *testing.T) {
	p := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	if err := p.Stop(50 * time.Millisecond); err == nil || !p.Ended() {
		t.Errorf("ended: %v, error: %v, want both", p.Ended(), err)
	}
}

func TestUsageOfAProcessIsRead(t *testing.T) {
	p := shell(t, `echo ready; while :; do :; done`)
	Eventually(t, time.Minute, "CPU time", func() bool {
		cpu, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		return cpu > 0
	})
	if now, peak, err := p.Memory(); err != nil || now <= 0 || peak < now {
		t.Errorf("memory: %d, at the peak %d, %v", now, peak, err)
	}
}
