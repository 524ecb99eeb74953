package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// powerActions has the power actions: the state that each leads to, and whether it asks the
// operating system.
var powerActions = map[provisioner.PowerAction]struct {
	to   node.PowerState
	soft bool
}{
	provisioner.PowerActionOn:         {to: node.PowerOn},
	provisioner.PowerActionOff:        {to: node.PowerOff},
	provisioner.PowerActionSoftOff:    {to: node.PowerOff, soft: true},
	provisioner.PowerActionReboot:     {to: node.PowerOn},
	provisioner.PowerActionSoftReboot: {to: node.PowerOn, soft: true},
}

// SetPower changes the power; see [provisioner.PowerController].
func (e *Engine) SetPower(_ context.Context, id string, change provisioner.PowerChange) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	action, known := powerActions[change.Action]
	switch {
	case !known:
		return fmt.Errorf("%w: there is no power action %q", provisioner.ErrInvalid, change.Action)
	case m.registration.Access == nil, action.soft && m.behaviour.noSoftPower:
		return fmt.Errorf("%w: demo node %s has no %s", provisioner.ErrUnsupported, id, change.Action)
	case action.to == node.PowerOff && m.registration.DisablePowerOff:
		return fmt.Errorf("%w: demo node %s must not be switched off", provisioner.ErrConflict, id)
	case m.node.Suspended:
		return suspended(id)
	case m.work != nil:
		return fmt.Errorf("%w: demo node %s is in state %q", provisioner.ErrBusy, id, m.node.State)
	case m.node.State == node.Cleaning || m.node.State == node.CleanWait:
		return fmt.Errorf("%w: demo node %s is cleaned, which powers it as it needs", provisioner.ErrInvalid, id)
	}
	m.node.LastError, m.node.TargetPower = "", action.to
	e.recordRequest(m, VerbPower, change)
	e.begin(m, &m.power, VerbPower, func() {
		m.node.TargetPower = ""
		if reason, fails := m.behaviour.fails[VerbPower]; fails {
			m.node.LastError = reason
			return
		}
		m.node.Power = action.to
	})
	return nil
}

// Settings returns the BIOS settings; see [provisioner.FirmwareReader].
func (e *Engine) Settings(_ context.Context, id string) ([]provisioner.Setting, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return nil, err
	}
	if !m.abilities().BIOS {
		return nil, fmt.Errorf("%w: demo node %s has no BIOS settings", provisioner.ErrUnsupported, id)
	}
	return slices.Clone(m.settings), nil
}

// Components returns the firmware components; see [provisioner.FirmwareReader].
func (e *Engine) Components(_ context.Context, id string) ([]provisioner.Component, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return nil, err
	}
	if !m.abilities().Firmware {
		return nil, fmt.Errorf("%w: demo node %s has no firmware components", provisioner.ErrUnsupported, id)
	}
	return slices.Clone(m.components), nil
}

// apply changes the machine as steps for BIOS settings and firmware do. A new version has the name
// of its file without the suffix.
func (m *machine) apply(steps []node.Step, now time.Time) {
	for _, step := range steps {
		var args struct {
			Settings []struct{ Name, Value, Component, URL any }
		}
		text, err := json.Marshal(step.Args)
		if err != nil || json.Unmarshal(text, &args) != nil {
			continue
		}
		for _, s := range args.Settings {
			switch step.Name() {
			case "bios.apply_configuration":
				for i := range m.settings {
					if m.settings[i].Name == s.Name {
						m.settings[i].Value = fmt.Sprint(s.Value)
					}
				}
			case "firmware.update":
				file := path.Base(fmt.Sprint(s.URL))
				version := strings.TrimSuffix(file, path.Ext(file))
				for i := range m.components {
					if c := &m.components[i]; c.Name == s.Component {
						c.CurrentVersion, c.LastFlashed, c.UpdatedAt = version, version, now
					}
				}
			}
		}
	}
}

// AttachImage puts an image into a virtual drive; see [provisioner.MediaController].
func (e *Engine) AttachImage(_ context.Context, id, url string) error {
	return e.media(id, VerbAttach, url)
}

// DetachImage takes an image out of a virtual drive; see [provisioner.MediaController].
func (e *Engine) DetachImage(_ context.Context, id string) error {
	return e.media(id, VerbDetach, nil)
}

func (e *Engine) media(id string, verb Verb, details any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	if m.registration.Access == nil {
		return fmt.Errorf("%w: demo node %s has no virtual drive", provisioner.ErrUnsupported, id)
	}
	reason, fails := m.behaviour.fails[verb]
	if fails && !m.behaviour.accepts {
		return fmt.Errorf("%w: %s of demo node %s: %s", provisioner.ErrInvalid, verb, id, reason)
	}
	e.recordRequest(m, verb, details)
	if fails {
		m.node.LastError = reason // otherwise an earlier one stays, as in real engines
		return nil
	}
	m.image = verb == VerbAttach
	return nil
}

// HasImage reports whether a virtual drive has an image; see [provisioner.MediaController].
func (e *Engine) HasImage(_ context.Context, id string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return false, err
	}
	return m.image, nil
}

// Subscribe records a subscription; see [provisioner.Subscriber].
func (e *Engine) Subscribe(_ context.Context, id string, s provisioner.Subscription) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return "", err
	}
	if m.registration.Access == nil {
		return "", fmt.Errorf("%w: demo node %s has no events", provisioner.ErrUnsupported, id)
	}
	subscription := uuid.NewString()
	m.subscriptions[subscription] = s
	e.recordRequest(m, VerbSubscribe, s)
	return subscription, nil
}

// Subscriptions lists the subscriptions by their IDs; see [provisioner.Subscriber].
func (e *Engine) Subscriptions(_ context.Context, id string) ([]provisioner.ActiveSubscription, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return nil, err
	}
	var all []provisioner.ActiveSubscription
	for _, subscription := range slices.Sorted(maps.Keys(m.subscriptions)) {
		s := m.subscriptions[subscription]
		all = append(all, provisioner.ActiveSubscription{ID: subscription, Destination: s.Destination, Context: s.Context})
	}
	return all, nil
}

// Unsubscribe removes a subscription; see [provisioner.Subscriber].
func (e *Engine) Unsubscribe(_ context.Context, id, subscription string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	if _, known := m.subscriptions[subscription]; known {
		delete(m.subscriptions, subscription)
		e.recordRequest(m, VerbUnsubscribe, subscription)
	}
	return nil
}
