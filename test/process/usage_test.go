package process

import (
	"testing"
	"time"
)

func TestCPUTimeIsReadBehindTheProgramsName(t *testing.T) {
	const stat = "4711 (a (strange) name) S 1 2 3 4 -1 6 7 8 9 10 150 25 0 0 20 0 9 0 100 1 2"
	got, err := parseCPU(stat)
	if err != nil || got != 1750*time.Millisecond {
		t.Errorf("got %s, %v, want 1.75s", got, err)
	}
	if _, err := parseCPU("4711 (ingot) S 1 2"); err == nil {
		t.Error("a line that is too short gives no error")
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	const status = "Name:\tingot\nVmHWM:\t   2000 kB\nVmRSS:\t   1000 kB\n"
	for key, want := range map[string]int64{"VmRSS:": 1000 << 10, "VmHWM:": 2000 << 10} {
		if got, err := statusBytes(status, key); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", key, got, err, want)
		}
	}
	if _, err := statusBytes(status, "VmPeak:"); err == nil {
		t.Error("a missing line gives no error")
	}
}
