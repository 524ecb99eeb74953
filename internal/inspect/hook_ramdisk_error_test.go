package inspect

import (
	"strings"
	"testing"
)

func TestRamdiskError(t *testing.T) {
	for value, want := range map[string]string{
		`null`:             "",
		`""`:               "",
		`" \n "`:           "",
		`false`:            "",
		`0`:                "",
		`[]`:               "",
		`"no disks found"`: "ramdisk-error: the ramdisk reported: no disks found",
		`["a", "b"]`:       `ramdisk-error: the ramdisk reported: ["a", "b"]`,
		`{"code": 5}`:      `ramdisk-error: the ramdisk reported: {"code": 5}`,
		`true`:             "ramdisk-error: the ramdisk reported: true",
		`"get http://bob:hunter2@images.example.net/x failed"`: "ramdisk-error: the ramdisk reported: get http://******@images.example.net/x failed",
		`"a\u0000b\u001b[31m"`:                                 "ramdisk-error: the ramdisk reported: a b [31m",
	} {
		doc := document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"error":`+value+`}`)
		_, err := pipeline(t, func(c *Config) { c.Hooks = []string{"ramdisk-error"} }).Run(Input{Document: doc})
		if got := errorText(err); got != want {
			t.Errorf("error %s gives %q, want %q", value, got, want)
		}
	}
}

func TestLongRamdiskErrorIsCut(t *testing.T) {
	doc := document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"error":"`+strings.Repeat("x", 1<<20)+`"}`)
	_, err := pipeline(t, nil).Run(Input{Document: doc})
	if err == nil || len(err.Error()) > 2200 {
		t.Errorf("error has %d bytes, want about 2 KiB", len(errorText(err)))
	}
}
