// Package bmctest tries whatever a driver needs on a BMC that nobody knows yet. It uses the drivers
// of the engine, and says what works, what does not, and what to do about it.
//
// Unless more is requested, it only reads. It gives its session back, does not send credentials
// again that the BMC refuses, and limits every wait. It can record what a Redfish BMC shows,
// without identifying data (package redact), for a simulator to serve.
package bmctest

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

// Options say which BMC to try, and what may be done to its machine.
type Options struct {
	// Address is the address of the BMC, in the form of driver_info.
	Address string
	// User and Password are the account. Both are empty for a BMC that needs none.
	User, Password string
	// IPMI tries IPMI instead of Redfish. Port, Suite and Privilege are only for IPMI; empty means
	// the driver's default.
	IPMI                   bool
	Port, Suite, Privilege string
	// CAFile is a PEM file of certificate authorities. Insecure accepts any certificate.
	CAFile   string
	Insecure bool
	// System is the path of the system, for a BMC with several.
	System string
	// Timeout limits each check, and each change of the power or a medium; 0 means 2 minutes.
	Timeout time.Duration
	// PowerCycle switches the machine off and on. Afterwards the machine is in the same state as
	// before.
	PowerCycle bool
	// Medium is the URL of an image to attach and detach; empty means none.
	Medium string
	// Record makes a recording.
	Record bool
	// Clock is the time between the turns of a change; the zero value means real time.
	Clock Clock
}

const defaultTimeout = 2 * time.Minute

// closeWithin limits the time to give the session back.
const closeWithin = 10 * time.Second

// Clock tells the time and lets it pass.
type Clock struct {
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
}

// Outcome is how a check ended.
type Outcome string

// Outcomes.
const (
	Works    Outcome = "works"
	Fails    Outcome = "does not work"
	NotTried Outcome = "not tried"
)

// Result is what a check found.
type Result struct {
	Check   string  `json:"check"`
	Outcome Outcome `json:"outcome"`
	// Found is what the BMC has, or why the check failed.
	Found string `json:"found"`
	// Advice says in a sentence what to do, empty for nothing.
	Advice string `json:"advice"`
}

// Report is what a test found.
type Report struct {
	Address string `json:"address"`
	Driver  string `json:"driver"` // redfish or ipmi
	// Ready says that everything works that the driver needs.
	Ready   bool     `json:"ready"`
	Results []Result `json:"results"`
	// Recording is nil if none was requested, or nothing could be read.
	Recording *Recording `json:"-"`
}

// Run tries a BMC. It returns after the session is given back, which happens soon after ctx has
// ended. For invalid options the error is a *node.ValidationError.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Clock.Now == nil {
		o.Clock = Clock{Now: time.Now, Wait: wait}
	}
	if o.IPMI {
		return runIPMI(ctx, o)
	}
	return runRedfish(ctx, o)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// onlyOnce is the pause before refused credentials are sent again. It is longer than a test.
const onlyOnce = 24 * time.Hour

func runRedfish(ctx context.Context, o Options) (Report, error) {
	info := map[string]any{"redfish_address": o.Address, "redfish_verify_ca": !o.Insecure}
	if o.CAFile != "" && !o.Insecure {
		file, err := filepath.Abs(o.CAFile)
		if err != nil {
			return Report{}, node.Invalid("The file of certificate authorities %s cannot be found: %v.", o.CAFile, err)
		}
		info["redfish_verify_ca"] = file
	}
	for key, value := range map[string]string{"redfish_username": o.User, "redfish_password": o.Password, "redfish_system_id": o.System} {
		if value != "" {
			info[key] = value
		}
	}
	t := &redfishTest{
		driver:  redfish.New(redfish.Options{RefusalPause: onlyOnce}),
		machine: machine{options: o, node: &node.Node{UUID: o.Address, Driver: "redfish", DriverInfo: node.ObjectOf(info)}},
	}
	t.power, t.media = t.driver, t.driver
	if err := t.driver.Validate(t.node); err != nil {
		return Report{}, err
	}
	defer func() { // also if the test was canceled
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		_ = t.driver.Close(ctx) // otherwise the BMC ends the session itself
	}()
	report := Report{Address: o.Address, Driver: "redfish"}
	report.Results, report.Ready = t.run(ctx, t.checks())
	if o.Record && t.system.Path != "" {
		report.Recording = t.record(ctx)
	}
	return report, nil
}

func runIPMI(ctx context.Context, o Options) (Report, error) {
	if o.Medium != "" || o.Record {
		return Report{}, node.Invalid("Media and recordings are not possible over IPMI.")
	}
	info := map[string]any{"ipmi_address": o.Address}
	for key, value := range map[string]string{
		"ipmi_username": o.User, "ipmi_password": o.Password, "ipmi_port": o.Port, "ipmi_cipher_suite": o.Suite, "ipmi_priv_level": o.Privilege,
	} {
		if value != "" {
			info[key] = value
		}
	}
	t := &ipmiTest{
		driver:  ipmi.New(ipmi.Options{RefusalPause: onlyOnce}),
		machine: machine{options: o, node: &node.Node{UUID: o.Address, Driver: "ipmi", DriverInfo: node.ObjectOf(info)}},
	}
	t.power = t.driver
	if err := t.driver.Validate(t.node); err != nil {
		return Report{}, err
	}
	report := Report{Address: o.Address, Driver: "ipmi"}
	report.Results, report.Ready = t.run(ctx, t.checks())
	return report, nil
}

// join joins texts with a separator. It returns "none" if there are none.
func join[T ~string](all []T) string {
	text := ""
	for i, one := range all {
		if i > 0 {
			text += ", "
		}
		text += string(one)
	}
	if text == "" {
		return "none"
	}
	return text
}

// count returns a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
