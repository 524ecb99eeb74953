package inspect

import (
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// bootModeHook sets the capability boot_mode to the firmware mode in which the ramdisk was started.
// If the mode is unknown, the capability stays as it is.
var bootModeHook = Hook{Name: "boot-mode", Process: setBootMode}

// bootModes are the values of the capability boot_mode.
var bootModes = []string{"bios", "uefi"}

func setBootMode(ctx *Context) error {
	sent := ctx.Inventory.Boot.CurrentBootMode
	mode := strings.ToLower(strings.TrimSpace(sent))
	switch {
	case mode == "":
		ctx.Skip("The inventory does not say in which mode the ramdisk was booted (boot.current_boot_mode); the capability boot_mode stays as it is")
	case !slices.Contains(bootModes, mode):
		ctx.Skip("The boot mode %s in the inventory is neither bios nor uefi (boot.current_boot_mode); the capability boot_mode stays as it is", inventory.Quote(sent))
	default:
		ctx.Properties.SetCapability("boot_mode", mode)
	}
	return nil
}
