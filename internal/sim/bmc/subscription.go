package bmc

import (
	"net/url"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// Subscription is a request for events. A simulated BMC has no events to send.
type Subscription struct {
	Number      int64 // from 1
	Destination string
	Context     string
	Protocol    string // in the words of Redfish
	EventTypes  []string
}

// Subscriptions returns the subscriptions, the oldest first.
func (b *BMC) Subscriptions() []Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return slices.Clone(b.listeners)
}

// Subscribe adds a subscription and returns it. It returns nil when a fault makes the BMC ignore
// the request. The error is a *RefusedError.
func (b *BMC) Subscribe(c *Call, s Subscription) (made *Subscription, err error) {
	err = b.apply(c, change{
		kind: Subscribe, detail: s.Destination,
		check: func(time.Time) *RefusedError {
			if u, err := url.Parse(s.Destination); err != nil || u.Host == "" {
				return &RefusedError{Reason: BadDestination, Property: "Destination", Value: s.Destination}
			}
			return nil
		},
		do: func(_ time.Time, fate effect.Fate) *Task {
			s.Number = 1
			if n := len(b.listeners); n > 0 {
				s.Number = b.listeners[n-1].Number + 1
			}
			if !fate.FailTask {
				b.listeners = append(b.listeners, s)
				made = &s
			}
			return nil
		},
	})
	return made, err
}

// Unsubscribe ends a subscription. The error is nil.
func (b *BMC) Unsubscribe(c *Call, number int64) error {
	return b.apply(c, change{kind: Unsubscribe, do: func(_ time.Time, fate effect.Fate) *Task {
		if !fate.FailTask {
			b.listeners = slices.DeleteFunc(b.listeners, func(s Subscription) bool { return s.Number == number })
		}
		return nil
	}})
}
