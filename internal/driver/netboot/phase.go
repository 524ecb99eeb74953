package netboot

import (
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
)

// stage is how far booting a ramdisk has come.
type stage string

// phase is a stage with what the next turn needs: the boot device or virtual device, the phase of
// the management interface that sets it, and when that interface was first called.
type phase struct {
	stage  stage
	device string
	inner  string
	since  time.Duration // after the first turn of booting the ramdisk
}

// String returns the phase as it is stored. Later releases read it.
func (p phase) String() string {
	text := string(p.stage)
	if p.since > 0 {
		text += "@" + strconv.FormatInt(int64(p.since/time.Second), 10)
	}
	return text + "/" + p.device + "/" + p.inner
}

// parsePhase reads a phase; text that is none has the zero stage.
func parsePhase(text string) phase {
	first, rest, _ := strings.Cut(text, "/")
	device, inner, _ := strings.Cut(rest, "/")
	name, at, _ := strings.Cut(first, "@")
	seconds, _ := strconv.ParseInt(at, 10, 64) // earlier releases have stored none
	return phase{stage: stage(name), device: device, inner: inner, since: time.Duration(seconds) * time.Second}
}

// turnOf returns the turn of the management interface within a turn of booting the ramdisk. Its
// time begins with the first call of the management interface, because fetching the images before
// that may have taken long.
func (p phase) turnOf(turn driver.Turn) driver.Turn {
	inner := turn
	inner.Phase, inner.Elapsed = p.inner, turn.Elapsed-p.since
	if (p.stage == stored || p.stage == inserted) && turn.Attempt == driver.Continued {
		inner.Attempt = driver.Fresh
	}
	return inner
}

// begins returns the phase with the present turn as the first of the management interface, unless
// that interface was called before.
func (p phase) begins(turn driver.Turn) phase {
	if p.stage == stored || p.stage == inserted {
		p.since = turn.Elapsed
	}
	return p
}
