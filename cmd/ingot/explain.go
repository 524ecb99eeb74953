package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/cli/explain"
)

// maxHostNames is the largest number of hosts that completion suggests.
const maxHostNames = 500

// newExplainCommand returns `ingot explain`.
func newExplainCommand() *cobra.Command {
	var kubeconfig, namespace string
	cmd := &cobra.Command{
		Use:   "explain HOST|NODE",
		Short: "Explain the state of a host or a node",
		Long: `Explain in sentences which state a BareMetalHost or a node is in, since when,
what it waits for and what to do about it. The command reads both Kubernetes and
the engine; when one cannot be reached, it explains what the other knows.

The argument is the name of a host, NAMESPACE/NAME, or the name or UUID of a
node. Exit codes: 0 explained, 1 Kubernetes does not answer, 2 wrong usage,
3 not found, 5 the engine does not answer.`,
		Args: oneNode,
	}
	connect, completion := clientFlags(cmd)
	cmd.ValidArgsFunction = completion.HostsAndNodes(func(ctx context.Context) []string {
		reader, preferred, err := explain.Connect(kubeconfig)
		if err != nil {
			return nil
		}
		names, _ := explain.HostNames(ctx, reader, cmp.Or(namespace, preferred), maxHostNames)
		return names
	})
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file that names the cluster [$KUBECONFIG] (default ./"+explain.UpKubeconfig+" if it exists, else ~/.kube/config)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the host (default that of the kubeconfig, then any)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		engine, err := connect()
		if err != nil {
			return err
		}
		sources := explain.Sources{Engine: engine, Now: time.Now()}
		if sources.Kube, sources.Namespace, err = explain.Connect(kubeconfig); err != nil {
			sources.KubeProblem = err.Error()
		}
		if namespace != "" {
			sources.Namespace, sources.OnlyThere = namespace, true
		}
		return cli.Explain(cmd.Context(), sources, args[0], cmd.OutOrStdout())
	}
	return cmd
}
