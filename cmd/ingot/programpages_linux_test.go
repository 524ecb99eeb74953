package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyMappingsOfTheProgramWithoutPagesOfTheProcessAreReleased(t *testing.T) {
	const smaps = `00400000-01f2e000 r-xp 00000000 08:01 42 /usr/bin/ingot
Rss:               24228 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me dw
01f2e000-02fff000 r--p 01b2e000 08:01 42 /usr/bin/ingot
Rss:               18912 kB
Anonymous:             4 kB
02fff000-03100000 rw-p 02bff000 08:01 42 /usr/bin/ingot
Anonymous:             0 kB
03100000-03200000 r--p 02d00000 08:01 42 /usr/bin/ingot
Anonymous:             0 kB
7f0000000000-7f0000100000 r--p 00000000 08:01 43 /usr/share/zoneinfo/UTC
Anonymous:             0 kB
7f0000200000-7f0000300000 r--p 00000000 08:01 44 /usr/bin/ingot (deleted)
Anonymous:             0 kB
7f0000400000-7f0000500000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	got, err := unchangedMappings(strings.NewReader(smaps), "/usr/bin/ingot")
	if err != nil {
		t.Fatal(err)
	}
	if want := []mapping{{0x400000, 0x1f2e000}, {0x3100000, 0x3200000}}; !slices.Equal(got, want) {
		t.Errorf("mappings %x, want %x", got, want)
	}
}

func TestTheProgramRunsOnWithoutTheReleasedPages(t *testing.T) {
	before := residentFilePages(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := residentFilePages(t); after > before*3/4 {
		t.Errorf("%d pages of files are mapped, before it were %d", after, before)
	}
}

// residentFilePages returns how many pages of files the process has mapped and in memory. These are
// its shared pages, the third field of /proc/self/statm.
func residentFilePages(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[2])
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
