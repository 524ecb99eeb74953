package firmware_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/firmware"
)

var identity = firmware.Identity{
	MAC: "52:54:00:ab:cd:ef", UUID: "1be26c0b-03f2-4d2e-ae87-c02d7f33c781", Address: "127.1.0.1", Hostname: "n1",
	Serial: "S1", Manufacturer: "Dell Inc.", Product: "R650", Architecture: "x86_64", UEFI: true,
}

// newServer serves files by their paths.
func newServer(t *testing.T, files map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(s.Close)
	return s
}

// live is an ISO image from which machines boot.
var live = bootable(map[string]string{"vmlinuz": "k", "initrd": "r", "boot/grub/grub.cfg": menu("quiet")})

// boot runs the script /first of a web server.
func boot(t *testing.T, files map[string]string) (firmware.Result, []string) {
	t.Helper()
	s := newServer(t, files)
	loader := firmware.NewLoader(http.DefaultClient, func(context.Context, time.Duration) error { return nil })
	trace := new(firmware.Trace)
	result := loader.Script(t.Context(), s.URL+"/first", identity, trace)
	result.Source = strings.TrimPrefix(result.Source, s.URL)
	return result, trace.Lines()
}

// starting returns a script that boots a kernel with parameters.
func starting(parameters string) string {
	return "#!ipxe\nkernel /kernel initrd=ramdisk " + parameters + "\ninitrd --name ramdisk /ramdisk\nboot\n"
}

func TestScriptsBootTheKernelThatTheyName(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  map[string]string
	}{
		"variables": {
			map[string]string{"/first": starting("BOOTIF=01-${mac:hexhyp} a=${net0/mac} b=${uuid} c=${buildarch} d=${platform} e=x${none}x f=${mac:hexraw} g=${net0/ip}")},
			map[string]string{
				"initrd": "ramdisk", "BOOTIF": "01-52-54-00-ab-cd-ef", "a": "52:54:00:ab:cd:ef", "b": "1be26c0b-03f2-4d2e-ae87-c02d7f33c781",
				"c": "x86_64", "d": "efi", "e": "xx", "f": "525400abcdef", "g": "127.1.0.1",
			},
		},
		"chained, relative": {
			map[string]string{"/first": "#!ipxe\n# the node's\nchain mac/${net0/mac} ||\n", "/mac/52:54:00:ab:cd:ef": "#!ipxe\nchain --replace ../secret/boot.ipxe", "/secret/boot.ipxe": starting("a=1")},
			map[string]string{"initrd": "ramdisk", "a": "1"},
		},
		"goto, set and inner variables": {
			map[string]string{"/first": "#!ipxe\nset n 0\nset one-1 yes\n:again\ninc n\niseq ${n} 3 && goto done ||\ngoto again\n:done\nset who two words\nset a ${one-${n}}\nisset ${a} || set a ${n}\n" + starting("a=${a} b=${who}")[7:]},
			map[string]string{"initrd": "ramdisk", "a": "3", "b": "two"}, // the kernel splits at spaces again
		},
		"failure is caught": {
			map[string]string{"/first": "#!ipxe\nkernel /none || goto other\nexit\n:other\nimgfree\n" + starting("a=1")[7:]},
			map[string]string{"initrd": "ramdisk", "a": "1"},
		},
		"arguments and boot by name": {
			map[string]string{"/first": "#!ipxe\nimgfetch --name k /kernel\ninitrd -n r /ramdisk\nimgargs k initrd=r a=2\nimgstat\nboot k"},
			map[string]string{"initrd": "r", "a": "2"},
		},
		"boot with a URL": {
			map[string]string{"/first": "#!ipxe\ninitrd /ramdisk\nsleep 2 && boot --autofree /kernel a=3 # as it is"},
			map[string]string{"a": "3"},
		},
		"exit of a chained script": {
			map[string]string{"/first": "#!ipxe\nchain /other && set a 4\n" + starting("a=${a}")[7:], "/other": "#!ipxe\nexit 0\nreboot"},
			map[string]string{"initrd": "ramdisk", "a": "4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["/kernel"], test.files["/ramdisk"] = "k", "r"
			result, trace := boot(t, test.files)
			want := firmware.Result{Action: firmware.StartKernel, Source: "/kernel", Parameters: test.want}
			if diff := cmp.Diff(want, result); diff != "" {
				t.Errorf("boot differs (-want +got):\n%s\n%s", diff, strings.Join(trace, "\n"))
			}
		})
	}
}

func TestScriptsThatBootNothing(t *testing.T) {
	for name, test := range map[string]struct {
		files  map[string]string
		action firmware.Action
		text   string // of the reason or of the trace
	}{
		"exit":           {map[string]string{"/first": "#!ipxe\nexit\nreboot"}, firmware.NextDevice, "ended"},
		"end":            {map[string]string{"/first": "#!ipxe\necho hello ${hostname}\n"}, firmware.NextDevice, "echo hello n1"},
		"no script":      {map[string]string{"/first": "<html>"}, firmware.NextDevice, "does not begin with #!ipxe"},
		"not there":      {map[string]string{}, firmware.NextDevice, "404"},
		"empty":          {map[string]string{"/first": ""}, firmware.NextDevice, "is empty"},
		"unknown":        {map[string]string{"/first": "#!ipxe\nmenu hello\nreboot"}, firmware.NextDevice, "line 2 of"},
		"missing kernel": {map[string]string{"/first": starting("")}, firmware.NextDevice, "/kernel is answered 404"},
		"missing label":  {map[string]string{"/first": "#!ipxe\ngoto there"}, firmware.NextDevice, "no label there"},
		"condition":      {map[string]string{"/first": "#!ipxe\niseq a b\nreboot"}, firmware.NextDevice, `"a" is not "b"`},
		"no kernel":      {map[string]string{"/first": "#!ipxe\nboot"}, firmware.NextDevice, "no kernel"},
		"no ramdisk":     {map[string]string{"/first": "#!ipxe\nkernel /kernel\nboot", "/kernel": "k"}, firmware.Halt, "panics"},
		"other ramdisk":  {map[string]string{"/first": "#!ipxe\nkernel /kernel initrd=x\ninitrd /ramdisk\nboot", "/kernel": "k", "/ramdisk": "r"}, firmware.Halt, "no ramdisk named x"},
		"disk":           {map[string]string{"/first": "#!ipxe\nsanboot --no-describe --drive 0x80"}, firmware.StartDisk, ""},
		"ISO image":      {map[string]string{"/first": "#!ipxe\nsanboot --no-describe /live.iso", "/live.iso": live}, firmware.StartKernel, "it boots"},
		"no ISO image":   {map[string]string{"/first": "#!ipxe\nsanboot /none.iso"}, firmware.NextDevice, "404"},
		"restart":        {map[string]string{"/first": "#!ipxe\nreboot"}, firmware.Restart, "restarted"},
		"shell":          {map[string]string{"/first": "#!ipxe\nkernel /none || shell\nreboot"}, firmware.Halt, "stopped"},
		"for ever":       {map[string]string{"/first": "#!ipxe\n:a\ngoto a"}, firmware.Halt, "too long"},
		"chained to itself": {
			map[string]string{"/first": "#!ipxe\nchain first ||\nreboot"}, firmware.Halt, "too long",
		},
		"large": {map[string]string{"/first": "#!ipxe\n" + strings.Repeat("#", 1<<20)}, firmware.NextDevice, "more than"},
		"failed exit": {
			map[string]string{"/first": "#!ipxe\nchain other || sanboot", "/other": "#!ipxe\nexit 1"}, firmware.StartDisk, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, trace := boot(t, test.files)
			if result.Action != test.action || !strings.Contains(result.Reason+"\n"+strings.Join(trace, "\n"), test.text) {
				t.Errorf("boot is %+v, want action %d and %q; trace:\n%s", result, test.action, test.text, strings.Join(trace, "\n"))
			}
		})
	}
}

func TestTraceOfABootIsBounded(t *testing.T) {
	_, trace := boot(t, map[string]string{"/first": "#!ipxe\n:a\necho " + strings.Repeat("x", 1000) + "\ngoto a"})
	if len(trace) != 101 || len(trace[1]) > 400 || !strings.Contains(trace[100], "lines more") {
		t.Errorf("%d lines, the second with %d bytes, the last %q", len(trace), len(trace[1]), trace[len(trace)-1])
	}
}

func FuzzScript(f *testing.F) {
	f.Add("kernel ${a${b}} || goto x && # y\n:x\nset b 1\ninc b\nsanboot")
	f.Fuzz(func(t *testing.T, text string) {
		loader := firmware.NewLoader(&http.Client{Transport: answerWith("#!ipxe\n" + text)}, func(context.Context, time.Duration) error { return nil })
		trace := new(firmware.Trace)
		if result := loader.Script(t.Context(), "http://boot/first", identity, trace); result.Action == firmware.NextDevice && result.Reason == "" {
			t.Error("no reason for booting nothing")
		}
	})
}

// answerWith answers every request with a text.
type answerWith string

func (a answerWith) RoundTrip(*http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	_, _ = recorder.WriteString(string(a))
	return recorder.Result(), nil
}
