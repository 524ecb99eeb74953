// Package cli is what the client commands of ingot do: show and change nodes
// through the Bare Metal API, and print the result for people or for programs.
//
// The package knows no flags library beyond what completion needs; commands
// are plain structs with a Run method, and package main binds flags to their
// fields. Text that comes from a machine, an agent or another person is
// escaped before it reaches a terminal.
//
// Exit codes are part of the interface, see [ExitCode].
package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// DefaultEndpoint is the engine that a command talks to when nobody names
// another one: the one that `ingot engine` starts by default.
const DefaultEndpoint = "http://127.0.0.1:6385"

// Connection is how a client command reaches the engine. Each field is a flag;
// an empty one falls back to its environment variable, named as other clients
// of the Bare Metal API name it.
type Connection struct {
	Endpoint string // --os-endpoint, OS_ENDPOINT, default DefaultEndpoint
	Version  string // --os-baremetal-api-version, OS_BAREMETAL_API_VERSION, default negotiated
	Username string // --os-username, OS_USERNAME
	Password string // --os-password, OS_PASSWORD
	CAFile   string // --os-cacert, OS_CACERT
	Insecure bool   // --insecure, OS_INSECURE
}

// AddFlags binds the connection to flags. Environment variables are read
// later, by Client, so that no help text shows a password.
func (c *Connection) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Endpoint, "os-endpoint", "", "URL of the engine [$OS_ENDPOINT] (default "+DefaultEndpoint+")")
	flags.StringVar(&c.Version, "os-baremetal-api-version", "", "API version 1.N to speak [$OS_BAREMETAL_API_VERSION] (default: the highest both sides know)")
	flags.StringVar(&c.Username, "os-username", "", "user name for HTTP basic authentication [$OS_USERNAME]")
	flags.StringVar(&c.Password, "os-password", "", "password; better put into the environment [$OS_PASSWORD]")
	flags.StringVar(&c.CAFile, "os-cacert", "", "PEM file of the authority that signed the engine's certificate [$OS_CACERT]")
	flags.BoolVar(&c.Insecure, "insecure", false, "do not verify the engine's certificate [$OS_INSECURE]")
}

// Client returns a client of the engine. It does no network traffic; an error
// is a [*UsageError], because only what the user gave can be wrong.
// The lookup function is os.Getenv; timeout bounds each call, 0 means the
// client's default.
func (c Connection) Client(getenv func(string) string, timeout time.Duration) (*baremetal.Client, error) {
	insecure := c.Insecure
	if text := getenv("OS_INSECURE"); text != "" && !insecure {
		parsed, err := strconv.ParseBool(text)
		if err != nil {
			return nil, &UsageError{fmt.Errorf("OS_INSECURE is %q, it must be true or false", text)}
		}
		insecure = parsed
	}
	client, err := baremetal.New(baremetal.Options{
		Endpoint:     cmp.Or(c.Endpoint, getenv("OS_ENDPOINT"), DefaultEndpoint),
		Microversion: cmp.Or(c.Version, getenv("OS_BAREMETAL_API_VERSION")),
		Username:     cmp.Or(c.Username, getenv("OS_USERNAME")),
		Password:     cmp.Or(c.Password, getenv("OS_PASSWORD")),
		CAFile:       cmp.Or(c.CAFile, getenv("OS_CACERT")),
		Insecure:     insecure,
		UserAgent:    "ingot-cli",
		Timeout:      timeout,
	})
	if err != nil {
		return nil, &UsageError{err}
	}
	return client, nil
}
