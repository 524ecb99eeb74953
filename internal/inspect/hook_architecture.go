package inspect

import (
	"errors"
	"strings"
)

// architectureHook sets the property cpu_arch, which scheduling and boot images
// depend on.
var architectureHook = Hook{Name: "architecture", Process: setArchitecture}

// maxArchitecture is the longest accepted name in bytes; the longest known is "aarch64_be".
const maxArchitecture = 32

func setArchitecture(ctx *Context) error {
	arch := strings.TrimSpace(ctx.Inventory.CPU.Architecture)
	if arch == "" {
		return ctx.unknown("the CPU architecture", errors.New("the inventory names no CPU architecture (cpu.architecture); check the ramdisk's hardware manager"))
	}
	if len(arch) > maxArchitecture {
		return errors.New("the CPU architecture in the inventory is too long to be one (cpu.architecture)")
	}
	ctx.Properties.Set("cpu_arch", arch)
	return nil
}
