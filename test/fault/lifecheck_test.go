//go:build fault

package fault_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/store"
)

// harmful are the kinds of effects that must not happen more often than was asked for.
var harmful = []string{effect.Wipe, effect.Write, string(bmc.Flash), string(bmc.CreateVolume), string(bmc.DeleteVolume)}

// problems compares the log of a machine with the requests. No request may do harm more often than
// it asks for; a request that went well must do it exactly as often. Outside of requests no harm
// may be done. No writing of firmware may have been interrupted.
func problems(attempts []*attempt, effects []effect.Effect) (found []string) {
	requests := map[string]bool{}
	done := make([]map[string]int, len(attempts))
	for i := range done {
		done[i] = map[string]int{}
	}
	for _, e := range effects {
		if e.Kind == string(bmc.InterruptFlash) {
			found = append(found, fmt.Sprintf("effect %d: the machine lost its power, or was restarted, while the firmware of %s was written", e.Sequence, e.Detail))
		}
		if !slices.Contains(harmful, e.Kind) {
			continue
		}
		key := e.Kind + " " + e.Detail + " " + e.Request
		if e.Request != "" && requests[key] {
			found = append(found, fmt.Sprintf("effect %d: %s %s was done again for %q", e.Sequence, e.Kind, e.Detail, e.Request))
		}
		requests[key] = true
		i := slices.IndexFunc(attempts, func(a *attempt) bool { return a.since < e.Sequence && e.Sequence <= a.until })
		if i < 0 {
			found = append(found, fmt.Sprintf("effect %d: nobody asked for %s %s", e.Sequence, e.Kind, e.Detail))
			continue
		}
		done[i][e.Kind]++
	}
	for i, a := range attempts {
		for _, kind := range harmful {
			if did, most := done[i][kind], a.most[kind]; did > most || did < most && a.failed == "" {
				found = append(found, fmt.Sprintf("request %d, %q (failed: %t), asks for %d of %s, and the machine did %d", i, a.what, a.failed != "", most, kind, did))
			}
		}
	}
	return found
}

// checkEnd looks for what does not hold at the end of a life.
func (l *life) checkEnd() {
	l.t.Helper()
	n, now := l.show(), l.machine.observe()
	if n.Holder != nil || n.Maintenance || n.LastError != "" {
		l.t.Errorf("the node at the end: %+v", n)
	}
	if len(now.Disks) != 0 {
		l.t.Errorf("the disks at the end: %v", now.Disks)
	}
	for i, component := range l.shape.updates {
		if got := now.version(component); got != wantedVersion(i) {
			l.t.Errorf("the version of %s is %s, want %s", component, got, wantedVersion(i))
		}
	}
	if l.shape.vendor != "" && now.PowerState != string(bmc.Off) {
		l.t.Errorf("the machine is %s at the end, want it off", now.PowerState)
	}
	l.checkNothingServed()
	effects, _ := l.machine.effects(0)
	for _, problem := range problems(l.attempts, effects) {
		l.t.Error(problem)
	}
	l.engine.stop()
	for _, line := range l.engine.panics() {
		l.t.Error(line)
	}
	l.checkNoWork()
}

// checkNothingServed looks for what the machine could still boot a ramdisk from.
func (l *life) checkNothingServed() {
	l.t.Helper()
	if served := l.show().Internal["ramdisk_boot"]; served != nil {
		l.t.Errorf("the node has a record of a boot: %v", served)
	}
	now := l.machine.observe()
	for _, medium := range now.Media {
		if medium.Image != "" {
			l.t.Errorf("the medium %s is still attached", medium.Image)
		}
	}
	if l.shape.vendor == "" {
		return
	}
	if status, body := l.served(l.boot + "/boot/mac/" + now.BootMAC); status != http.StatusOK || strings.Contains(body, "chain") {
		l.t.Errorf("the script of the machine: %d %s", status, body)
	}
	for _, address := range l.bootURLs() {
		if status, _ := l.served(address); status != http.StatusNotFound {
			l.t.Errorf("%s is answered with %d, want 404", address, status)
		}
	}
}

// bootURLs returns the URLs from which the machine was told to boot.
func (l *life) bootURLs() (addresses []string) {
	effects, _ := l.machine.effects(0)
	for _, e := range effects {
		for word := range strings.FieldsSeq(e.Detail) {
			if strings.HasPrefix(word, l.boot+"/boot/") && !slices.Contains(addresses, word) {
				addresses = append(addresses, word)
			}
		}
	}
	return addresses
}

// served asks the boot service for something, and repeats that while the engine is dead.
func (l *life) served(address string) (status int, body string) {
	l.t.Helper()
	for range 100 {
		answer, err := http.Get(address)
		if err != nil {
			l.show() // waits until it is alive again
			continue
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			continue
		}
		return answer.StatusCode, string(text)
	}
	l.t.Fatalf("%s is not answered", address)
	return 0, ""
}

// checkNoWork looks for work in the database of an engine that has ended.
func (l *life) checkNoWork() {
	l.t.Helper()
	db, err := store.Open(l.t.Context(), l.engine.options())
	if err != nil {
		l.t.Fatal(err)
	}
	defer db.Close()
	err = db.Read(l.t.Context(), func(tx *store.Tx) error {
		left, err := tx.CountWork()
		if err == nil && left != 0 {
			l.t.Errorf("%d pieces of work are left", left)
		}
		return err
	})
	if err != nil {
		l.t.Error(err)
	}
}
