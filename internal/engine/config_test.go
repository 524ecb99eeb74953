package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestLaterSourcesWin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ingot.yaml")
	content := "api:\n  listen: 127.0.0.1:1\nagent:\n  heartbeat_timeout: 10s\n  allowed_networks: [192.0.2.0/24]\nauto_discovery:\n  enabled: true\n  driver: file\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConfig(Sources{
		File:    path,
		Environ: []string{"INGOT_AUTO_DISCOVERY__DRIVER=environment", "INGOT_AGENT__HEARTBEAT_TIMEOUT=20s", "INGOT_OTHER=x", "HOME=/"},
		Set:     map[string]string{"auto_discovery.driver": "flag", "inspector.hooks": "$default_hooks,ports"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.API.Listen = "127.0.0.1:1"
	want.Agent.HeartbeatTimeout = 20 * time.Second
	want.Agent.AllowedNetworks = []string{"192.0.2.0/24"}
	want.AutoDiscovery.Enabled = true
	want.AutoDiscovery.Driver = "flag"
	want.Inspector.Hooks = []string{"$default_hooks", "ports"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestConfigurationMistakesAreNamed(t *testing.T) {
	tests := map[string]struct {
		set  map[string]string
		want string
	}{
		"unknown section":        {map[string]string{"nosuch.key": "1"}, `--set: unknown key "nosuch.key"`},
		"unknown key":            {map[string]string{"api.lissten": "1"}, `unknown key "api.lissten"`},
		"not a duration":         {map[string]string{"agent.heartbeat_timeout": "soon"}, `read configuration: agent.heartbeat_timeout: want a time such as 90s or 10m, got "soon"`},
		"duration without unit":  {map[string]string{"conductor.power_timeout": "60"}, `want a time such as 90s or 10m, got "60"`},
		"not a number":           {map[string]string{"conductor.workers": "many"}, `conductor.workers: want a number, got "many"`},
		"not a boolean":          {map[string]string{"inspector.power_off": "perhaps"}, `inspector.power_off: want true or false, got "perhaps"`},
		"no history":             {map[string]string{"conductor.history_max_entries": "0"}, "conductor.history_max_entries: want at least 1"},
		"step of no interface":   {map[string]string{"conductor.refused_clean_steps": "erase_devices"}, "conductor.refused_clean_steps: want interface.step"},
		"priority below 0":       {map[string]string{"conductor.erase_devices_priority": "-1"}, "conductor.erase_devices_priority: want 0 (off) or more, got -1"},
		"priority in words":      {map[string]string{"conductor.erase_devices_metadata_priority": "high"}, `conductor.erase_devices_metadata_priority: want a number, got "high"`},
		"no worker":              {map[string]string{"conductor.workers": "0"}, "conductor.workers: want at least 1"},
		"discovery needs driver": {map[string]string{"auto_discovery.enabled": "true"}, "auto_discovery.driver: is required"},
		"open to the world":      {map[string]string{"api.listen": "0.0.0.0:6385"}, "not a loopback address"},
		"bad address":            {map[string]string{"api.listen": "6385"}, "want host:port"},
		"bad port":               {map[string]string{"api.listen": "127.0.0.1:99999"}, "want host:port with a port from 0 to 65535"},
		"bad MAC prefix":         {map[string]string{"auto_discovery.allowed_macs": "52:54,eth0"}, `auto_discovery.allowed_macs: want the first digits`},
		"bad source network":     {map[string]string{"auto_discovery.allowed_networks": "192.0.2.0"}, "auto_discovery.allowed_networks: want CIDR networks"},
		"bad proxy":              {map[string]string{"auto_discovery.trusted_proxies": "proxy"}, "auto_discovery.trusted_proxies: want CIDR networks"},
		"bad number of nodes":    {map[string]string{"auto_discovery.max_nodes": "-1"}, "auto_discovery.max_nodes: want 0 or more"},
		"bad callback status":    {map[string]string{"inspector.callback_status": "204"}, "inspector.callback_status: want 200 or 202"},
		"bad network":            {map[string]string{"agent.allowed_networks": "192.0.2.0"}, "want CIDR networks"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(Sources{Set: test.set})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	if _, err := LoadConfig(Sources{Set: map[string]string{"api.listen": "0.0.0.0:6385", "api.allow_unauthenticated": "true"}}); err != nil {
		t.Errorf("the explicit switch does not permit another address: %v", err)
	}
}

// TestErasureIsAsTheAgentOffersItUnlessSet: an unset priority is not 0, which would switch the step
// off.
func TestErasureIsAsTheAgentOffersItUnlessSet(t *testing.T) {
	for name, tc := range map[string]struct {
		sources Sources
		want    map[string]int
	}{
		"not set":         {Sources{}, map[string]int{}},
		"off, and a file": {Sources{File: "../../config/engine/engine-config.yaml"}, map[string]int{"erase_devices": 0, "erase_devices_metadata": 10}},
		"environment":     {Sources{Environ: []string{"INGOT_CONDUCTOR__ERASE_DEVICES_PRIORITY=7"}}, map[string]int{"erase_devices": 7}},
		"empty":           {Sources{Environ: []string{"INGOT_CONDUCTOR__ERASE_DEVICES_PRIORITY="}}, map[string]int{}},
		"null in a file":  {Sources{File: configFile(t, "conductor:\n  erase_devices_priority: null\n  erase_devices_metadata_priority: 0\n")}, map[string]int{"erase_devices_metadata": 0}},
	} {
		cfg, err := LoadConfig(tc.sources)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := conductorConfig(cfg)
		if diff := cmp.Diff(tc.want, got.CleanPriorities); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// chartValues are the values of the chart that tests read.
type chartValues struct {
	Engine struct {
		Config  map[string]any `json:"config"`
		Storage struct {
			Size string `json:"size"`
		} `json:"storage"`
	} `json:"engine"`
}

// chart returns the configuration of the engine that the chart installs, and the chart's values.
func chart(t *testing.T) (Config, chartValues) {
	t.Helper()
	text, err := os.ReadFile("../../charts/ingot/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values chartValues
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(values.Engine.Config)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := LoadConfig(Sources{File: configFile(t, string(config))})
	if err != nil {
		t.Fatal(err)
	}
	return cfg, values
}

// TestTheChartErasesMetadataOnly as the manifests do.
func TestTheChartErasesMetadataOnly(t *testing.T) {
	cfg, _ := chart(t)
	if diff := cmp.Diff(map[string]int{"erase_devices": 0, "erase_devices_metadata": 10}, cfg.Conductor.cleanPriorities()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestImagesLeaveHalfOfTheVolumeToTheDatabase in the chart and in the manifests.
func TestImagesLeaveHalfOfTheVolumeToTheDatabase(t *testing.T) {
	byChart, values := chart(t)
	byManifests, err := LoadConfig(Sources{File: "../../config/engine/engine-config.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile("../../config/engine/engine.yaml")
	if err != nil {
		t.Fatal(err)
	}
	claim := regexp.MustCompile(`(?m)^ +storage: (\S+)$`).FindStringSubmatch(string(manifests))
	if claim == nil {
		t.Fatal("the manifests claim no volume")
	}
	for name, of := range map[string]struct {
		images GiB
		volume string
	}{
		"chart":     {byChart.Boot.CacheSize, values.Engine.Storage.Size},
		"manifests": {byManifests.Boot.CacheSize, claim[1]},
	} {
		size, isGiB := strings.CutSuffix(of.volume, "Gi")
		if n, err := strconv.Atoi(size); err != nil || !isGiB || int(of.images) > n/2 {
			t.Errorf("%s: %d GiB of images on a volume of %s, want at most half", name, of.images, of.volume)
		}
	}
}

// configFile writes a configuration.
func configFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTimeInAFileNeedsAUnit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.yaml")
	for content, ok := range map[string]bool{"60": false, "60s": true, "0": true} {
		if err := os.WriteFile(path, []byte("conductor:\n  power_sync_interval: "+content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadConfig(Sources{File: path}); (err == nil) != ok {
			t.Errorf("power_sync_interval: %s gives %v, want it accepted: %t", content, err, ok)
		}
	}
}

func TestUnknownKeyOfTheFileIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ingot.yaml")
	if err := os.WriteFile(path, []byte("api:\n  listen: 127.0.0.1:1\n  tls: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadConfig(Sources{File: path})
	if err == nil || !strings.Contains(err.Error(), `unknown key "api.tls"`) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names file and key", err)
	}
}

func TestLimitsOfCallsReachTheConductor(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Conductor.MaxCalls, cfg.Conductor.CallsPerBMC, cfg.Conductor.CallTimeout = 7, 3, 9*time.Second
	got, err := conductorConfig(cfg)
	if err != nil || got.Calls != 7 || got.CallsPerBMC != 3 || got.CallTimeout != 9*time.Second {
		t.Errorf("calls %d, per BMC %d, timeout %s, error %v", got.Calls, got.CallsPerBMC, got.CallTimeout, err)
	}
}
