package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestSimRefusesFlagsOfBMCsThatCannotWork(t *testing.T) {
	for args, want := range map[string]string{
		"--bmc acme":                    "no BMCs of",
		"--bmc dell --bmc-port 80":      "above 1024",
		"--bmc dell --bmc-ipmi-port 9":  "above 1024",
		"--bmc dell --bmc-network here": "--bmc-network",
		"--bmc dell --kind edge":        "nly servers",
		"--off":                         "--bmc",
		"--bmc-systems 2":               "--bmc",
		"--bmc dell --bmc-systems 65":   "1 to 64 systems",
		"--bmc-ca-file ca.pem":          "--bmc",
	} {
		_, stderr, code := simRun(t, strings.Fields(args)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q; want 2 with %q", args, code, stderr, want)
		}
	}
}

func TestSimServesBMCsAndWhatWasDoneThroughThem(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	root := &cobra.Command{Use: "ingot", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newSimCommand())
	out := new(strings.Builder)
	errs, said := io.Pipe()
	root.SetOut(out)
	root.SetErr(said)
	root.SetArgs([]string{
		"sim", "--machines", "2", "--listen", "127.126.201.0/28", "--bmc", "dell", "--bmc-network", "127.126.202.0/28", "--bmc-port", "18443", "--bmc-ipmi-port", "16230",
		"--bmc-ca-file", file, "--off", "--admin", "127.0.0.1:0", "--speed", "1000",
	})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	lines := bufio.NewScanner(errs)
	next := func(pattern string) string {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the command ended")
		}
		url := regexp.MustCompile(pattern).FindString(lines.Text())
		if url == "" {
			t.Fatalf("line %q, want %s", lines.Text(), pattern)
		}
		return url
	}
	bmc := next(`https://127\.126\.202\.1:18443`)
	next(`IPMI from 127\.126\.202\.1:16230`)
	admin := next(`http://127\.0\.0\.1:\d+`)
	go func() {
		for lines.Scan() { // progress
		}
	}()
	ca, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("certificate authority %s, %v", ca, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		bmc+"/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset", strings.NewReader(`{"ResetType":"On"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("root", "calvin")
	response, err := client.Do(request)
	if err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("power on: %v, %v", response, err)
	}
	response, err = http.Get(admin + "/counts")
	if err != nil {
		t.Fatal(err)
	}
	var counts struct{ Kinds map[string]int }
	if err := json.NewDecoder(response.Body).Decode(&counts); err != nil || counts.Kinds["power on"] != 1 {
		t.Errorf("counts %+v, %v, want one machine powered on", counts, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if !regexp.MustCompile(`effects on 2 machines\n(.*\n)*power on +1\n`).MatchString(out.String()) {
		t.Errorf("summary %q", out)
	}
	said.Close()
}
