package engine

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/unixcrypt"
)

// Config is everything about the engine that can be configured. The keys of the
// file are the koanf names, section.key; docs/configuration.md explains each.
type Config struct {
	API           APIConfig           `koanf:"api"`
	Database      DatabaseConfig      `koanf:"database"`
	Conductor     ConductorConfig     `koanf:"conductor"`
	Driver        DriverConfig        `koanf:"driver"`
	Agent         AgentConfig         `koanf:"agent"`
	Inspector     InspectorConfig     `koanf:"inspector"`
	Inventory     InventoryConfig     `koanf:"inventory"`
	AutoDiscovery AutoDiscoveryConfig `koanf:"auto_discovery"`
	Boot          BootConfig          `koanf:"boot"`
	Redfish       RedfishConfig       `koanf:"redfish"`
}

// RedfishConfig is about machines with a Redfish BMC.
type RedfishConfig struct {
	// FirmwareSource is where BMCs get firmware files: "local" means the engine's boot service,
	// "http" the server of the file. A node may say otherwise. Empty means "local" if there is a
	// boot service, else "http".
	FirmwareSource string `koanf:"firmware_source"`
}

// problem returns what is wrong with the section, nil if nothing is.
func (c RedfishConfig) problem(boot BootConfig) error {
	switch {
	case c.FirmwareSource == redfish.FromEngine && boot.Listen == "":
		return fmt.Errorf("redfish.firmware_source: %s needs the boot service: set boot.listen", c.FirmwareSource)
	case c.FirmwareSource != "" && c.FirmwareSource != redfish.FromEngine && c.FirmwareSource != redfish.FromServer:
		return fmt.Errorf("redfish.firmware_source: want %s or %s, got %q", redfish.FromEngine, redfish.FromServer, c.FirmwareSource)
	}
	return nil
}

// APIConfig is about the HTTP listener.
type APIConfig struct {
	Listen string `koanf:"listen"` // host:port
	// PublicURL begins the links in answers; empty means that the Host header of the request does.
	PublicURL string `koanf:"public_url"`
	// Auth is who may use the API: with "none" everybody who reaches it, with "http_basic" the
	// users in HtpasswdFile.
	Auth         string `koanf:"auth"`
	HtpasswdFile string `koanf:"htpasswd_file"` // bcrypt only; read again when it changes
	// RoleFile has the roles of the users. It is read again when it changes. Empty means that every
	// user is an administrator.
	RoleFile string `koanf:"role_file"`
	// TLSCertificate and TLSKey are PEM files. They are read again when they change. Both empty
	// means plain http.
	TLSCertificate string `koanf:"tls_certificate"`
	TLSKey         string `koanf:"tls_key"`
	// AllowUnauthenticated permits a listener that is not on loopback. Anybody
	// who reaches it is an administrator.
	AllowUnauthenticated bool `koanf:"allow_unauthenticated"`
	// AllowPlainHTTP permits passwords over plain http on an address that is not
	// loopback, for engines behind a proxy that ends TLS.
	AllowPlainHTTP bool `koanf:"allow_plain_http"`
	// MetricsListen is the host:port that serves metrics to Prometheus; empty means off.
	MetricsListen string `koanf:"metrics_listen"`
	Profiles      bool   `koanf:"profiles"`   // Go profiles of the engine, on MetricsListen
	AccessLog     bool   `koanf:"access_log"` // a log line per request
	// MaxConnections is how many connections the API serves at once.
	MaxConnections int `koanf:"max_connections"`
	// DisableRamdiskEndpoints answers lookup, heartbeat and continue_inspection
	// with 403.
	DisableRamdiskEndpoints bool `koanf:"disable_ramdisk_endpoints"`
}

// DatabaseConfig says where state is kept.
type DatabaseConfig struct {
	Dir string `koanf:"dir"` // data folder of the embedded database
	URL string `koanf:"url"` // another database; empty means the embedded one
	// WriteConnections is how many writes run at once on the database of URL.
	WriteConnections int `koanf:"write_connections"`
	// ResumeAfterRestore resumes the work in a database that turns out to be an older copy. Without
	// it, that work stays suspended until a person resumes it.
	ResumeAfterRestore bool `koanf:"resume_after_restore"`
}

// ConductorConfig is about work on nodes.
type ConductorConfig struct {
	Hostname       string        `koanf:"hostname"` // default: the machine's host name
	Group          string        `koanf:"group"`
	Workers        int           `koanf:"workers"`
	LeaseDuration  time.Duration `koanf:"lease_duration"` // at least 3s
	LockWait       time.Duration `koanf:"lock_wait"`
	WorkTimeout    time.Duration `koanf:"work_timeout"`
	CallTimeout    time.Duration `koanf:"call_timeout"`
	MaxCalls       int           `koanf:"max_calls"`
	CallsPerBMC    int           `koanf:"calls_per_bmc"`
	MaxAttempts    int           `koanf:"max_attempts"`
	AutomatedClean bool          `koanf:"automated_clean"`

	CallbackTimeout     time.Duration `koanf:"callback_timeout"`
	BootRetryTimeout    time.Duration `koanf:"boot_retry_timeout"` // 0: off
	PowerTimeout        time.Duration `koanf:"power_timeout"`
	SoftPowerOffTimeout time.Duration `koanf:"soft_power_off_timeout"`
	MaxDeploying        int           `koanf:"max_deploying"`
	MaxCleaning         int           `koanf:"max_cleaning"`
	HistoryMaxEntries   int           `koanf:"history_max_entries"`
	// RefusedCleanSteps are clean steps that clients may not ask for, as
	// interface.step.
	RefusedCleanSteps []string `koanf:"refused_clean_steps"`
	// The priorities of two clean steps in automated cleaning: erase_devices overwrites whole
	// disks, erase_devices_metadata only the metadata at their ends. 0 leaves the step out; nil
	// means the priority that the agent reports, which is 10 and 99 with the hardware manager that
	// every agent has.
	EraseDevicesPriority         *int `koanf:"erase_devices_priority"`
	EraseDevicesMetadataPriority *int `koanf:"erase_devices_metadata_priority"`
	// PowerOffAfterDeployFailure is false for people who want to look at a machine whose deployment
	// has failed.
	PowerOffAfterDeployFailure bool          `koanf:"power_off_after_deploy_failure"`
	PowerSyncInterval          time.Duration `koanf:"power_sync_interval"` // 0 means off
	ForcePowerState            bool          `koanf:"force_power_state_during_sync"`
	PowerRecoveryInterval      time.Duration `koanf:"power_failure_recovery_interval"`
	// RescueHash is the hash of the passwords of rescue systems: "sha256" or "sha512".
	RescueHash string `koanf:"rescue_password_hash_algorithm"`
}

// DriverConfig says which hardware types nodes may use.
type DriverConfig struct {
	EnabledHardwareTypes []string `koanf:"enabled_hardware_types"`
}

// AgentConfig is about ramdisk agents.
type AgentConfig struct {
	HeartbeatTimeout      time.Duration `koanf:"heartbeat_timeout"`
	RequireTLS            bool          `koanf:"require_tls"`
	AllowedNetworks       []string      `koanf:"allowed_networks"` // CIDR; empty means any
	VerifyCallbackAddress bool          `koanf:"verify_callback_address"`
	FastTrack             bool          `koanf:"fast_track"`
	LookupKeys            []string      `koanf:"lookup_keys"` // keys that ramdisks get in addition
	AllowMD5              bool          `koanf:"allow_md5_checksum"`
	StepTimeout           time.Duration `koanf:"step_timeout"`

	// DeployLogsCollect says when the engine keeps the logs of ramdisks in DeployLogsPath: "never",
	// "on_failure" or "always". Without a path it keeps none.
	DeployLogsCollect string `koanf:"deploy_logs_collect"`
	DeployLogsPath    string `koanf:"deploy_logs_local_path"`
	DeployLogsSize    GiB    `koanf:"deploy_logs_max_size"` // of all logs together
}

// InspectorConfig is about inspection and its hooks.
type InspectorConfig struct {
	// RequireManagedBoot refuses inspection of machines whose ramdisk the engine cannot boot. If it
	// is false, another network boot environment may boot them.
	RequireManagedBoot bool `koanf:"require_managed_boot"`
	PowerOff           bool `koanf:"power_off"`       // after the ramdisk has posted its data
	CallbackStatus     int  `koanf:"callback_status"` // status of the answer to the ramdisk's data: 200 or 202

	DefaultHooks     []string `koanf:"default_hooks"`
	Hooks            []string `koanf:"hooks"`
	AddPorts         string   `koanf:"add_ports"`
	KeepPorts        string   `koanf:"keep_ports"`
	UpdatePXEEnabled bool     `koanf:"update_pxe_enabled"`
	LoopbackNetworks []string `koanf:"loopback_networks"` // CIDR

	KnownAccelerators       string   `koanf:"known_accelerators"` // YAML file
	CPUCapabilities         []string `koanf:"cpu_capabilities"`   // flag:capability
	ExtraHardwareStrict     bool     `koanf:"extra_hardware_strict"`
	PCIDeviceAlias          []string `koanf:"pci_device_alias"`          // vendor_id:product_id:name
	PhysicalNetworkCIDRMap  []string `koanf:"physical_network_cidr_map"` // network:name
	DiskPartitioningSpacing GiB      `koanf:"disk_partitioning_spacing"`
}

// GiB is a size. True counts as 1 and false as 0, because inspector.disk_partitioning_spacing is a
// boolean in Ironic.
type GiB int

// decodeGiB reads true and false in text, which the environment and --set give. The decoder itself
// reads numbers, and the booleans of a file.
func decodeGiB(from, to reflect.Type, data any) (any, error) {
	if to != reflect.TypeFor[GiB]() || from.Kind() != reflect.String {
		return data, nil
	}
	switch text, _ := data.(string); strings.ToLower(text) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	default:
		return data, nil
	}
}

// hooks returns the configuration as the inspection pipeline reads it.
func (c InspectorConfig) hooks() inspect.Config {
	return inspect.Config{
		DefaultHooks: c.DefaultHooks, Hooks: c.Hooks,
		AddPorts: inspect.AddPorts(c.AddPorts), KeepPorts: inspect.KeepPorts(c.KeepPorts), UpdatePXEEnabled: c.UpdatePXEEnabled,
		LoopbackNetworks:  c.LoopbackNetworks,
		KnownAccelerators: c.KnownAccelerators, CPUCapabilities: c.CPUCapabilities, ExtraHardwareStrict: c.ExtraHardwareStrict,
		PCIDeviceAlias: c.PCIDeviceAlias, PhysicalNetworkCIDRMap: c.PhysicalNetworkCIDRMap,
		DiskPartitioningSpacing: int(c.DiskPartitioningSpacing),
	}
}

// defaultInspector returns the defaults of the inspector section.
func defaultInspector() InspectorConfig {
	hooks := inspect.DefaultConfig()
	return InspectorConfig{
		RequireManagedBoot: true, PowerOff: true, CallbackStatus: http.StatusOK,
		DefaultHooks: hooks.DefaultHooks, Hooks: hooks.Hooks,
		AddPorts: string(hooks.AddPorts), KeepPorts: string(hooks.KeepPorts), UpdatePXEEnabled: hooks.UpdatePXEEnabled,
		CPUCapabilities: hooks.CPUCapabilities, DiskPartitioningSpacing: GiB(hooks.DiskPartitioningSpacing),
	}
}

// AutoDiscoveryConfig is about machines that nobody registered.
type AutoDiscoveryConfig struct {
	Enabled  bool    `koanf:"enabled"`
	Driver   string  `koanf:"driver"`    // hardware type of enrolled nodes
	MaxNodes int     `koanf:"max_nodes"` // discovered nodes at most
	MaxPorts int     `koanf:"max_ports"` // MAC addresses and ports of a node until a person accepts it
	Rate     float64 `koanf:"rate"`      // unknown machines enrolled per second in the long run
	Burst    int     `koanf:"burst"`     // unknown machines enrolled at once

	// An unknown machine has to match every list that is not empty.
	AllowedMACs     []string `koanf:"allowed_macs"`     // first digits of MAC addresses
	AllowedSerials  []string `koanf:"allowed_serials"`  // of chassis
	AllowedNetworks []string `koanf:"allowed_networks"` // CIDR; the networks that machines post from
	TrustedProxies  []string `koanf:"trusted_proxies"`  // CIDR; whose X-Forwarded-For is believed

	InspectionScope string `koanf:"inspection_scope"` // property of enrolled nodes; empty for none
}

// allowList returns the rule that decides which unknown machines may be enrolled.
func (a AutoDiscoveryConfig) allowList() (inspect.AllowList, error) {
	allowed, err := inspect.NewAllowList(a.AllowedMACs, a.AllowedSerials, a.AllowedNetworks)
	if err != nil {
		return allowed, fmt.Errorf("auto_discovery.%w", err)
	}
	return allowed, nil
}

func (a AutoDiscoveryConfig) proxies() ([]netip.Prefix, error) {
	proxies, err := inspect.ParseNetworks(a.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("auto_discovery.trusted_proxies: %w", err)
	}
	return proxies, nil
}

// DefaultConfig returns the defaults of all sections.
func DefaultConfig() Config {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "localhost"
	}
	return Config{
		API:      APIConfig{Listen: "127.0.0.1:6385", Auth: authNone, MaxConnections: 2048},
		Database: DatabaseConfig{Dir: "ingot-data", WriteConnections: 16},
		Conductor: ConductorConfig{
			Hostname: hostname, Workers: 32, LeaseDuration: 20 * time.Second,
			LockWait: 3 * time.Second, WorkTimeout: time.Minute, MaxAttempts: 5,
			CallTimeout: 15 * time.Second, MaxCalls: 1024, CallsPerBMC: 2,
			CallbackTimeout: 30 * time.Minute, PowerTimeout: time.Minute, SoftPowerOffTimeout: 10 * time.Minute,
			MaxDeploying: 250, MaxCleaning: 50, HistoryMaxEntries: 300, PowerOffAfterDeployFailure: true,
			PowerSyncInterval: 2 * time.Minute, ForcePowerState: true, PowerRecoveryInterval: 5 * time.Minute,
			RescueHash: string(unixcrypt.SHA256),
		},
		Driver:        DriverConfig{EnabledHardwareTypes: []string{"fake-hardware", "ipmi", "manual-management", "redfish"}},
		Agent:         AgentConfig{HeartbeatTimeout: 300 * time.Second, RequireTLS: true, VerifyCallbackAddress: true, StepTimeout: 72 * time.Hour, DeployLogsCollect: string(conductor.CollectOnFailure), DeployLogsSize: 1},
		Inspector:     defaultInspector(),
		Inventory:     defaultInventory(),
		AutoDiscovery: AutoDiscoveryConfig{MaxNodes: 20000, MaxPorts: 64, Rate: 500, Burst: 5000},
		Boot:          defaultBoot(),
	}
}

// Sources is where a configuration comes from. Later fields win over earlier
// ones.
type Sources struct {
	File    string            // YAML; empty means none
	Environ []string          // KEY=value; INGOT_SECTION__KEY is section.key
	Set     map[string]string // section.key to value, from --set and flags
}

// envPrefix begins the environment variables that configure the engine.
const envPrefix = "INGOT_"

// LoadConfig merges the sources over the defaults. A key that does not exist is
// an error that names it and where it came from.
func LoadConfig(sources Sources) (Config, error) {
	cfg := DefaultConfig()
	known := knownKeys(cfg)
	merged := koanf.New(".")
	for _, layer := range sources.layers() {
		k := koanf.New(".")
		if err := k.Load(layer.provider, layer.parser); err != nil {
			return cfg, fmt.Errorf("read configuration %s: %w", layer.name, err)
		}
		for key := range k.All() {
			if !known[key] {
				return cfg, fmt.Errorf("read configuration %s: unknown key %q: see docs/configuration.md for the keys there are", layer.name, key)
			}
		}
		if err := merged.Merge(k); err != nil {
			return cfg, fmt.Errorf("merge configuration %s: %w", layer.name, err)
		}
	}
	err := merged.UnmarshalWithConf("", &cfg, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			// decodeUnset comes last: the other functions do not expect nil.
			decodeDuration, mapstructure.StringToSliceHookFunc(","), decodeGiB, decodeUnset),
		Result: &cfg, WeaklyTypedInput: true, ErrorUnused: true, ZeroFields: true,
	}})
	if wrong := new(mapstructure.DecodeError); errors.As(err, &wrong) {
		err = fmt.Errorf("%s: %w", wrong.Name(), inWords(wrong.Unwrap())) // the first error is enough
	}
	if err != nil {
		return cfg, fmt.Errorf("read configuration: %w", err)
	}
	return cfg, cfg.Validate()
}

// inWords replaces the decoder's error for a value of the wrong type by one that says what the
// value should be. It returns other errors as they are.
func inWords(err error) error {
	wrong := new(mapstructure.ParseError)
	if !errors.As(err, &wrong) {
		return err
	}
	want := "a number"
	if wrong.Expected.Kind() == reflect.Bool {
		want = "true or false"
	}
	return fmt.Errorf("want %s, got %q", want, fmt.Sprint(wrong.Value))
}

// decodeDuration reads times. It refuses a number without a unit: nobody who writes 60 means
// nanoseconds.
func decodeDuration(_, to reflect.Type, value any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() {
		return value, nil
	}
	text := fmt.Sprint(value)
	duration, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("want a time such as 90s or 10m, got %q", text)
	}
	return duration, nil
}

// decodeUnset reads an empty text, as in an empty environment variable, as an unset number. The
// decoder itself would read 0.
func decodeUnset(_, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[*int]() && value == "" {
		return nil, nil //nolint:nilnil // the value that it stands for
	}
	return value, nil
}

type layer struct {
	name     string
	provider koanf.Provider
	parser   koanf.Parser
}

func (s Sources) layers() []layer {
	var layers []layer
	if s.File != "" {
		layers = append(layers, layer{"file " + s.File, file.Provider(s.File), yaml.Parser()})
	}
	layers = append(layers, layer{"environment", env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return s.Environ },
		TransformFunc: func(key, value string) (string, any) {
			section, name, ok := strings.Cut(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "__")
			if !ok {
				// Such a variable is no key of the engine: the INGOT_ variables of other commands
				// have one underscore.
				return "", nil
			}
			return section + "." + name, value
		},
	}), nil})
	set := make(map[string]any, len(s.Set))
	for key, value := range s.Set {
		set[key] = value
	}
	return append(layers, layer{"--set", confmap.Provider(set, "."), nil})
}

// knownKeys returns every key of the configuration, as section.key.
func knownKeys(cfg Config) map[string]bool {
	var nested map[string]any
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{TagName: "koanf", Result: &nested})
	if err == nil {
		err = decoder.Decode(cfg)
	}
	if err != nil {
		panic(fmt.Sprintf("engine: configuration cannot be listed: %v", err))
	}
	known := map[string]bool{}
	for section, keys := range nested {
		for key := range keys.(map[string]any) { //nolint:forcetypeassert // every section is a struct
			known[section+"."+key] = true
		}
	}
	return known
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, c.API.problems()...)
	errs = append(errs, c.Boot.problems(c.API)...)
	errs = append(errs, c.Redfish.problem(c.Boot))
	check(c.Database.WriteConnections >= 1 && c.Database.WriteConnections <= 1000, "database.write_connections: want 1 to 1000, got %d", c.Database.WriteConnections)
	check(c.Conductor.Hostname != "", "conductor.hostname: must not be empty")
	check(c.Conductor.Workers >= 1, "conductor.workers: want at least 1, got %d", c.Conductor.Workers)
	check(c.Conductor.LeaseDuration >= 3*time.Second, "conductor.lease_duration: want at least 3s, got %s", c.Conductor.LeaseDuration)
	check(c.Conductor.WorkTimeout > 0, "conductor.work_timeout: want more than 0, got %s", c.Conductor.WorkTimeout)
	check(c.Conductor.CallTimeout >= time.Second && c.Conductor.CallTimeout <= 10*time.Minute, "conductor.call_timeout: want 1s to 10m, got %s", c.Conductor.CallTimeout)
	check(c.Conductor.MaxCalls >= 1, "conductor.max_calls: want at least 1, got %d", c.Conductor.MaxCalls)
	check(c.Conductor.CallsPerBMC >= 1, "conductor.calls_per_bmc: want at least 1, got %d", c.Conductor.CallsPerBMC)
	check(c.Conductor.MaxAttempts >= 1, "conductor.max_attempts: want at least 1, got %d", c.Conductor.MaxAttempts)
	for key, d := range map[string]time.Duration{
		"callback_timeout": c.Conductor.CallbackTimeout, "power_timeout": c.Conductor.PowerTimeout,
		"soft_power_off_timeout": c.Conductor.SoftPowerOffTimeout, "power_failure_recovery_interval": c.Conductor.PowerRecoveryInterval,
	} {
		check(d > 0, "conductor.%s: want more than 0, got %s", key, d)
	}
	check(c.Conductor.BootRetryTimeout >= 0, "conductor.boot_retry_timeout: want 0 (off) or more, got %s", c.Conductor.BootRetryTimeout)
	check(c.Conductor.PowerSyncInterval >= 0, "conductor.power_sync_interval: want 0 (off) or more, got %s", c.Conductor.PowerSyncInterval)
	check(c.Conductor.MaxDeploying >= 1, "conductor.max_deploying: want at least 1, got %d", c.Conductor.MaxDeploying)
	check(c.Conductor.MaxCleaning >= 1, "conductor.max_cleaning: want at least 1, got %d", c.Conductor.MaxCleaning)
	check(c.Conductor.HistoryMaxEntries >= 1, "conductor.history_max_entries: want at least 1, got %d", c.Conductor.HistoryMaxEntries)
	for _, step := range c.Conductor.RefusedCleanSteps {
		kind, name, _ := strings.Cut(step, ".")
		check(slices.Contains(node.StepInterfaces, kind) && name != "",
			"conductor.refused_clean_steps: want interface.step with one of the interfaces %s, got %q", strings.Join(node.StepInterfaces, ", "), step)
	}
	for step, priority := range c.Conductor.cleanPriorities() {
		check(priority >= 0, "conductor.%s_priority: want 0 (off) or more, got %d", step, priority)
	}
	check(slices.Contains(unixcrypt.Algorithms, unixcrypt.Algorithm(c.Conductor.RescueHash)),
		"conductor.rescue_password_hash_algorithm: want %s, got %q", node.Choices(unixcrypt.Algorithms), c.Conductor.RescueHash)
	check(c.Agent.HeartbeatTimeout >= time.Second, "agent.heartbeat_timeout: want at least 1s, got %s", c.Agent.HeartbeatTimeout)
	check(c.Agent.StepTimeout >= time.Minute, "agent.step_timeout: want at least 1m, got %s", c.Agent.StepTimeout)
	check(slices.Contains(conductor.CollectPolicies, conductor.CollectLogs(c.Agent.DeployLogsCollect)),
		"agent.deploy_logs_collect: want %s, got %q", node.Choices(conductor.CollectPolicies), c.Agent.DeployLogsCollect)
	check(c.Agent.DeployLogsSize >= 1, "agent.deploy_logs_max_size: want at least 1 (GiB), got %d", c.Agent.DeployLogsSize)
	check(!c.AutoDiscovery.Enabled || c.AutoDiscovery.Driver != "", "auto_discovery.driver: is required when auto_discovery.enabled is true")
	check(c.AutoDiscovery.Rate > 0, "auto_discovery.rate: want more than 0, got %g", c.AutoDiscovery.Rate)
	check(c.AutoDiscovery.Burst >= 1, "auto_discovery.burst: want at least 1, got %d", c.AutoDiscovery.Burst)
	errs = append(errs, c.Inventory.problems(c.Conductor.WorkTimeout)...)
	check(c.AutoDiscovery.MaxNodes >= 0, "auto_discovery.max_nodes: want 0 or more, got %d", c.AutoDiscovery.MaxNodes)
	check(c.AutoDiscovery.MaxPorts >= 1 && c.AutoDiscovery.MaxPorts <= inventory.MaxInterfaces, "auto_discovery.max_ports: want 1 to %d, got %d", inventory.MaxInterfaces, c.AutoDiscovery.MaxPorts)
	check(slices.Contains([]int{http.StatusOK, http.StatusAccepted}, c.Inspector.CallbackStatus), "inspector.callback_status: want 200 or 202, got %d", c.Inspector.CallbackStatus)
	_, err := c.AutoDiscovery.allowList()
	errs = append(errs, err)
	_, err = c.AutoDiscovery.proxies()
	errs = append(errs, err)
	_, err = c.Agent.networks()
	check(err == nil, "agent.allowed_networks: %v", err)
	return errors.Join(errs...)
}

func (a AgentConfig) networks() ([]netip.Prefix, error) {
	return inspect.ParseNetworks(a.AllowedNetworks)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
