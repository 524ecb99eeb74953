package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/bmctest"
	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/node"
)

// newBMCCommand returns `ingot bmc`.
func newBMCCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bmc", Short: "Try BMCs before their machines are registered"}
	cmd.AddCommand(newBMCTestCommand())
	return cmd
}

// newBMCTestCommand returns `ingot bmc test`.
func newBMCTestCommand() *cobra.Command {
	var flags bmcTestFlags
	cmd := &cobra.Command{
		Use:   "test ADDRESS",
		Short: "Try what a driver needs of a BMC",
		Long: `Try what the engine's drivers need of a BMC, and print what works, what does not, and
what to do about it. The command needs no engine. It only reads, unless --power-cycle or
--medium asks for more; credentials are sent once, because BMCs lock accounts.

The password comes from --password-file, from INGOT_BMC_PASSWORD, or from the terminal.

--record writes what a Redfish BMC shows to a file, without credentials, users, serial
numbers, addresses, names and logs. ingot sim bmc-recording serves it.

Exit codes: 0 everything works that a driver cannot do without, and what was asked for,
1 it does not, 2 wrong usage, 130 interrupted.`,
		Example: "  ingot bmc test 192.0.2.7 --user admin --ca-file bmc-ca.pem\n" +
			"  ingot bmc test 192.0.2.7 --user admin --insecure --power-cycle --record r740.json\n" +
			"  ingot bmc test 192.0.2.7 --user admin --ipmi",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one address, got %d", len(args))
			}
			return noneEmpty(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd.Context(), cmd, args[0]) },
	}
	f, o := cmd.Flags(), &flags.options
	f.StringVar(&o.User, "user", "", "user name; without it, no credentials are sent")
	f.StringVar(&flags.passwordFile, "password-file", "", "file with the password, - for standard input [$"+bmcPassword+"]")
	f.StringVar(&o.CAFile, "ca-file", "", "PEM file of the authority that signed the certificate of the BMC")
	f.BoolVar(&o.Insecure, "insecure", false, "accept any certificate")
	f.StringVar(&o.System, "system", "", "path of the system of a BMC with several, such as /redfish/v1/Systems/1")
	f.BoolVar(&o.IPMI, "ipmi", false, "try IPMI instead of Redfish")
	f.StringVar(&o.Port, "ipmi-port", "", "UDP port of IPMI (default 623)")
	f.StringVar(&o.Suite, "ipmi-cipher-suite", "", "cipher suite, 17 or 3 (default: the best that the BMC has)")
	f.StringVar(&o.Privilege, "ipmi-privilege", "", "ADMINISTRATOR, OPERATOR or USER (default ADMINISTRATOR)")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "longest time for each check, and for each change")
	f.BoolVar(&o.PowerCycle, "power-cycle", false, "switch the machine off and on; it ends as it began")
	f.StringVar(&o.Medium, "medium", "", "attach and detach the image at this `URL`")
	f.StringVar(&flags.record, "record", "", "file to write a recording to")
	outputFlag(cmd, &flags.output)
	return cmd
}

type bmcTestFlags struct {
	options              bmctest.Options
	passwordFile, record string
	output               cli.Output
}

func (f *bmcTestFlags) run(ctx context.Context, cmd *cobra.Command, address string) error {
	o := f.options
	if o.Timeout <= 0 {
		return &cli.UsageError{Err: errors.New("--timeout must be positive")}
	}
	if !o.IPMI && (o.Port != "" || o.Suite != "" || o.Privilege != "") {
		return &cli.UsageError{Err: errors.New("--ipmi-port, --ipmi-cipher-suite and --ipmi-privilege are for --ipmi")}
	}
	if folder, err := os.Stat(filepath.Dir(f.record)); f.record != "" && (err != nil || !folder.IsDir()) {
		return &cli.UsageError{Err: fmt.Errorf("--record: there is no folder %s", filepath.Dir(f.record))}
	}
	var err error
	if o.Password, err = readBMCPassword(ctx, cmd, f.passwordFile, o.User); err != nil {
		return err
	}
	o.Address, o.Record = address, f.record != ""
	report, err := bmctest.Run(ctx, o)
	var invalid *node.ValidationError
	switch {
	case errors.As(err, &invalid):
		return &cli.UsageError{Err: err}
	case err != nil:
		return err
	}
	if err := f.output.Table(cmd.OutOrStdout(), []string{"Check", "Result", "Found, and what to do"}, rowsOf(report), report); err != nil {
		return err
	}
	if err := f.save(cmd, report.Recording); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !report.Ready:
		return &cli.SilentError{Code: cli.ExitError}
	}
	return nil
}

// rowsOf returns the results as rows of a table.
func rowsOf(report bmctest.Report) [][]string {
	rows := make([][]string, len(report.Results))
	for i, r := range report.Results {
		found := r.Found
		if r.Advice != "" {
			found = strings.TrimSuffix(found, ".") + ". " + r.Advice
		}
		rows[i] = []string{r.Check, string(r.Outcome), found}
	}
	return rows
}

// save writes the recording and prints what it contains, if a recording was asked for.
func (f *bmcTestFlags) save(cmd *cobra.Command, recording *bmctest.Recording) error {
	if f.record == "" {
		return nil
	}
	if recording == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing was recorded: the system cannot be read")
		return nil
	}
	if err := recording.Write(f.record); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Recorded %d documents to %s; left out are %d, which the file lists\n", len(recording.Documents), f.record, len(recording.LeftOut))
	return nil
}
