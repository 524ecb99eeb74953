// Package cli implements the client commands of ingot: they show and change nodes
// through the Bare Metal API and print the result for people or for programs.
//
// Commands are plain structs with a Run method; package main binds flags to their
// fields. Text that comes from a machine, an agent or another person is escaped
// before it reaches a terminal.
//
// Exit codes are part of the interface, see [ExitCode].
package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// DefaultEndpoint is the engine that a command connects to by default. `ingot engine` without
// configuration listens there.
const DefaultEndpoint = "http://127.0.0.1:6385"

// Connection is how a client command reaches the engine. Each field is a flag. An empty field falls
// back to its environment variable, which has the name that other clients of the Bare Metal API
// use. --max-retries=0 and --insecure=false are not empty.
type Connection struct {
	Endpoint string // --os-endpoint, OS_ENDPOINT, default DefaultEndpoint
	Version  string // --os-baremetal-api-version, OS_BAREMETAL_API_VERSION, default negotiated
	Username string // --os-username, OS_USERNAME
	Password string // --os-password, OS_PASSWORD
	CAFile   string // --os-cacert, OS_CACERT
	Insecure bool   // --insecure, OS_INSECURE
	// Retries is how often a request is repeated that was refused because a node or the engine is
	// busy. Interval is the time between two attempts.
	Retries  int  // --max-retries, IRONIC_MAX_RETRIES, default 0
	Interval Wait // --retry-interval, IRONIC_RETRY_INTERVAL, default 5s

	flags *pflag.FlagSet // the flags that the fields are bound to; nil for none
}

// AddFlags binds the connection to flags. Environment variables are read
// later, by Client, so that no help text shows a password.
func (c *Connection) AddFlags(flags *pflag.FlagSet) {
	c.flags = flags
	flags.StringVar(&c.Endpoint, "os-endpoint", "", "URL of the engine [$OS_ENDPOINT] (default "+DefaultEndpoint+")")
	flags.StringVar(&c.Version, "os-baremetal-api-version", "", "API version 1.N to use [$OS_BAREMETAL_API_VERSION] (default: the highest that both sides support)")
	flags.StringVar(&c.Username, "os-username", "", "user name for HTTP basic authentication [$OS_USERNAME]")
	flags.StringVar(&c.Password, "os-password", "", "password; safer in the environment than here [$OS_PASSWORD]")
	flags.StringVar(&c.CAFile, "os-cacert", "", "PEM file of the authority that signed the engine's certificate [$OS_CACERT]")
	flags.IntVar(&c.Retries, "max-retries", 0, "retries while a node or the engine is busy [$IRONIC_MAX_RETRIES]")
	flags.Var(&c.Interval, "retry-interval", "`seconds`, or a time such as 1m, between two attempts [$IRONIC_RETRY_INTERVAL] (default 5)")
	flags.BoolVar(&c.Insecure, "insecure", false, "do not verify the engine's certificate [$OS_INSECURE]")
}

// Client returns a client of the engine. It makes no request. An error is a [*UsageError], because
// only flags and variables can be wrong. getenv is os.Getenv outside of tests. A timeout limits
// each call and allows only one attempt; 0 means the client's default.
func (c Connection) Client(getenv func(string) string, timeout time.Duration) (*ironic.Client, error) {
	insecure := c.Insecure
	if text := getenv("OS_INSECURE"); text != "" && !insecure && !c.given("insecure") {
		parsed, err := strconv.ParseBool(text)
		if err != nil {
			return nil, &UsageError{fmt.Errorf("OS_INSECURE is %q, it must be true or false", text)}
		}
		insecure = parsed
	}
	if err := c.retrySettings(getenv); err != nil {
		return nil, &UsageError{err}
	}
	if timeout > 0 {
		c.Retries = 0 // the timeout leaves no time for another attempt
	}
	client, err := ironic.New(ironic.Options{
		Endpoint:     cmp.Or(c.Endpoint, getenv("OS_ENDPOINT"), DefaultEndpoint),
		Microversion: cmp.Or(c.Version, getenv("OS_BAREMETAL_API_VERSION")),
		Username:     cmp.Or(c.Username, getenv("OS_USERNAME")),
		Password:     cmp.Or(c.Password, getenv("OS_PASSWORD")),
		CAFile:       cmp.Or(c.CAFile, getenv("OS_CACERT")),
		Insecure:     insecure,
		UserAgent:    "ingot-cli",
		Timeout:      timeout,

		Retries: c.Retries, RetryInterval: c.Interval.Timeout,
	})
	if err != nil {
		return nil, &UsageError{err}
	}
	return client, nil
}

// given reports whether a flag is on the command line.
func (c *Connection) given(flag string) bool { return c.flags != nil && c.flags.Changed(flag) }

// retrySettings reads Retries and Interval from the environment, unless flags set them.
func (c *Connection) retrySettings(getenv func(string) string) error {
	if text := getenv("IRONIC_MAX_RETRIES"); text != "" && c.Retries == 0 && !c.given("max-retries") {
		var err error
		if c.Retries, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("IRONIC_MAX_RETRIES is %q, it must be a whole number", text)
		}
	}
	if c.Retries < 0 {
		return fmt.Errorf("the number of retries is %d, it must not be negative", c.Retries)
	}
	if text := getenv("IRONIC_RETRY_INTERVAL"); text != "" && !c.Interval.Asked {
		if err := c.Interval.Set(text); err != nil {
			return fmt.Errorf("IRONIC_RETRY_INTERVAL is %q: %w", text, err)
		}
	}
	return nil
}
