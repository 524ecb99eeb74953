package ramdisk

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/agent"
)

func TestLogsAreAskedForOnceInTheLifeOfAnAgent(t *testing.T) {
	s := &standIn{commands: []agent.Command{asked}, result: `{"system_logs": "` + base64.StdEncoding.EncodeToString([]byte("the logs")) + `\n"}`}
	d := driverOf(s, true)
	if logs, err := d.Logs(t.Context(), machine); err != nil || string(logs) != "the logs" {
		t.Errorf("got %q, %v", logs, err)
	}
	s.commands = append(s.commands, agent.Command{ID: "later", Name: "execute_clean_step", Status: agent.CommandFailed})
	logs, err := d.Logs(t.Context(), machine)
	if err == nil || !strings.Contains(err.Error(), "asked for its logs before") || logs != nil || len(s.sent) != 1 {
		t.Errorf("once more: %q, %v after %d commands, want an error that says so and one command", logs, err, len(s.sent))
	}
}

func TestLogsThatAreNoneAreAnError(t *testing.T) {
	for _, result := range []string{`"logs"`, `{"system_logs": "<html>"}`} {
		s := &standIn{commands: []agent.Command{asked}, result: result}
		if logs, err := driverOf(s, true).Logs(t.Context(), machine); err == nil {
			t.Errorf("%s: got %q", result, logs)
		}
	}
	if _, err := driverOf(&standIn{silent: errLost}, true).Logs(t.Context(), machine); err == nil {
		t.Error("a silent agent has logs")
	}
}
