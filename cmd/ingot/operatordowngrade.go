package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/operator"
)

// newPrepareDowngradeCommand returns `ingot operator prepare-downgrade`.
func newPrepareDowngradeCommand() *cobra.Command {
	var downgrade operator.Downgrade
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "prepare-downgrade",
		Short: "Make the hosts ready for Metal3's operator or an earlier version",
		Long: `Move hosts from the state "importing" to "unmanaged", because operators that do not
know it report an error for them. The link of each host to its node is kept, so that Ingot
takes it up again after an upgrade. Stop Ingot's operator first.

Without --yes, the command shows what it would do and changes nothing.`,
		Example: "  ingot operator prepare-downgrade\n  ingot operator prepare-downgrade --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if downgrade.Config, err = kubeConfig(kubeconfig); err != nil {
				return err
			}
			downgrade.Output = cmd.OutOrStdout()
			return downgrade.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	f.StringSliceVar(&downgrade.Namespaces, "namespace", nil, "namespaces of the hosts (default all)")
	f.BoolVar(&downgrade.Apply, "yes", false, "change the hosts instead of only showing what would change")
	return cmd
}
