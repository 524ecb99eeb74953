package inspect

import (
	"errors"
	"fmt"
)

// memoryHook sets the property memory_mb, a whole number of MiB, to the installed memory. The
// memory that the kernel can use (memory.total) is less and is no substitute.
var memoryHook = Hook{Name: "memory", Process: setMemory}

func setMemory(ctx *Context) error {
	size := ctx.Inventory.Memory.PhysicalMB
	switch {
	case size == 0:
		return ctx.unknown("how much memory is installed", errors.New("the inventory does not say how much memory is installed (memory.physical_mb); check what the ramdisk reads from the firmware with dmidecode or lshw, or take the hook out of inspector.hooks"))
	case size < 0:
		return fmt.Errorf("the inventory has %d MiB of installed memory (memory.physical_mb); check the ramdisk's hardware manager", size)
	}
	ctx.Properties.Set("memory_mb", size)
	return nil
}
