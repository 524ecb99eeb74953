package disk_test

import (
	"os"
	"syscall"
	"testing"
)

// blocks returns how many bytes a file takes on its file system.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Skip("the system does not say it")
	}
	return stat.Blocks * 512
}
