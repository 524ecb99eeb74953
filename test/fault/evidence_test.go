//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// evidence is what the machines and the database have recorded.
type evidence struct {
	calls  []effect.Effect         // calls with which engines change machines, as they arrived
	leases map[int64][]leaseChange // by epoch, in their order
}

// leaseChange is the state of a lease from a time on, by the database's clock.
type leaseChange struct {
	at      time.Time
	owner   string
	expires time.Time
	busy    time.Time // until when a call may be on its way; zero for none
	ended   bool
}

// arrival is how long a request may take to reach a machine on this computer, which may be busy.
const arrival = time.Second

// longestCall is longer than any call takes.
const longestCall = time.Minute

// once are the kinds of effects that must not happen twice for one request.
var once = []string{"wipe", "write", "flash", "nmi"}

// rules are what must hold for the calls of one machine. Each returns sentences about the calls
// that break the rule.
var rules = []func(evidence, []effect.Effect) []string{
	evidence.heldWhenSent, evidence.besideNobody, evidence.forward, evidence.notTwice, evidence.inOrder,
}

// violations returns what does not hold, by machine.
func (e evidence) violations() map[string][]string {
	machines := map[string][]effect.Effect{}
	for _, call := range e.calls {
		machines[call.Machine] = append(machines[call.Machine], call)
	}
	found := map[string][]string{}
	for name, calls := range machines {
		for _, rule := range rules {
			if broken := rule(e, calls); len(broken) > 0 {
				found[name] = append(found[name], broken...)
			}
		}
	}
	return found
}

// lease returns the lease of an epoch at a time. It returns false if there was none.
func (e evidence) lease(epoch int64, at time.Time) (lease leaseChange, held bool) {
	for _, change := range e.leases[epoch] {
		if change.at.After(at) {
			break
		}
		lease, held = change, !change.ended
	}
	return lease, held
}

// heldWhenSent: a call begins under a lease that is in force, that belongs to the engine that makes
// the call, and that keeps others from the machine.
func (e evidence) heldWhenSent(calls []effect.Effect) (broken []string) {
	for _, call := range calls {
		lease, held := e.lease(call.Epoch, call.Time)
		var problem string
		switch {
		case !held:
			problem = "is not under a lease"
		case lease.owner != call.Conductor:
			problem = "is under the lease of " + lease.owner
		case !lease.expires.After(call.Time):
			problem = "is under a lease that ended " + call.Time.Sub(lease.expires).String() + " before"
		case lease.busy.IsZero():
			problem = "is under a lease that does not keep others from the machine"
		case call.Time.After(lease.busy.Add(arrival)):
			problem = "comes " + call.Time.Sub(lease.busy).String() + " after others may have the machine"
		default:
			continue
		}
		broken = append(broken, describe(call)+" "+problem)
	}
	return broken
}

// besideNobody: while a call may be on its way, no call begins under another lease.
func (e evidence) besideNobody(calls []effect.Effect) (broken []string) {
	for i, call := range calls {
		for _, before := range slices.Backward(calls[:i]) {
			if call.Time.Sub(before.Time) > longestCall {
				break
			}
			if before.Epoch == call.Epoch {
				continue
			}
			until := before.Ended
			if lease, _ := e.lease(before.Epoch, before.Time); until.IsZero() || !lease.busy.IsZero() && lease.busy.Before(until) {
				until = lease.busy // by then its client gives up, whether the machine noticed or not
			}
			if call.Time.Before(until) {
				broken = append(broken, fmt.Sprintf("%s begins %s before %s is over", describe(call), until.Sub(call.Time), describe(before)))
			}
		}
	}
	return broken
}

// forward: epochs never go backwards.
func (evidence) forward(calls []effect.Effect) (broken []string) {
	for i := 1; i < len(calls); i++ {
		if calls[i].Epoch < calls[i-1].Epoch {
			broken = append(broken, fmt.Sprintf("%s comes after %s", describe(calls[i]), describe(calls[i-1])))
		}
	}
	return broken
}

// notTwice: what may do harm is done once at most for a request.
func (evidence) notTwice(calls []effect.Effect) (broken []string) {
	seen := map[string]effect.Effect{}
	for _, call := range calls {
		if call.Task == "" || !slices.Contains(once, call.Kind) {
			continue
		}
		if first, twice := seen[call.Kind+call.Request]; twice {
			broken = append(broken, fmt.Sprintf("%s happens again, after %s", describe(call), describe(first)))
		}
		seen[call.Kind+call.Request] = call
	}
	return broken
}

// inOrder: no operation of a piece of work is called again after a later one.
func (evidence) inOrder(calls []effect.Effect) (broken []string) {
	seen := map[string][]string{} // operations in their order, by work
	for _, call := range calls {
		work, operation, _ := strings.Cut(call.Request, " ")
		begun := seen[work]
		switch at := slices.Index(begun, operation); {
		case at < 0:
			seen[work] = append(begun, operation)
		case at < len(begun)-1:
			broken = append(broken, fmt.Sprintf("%s comes after %q of the same work had begun", describe(call), begun[len(begun)-1]))
		}
	}
	return broken
}

// describe is a line of the log.
func describe(e effect.Effect) string {
	text := fmt.Sprintf("call %d (%s of %s, epoch %d, for %q, %s", e.Sequence, e.Kind, e.Conductor, e.Epoch, e.Request, e.Time.Format(clockTime))
	if !e.Ended.IsZero() {
		text += ", took " + e.Ended.Sub(e.Time).Round(time.Millisecond).String()
	}
	if e.Fault != "" {
		text += ", " + e.Fault
	}
	return text + ")"
}

const clockTime = "15:04:05.000"

// recordLeases makes the database record every change of a lease, in the transaction that makes the
// change.
const recordLeases = `
CREATE SCHEMA evidence;
CREATE TABLE evidence.leases (
	id BIGSERIAL PRIMARY KEY, at BIGINT DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	epoch BIGINT, owner TEXT, expires_at BIGINT, busy_until BIGINT, ended BOOLEAN);
CREATE FUNCTION evidence.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND NEW.epoch <> OLD.epoch THEN
		INSERT INTO evidence.leases (epoch, owner, ended) VALUES (OLD.epoch, OLD.owner, TRUE);
	ELSE
		INSERT INTO evidence.leases (epoch, owner, expires_at, busy_until, ended) VALUES (NEW.epoch, NEW.owner, NEW.expires_at, NEW.busy_until, FALSE);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON leases FOR EACH ROW EXECUTE FUNCTION evidence.note();`

// recordedLeases reads what the database has recorded because of recordLeases.
func recordedLeases(ctx context.Context, db *pgx.Conn) (map[int64][]leaseChange, error) {
	rows, err := db.Query(ctx, "SELECT epoch, at, owner, coalesce(expires_at, 0), coalesce(busy_until, 0), ended FROM evidence.leases ORDER BY id")
	if err != nil {
		return nil, err
	}
	leases := map[int64][]leaseChange{}
	var epoch, at, expires, busy int64
	var change leaseChange
	_, err = pgx.ForEachRow(rows, []any{&epoch, &at, &change.owner, &expires, &busy, &change.ended}, func() error {
		change.at, change.expires, change.busy = time.UnixMicro(at), time.UnixMicro(expires), time.Time{}
		if busy != 0 {
			change.busy = time.UnixMicro(busy)
		}
		leases[epoch] = append(leases[epoch], change)
		return nil
	})
	return leases, err
}
