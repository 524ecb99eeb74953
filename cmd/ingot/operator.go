package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

const kubeconfigUsage = "kubeconfig of the cluster [$KUBECONFIG] (default: the cluster that this runs in, else ~/.kube/config)"

// newOperatorCommand returns `ingot operator`.
func newOperatorCommand() *cobra.Command {
	var flags operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the Kubernetes controllers",
		Long: `Run the controllers of hosts, of their discovery and of the objects about their
firmware against an engine that implements the Bare Metal API: Ingot's own or
upstream Ironic.

The groups of controllers can run together or in separate processes, each with
its own service account; with --leader-elect each group has its own lease. The
password for the engine is read from the environment variable OS_PASSWORD. Where a
flag names a variable in brackets, that one has its value when the flag is not given.

The host controllers do not start while Metal3's own operator leads in the cluster.`,
		Example: "  ingot operator --kubeconfig .ingot/kubeconfig --engine http://127.0.0.1:6385\n  ingot operator --demo",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context(), cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", kubeconfigUsage)
	f.StringSliceVar(&flags.opts.Namespaces, "namespace", nil, "namespaces to watch [$WATCH_NAMESPACE] (default all)")
	f.StringVar(&flags.opts.EngineURL, "engine", "", "URL of the engine [$OS_ENDPOINT, $IRONIC_ENDPOINT]")
	f.StringVar(&flags.opts.EngineUser, "engine-user", "", "user name for the engine [$OS_USERNAME]")
	f.StringVar(&flags.opts.EngineCAFile, "engine-ca", "", "PEM file with the CA certificates of the engine [$IRONIC_CACERT_FILE]")
	f.BoolVar(&flags.opts.EngineInsecure, "engine-insecure", false, "do not verify the engine's certificate [$IRONIC_INSECURE]")
	f.StringVar(&flags.opts.Ramdisk.Kernel, "deploy-kernel", "", "URL of the ramdisk's kernel, for engines that are not configured with one [$DEPLOY_KERNEL_URL]")
	f.StringVar(&flags.opts.Ramdisk.Ramdisk, "deploy-ramdisk", "", "URL of the initial ramdisk [$DEPLOY_RAMDISK_URL]")
	f.StringVar(&flags.opts.Ramdisk.ISO, "deploy-iso", "", "URL of the ramdisk as ISO image, for machines that boot from one [$DEPLOY_ISO_URL]")
	f.StringVar(&flags.opts.Ramdisk.Bootloader, "bootloader", "", "URL of the image of an EFI system partition for bootable images")
	f.StringVar(&flags.opts.PersistentBoot.LiveISO, "live-iso-persistent-boot", "", "which boot devices of machines with a live ISO last: Default, Always or Never [$LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE] (default: as the node says)")
	f.StringVar(&flags.opts.PersistentBoot.DirectDeploy, "direct-deploy-persistent-boot", "", "the same for machines with an image on a disk [$DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE]")
	f.BoolVar(&flags.opts.PreprovisioningImages, "build-preprov-image", false, "ask for the ramdisk of each host with a PreprovisioningImage")
	f.BoolVar(&flags.opts.ExternalImageController, "external-image-controller", false, "another program serves the PreprovisioningImages (default: the operator, with the images of --deploy-iso and --deploy-ramdisk)")
	f.BoolVar(&flags.opts.LocalImages, "allow-local-image-urls", false, "accept URLs of images and firmware that lead to the engine's own machine or its link")
	f.BoolVar(&flags.demo, "demo", false, "use a simulated engine, whose nodes behave as the names of their hosts say")
	f.StringSliceVar(&flags.opts.Controllers, "controllers", operator.DefaultGroups(), "groups of controllers to run, also cluster, remediation and autoscale with Cluster API; none for a process that only serves webhooks")
	f.BoolVar(&flags.opts.LeaderElection, "leader-elect", false, "elect a leader for each group, so that only one replica runs it")
	f.StringVar(&flags.opts.LeaderElectionNamespace, "leader-elect-namespace", "", "namespace of the leases [$POD_NAMESPACE] (default: the one this runs in)")
	f.DurationVar(&flags.opts.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "time for which a lease is respected that its holder does not renew [$LEASE_DURATION_SECONDS]")
	f.DurationVar(&flags.opts.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "time after which a leader stops that could not renew its lease [$RENEW_DEADLINE_SECONDS]")
	f.DurationVar(&flags.opts.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two tries to get or renew a lease [$RETRY_PERIOD_SECONDS]")
	f.BoolVar(&flags.opts.AllowUpstream, "allow-upstream-operator", false, "start although Metal3's own operator leads in the cluster")
	f.Float32Var(&flags.opts.KubeQPS, "kube-api-qps", 1000, "requests to the Kubernetes API in a second")
	f.IntVar(&flags.opts.KubeBurst, "kube-api-burst", 2000, "requests to the Kubernetes API at once")
	f.DurationVar(&flags.opts.PollInterval, "poll-interval", 5*time.Second, "time between two polls of the engine")
	f.DurationVar(&flags.opts.AgentWindow, "agent-window", 5*time.Minute, "time after its last heartbeat for which a ramdisk counts as alive")
	f.DurationVar(&flags.opts.MaxBackoff, "backoff-max", 30*time.Minute, "longest pause between two attempts after errors")
	f.IntVar(&flags.opts.MaxProvisioningFailures, "max-provisioning-retries", 5, "failures of an image after which it is not deployed again until it changes; 0 for no limit")
	f.IntVar(&flags.opts.MaxServicingAttempts, "servicing-max-attempts", 3, "failures of a live update after which it is not tried again until something changes; 0 for no limit")
	f.IntVar(&flags.opts.Capacity, "provisioning-limit", 20, "hosts with a network-booted ramdisk that the engine works on at once; 0 for no limit [$PROVISIONING_LIMIT]")
	f.IntVar(&flags.opts.Concurrency, "concurrency", 16, "number of hosts to reconcile at the same time [$BMO_CONCURRENCY]")
	f.StringVar(&flags.opts.WatchFilter, "watch-filter", "", "value of the label cluster.x-k8s.io/watch-filter of the objects of Cluster API to work on (default all objects)")
	f.BoolVar(&flags.opts.AddressClaimsByHost, "enable-bmh-name-based-preallocation", false, "name claims for IP addresses after the host and the pool, so that preAllocations of an IPPool can give a host a certain address")
	f.BoolVar(&flags.opts.FastTrack, "fast-track", false, "leave hosts that machines of Cluster API release powered on, unless their cleaning is disabled [$CAPM3_FAST_TRACK]")
	f.DurationVar(&flags.opts.NodeReuseWait, "node-reuse-wait", 0, "longest wait of machines for hosts that are reserved for their owner (default no limit)")
	f.IntVar(&flags.opts.RemediationBudget, "remediation-budget", fencing.DefaultBudget, "hosts of a cluster that may be fenced at once")
	f.DurationVar(&flags.opts.RemediationNodeTimeout, "remediation-node-timeout", fencing.DefaultNodeTimeout, "how long health checks are suspended for the Node of a fenced machine to come back")
	f.BoolVar(&flags.opts.RemediationExtraActions, "remediation-extra-actions", false, "also fence hosts that are off without a hold, end holds without effect, and let machines boot before they are powered off again")
	f.IntVar(&flags.opts.Webhook.Port, "webhook-port", 0, "TCP port to serve admission webhooks on (default none)")
	f.StringVar(&flags.opts.Webhook.CertDir, "webhook-cert-dir", "", "folder with tls.crt and tls.key for webhooks (default: a certificate that the operator makes and renews)")
	f.StringVar(&flags.opts.Webhook.Namespace, "webhook-namespace", "", "namespace of the Service ingot-webhook and of the certificate's Secret (default: the one this runs in, else ingot-system)")
	f.StringSliceVar(&flags.opts.Webhook.Hosts, "webhook-host", nil, "names and IP addresses by which the API server reaches webhooks (default: those of the Service)")
	f.StringVar(&flags.opts.MetricsAddr, "metrics-addr", "", "address to serve metrics on, over TLS and for authorized callers (default none)")
	f.StringVar(&flags.opts.MetricsCertDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for metrics (default: a self-signed certificate)")
	f.BoolVar(&flags.opts.MetricsInsecure, "metrics-insecure", false, "serve metrics without TLS and authentication, on loopback only")
	f.StringVar(&flags.opts.HealthAddr, "health-addr", "", "address to serve /healthz and /readyz on (default none)")
	flags.log.add(cmd)
	cmd.AddCommand(newPrepareDowngradeCommand())
	return cmd
}

type operatorFlags struct {
	opts       operator.Options
	kubeconfig string
	demo       bool
	log        logFlags
}

func (f *operatorFlags) run(ctx context.Context, cmd *cobra.Command) error {
	if err := readOperatorVariables(cmd); err != nil {
		return err
	}
	if err := f.checkRemediation(); err != nil {
		return err
	}
	logger, err := f.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	operator.RouteLogs(logger)
	opts := f.opts
	opts.Logger = logger
	if opts.Config, err = kubeConfig(f.kubeconfig); err != nil {
		return err
	}
	if err := f.chooseEngine(&opts); err != nil {
		return err
	}
	if opts.LeaderElection && opts.LeaderElectionNamespace == "" {
		opts.LeaderElectionNamespace = ownNamespace()
	}
	if opts.Webhook.Namespace == "" {
		opts.Webhook.Namespace = ownNamespace()
	}
	op, err := operator.New(opts)
	if err != nil {
		return err
	}
	return op.Run(ctx)
}

// checkRemediation refuses 0. In the operator's options it would mean the default, and with other
// flags it means no limit.
func (f *operatorFlags) checkRemediation() error {
	switch {
	case f.opts.RemediationBudget < 1:
		return &cli.UsageError{Err: fmt.Errorf("--remediation-budget: want 1 or more, got %d", f.opts.RemediationBudget)}
	case f.opts.RemediationNodeTimeout <= 0:
		return &cli.UsageError{Err: fmt.Errorf("--remediation-node-timeout: want a time of more than 0, got %s", f.opts.RemediationNodeTimeout)}
	default:
		return nil
	}
}

func (f *operatorFlags) chooseEngine(opts *operator.Options) error {
	if f.demo {
		if opts.EngineURL != "" {
			return &cli.UsageError{Err: errors.New("--demo and --engine exclude each other")}
		}
		opts.Engine = demo.New(demo.Options{})
		return nil
	}
	if !operator.NeedEngine(opts.Controllers) {
		return nil
	}
	opts.EngineURL = cmp.Or(opts.EngineURL, os.Getenv("OS_ENDPOINT"), os.Getenv("IRONIC_ENDPOINT"))
	if opts.EngineURL == "" {
		return &cli.UsageError{Err: errors.New("--engine: want the URL of an engine, such as http://127.0.0.1:6385")}
	}
	if opts.EngineUser == "" {
		opts.EngineUser = os.Getenv("OS_USERNAME")
	}
	opts.Ramdisk.Kernel = cmp.Or(opts.Ramdisk.Kernel, os.Getenv("DEPLOY_KERNEL_URL"))
	opts.Ramdisk.Ramdisk = cmp.Or(opts.Ramdisk.Ramdisk, os.Getenv("DEPLOY_RAMDISK_URL"))
	opts.Ramdisk.ISO = cmp.Or(opts.Ramdisk.ISO, os.Getenv("DEPLOY_ISO_URL"))
	if opts.EngineUser != "" {
		opts.EnginePassword = os.Getenv("OS_PASSWORD")
	}
	return nil
}

// kubeConfig returns the configuration in file. Without a file, it returns the configuration of the
// cluster that this process runs in, else the one that kubectl uses.
func kubeConfig(file string) (*rest.Config, error) {
	if file == "" && os.Getenv("KUBECONFIG") == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes cluster; name a file with --kubeconfig: %w", err)
	}
	return config, nil
}

// ownNamespace returns the namespace of the pod that this process runs in, or empty.
func ownNamespace() string {
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
