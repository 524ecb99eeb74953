package storetest

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// childVariable names the test that a process runs alone.
const childVariable = "INGOT_TEST_CHILD"

// InOwnProcess runs test in a process of its own, for limits of the size of files: they
// concern a whole process, also the files that the test program writes itself. Writes
// beyond them fail with EFBIG. The test must not be a subtest.
func InOwnProcess(t *testing.T, test func()) {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		signal.Ignore(syscall.SIGXFSZ) // it would end the process
		test()
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // the test program itself
	child.Env = append(os.Environ(), childVariable+"="+t.Name())
	if output, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
