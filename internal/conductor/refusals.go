package conductor

import "log/slog"

// Limits of the log about refused ramdisks. The log says why, because the machines are not told.
// The first two also limit, separately, the log about ignored parts of inventories.
const (
	refusalsASecond = 10
	refusalsAtOnce  = 200
	shownAddresses  = 8 // addresses of a machine in one line
)

// shown shortens a list of addresses for the log.
func shown(addresses []string) slog.Attr {
	return slog.Any("addresses", addresses[:min(len(addresses), shownAddresses)])
}
