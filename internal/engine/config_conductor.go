package engine

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/ramdisklog"
	"github.com/ingot-metal/ingot/internal/unixcrypt"
)

// conductorConfig returns the conductor's configuration, without the parts that need a running
// engine.
func conductorConfig(cfg Config) (conductor.Config, error) {
	networks, err := cfg.Agent.networks()
	if err != nil {
		return conductor.Config{}, fmt.Errorf("agent.allowed_networks: %w", err)
	}
	allowed, err := cfg.AutoDiscovery.allowList()
	if err != nil {
		return conductor.Config{}, err
	}
	return conductor.Config{
		Hostname: cfg.Conductor.Hostname, Group: strings.ToLower(cfg.Conductor.Group), Workers: cfg.Conductor.Workers,
		LeaseTTL: cfg.Conductor.LeaseDuration, LockWait: cfg.Conductor.LockWait,
		WorkTimeout: cfg.Conductor.WorkTimeout, MaxAttempts: cfg.Conductor.MaxAttempts,
		Calls: cfg.Conductor.MaxCalls, CallsPerBMC: cfg.Conductor.CallsPerBMC, CallTimeout: cfg.Conductor.CallTimeout,
		ResumeAfterRestore: cfg.Database.ResumeAfterRestore,
		AutomatedClean:     cfg.Conductor.AutomatedClean, RefusedCleanSteps: cfg.Conductor.RefusedCleanSteps,
		CleanPriorities:  cfg.Conductor.cleanPriorities(),
		RescueHash:       unixcrypt.Algorithm(cfg.Conductor.RescueHash),
		HeartbeatTimeout: cfg.Agent.HeartbeatTimeout,
		FastTrack:        cfg.Agent.FastTrack,
		AgentRules: agent.Rules{
			RequireTLS: cfg.Agent.RequireTLS, AllowedNetworks: networks, VerifyAddress: cfg.Agent.VerifyCallbackAddress,
		},
		Discovery: conductor.Discovery{
			Enabled: cfg.AutoDiscovery.Enabled, Driver: cfg.AutoDiscovery.Driver, MaxNodes: cfg.AutoDiscovery.MaxNodes, MaxPorts: cfg.AutoDiscovery.MaxPorts,
			Rate: cfg.AutoDiscovery.Rate, Burst: cfg.AutoDiscovery.Burst,
			Allow: allowed, Scope: cfg.AutoDiscovery.InspectionScope,
		},
		Inspection: conductor.Inspection{UnmanagedBoot: !cfg.Inspector.RequireManagedBoot, KeepPowerOn: !cfg.Inspector.PowerOff},
		Limits:     limits(cfg.Conductor, cfg.Agent),
	}, nil
}

// cleanPriorities returns the configured priorities in automated cleaning, by step.
func (c ConductorConfig) cleanPriorities() map[string]int {
	set := map[string]int{}
	for step, priority := range map[string]*int{
		"erase_devices": c.EraseDevicesPriority, "erase_devices_metadata": c.EraseDevicesMetadataPriority,
	} {
		if priority != nil {
			set[step] = *priority
		}
	}
	return set
}

// openLogs opens the folder of the ramdisks' logs, if logs are to be kept.
func (a AgentConfig) openLogs() (conductor.RamdiskLogs, error) {
	logs := conductor.RamdiskLogs{Collect: conductor.CollectLogs(a.DeployLogsCollect)}
	if a.DeployLogsPath == "" || logs.Collect == conductor.CollectNever {
		return logs, nil
	}
	folder, err := ramdisklog.Open(a.DeployLogsPath, int64(a.DeployLogsSize)<<30)
	if err != nil {
		return logs, fmt.Errorf("agent.deploy_logs_local_path: %w", err)
	}
	logs.Folder = folder
	return logs, nil
}

func limits(cfg ConductorConfig, agents AgentConfig) conductor.Limits {
	sync := cfg.PowerSyncInterval
	if sync == 0 {
		sync = -1 // off, where zero is the default
	}
	return conductor.Limits{
		CallbackTimeout: cfg.CallbackTimeout, BootRetry: cfg.BootRetryTimeout, PowerTimeout: cfg.PowerTimeout, SoftPowerOff: cfg.SoftPowerOffTimeout,
		MaxDeploying: cfg.MaxDeploying, MaxCleaning: cfg.MaxCleaning, KeepPowerOn: !cfg.PowerOffAfterDeployFailure,
		HistoryEntries: cfg.HistoryMaxEntries, StepTimeout: agents.StepTimeout,
		PowerSync: sync, AcceptPower: !cfg.ForcePowerState, PowerRecovery: cfg.PowerRecoveryInterval,
	}
}
