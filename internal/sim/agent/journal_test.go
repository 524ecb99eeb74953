package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// notes is a journal of one machine.
type notes struct{ *effect.Recorder }

func newNotes(t *testing.T, faults effect.AgentFaults) notes {
	t.Helper()
	n := notes{effect.NewRecorder(effect.RecorderOptions{Known: func(string) bool { return true }})}
	n.Register("m")
	if err := n.SetFaults("m", &effect.Faults{Agent: faults}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n notes) Draw(c effect.Command) effect.CommandFate { return n.DrawCommand("m", c) }
func (n notes) Add(e effect.Effect) int64 {
	e.Machine = "m"
	return n.Recorder.Add(e)
}

// done lists what was done, in its order. A star marks what has not ended.
func (n notes) done() (list []string) {
	for _, e := range n.Effects("m", 0) {
		text := e.Kind + ": " + e.Detail
		if e.Fault != "" {
			text += " (" + e.Fault + ")"
		}
		if e.Ended.IsZero() {
			text += " *"
		}
		list = append(list, text)
	}
	return list
}

func TestJournalHasCommandsAndWhatTheyDidToDisks(t *testing.T) {
	n := newNotes(t, effect.AgentFaults{})
	image := serveImage(t, diskImage(10_000))
	a := newDiskAgent(t, nil, func(c *Config) { c.Journal = n })
	answered(t, a, "clean.get_clean_steps", `{"node":{},"ports":[]}`)
	answered(t, a, "clean.execute_clean_step", stepHead+`{"step":"erase_devices_metadata"}}`)
	answered(t, a, "deploy.execute_deploy_step", stepHead+`{"step":"write_image","args":{"image_info":`+image.info("")+`}}}`)
	if diff := cmp.Diff([]string{
		"agent command: clean.get_clean_steps",
		"agent command: clean.execute_clean_step erase_devices_metadata",
		"wipe: erase_devices_metadata /dev/vda",
		"agent command: deploy.execute_deploy_step write_image",
		"write: /dev/vda " + image.url + "/image.raw sha256:" + image.sum + " 10000 bytes",
	}, n.done()); diff != "" {
		t.Errorf("journal differs (-want +got):\n%s", diff)
	}
}

func TestFaultsOfCommands(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	streamed := image.info(`,"disk_format":"raw","stream_raw_images":true`)
	for name, test := range map[string]struct {
		faults        effect.AgentFaults
		info          string
		kind, details string
		written       bool
	}{
		"bad checksum":        {effect.AgentFaults{BadChecksum: 1}, image.info(""), "ImageChecksumError", "verification checksum: 0000", false},
		"disk full":           {effect.AgentFaults{DiskFull: 1}, image.info(""), "ImageWriteError", "No space left on device", false},
		"disk full, streamed": {effect.AgentFaults{DiskFull: 1}, streamed, "ImageDownloadError", "[Errno 28] No space left on device", true},
		"failing step":        {effect.AgentFaults{Fail: 1, Commands: []string{"write_image"}}, image.info(""), "DeploymentError", "Unexpected exception performing deploy step write_image", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNotes(t, test.faults)
			a := newDiskAgent(t, nil, func(c *Config) { c.Journal = n })
			_, got := answered(t, a, "deploy.execute_deploy_step", stepHead+`{"step":"write_image","args":{"image_info":`+test.info+`}}}`)
			failure, _ := got["command_error"].(map[string]any)
			if failure["type"] != test.kind || !strings.Contains(failure["details"].(string), test.details) {
				t.Errorf("command is %v, want %s with %q", got, test.kind, test.details)
			}
			if written := n.Counts("m")[effect.Write] == 1; written != test.written {
				t.Errorf("journal %q, want a write: %v", n.done(), test.written)
			}
		})
	}
}

func TestFaultsAreLimitedToCommandsAndTimes(t *testing.T) {
	n := newNotes(t, effect.AgentFaults{Fail: 1, Commands: []string{"standby.sync"}, Times: 1})
	a := newDiskAgent(t, nil, func(c *Config) { c.Journal = n })
	for i, want := range []struct{ command, status string }{
		{"standby.get_partition_uuids", statusSucceeded}, {"standby.sync", statusFailed}, {"standby.sync", statusSucceeded},
	} {
		if _, got := answered(t, a, want.command, `{}`); got["command_status"] != want.status {
			t.Errorf("command %d is %v, want %s", i+1, got, want.status)
		}
	}
}

// TestAgentFallsSilentDuringACommand has an agent that overwrites an image.
func TestAgentFallsSilentDuringACommand(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	for name, test := range map[string]struct {
		faults effect.AgentFaults
		err    error // nil: the agent goes on
	}{
		"crash at a command": {effect.AgentFaults{CrashAt: 2}, ErrCrashed},
		"crash in a step":    {effect.AgentFaults{Crash: 1, Commands: []string{"write_image"}}, ErrCrashed},
		"vanish":             {effect.AgentFaults{Vanish: 1, Commands: []string{"execute_deploy_step"}}, ErrVanished},
		"never end":          {effect.AgentFaults{NeverEnd: 1, Commands: []string{"deploy.execute_deploy_step"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			n := newNotes(t, test.faults)
			disks := disk.NewSet("", "")
			writeOnce(t, disks)
			a := newAgent(t, e, func(c *Config) { c.Clock, c.Disks, c.Journal = Accelerated(100), disks, n })
			ended, powerOff := run(t, a)
			e.awaitCalls(t, CallHeartbeat, 1)
			if got := post(t, a, "", `{"name":"standby.sync","params":{}}`); got.Code != 200 {
				t.Fatalf("sync is answered %d %s", got.Code, got.Body)
			}
			if got := post(t, a, "", `{"name":"deploy.execute_deploy_step","params":`+stepHead+`{"step":"write_image","args":{"image_info":`+image.info("")+`}}}}`); got.Code != 200 {
				t.Fatalf("the step is answered %d %s", got.Code, got.Body)
			}
			if test.err != nil {
				if err := await(t, ended); !errors.Is(err, test.err) {
					t.Errorf("agent ended with %v, want %v", err, test.err)
				}
			} else {
				for deadline := time.Now().Add(10 * time.Second); n.Counts("m")[effect.Write] == 0; {
					if time.Now().After(deadline) {
						t.Fatal("nothing was written")
					}
				}
				powerOff()
				_ = await(t, ended)
			}
			if got := n.done(); len(got) != 3 || !strings.HasSuffix(got[1], "*") || !strings.HasPrefix(got[2], "write: /dev/vda a part of an image") {
				t.Errorf("journal %q, want a step that has not ended and a part of an image", got)
			}
			if len(disks.Contents()) != 0 {
				t.Error("the disk has what it had before")
			}
		})
	}
}

// writeOnce puts an image on the root disk of the recorded machine.
func writeOnce(t *testing.T, disks *disk.Set) {
	t.Helper()
	w, err := disks.Write("/dev/vda", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(disk.Image{Bootable: true}); err != nil {
		t.Fatal(err)
	}
}

func TestAgentPostsItsDocumentOnlyWhereItIsToldTo(t *testing.T) {
	e := newEngine(t)
	a := newAgent(t, e, func(c *Config) { c.Clock, c.CallbackURLs = newFakeClock(true), []string{} })
	_, powerOff := run(t, a)
	e.awaitCalls(t, CallHeartbeat, 1)
	powerOff()
	if posts := e.got(CallInspect); len(posts) != 0 {
		t.Errorf("%d posts, want none", len(posts))
	}
	gone := newAgent(t, nil, func(c *Config) {
		c.Clock, c.CallbackURLs = newFakeClock(true), []string{"http://127.0.0.1:1/v1/continue_inspection", e.URL + "/v1/continue_inspection"}
	})
	ended, _ := run(t, gone)
	if err := await(t, ended); !errors.Is(err, ErrNoEngine) {
		t.Errorf("agent without an engine ended with %v, want %v", err, ErrNoEngine)
	}
	if posts := e.got(CallInspect); len(posts) != 1 {
		t.Errorf("%d posts, want one to the second URL", len(posts))
	}
}
