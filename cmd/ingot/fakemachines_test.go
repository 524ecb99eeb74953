package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestFakeMachinesRefuseFlagsThatCannotWork(t *testing.T) {
	for args, want := range map[string]string{
		"--hang often":         "chance",
		"--hang 101%":          "chance",
		"--task-time -1s":      "must not be negative",
		"--keep 0":             "--keep must be positive",
		"--listen 256.0.0.1:0": "--listen",
		"one":                  "Unknown command",
	} {
		_, stderr, code := simRun(t, append([]string{"fake-machines"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q; want an error with %q", args, code, stderr, want)
		}
	}
}

func TestFakeMachinesAnswerUntilTheyAreEndedAndSayWhatWasDone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	root := &cobra.Command{Use: "ingot", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newSimCommand())
	var out strings.Builder
	errs, said := io.Pipe()
	root.SetOut(&out)
	root.SetErr(said)
	root.SetArgs([]string{"sim", "fake-machines", "--listen", "127.0.0.1:0", "--hang", "0.5%", "--delay", "1ms", "--hang", "0"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line := make([]byte, 256)
	n, err := errs.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://[^/]*/machines/`).FindString(string(line[:n]))
	response, err := http.Post(url+"m1/effects", "application/json", strings.NewReader(`{"kind":"wipe"}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("wipe at %q: %v, %v", url, response, err)
	}
	response.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := "1 effects on 1 machines\nwipe            1\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
