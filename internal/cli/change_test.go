package cli

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

func TestDeleteGoesOnAfterANodeThatCannotBeDeleted(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"DELETE /v1/nodes/a": {{409, fault("Node a is locked by host h.")}},
		"DELETE /v1/nodes/b": {{204, ""}},
	})
	var r run
	err := Delete(t.Context(), engine, Nodes, []string{"a", "b", "c"}, r.streams())
	if code := ExitCode(err); code != ExitBusy {
		t.Errorf("exit code %d, want %d of the first failure", code, ExitBusy)
	}
	if got := r.out.String(); got != "Deleted node b\n" {
		t.Errorf("printed %q", got)
	}
	lines := strings.Split(strings.TrimSpace(r.err.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "Cannot delete node a: Node a is locked by host h. ") ||
		!strings.HasPrefix(lines[1], "Cannot delete node c: no such thing. ") {
		t.Errorf("reported %q", lines)
	}
}

func TestDeleteStopsWhenTheEngineIsGone(t *testing.T) {
	engine, err := ironic.New(ironic.Options{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	var r run
	err = Delete(t.Context(), engine, Nodes, []string{"a", "b"}, r.streams())
	if ExitCode(err) != ExitUnreachable || r.err.Len() > 0 {
		t.Errorf("got %v after reporting %q, want one unreachable error", err, r.err.String())
	}
}

func TestVerbWithoutWaitEndsWhenAccepted(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"PUT /v1/nodes/n1/states/provision": {{202, ""}}})
	var r run
	if err := (&ProvisionNodes{Verb: verb("manage")}).Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
		t.Fatal(err)
	}
	if r.out.String() != "Node n1: manage accepted\n" || len(f.asked) != 1 {
		t.Errorf("printed %q after %v", r.out.String(), f.asked)
	}
}

func TestImageOfADeploymentIsDescribedBeforeTheVerb(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{
		"GET /v1/nodes/n1": {inState("available", "", "")}, "PATCH /v1/nodes/n1": {{200, "{}"}}, "PUT /v1/nodes/n1/states/provision": {{202, ""}},
	})
	provision := withImage(t, "deploy", "--image", "http://192.0.2.1/i.img", "--checksum", "0a0b")
	var r run
	if err := provision.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"GET /v1/nodes/n1?fields=uuid%2Cprovision_state", "PATCH /v1/nodes/n1", "PUT /v1/nodes/n1/states/provision"}, f.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	want := `[{"op":"add","path":"/instance_info/image_checksum","value":"0a0b"},{"op":"add","path":"/instance_info/image_source","value":"http://192.0.2.1/i.img"},` +
		`{"op":"add","path":"/instance_info/boot_iso","value":null},{"op":"add","path":"/instance_info/image_disk_format","value":null},` +
		`{"op":"add","path":"/instance_info/image_os_hash_algo","value":null},{"op":"add","path":"/instance_info/image_os_hash_value","value":null}]`
	if diff := gocmp.Diff(want, strings.TrimSpace(f.bodies[1])); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

// withImage is a verb with flags that describe an image.
func withImage(t *testing.T, name string, args ...string) *ProvisionNodes {
	t.Helper()
	provision := &ProvisionNodes{Verb: verb(name)}
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	provision.Instance.AddFlags(flags, provision.Verb.Instance)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return provision
}

func TestInstanceIsNotDescribedInAStateThatDoesNotAllowTheVerb(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1": {inState("active", "", "")}})
	var r run
	err := withImage(t, "deploy", "--image", "http://192.0.2.1/i.img").Run(t.Context(), engine, []string{"n1"}, r.streams())
	want := `Cannot deploy node n1: it is in state "active". In state active these verbs are possible: rebuild, undeploy, rescue, service.`
	if err == nil || Sentence(err) != want || ExitCode(err) != ExitError {
		t.Errorf("got %v, want %q", err, want)
	}
	if len(f.asked) != 1 {
		t.Errorf("asked %q, want no change", f.asked)
	}
}

func TestNewImageOfARebuildDoesNotKeepTheFormatOfTheOldOne(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string // of image_disk_format in the patch
	}{
		{[]string{"--image", "http://192.0.2.1/b.qcow2"}, `"path":"/instance_info/image_disk_format","value":null`},
		{[]string{"--image", "http://192.0.2.1/b", "--image-format", "qcow2"}, `"path":"/instance_info/image_disk_format","value":"qcow2"`},
	} {
		f, engine := newFakeEngine(t, map[string][]answer{
			"GET /v1/nodes/n1": {inState("active", "", "")}, "PATCH /v1/nodes/n1": {{200, "{}"}}, "PUT /v1/nodes/n1/states/provision": {{202, ""}},
		})
		var r run
		if err := withImage(t, "rebuild", test.flags...).Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
			t.Fatal(err)
		}
		if patch := f.bodies[1]; strings.Count(patch, "image_disk_format") != 1 || !strings.Contains(patch, test.want) {
			t.Errorf("%v: the patch is %s, want one with %s", test.flags, patch, test.want)
		}
	}
}

func TestRefusalAfterTheInstanceWasDescribedSaysSo(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"GET /v1/nodes/n1": {inState("available", "", "")}, "PATCH /v1/nodes/n1": {{200, "{}"}},
		"PUT /v1/nodes/n1/states/provision": {{503, fault("too many deployments")}},
	})
	var r run
	err := withImage(t, "deploy", "--image", "http://192.0.2.1/i.img").Run(t.Context(), engine, []string{"n1"}, r.streams())
	want := "Cannot deploy node n1, whose instance_info was changed: too many deployments. Try again in a moment."
	if err == nil || Sentence(err) != want || ExitCode(err) != ExitBusy {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestVerbsSendWhatTheyWereGiven(t *testing.T) {
	for _, test := range []struct {
		verb  string
		flags []string
		patch string // of the node; empty for none
		want  string
	}{
		{"rescue", []string{"--rescue-password", "hush"}, "", `{"rescue_password":"hush","target":"rescue"}`},
		{"unrescue", nil, "", `{"target":"unrescue"}`},
		{
			"deploy",
			[]string{"--boot-iso", "http://192.0.2.1/live.iso"},
			`[{"op":"add","path":"/instance_info/boot_iso","value":"http://192.0.2.1/live.iso"},{"op":"add","path":"/instance_info/image_source","value":null},` +
				`{"op":"add","path":"/instance_info/kernel","value":null},{"op":"add","path":"/instance_info/ramdisk","value":null}]`,
			`{"target":"active"}`,
		},
	} {
		f, engine := newFakeEngine(t, map[string][]answer{
			"GET /v1/nodes/n1": {inState("available", "", "")}, "PATCH /v1/nodes/n1": {{200, "{}"}}, "PUT /v1/nodes/n1/states/provision": {{202, ""}},
		})
		provision := &ProvisionNodes{Verb: verb(test.verb)}
		flags := pflag.NewFlagSet(test.verb, pflag.ContinueOnError)
		provision.Values.AddFlags(flags, provision.Verb.Fields)
		provision.Instance.AddFlags(flags, provision.Verb.Instance)
		if err := flags.Parse(test.flags); err != nil {
			t.Fatal(err)
		}
		var r run
		if err := provision.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, body := range f.bodies {
			if body != "" { // that of the read of the node
				got = append(got, body)
			}
		}
		want := []string{test.patch, test.want}
		if test.patch == "" {
			want = want[1:]
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.verb, diff)
		}
	}
}

func TestRescueWithoutAPasswordIsNotSent(t *testing.T) {
	f, engine := newFakeEngine(t, nil)
	var r run
	if err := (&ProvisionNodes{Verb: verb("rescue")}).Run(t.Context(), engine, []string{"n1"}, r.streams()); err == nil || len(f.asked) > 0 {
		t.Errorf("got %v after %v", err, f.asked)
	}
}

func TestWaitEndsAsTheNodeDoes(t *testing.T) {
	for name, test := range map[string]struct {
		verb     string
		looks    []answer
		progress []string
		fault    string
		code     int
	}{
		"arrives": {
			"manage",
			[]answer{inState("verifying", "manageable", ""), inState("verifying", "manageable", ""), inState("manageable", "", "")},
			[]string{"n1: verifying", "n1: manageable"},
			"", ExitOK,
		},
		"arrives through a state of the same name": {
			"manage",
			[]answer{inState("manageable", "available", ""), inState("manageable", "", "")},
			[]string{"n1: manageable"},
			"", ExitOK,
		},
		"falls back": {
			"manage",
			[]answer{inState("verifying", "manageable", ""), inState("enroll", "", "BMC does not answer.")},
			[]string{"n1: verifying", "n1: enroll"},
			"Node n1 did not become manageable, it is in enroll: BMC does not answer.", ExitError,
		},
		"leaves a retired node manageable": {
			"undeploy",
			[]answer{inState("cleaning", "available", ""), {200, `{"uuid": "u1", "name": "n1", "provision_state": "manageable", "retired": true}`}},
			[]string{"n1: cleaning", "n1: manageable"},
			"", ExitOK,
		},
		"leaves a node manageable that is not retired": {
			"undeploy",
			[]answer{inState("manageable", "", "")},
			[]string{"n1: manageable"},
			"Node n1 did not become available, it is in manageable: the engine gives no reason.", ExitError,
		},
		"fails": {
			"provide",
			[]answer{inState("clean failed", "available", "")},
			[]string{"n1: clean failed"},
			"Node n1 did not become available, it is in clean failed: the engine gives no reason.", ExitError,
		},
		"is held": {
			"provide",
			[]answer{inState("clean hold", "available", "")},
			[]string{"n1: clean hold"},
			"Node n1 is in clean hold and continues only after the verb unhold.", ExitError,
		},
		"engine fails twice": {
			"provide",
			[]answer{{503, fault("busy")}, {502, ""}, inState("available", "", "")},
			[]string{"n1: available"},
			"", ExitOK,
		},
		"node is deleted": {
			"provide",
			[]answer{inState("cleaning", "available", ""), {404, fault("Node n1 could not be found.")}},
			[]string{"n1: cleaning"},
			"Cannot show node n1: Node n1 could not be found.", ExitNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, engine := newFakeEngine(t, map[string][]answer{
				"PUT /v1/nodes/n1/states/provision": {{202, ""}},
				"GET /v1/nodes/n1":                  test.looks,
			})
			var r run
			p := &ProvisionNodes{Verb: verb(test.verb), Wait: Wait{Asked: true}, Interval: time.Millisecond}
			err := p.Run(t.Context(), engine, []string{"n1"}, r.streams())
			if code := ExitCode(err); code != test.code {
				t.Errorf("exit code %d, want %d (%v)", code, test.code, err)
			}
			if err != nil && !strings.HasPrefix(Sentence(err), test.fault) {
				t.Errorf("got %q, want %q", Sentence(err), test.fault)
			}
			if diff := gocmp.Diff(test.progress, strings.Split(strings.TrimSpace(r.err.String()), "\n")); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitEndsWhenNobodyWorksOnTheNodeAnyMore(t *testing.T) {
	busy := answer{200, `{"uuid": "u1", "name": "n1", "provision_state": "inspect failed", "reservation": "host"}`}
	f, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/provision": {{202, ""}},
		"GET /v1/nodes/n1":                  {busy, busy, inState("inspect failed", "", "")},
	})
	var r run
	p := &ProvisionNodes{Verb: verb("abort"), Wait: Wait{Asked: true}, Interval: time.Millisecond}
	if err := p.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil || len(f.asked) != 4 {
		t.Errorf("%v after %v", err, f.asked)
	}
	working := answer{200, `{"uuid": "u1", "provision_state": "deploying", "reservation": "host"}`}
	_, engine = newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1": {working}})
	if err := (NodeWait{State: "deploying"}).Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
		t.Errorf("a state of work: %v", err)
	}
}

func TestRefusedVerbIsFollowedByThoseThatAreAllowed(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/provision": {{400, fault("not possible")}},
		"GET /v1/nodes/n1":                  {inState("manageable", "", "")},
	})
	for name, want := range map[string]string{
		"unhold":  "Cannot unhold node n1: not possible. In state manageable these verbs are possible: provide, inspect, clean, adopt.",
		"provide": "Cannot provide node n1: not possible.",
	} {
		var r run
		err := (&ProvisionNodes{Verb: verb(name)}).Run(t.Context(), engine, []string{"n1"}, r.streams())
		if err == nil || Sentence(err) != want || ExitCode(err) != ExitError {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestWaitThatTookItsTimeSaysWhereTheNodeIs(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1": {inState("cleaning", "available", "")}})
	ctx, expire := context.WithCancelCause(t.Context())
	progress := writerFunc(func([]byte) { expire(errWaitedEnough) })
	err := stateWatch(engine, "n1", 0, verb("provide").arrived).run(ctx, Streams{Err: progress})
	want := `Node n1 is still in "cleaning". The work continues; check it with: ingot node show n1.`
	if err == nil || Sentence(err) != want || ExitCode(err) != ExitStillGoing {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestInterruptedWaitSaysThatTheWorkGoesOn(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/provision": {{202, ""}},
		"GET /v1/nodes/n1":                  {inState("cleaning", "available", "")},
	})
	ctx, interrupt := context.WithCancel(t.Context())
	var out strings.Builder
	to := Streams{Out: &out, Err: writerFunc(func([]byte) { interrupt() })}
	err := (&ProvisionNodes{Verb: verb("provide"), Wait: Wait{Asked: true}}).Run(ctx, engine, []string{"n1", "n2"}, to)
	want := "Interrupted. The work on node n1 continues; check it with: ingot node show n1."
	if err == nil || Sentence(err) != want || ExitCode(err) != ExitInterrupted {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestWaitIsBoundedByItsTimeout(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/provision": {{202, ""}},
		"GET /v1/nodes/n1":                  {inState("cleaning", "available", "")},
	})
	var r run
	p := &ProvisionNodes{Verb: verb("provide"), Wait: Wait{Asked: true, Timeout: time.Nanosecond}}
	err := p.Run(t.Context(), engine, []string{"n1"}, r.streams())
	if ExitCode(err) != ExitStillGoing || !strings.Contains(err.Error(), "no time was left") {
		t.Errorf("got %v", err)
	}
}

// writerFunc is a writer that only wants to know what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestEveryVerbOfTheAPIHasACommandWithItsEndState(t *testing.T) {
	commands := map[string]Verb{}
	for _, v := range Verbs() {
		commands[v.Target] = v
		if v.Arrives != "" && v.Arrives.Class() != node.Stable {
			t.Errorf("%s ends in %q", v.Name, v.Arrives)
		}
	}
	aliases := map[string]string{"deploy": "active", "undeploy": "deleted"}
	for _, known := range node.Verbs() {
		if _, ok := commands[cmp.Or(aliases[known.Name], known.Name)]; !ok {
			t.Errorf("no command sends %s", known.Name)
		}
	}
}

func TestWaitTakesSecondsOrADurationOrNothing(t *testing.T) {
	for text, want := range map[string]time.Duration{WaitForever: 0, "30": 30 * time.Second, "5m": 5 * time.Minute} {
		var w Wait
		if err := w.Set(text); err != nil || !w.Asked || w.Timeout != want {
			t.Errorf("%q: got %+v, %v; want %v", text, w, err, want)
		}
	}
	for _, text := range []string{"", "abc", "-3", "-5m", "0", "99999999999999999999"} {
		var w Wait
		if err := w.Set(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, w)
		}
	}
}
