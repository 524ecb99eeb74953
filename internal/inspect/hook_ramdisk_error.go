package inspect

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// ramdiskErrorHook fails the inspection if the ramdisk reports an error of its own, before other
// hooks use incomplete data.
var ramdiskErrorHook = Hook{Name: "ramdisk-error", Preprocess: refuseRamdiskError}

func refuseRamdiskError(ctx *Context) error {
	text := ramdiskError(ctx.PluginData["error"])
	if text == "" {
		return nil
	}
	return errors.New("the ramdisk reported: " + node.CutText(text))
}

// ReportsError reports whether the ramdisk that posted a document reports an error of its own.
func ReportsError(document *inventory.Document) bool {
	return ramdiskError(document.PluginData["error"]) != ""
}

// ramdiskError returns the reported error as text, "" if there is none. Any value that is not null,
// false or blank counts, even if it is not text, because an agent that sets the key has failed.
func ramdiskError(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strings.TrimSpace(text)
	}
	switch value := string(raw); value {
	case "", "null", "false", "0", "{}", "[]":
		return ""
	default:
		return value
	}
}
