package netboot

import "strings"

// stage is how far booting a ramdisk has come.
type stage string

// phase is a stage with what the turn after it needs: the boot device, and the phase of
// the management interface that sets it.
type phase struct {
	stage  stage
	device string
	inner  string
}

// String returns the phase as it is stored. Later releases read it.
func (p phase) String() string { return string(p.stage) + "/" + p.device + "/" + p.inner }

// parsePhase reads a phase; text that is none has the zero stage.
func parsePhase(text string) phase {
	first, rest, _ := strings.Cut(text, "/")
	device, inner, _ := strings.Cut(rest, "/")
	return phase{stage: stage(first), device: device, inner: inner}
}
