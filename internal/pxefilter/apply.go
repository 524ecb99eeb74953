package pxefilter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// manyWritten is after how many written files dnsmasq is told to read all files again. Until then
// dnsmasq also keeps the content of earlier versions of a file, and it may miss some changes if
// there are thousands at once.
const manyWritten = 1000

// changesASecond and changesAtOnce limit the log lines about changed files, per second and in a
// burst.
const (
	changesASecond = 10
	changesAtOnce  = 200
)

// apply synchronises the files with the nodes. With compare, it first looks for changes in the
// folder that others have made.
func (f *Filter) apply(compare bool) error {
	first := !f.initialized
	if first {
		if err := f.folder.sweep(); err != nil {
			return err
		}
	}
	if compare {
		if err := f.folder.scan(time.Now()); err != nil {
			return err
		}
	}
	w := f.policy.decide(f.nodes.nodes)
	changed, failed, err := f.write(w, first)
	if f.unfinished = err != nil; f.unfinished {
		return fmt.Errorf("bring %d files in step, the first of them: %w", failed, err)
	}
	if first {
		f.log.Info("Filter is active", "folder", f.opts.HostsDir, "nodes", len(f.nodes.nodes), "ports", len(w.ports),
			"changed", changed, "unknown_machines", string(w.unknown.verdict), "because", w.unknown.because)
	}
	f.initialized = true
	if compare {
		f.synced = time.Now()
		f.metrics.synced.SetToCurrentTime()
	}
	f.metrics.show(w)
	if first || compare || f.written >= manyWritten {
		f.reload()
	}
	return nil
}

// write writes the wanted files as far as possible. It returns how many it changed and how many
// failed, with the first error. At the first time it removes the files of addresses that no port
// has. Later such files follow the rule for unknown machines, because dnsmasq does not notice a
// deleted file.
func (f *Filter) write(w wanted, first bool) (changed, failed int, cause error) {
	did := func(err error) bool {
		if err == nil {
			changed++
			return true
		}
		failed++
		cause = cmp.Or(cause, err)
		return false
	}
	level := slog.LevelInfo
	if first {
		level = slog.LevelDebug // a summary follows
		for _, name := range f.leftovers(w) {
			if did(f.folder.remove(name)) {
				f.metrics.removed.Inc()
				f.changes.Log(time.Now(), slog.LevelInfo, "Removed the rule of an address that needs none", slog.String("mac", name))
			}
		}
		if failed > 0 {
			return changed, failed, cause // otherwise the files that could not be removed would be written
		}
	}
	for _, c := range w.changes(f.folder.files) {
		if did(f.folder.write(c.name, c.verdict)) {
			f.written++
			f.report(level, c)
		}
	}
	if f.written >= manyWritten && f.reloading == "" {
		f.reloading = "many hosts have changed"
	}
	return changed, failed, cause
}

// leftovers returns the names of the files to remove at the start, and requests a reload of
// dnsmasq. It requests the reload even if there are no such files: an earlier process may have been
// killed after it had removed files and before it told dnsmasq.
func (f *Filter) leftovers(w wanted) []string {
	gone := w.filesWithoutPort(f.folder.files)
	if len(gone) > 0 || f.dnsmasq.known() {
		f.reloading = "the filter has started"
	}
	return gone
}

// report counts a change and logs it with its reason.
func (f *Filter) report(level slog.Level, c change) {
	f.metrics.written.WithLabelValues(string(c.verdict)).Inc()
	attrs := []slog.Attr{slog.String("verdict", string(c.verdict)), slog.String("because", c.because)}
	if c.node != "" {
		attrs = append(attrs, slog.String("node", c.node), slog.String("state", string(c.state)))
	}
	if c.name == unknownFile {
		f.changes.Log(time.Now(), level, "Changed the rule for unknown machines", attrs...)
		return
	}
	f.changes.Log(time.Now(), level, "Changed the rule of a port", append(attrs, slog.String("mac", c.name))...)
}

// reload tells dnsmasq to read all files again, if there is a reason. After a failure, the next
// full comparison tries again.
func (f *Filter) reload() {
	if f.reloading == "" {
		return
	}
	if !f.dnsmasq.known() {
		f.log.Info("Send SIGHUP to dnsmasq if it runs already, or name its process with --dnsmasq-pid-file", "because", f.reloading)
		f.reloading, f.written = "", 0
		return
	}
	err := f.dnsmasq.reload()
	switch {
	case err == nil:
		f.log.Info("Told dnsmasq to read its hosts anew", "because", f.reloading)
		f.reloading, f.written = "", 0
		f.dnsmasqTrouble.over(f.log, "Dnsmasq can be told again")
	case errors.Is(err, errNotRunning):
		f.dnsmasqTrouble.report(f.log, "Dnsmasq reads its hosts when it starts", err)
	default:
		f.metrics.errors.WithLabelValues("dnsmasq").Inc()
		f.dnsmasqTrouble.report(f.log, "Dnsmasq cannot be told to read its hosts anew", err)
	}
}
