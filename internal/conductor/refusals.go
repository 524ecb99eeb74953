package conductor

import "log/slog"

// How often the log says why a ramdisk was refused, which machines themselves are not
// told, and as often which parts of an inventory were ignored.
const (
	refusalsASecond = 10
	refusalsAtOnce  = 200
	shownAddresses  = 8 // of a machine, in one line
)

// shown shortens a list of addresses for the log.
func shown(addresses []string) slog.Attr {
	return slog.Any("addresses", addresses[:min(len(addresses), shownAddresses)])
}
