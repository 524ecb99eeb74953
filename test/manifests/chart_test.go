package manifests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ingot-metal/ingot/internal/controlplane"
)

// chart is the folder of the chart.
func chart(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", "charts", "ingot"))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// helm is the command that runs the pinned helm.
func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all := append([]string{"-C", filepath.Join("..", "..", "tools", "helm"), "tool", "helm"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", all...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as "make helm" built it
	return cmd
}

// rendering is the command that renders the chart.
func rendering(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return helm(t, append([]string{"template", "ingot", chart(t), "--include-crds", "--kube-version", controlplane.KubernetesVersion}, args...)...)
}

// rendered returns the objects of the chart with some values.
func rendered(t *testing.T, namespace string, values ...string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"--namespace", namespace}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return objects(t, run(t, rendering(t, args...)))
}

func TestTheChartIsAcceptedByTheAPIServer(t *testing.T) {
	isAccepted(t, rendered(t, namespace), false)
}

func TestTheChartWithEverythingSwitchedOnIsAcceptedByTheAPIServer(t *testing.T) {
	isAccepted(t, rendered(t, namespace,
		"operator.replicas=2", "operator.watchNamespaces={racks,lab}", "operator.metricsCertSecret=metrics", "operator.extraArgs={--log-format=json}",
		"engine.environmentSecret=database", "engine.bootPort=6386", "engine.ipxePort=6387", "engine.service.type=LoadBalancer", "engine.storage.className=fast",
		"engine.nodeSelector.rack=r1", "engine.tolerations[0].operator=Exists", "imagePullSecrets[0].name=registry",
		"pxeFilter.enabled=true", "pxeFilter.serve={idle,cleaning}", "pxeFilter.dnsmasq.image=dnsmasq:1", "pxeFilter.dnsmasq.config=port=0",
		"operator.cluster.enabled=true", "operator.remediation.enabled=true", "operator.autoscale.enabled=true", "admissionPolicies.enabled=true",
		"webhooks.enabled=true", "webhooks.replicas=3", "webhooks.certSecret=webhook", "webhooks.extraArgs={--log-format=json}",
		`webhooks.annotations.cert-manager\.io/inject-ca-from=ingot-system/webhook`,
	), true)
}

// TestTheChartHasTheWebhooksOfTheManifests holds whatever the namespace is, apart from that in their addresses.
func TestTheChartHasTheWebhooksOfTheManifests(t *testing.T) {
	of := func(all []*unstructured.Unstructured) map[string]any {
		found := map[string]any{}
		for _, obj := range all {
			switch kind := obj.GetKind(); {
			case kind == "Deployment" && obj.GetName() == "ingot-webhook":
				spec, _, err := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
				if err != nil {
					t.Fatal(err)
				}
				delete(spec, "containers")
				found[kind] = spec
			case kind == "ValidatingWebhookConfiguration":
				checks, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
				if err != nil {
					t.Fatal(err)
				}
				for _, check := range checks { // their order means nothing
					fields, _ := check.(map[string]any)
					found[fmt.Sprint(fields["name"])] = check
				}
				found[kind] = obj.GetName()
			case kind == "Service" && obj.GetName() == "ingot-webhook":
				found[kind] = obj.Object
			}
		}
		return found
	}
	if diff := cmp.Diff(of(kustomized(t, "webhook")), of(rendered(t, namespace, "webhooks.enabled=true"))); diff != "" {
		t.Errorf("config/webhook and chart differ (-config +chart):\n%s", diff)
	}
	isAccepted(t, rendered(t, namespace, "webhooks.enabled=true"), false)
	want := commands(t, kustomized(t, "webhook"))["ingot-webhook"]
	for where, values := range map[string][]string{namespace: nil, "elsewhere": {"operator.watchNamespaces={racks,lab}"}} {
		all := rendered(t, where, append(values, "webhooks.enabled=true")...)
		expected := slices.Insert(slices.Clone(want), 3, "--webhook-namespace="+where)
		if where == "elsewhere" {
			expected = append(expected, "--namespace=racks,lab")
		}
		if diff := cmp.Diff(expected, commands(t, all)["ingot-webhook"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
		for _, obj := range all {
			unstructured.RemoveNestedField(obj.Object, "spec", "conversion")
			if text, err := obj.MarshalJSON(); err != nil || where != namespace && strings.Contains(string(text), namespace) {
				t.Errorf("%s %s names another namespace, %v", obj.GetKind(), obj.GetName(), err)
			}
		}
	}
}

// TestTheChartHasTheKindsAndRolesOfTheManifests holds whatever the namespace is.
func TestTheChartHasTheKindsAndRolesOfTheManifests(t *testing.T) {
	want := map[string]*unstructured.Unstructured{}
	for _, obj := range kustomized(t, ".") {
		if obj.GetKind() != "Namespace" {
			want[obj.GetKind()+"/"+obj.GetName()] = obj
		}
	}
	got := map[string]*unstructured.Unstructured{}
	for _, obj := range rendered(t, namespace, append(forClusterAPI, "engine.enabled=false")...) {
		if kind := obj.GetKind(); kind != "Deployment" && kind != "Service" {
			got[kind+"/"+obj.GetName()] = obj
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config and chart differ (-config +chart):\n%s", diff)
	}
	for _, obj := range rendered(t, "elsewhere", forClusterAPI...) {
		// Definitions are no templates: the operator writes its namespace into them.
		unstructured.RemoveNestedField(obj.Object, "spec", "conversion")
		if text, err := obj.MarshalJSON(); err != nil || strings.Contains(string(text), namespace) {
			t.Errorf("%s %s names another namespace, %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// TestChartAndManifestsStartTheSameCommands compares arguments, which a test of the program parses in
// the manifests.
func TestChartAndManifestsStartTheSameCommands(t *testing.T) {
	for folder, values := range map[string][]string{"deploy": nil, "deploy-clusterapi": forClusterAPI} {
		want, got := commands(t, kustomized(t, folder)), commands(t, rendered(t, namespace, append(values, "operator.engineCASecret=")...))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("config/%s and chart differ (-config +chart):\n%s", folder, diff)
		}
	}
}

func TestValuesOfTheGroupsForClusterAPIBecomeTheirArguments(t *testing.T) {
	got := commands(t, rendered(t, namespace, append(forClusterAPI, "operator.extraArgs={--log-format=json}",
		"operator.cluster.fastTrack=true", "operator.cluster.nodeReuseWait=1h30m",
		"operator.watchFilter=blue", "operator.cluster.nameBasedPreallocation=true",
		"operator.remediation.budget=2", "operator.remediation.nodeTimeout=30m", "operator.remediation.extraActions=true")...))
	for name, want := range map[string][]string{
		"ingot-cluster":     {"--fast-track", "--node-reuse-wait=1h30m", "--enable-bmh-name-based-preallocation", "--watch-filter=blue", "--log-format=json"},
		"ingot-remediation": {"--remediation-budget=2", "--remediation-node-timeout=30m", "--remediation-extra-actions", "--watch-filter=blue", "--log-format=json"},
		"ingot-autoscale":   {"--watch-filter=blue", "--log-format=json"},
	} {
		always := []string{"operator", "--controllers=" + strings.TrimPrefix(name, "ingot-"), "--leader-elect", "--metrics-addr=:8443", "--health-addr=:9440"}
		if diff := cmp.Diff(append(always, want...), got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// withPXEFilter are values that run dnsmasq and the filter beside the engine.
var withPXEFilter = []string{"pxeFilter.enabled=true", "pxeFilter.dnsmasq.image=dnsmasq:1"}

func TestDnsmasqOfTheChartAnswersNobodyBeforeTheFilterHasWrittenItsRules(t *testing.T) {
	args := commands(t, rendered(t, namespace, append(withPXEFilter, "pxeFilter.dnsmasq.config=port=0")...))["ingot-engine"]
	if !slices.Contains(args, "--dhcp-ignore=tag:!known") {
		t.Errorf("no argument in %q refuses machines that have no rule", args)
	}
}

// TestLeasesOfDnsmasqOutliveThePod wants them on the claim of the engine, whose database dnsmasq does not see.
func TestLeasesOfDnsmasqOutliveThePod(t *testing.T) {
	engine := engineOf(t, rendered(t, namespace, append(withPXEFilter, "pxeFilter.dnsmasq.config=port=0")...))
	dnsmasq := containerOf(t, engine, "dnsmasq")
	args, _, _ := unstructured.NestedStringSlice(dnsmasq, "args")
	mounts, _, _ := unstructured.NestedSlice(dnsmasq, "volumeMounts")
	claims, _, _ := unstructured.NestedSlice(engine.Object, "spec", "volumeClaimTemplates")
	if len(claims) != 1 {
		t.Fatalf("there are %d claims", len(claims))
	}
	claim, _, _ := unstructured.NestedString(claims[0].(map[string]any), "metadata", "name")
	want := map[string]any{"name": claim, "subPath": "dnsmasq", "mountPath": "/var/lib/ingot-dnsmasq/leases"}
	isWanted := func(mount any) bool { return cmp.Equal(mount, any(want)) }
	if !slices.Contains(args, fmt.Sprint("--dhcp-leasefile=", want["mountPath"], "/dnsmasq.leases")) || !slices.ContainsFunc(mounts, isWanted) {
		t.Errorf("dnsmasq has %q and the volumes %v, want %v", args, mounts, want)
	}
}

// engineOf is the StatefulSet of the engine.
func engineOf(t *testing.T, all []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	at := slices.IndexFunc(all, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == "StatefulSet" })
	if at < 0 {
		t.Fatal("there is no StatefulSet")
	}
	return all[at]
}

// TestEngineThatCannotStartIsReplacedWhenThatIsCorrected looks at what keeps a StatefulSet from waiting for a broken pod.
func TestEngineThatCannotStartIsReplacedWhenThatIsCorrected(t *testing.T) {
	for name, all := range map[string][]*unstructured.Unstructured{"config/engine": kustomized(t, "engine"), "the chart": rendered(t, namespace)} {
		if policy, _, _ := unstructured.NestedString(engineOf(t, all).Object, "spec", "podManagementPolicy"); policy != "Parallel" {
			t.Errorf("%s: podManagementPolicy is %q", name, policy)
		}
	}
}

func TestEngineIsRestartedWhenAConfigurationChanges(t *testing.T) {
	seen := map[string]string{}
	for _, values := range [][]string{
		{"pxeFilter.dnsmasq.config=port=0"},
		{"pxeFilter.dnsmasq.config=port=1"},
		{"pxeFilter.dnsmasq.config=port=1", "engine.config.conductor.automated_clean=true"},
	} {
		engine := engineOf(t, rendered(t, namespace, append(values, withPXEFilter...)...))
		annotations, _, err := unstructured.NestedMap(engine.Object, "spec", "template", "metadata", "annotations")
		if err != nil {
			t.Fatal(err)
		}
		marks := fmt.Sprint(annotations)
		if before, there := seen[marks]; there {
			t.Errorf("the pod is the same with %v and with %s", values, before)
		}
		seen[marks] = fmt.Sprint(values)
	}
}

// TestPXEFilterThatHangsIsStartedAgain also wants the engine, which is in the same pod, to be reached while the filter fails.
func TestPXEFilterThatHangsIsStartedAgain(t *testing.T) {
	filter := containerOf(t, engineOf(t, rendered(t, namespace, append(withPXEFilter, "pxeFilter.dnsmasq.config=port=0")...)), "pxe-filter")
	probe, _, err := unstructured.NestedMap(filter, "livenessProbe", "httpGet")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("--health-addr=%v:%v", probe["host"], probe["port"])
	if args, _, _ := unstructured.NestedStringSlice(filter, "args"); !slices.Contains(args, address) || probe["path"] != "/healthz" || filter["readinessProbe"] != nil {
		t.Errorf("the probe asks %v of a filter with %q", probe, args)
	}
}

func TestPXEFilterHasTheEnvironmentOfTheEngine(t *testing.T) {
	values := append(withPXEFilter, "pxeFilter.dnsmasq.config=port=0", "engine.environmentSecret=settings")
	engine := engineOf(t, rendered(t, namespace, values...))
	got, want := containerOf(t, engine, "pxe-filter")["envFrom"], containerOf(t, engine, "engine")["envFrom"]
	if diff := cmp.Diff(want, got); want == nil || diff != "" {
		t.Errorf("the environment of the engine is %v, and that of the filter differs (-engine +filter):\n%s", want, diff)
	}
}

// containerOf is a container of a StatefulSet.
func containerOf(t *testing.T, set *unstructured.Unstructured, name string) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range containers {
		if fields, _ := container.(map[string]any); fields["name"] == name {
			return fields
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

// commands returns the arguments of each container.
func commands(t *testing.T, all []*unstructured.Unstructured) map[string][]string {
	t.Helper()
	commands := map[string][]string{}
	for _, obj := range all {
		containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			fields, _ := c.(map[string]any)
			args, _, err := unstructured.NestedStringSlice(fields, "args")
			if err != nil {
				t.Fatal(err)
			}
			commands[obj.GetName()] = append(commands[obj.GetName()], args...)
		}
	}
	return commands
}

func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	for value, want := range map[string]string{
		"operator.replica=2":        "not allowed",
		"pxeFilter.enabled=true":    "want an image of dnsmasq",
		"pxeFilter.serve={milk}":    "/pxeFilter/serve/0",
		"engine.service.type=Proxy": "/engine/service/type",

		"operator.remediation.budget=0":        "/operator/remediation/budget",
		"operator.remediation.nodeTimeout=20x": "/operator/remediation/nodeTimeout",
		"operator.cluster.nodeReuseWait=soon":  "/operator/cluster/nodeReuseWait",
		"operator.watchFilter=a/b":             "/operator/watchFilter",
		"operator.autoscale.enabled=maybe":     "/operator/autoscale/enabled",

		"operator.cluster.enabled=true":     "webhooks.enabled: want true",
		"operator.remediation.enabled=true": "webhooks.optional=true",
		"operator.autoscale.enabled=true":   "stored as v1beta1",

		// In the namespace default.
		"operator.cluster.enabled=true,webhooks.enabled=true,webhooks.certSecret=own": "in another namespace than ingot-system",
	} {
		out, err := rendering(t, "--set", value).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want an error with %q:\n%.500s", value, err, want, out)
		}
	}
}

// TestCertificateOfOnesOwnWorksWithTheRightDefinitions renders what the chart accepts of webhooks.certSecret.
func TestCertificateOfOnesOwnWorksWithTheRightDefinitions(t *testing.T) {
	for _, tt := range []struct {
		namespace string
		values    []string
	}{
		{namespace, []string{"operator.cluster.enabled=true"}},
		{"elsewhere", nil}, // no kind is converted
		{"elsewhere", forClusterAPI},
	} {
		names := named(rendered(t, tt.namespace, append(tt.values, "webhooks.enabled=true", "webhooks.certSecret=own")...))
		if !slices.Contains(names, "Deployment/ingot-webhook") {
			t.Errorf("%s with %v: %v", tt.namespace, tt.values, names)
		}
	}
}

func TestTheChartCanLeaveOutEitherPart(t *testing.T) {
	for value, missing := range map[string]string{"engine.enabled=false": "StatefulSet/ingot-engine", "operator.enabled=false": "Deployment/ingot-host"} {
		if names := named(rendered(t, namespace, value)); slices.Contains(names, missing) || len(names) < 3 {
			t.Errorf("%s: %v", value, names)
		}
	}
}

// TestCommandsOfThePagesInstallTheGroupsForClusterAPIWithTheirWebhooks renders the chart with the values of each command.
func TestCommandsOfThePagesInstallTheGroupsForClusterAPIWithTheirWebhooks(t *testing.T) {
	for _, page := range []string{"cluster-api.md", "operator.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		commands := regexp.MustCompile(`--set (operator\.cluster\.enabled=\S+)`).FindAllStringSubmatch(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no command", page)
		}
		for _, command := range commands {
			names := named(rendered(t, namespace, command[1]))
			for _, want := range []string{"Deployment/ingot-cluster", "Deployment/ingot-webhook", "Service/ingot-webhook"} {
				if !slices.Contains(names, want) {
					t.Errorf("--set %s of %s installs no %s", command[1], page, want)
				}
			}
		}
	}
}
