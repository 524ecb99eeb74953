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
		Short: "Back up the embedded database, also while the engine runs",
		Long: `Copy the embedded database to a file. The engine may be running: the copy has
every change that was answered before the command began. The copy is checked
before it gets its name. Like the database, it contains the passwords of BMCs, so
only its owner may read it.`,
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
		Short: "Restore the embedded database from a backup",
		Long: `Replace the embedded database by a backup. The engine must be stopped. The backup
is checked first. The old database is kept beside the new one, with the time in
its name. At its next start the engine suspends the work that the backup contains,
until a person lets it go on: see ingot suspension. database.resume_after_restore
does without a person.`,
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
			if err := report(out, "Restored to "+cfg.Database.Dir, done.Contents, begin); err != nil {
				return err
			}
			if done.Kept != "" {
				fmt.Fprintf(out, "The replaced database is %s\n", done.Kept)
			}
			next := "The engine will suspend the work in it: look at it with \"ingot suspension list\", then let it go on with \"ingot suspension resume --all\""
			if cfg.Database.ResumeAfterRestore {
				next = "The engine will go on with the work in it (database.resume_after_restore)"
			}
			fmt.Fprintln(out, next)
			return nil
		},
	}
	flags.addDatabase(cmd)
	return cmd
}

// newMarkRestoredCommand returns `ingot engine mark-restored`.
func newMarkRestoredCommand() *cobra.Command {
	var flags engineFlags
	cmd := &cobra.Command{
		Use:   "mark-restored",
		Short: "Say that the database is a copy of an older state",
		Long: `Suspend the work in a database that was put back as it was earlier, in a way that
the engine cannot notice: a data folder together with its lock file, or a
PostgreSQL server from a base backup or a snapshot of its disk. An embedded
database must not be in use. See ingot suspension for how the work goes on.`,
		Example: "  ingot engine mark-restored --database postgres://ingot@db.example/ingot",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.load()
			if err != nil {
				return err
			}
			nodes, err := engine.MarkRestored(cmd.Context(), cfg.Database)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Suspended the work of %d nodes in %s\n", nodes, databaseOf(cfg.Database))
			return err
		},
	}
	flags.addDatabase(cmd)
	return cmd
}

// report prints what was done, what the backup contains and how long it took.
func report(out io.Writer, done string, c store.Contents, begin time.Time) error {
	_, err := fmt.Fprintf(out, "%s: %d nodes, %.1f MB, schema %d, checked, in %s\n",
		done, c.Nodes, float64(c.Size)/1e6, c.Schema, time.Since(begin).Round(time.Millisecond))
	return err
}
