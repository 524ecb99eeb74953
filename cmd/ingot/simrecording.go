package main

import (
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/sim/recording"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// newBMCRecordingCommand returns `ingot sim bmc-recording`.
func newBMCRecordingCommand() *cobra.Command {
	var listen, user, password, caFile string
	cmd := &cobra.Command{
		Use:   "bmc-recording FILE",
		Short: "Serve what a Redfish BMC showed once",
		Long: `Serve a recording of ingot bmc test --record over TLS. Documents are answered as they
were recorded. Sessions can be opened, systems reset, which changes their power state at
once, and boot overrides set; all other changes are answered with 501. Ctrl-C ends it.`,
		Example: "  ingot sim bmc-recording r740.json --listen 127.0.0.1:8443 --ca-file bmc-ca.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := recording.Load(args[0], user, password)
			if err != nil {
				return err
			}
			authority, err := redfish.NewAuthority()
			if err != nil {
				return err
			}
			if caFile != "" {
				if err := os.WriteFile(caFile, authority.PEM(), 0o644); err != nil { //nolint:gosec // a certificate is public
					return fmt.Errorf("write the certificate authority (--ca-file): %w", err)
				}
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("serve the recording (--listen): %w", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The BMC answers at https://%s\n", listener.Addr())
			return service.Serve(cmd.Context(), listener, authority.TLS())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8443", "address to answer on; port 0 takes a free one")
	flags.StringVar(&user, "user", "root", "user who may log in")
	flags.StringVar(&password, "password", "calvin", "password of that user")
	flags.StringVar(&caFile, "ca-file", "", "file to write the certificate authority to, which is new at every start")
	return cmd
}
