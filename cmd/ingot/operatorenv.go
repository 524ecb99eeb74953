package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
)

// operatorVariables are the environment variables that stand for flags of the operator. They have
// the names and units of Metal3's operator, so that a Deployment made for that operator keeps its
// settings. A flag on the command line wins.
var operatorVariables = []struct {
	name, flag string
	unit       string // appended to the value, so that the flag can parse it
}{
	{"WATCH_NAMESPACE", "namespace", ""},
	{"POD_NAMESPACE", "leader-elect-namespace", ""},
	{"LEASE_DURATION_SECONDS", "leader-elect-lease-duration", "s"},
	{"RENEW_DEADLINE_SECONDS", "leader-elect-renew-deadline", "s"},
	{"RETRY_PERIOD_SECONDS", "leader-elect-retry-period", "s"},
	{"BMO_CONCURRENCY", "concurrency", ""},
	{"PROVISIONING_LIMIT", "provisioning-limit", ""},
	{"IRONIC_CACERT_FILE", "engine-ca", ""},
	{"IRONIC_INSECURE", "engine-insecure", ""},
	{"CAPM3_FAST_TRACK", "fast-track", ""},
	{"LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE", "live-iso-persistent-boot", ""},
	{"DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE", "direct-deploy-persistent-boot", ""},
}

// readOperatorVariables sets flags from the environment, unless they are on the command line.
func readOperatorVariables(cmd *cobra.Command) error {
	for _, v := range operatorVariables {
		value := os.Getenv(v.name)
		if value == "" || cmd.Flags().Changed(v.flag) {
			continue
		}
		if err := cmd.Flags().Set(v.flag, value+v.unit); err != nil {
			return &cli.UsageError{Err: fmt.Errorf("environment variable %s: %w", v.name, err)}
		}
	}
	return nil
}
