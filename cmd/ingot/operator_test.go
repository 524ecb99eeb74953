package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryOptionOfTheOperatorIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	newOperatorCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("docs/operator.md does not name --%s", f.Name)
		}
	})
	for _, v := range operatorVariables {
		if !strings.Contains(string(page), "`"+v.name+"`") {
			t.Errorf("docs/operator.md does not name %s", v.name)
		}
	}
}

func TestVariablesOfMetal3sOperatorSetFlagsThatAreNotGiven(t *testing.T) {
	for name, value := range map[string]string{
		"WATCH_NAMESPACE": "racks,lab", "POD_NAMESPACE": "metal3", "LEASE_DURATION_SECONDS": "60", "RENEW_DEADLINE_SECONDS": "40",
		"RETRY_PERIOD_SECONDS": "5", "BMO_CONCURRENCY": "4", "IRONIC_CACERT_FILE": "/ca.pem", "IRONIC_INSECURE": "True",
		"LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE": "Never", "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE": "Always",
	} {
		t.Setenv(name, value)
	}
	cmd := newOperatorCommand()
	if err := cmd.ParseFlags([]string{"--concurrency", "9"}); err != nil {
		t.Fatal(err)
	}
	if err := readOperatorVariables(cmd); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"namespace": "[racks,lab]", "leader-elect-namespace": "metal3", "leader-elect-lease-duration": "1m0s",
		"leader-elect-renew-deadline": "40s", "leader-elect-retry-period": "5s", "concurrency": "9",
		"engine-ca": "/ca.pem", "engine-insecure": "true",
		"live-iso-persistent-boot": "Never", "direct-deploy-persistent-boot": "Always",
	} {
		if got := cmd.Flag(flag).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
}

func TestLimitsOfRemediationThatWouldMeanSomethingElseAreRefused(t *testing.T) {
	for _, flag := range []string{"--remediation-budget=0", "--remediation-budget=-1", "--remediation-node-timeout=0s", "--remediation-node-timeout=-5m"} {
		cmd := newOperatorCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{flag, "--kubeconfig=/nonexistent"})
		name, value, _ := strings.Cut(flag, "=")
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), name+": want ") || !strings.Contains(err.Error(), "got "+value) {
			t.Errorf("%s: error = %v", flag, err)
		}
	}
}

func TestAVariableWithAnUnusableValueIsNamed(t *testing.T) {
	t.Setenv("LEASE_DURATION_SECONDS", "long")
	err := readOperatorVariables(newOperatorCommand())
	if err == nil || !strings.Contains(err.Error(), "environment variable LEASE_DURATION_SECONDS") {
		t.Errorf("error = %v, want one that names the variable", err)
	}
}
