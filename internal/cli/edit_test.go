package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parsed is what these flags say about the fields of a command.
func parsed(t *testing.T, fields []Field, unset bool, args ...string) (*Values, error) {
	t.Helper()
	values := &Values{Stdin: strings.NewReader("- {interface: bios, step: x}")}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if unset {
		values.AddUnsetFlags(flags, fields)
	} else {
		values.AddFlags(flags, fields)
	}
	return values, flags.Parse(args)
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFlagsBecomeTheFieldsThatTheyStandFor(t *testing.T) {
	args := []string{
		"--name", "n", "--driver-info", "a=1", "--driver-info", "redfish_password=1234", "--driver-info", "b/c=x=y",
		"--property", `caps={"k": [true]}`, "--protected", "--no-automated-clean", "--network-data", "-",
	}
	values, err := parsed(t, nodeFields, false, args...)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"automated_clean":false,"driver_info":{"a":1,"b/c":"x=y","redfish_password":"1234"},"name":"n",` +
		`"network_data":[{"interface":"bios","step":"x"}],"properties":{"caps":{"k":[true]}},"protected":true}`
	if diff := cmp.Diff(want, asJSON(t, values.Object())); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	want = `[{"op":"add","path":"/name","value":"n"},{"op":"add","path":"/driver_info/a","value":1},` +
		`{"op":"add","path":"/driver_info/redfish_password","value":"1234"},{"op":"add","path":"/driver_info/b~1c","value":"x=y"},` +
		`{"op":"add","path":"/properties/caps","value":{"k":[true]}},{"op":"add","path":"/protected","value":true},` +
		`{"op":"add","path":"/automated_clean","value":false},{"op":"add","path":"/network_data","value":[{"interface":"bios","step":"x"}]}]`
	if diff := cmp.Diff(want, asJSON(t, values.patch(opAdd))); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestUnsetFlagsRemoveFieldsAndMembers(t *testing.T) {
	values, err := parsed(t, nodeFields, true, "--owner", "--driver-info", "a", "--protected")
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"remove","path":"/owner"},{"op":"remove","path":"/driver_info/a"},{"op":"remove","path":"/protected"}]`
	if diff := cmp.Diff(want, asJSON(t, values.patch(opRemove))); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestResetFlagsRemoveWhatTheEngineThenChooses(t *testing.T) {
	values, err := parsed(t, In(nodeFields, InSet), false, "--driver", "d", "--reset-boot-interface")
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"add","path":"/driver","value":"d"},{"op":"remove","path":"/boot_interface"}]`
	if diff := cmp.Diff(want, asJSON(t, values.patch(opAdd))); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestFlagsThatMeanNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--driver-info", "a"}, {"--driver-info", "=1"}, {"--protected=perhaps"}, {"--network-data", "7"}, {"--network-data", "/nowhere"},
	} {
		if values, err := parsed(t, nodeFields, false, args...); err == nil {
			t.Errorf("%v: got %v", args, values.Object())
		}
	}
}

func TestConfigDriveIsSentAsTheAPITakesIt(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		"https://h/cd":                             `"https://h/cd"`,
		`{"user_data": "x"}`:                       `{"user_data":"x"}`,
		file("json", "{\"meta_data\": {}}\n"):      `{"meta_data":{}}`,
		file("base64", "H4sIAAAAAAAA\n"):           `"H4sIAAAAAAAA"`,
		file("gzip", "\x1f\x8b\x08"):               `"H4sI"`,
		file("image", "an image of a file system"): `"H4sIAAAAAAAA/`,
	} {
		got, err := readConfigDrive(text, nil)
		if err != nil || !strings.HasPrefix(asJSON(t, got), want) {
			t.Errorf("%s: %s, %v; want %s", text, asJSON(t, got), err, want)
		}
	}
	if _, err := readConfigDrive(directory, nil); err == nil {
		t.Error("a folder is taken for a config drive")
	}
}

func TestObjectsAreCreatedChangedAndDeleted(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{
		"POST /v1/ports":      {{201, `{"uuid": "p1"}`}},
		"PATCH /v1/ports/p1":  {{200, `{}`}},
		"DELETE /v1/ports/p1": {{204, ""}},
	})
	var r run
	create := Create{Resource: Ports, Values: given("address", "a", "node_uuid", "u"), Output: OutputName}
	update := Update{Resource: Ports, Values: given("pxe_enabled", false)}
	if err := create.Run(t.Context(), engine, r.streams()); err != nil {
		t.Error(err)
	}
	if err := update.Run(t.Context(), engine, []string{"p1"}, r.streams()); err != nil {
		t.Error(err)
	}
	if err := Delete(t.Context(), engine, Ports, []string{"p1"}, r.streams()); err != nil {
		t.Error(err)
	}
	if got := r.out.String(); got != "p1\nUpdated port p1\nDeleted port p1\n" || len(f.asked) != 3 {
		t.Errorf("printed %q after %v", got, f.asked)
	}
	err := Delete(t.Context(), engine, Ports, []string{"p2"}, r.streams())
	if err == nil || !strings.HasSuffix(Sentence(err), "ingot port list.") || ExitCode(err) != ExitNotFound {
		t.Errorf("got %v", err)
	}
	if err := (&Create{Resource: Ports}).Run(t.Context(), engine, r.streams()); ExitCode(err) != ExitUsage {
		t.Errorf("a port without an address: %v", err)
	}
	if err := (&Update{Resource: Ports}).Run(t.Context(), engine, []string{"p1"}, r.streams()); ExitCode(err) != ExitUsage {
		t.Errorf("a change of nothing: %v", err)
	}
}

func TestRAIDOfANodeIsSetBesideItsPatch(t *testing.T) {
	for _, unset := range []bool{false, true} {
		f, engine := newFakeEngine(t, map[string][]answer{"PATCH /v1/nodes/n1": {{200, "{}"}}, "PUT /v1/nodes/n1/states/raid": {{204, ""}}})
		args, want := []string{"--target-raid-config", `{"logical_disks": []}`, "--owner", "o"}, `{"logical_disks":[]}`
		if unset {
			args, want = []string{"--target-raid-config"}, `{}`
		}
		values, err := parsed(t, nodeFields, unset, args...)
		if err != nil {
			t.Fatal(err)
		}
		var r run
		update := Update{Resource: Nodes, Values: *values, Unset: unset}
		if err := update.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
			t.Fatal(err)
		}
		last := len(f.asked) - 1
		if f.asked[last] != "PUT /v1/nodes/n1/states/raid" || f.bodies[last] != want || last != len(args)/2-1 && !unset {
			t.Errorf("unset %v: asked %v with %q", unset, f.asked, f.bodies)
		}
		if got := r.out.String(); got != "Updated node n1\n" {
			t.Errorf("printed %q", got)
		}
	}
}

func TestNodesMayBeNamedWhereTheEngineWantsTheirUUID(t *testing.T) {
	const id = "5c7a1d5e-9e3b-4b63-8f0e-1f7f0f5f0001"
	for named, want := range map[string]int{"n1": 2, id: 1} {
		f, engine := newFakeEngine(t, map[string][]answer{
			"GET /v1/nodes/n1": {{200, `{"uuid": "` + id + `"}`}},
			"POST /v1/ports":   {{201, `{"uuid": "p1"}`}},
		})
		values, err := parsed(t, Ports.Fields, false, "--address", "52:54:00:00:00:01", "--node", named)
		if err != nil {
			t.Fatal(err)
		}
		var r run
		create := Create{Resource: Ports, Values: *values, Output: OutputName}
		if err := create.Run(t.Context(), engine, r.streams()); err != nil || len(f.asked) != want {
			t.Errorf("%s: %v after %v", named, err, f.asked)
		}
		if got := create.Values.Object()["node_uuid"]; got != id {
			t.Errorf("%s: sent %v", named, got)
		}
	}
	_, engine := newFakeEngine(t, nil)
	create := Create{Resource: Ports, Values: given("address", "a", "node_uuid", nodeRef("nope"))}
	if err := create.Run(t.Context(), engine, Streams{}); ExitCode(err) != ExitNotFound {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestSomethingThatExistsIsNotABusyNode(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"POST /v1/nodes": {{409, fault("A node with name n1 already exists.")}}})
	err := (&Create{Resource: Nodes, Values: given("driver", "d")}).Run(t.Context(), engine, Streams{})
	if want := "Cannot create node: A node with name n1 already exists."; ExitCode(err) != ExitError || Sentence(err) != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestCreatedAllocationIsWaitedFor(t *testing.T) {
	for state, code := range map[string]int{"active": ExitOK, "error": ExitError} {
		_, engine := newFakeEngine(t, map[string][]answer{
			"POST /v1/allocations":   {{201, `{"uuid": "a1", "state": "allocating"}`}},
			"GET /v1/allocations/a1": {{200, `{"uuid": "a1", "state": "allocating"}`}, {200, `{"uuid": "a1", "state": "` + state + `", "last_error": "none"}`}},
		})
		var r run
		err := (&Create{Resource: Allocations, Output: OutputName, Wait: Wait{Asked: true}}).Run(t.Context(), engine, r.streams())
		if ExitCode(err) != code || r.err.String() != "a1: allocating\na1: "+state+"\n" {
			t.Errorf("%s: %v, reported %q", state, err, r.err.String())
		}
	}
}

func TestInputThatIsJSONIsReadAsJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"motd": "\ud83d\ude00", "path": "a\/b"}`: `{"motd":"😀","path":"a/b"}`,
		`[12345678901234567890123, 1e400]`:         `[12345678901234567890123,1e400]`,
		`{"<<": {"a": 1}}`:                         `{"\u003c\u003c":{"a":1}}`,
		`{a: b}`:                                   `{"a":"b"}`,
		"a: [0x10]":                                `{"a":[16]}`,
	} {
		got, err := decodeInput([]byte(text))
		if err != nil || asJSON(t, got) != want {
			t.Errorf("%s: %s, %v; want %s", text, asJSON(t, got), err, want)
		}
	}
	for _, text := range []string{`{"a": 1, "a": 2}`, `"a"`, "7", "null"} {
		if got, err := decodeInput([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}

func TestValuesOfMembersAreNotCut(t *testing.T) {
	for text, want := range map[string]any{
		"4711": json.Number("4711"), " 4711 ": json.Number("4711"), "true": true, "4711}": "4711}", "1]": "1]", "true]x": "true]x", "1 2": "1 2", "{}}": "{}}",
	} {
		if got := memberValue("key", text); got != want {
			t.Errorf("%q: got %T %v, want %v", text, got, got, want)
		}
	}
}

func TestPasswordIsTheFirstLineOfStandardInputWhereAsked(t *testing.T) {
	for _, test := range []struct{ flag, input, want string }{
		{"hush", "", "hush"},
		{"-", "let me in\r\nand this\n", "let me in"},
		{"-", "4711", "4711"},
		{"-", "\nlater", ""},
		{"-", "", ""},
	} {
		values := &Values{Stdin: strings.NewReader(test.input)}
		flags := pflag.NewFlagSet("rescue", pflag.ContinueOnError)
		values.AddFlags(flags, verb("rescue").Fields)
		err := flags.Parse([]string{"--rescue-password", test.flag})
		got, _ := values.Object()["rescue_password"].(string)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q with %q: %q, %v; want %q", test.flag, test.input, got, err, test.want)
		}
	}
}
