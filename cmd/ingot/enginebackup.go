package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store"
)

// newBackupCommand returns `ingot engine backup`.
func newBackupCommand() *cobra.Command {
	var flags engineFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the embedded database to a file, also while the engine runs",
		Long: `Copy the embedded database to a file. The engine may run meanwhile: the copy has
every change that was answered before the command began. It is checked before it
gets its name. It holds the passwords of BMCs, as the database does, so only its
owner may read it.`,
		Example: "  ingot engine backup /backup/ingot-$(date +%F).db --data /var/lib/ingot",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := flags.load()
			if err != nil {
				return err
			}
			begin := time.Now()
			contents, err := engine.Backup(cmd.Context(), cfg.Database, args[0], force)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), "Backed up to "+args[0], contents, begin)
		},
	}
	flags.addDatabase(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	return cmd
}

// newRestoreCommand returns `ingot engine restore`.
func newRestoreCommand() *cobra.Command {
	var flags engineFlags
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of the embedded database",
		Long: `Put a backup in the place of the embedded database. The engine must be stopped.
The backup is checked first; the database it replaces stays beside it under a name
with the time. At its next start the engine resumes the work that the backup holds.`,
		Example: "  ingot engine restore /backup/ingot-2030-01-31.db --data /var/lib/ingot",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := flags.load()
			if err != nil {
				return err
			}
			begin := time.Now()
			done, err := engine.Restore(cmd.Context(), cfg.Database, args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if err := report(out, "Restored to "+cfg.Database.Dir, done.Contents, begin); err != nil || done.Kept == "" {
				return err
			}
			_, err = fmt.Fprintf(out, "The replaced database is %s\n", done.Kept)
			return err
		},
	}
	flags.addDatabase(cmd)
	return cmd
}

// report says what was done with what, and how long it took.
func report(out io.Writer, done string, c store.Contents, begin time.Time) error {
	_, err := fmt.Fprintf(out, "%s: %d nodes, %.1f MB, schema %d, checked, in %s\n",
		done, c.Nodes, float64(c.Size)/1e6, c.Schema, time.Since(begin).Round(time.Millisecond))
	return err
}
