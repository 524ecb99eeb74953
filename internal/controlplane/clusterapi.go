package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// clusterAPIManagers are the programs of Cluster API in the order of their start. The manifests of
// each are in the same folder, in a file with its name and ".yaml".
var clusterAPIManagers = []string{
	"cluster-api-controller",
	"kubeadm-bootstrap-controller",
	"kubeadm-control-plane-controller",
}

// webhookName is the name of the certificate of Cluster API's webhooks in the pki folder.
const webhookName = "cluster-api-webhook"

// startClusterAPI starts Cluster API's managers. It returns when all of them serve their webhooks.
func (c *ControlPlane) startClusterAPI(ctx context.Context) error {
	pair, err := c.ca.serving()
	if err != nil {
		return err
	}
	if err := writeFile(c.dir.pki(webhookName+".crt"), pair.cert); err != nil {
		return err
	}
	if err := writeFile(c.dir.pki(webhookName+".key"), pair.key); err != nil {
		return err
	}
	for _, name := range clusterAPIManagers {
		manifests, err := readManifests(os.DirFS(filepath.Join(c.assets, clusterAPIFolder)), name+".yaml")
		if err != nil {
			return fmt.Errorf("read manifests of %s: %w", name, err)
		}
		_, err = c.startOnPort(func() (int, error) { return freePort(0) }, func(port int) error {
			return c.startClusterAPIManager(ctx, name, manifests, port)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startClusterAPIManager installs the manifests of a manager and starts it, with its webhooks on a
// port. It installs the webhooks first, so that nothing is ever stored that they have not seen.
func (c *ControlPlane) startClusterAPIManager(ctx context.Context, name string, m manifests, port int) error {
	objects, err := m.servedAt(endpoint(port), c.ca.certPEM())
	if err != nil {
		return fmt.Errorf("prepare manifests of %s: %w", name, err)
	}
	if err := apply(ctx, c.config, objects); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	config, err := c.clientConfig(c.config.Host, m.user(), serviceAccountsGroup)
	if err != nil {
		return err
	}
	kubeconfig := c.dir.pki(name + ".config")
	if err := writeKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	healthPort, err := freePort(0)
	if err != nil {
		return err
	}
	health := loopback + ":" + strconv.Itoa(healthPort)
	p, err := c.run(
		filepath.Join(clusterAPIFolder, name),
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--health-addr="+health,
		"--diagnostics-address=0",
		"--feature-gates=ClusterTopology=true", // ClusterClasses are off by default
		"--webhook-port="+strconv.Itoa(port),
		"--webhook-cert-dir="+c.dir.own("pki"),
		"--webhook-cert-name="+webhookName+".crt",
		"--webhook-key-name="+webhookName+".key",
	)
	if err != nil {
		return err
	}
	return c.waitHealthy(ctx, p, "http://"+health, "/readyz")
}

// shownLog is how much ShowLogs shows of the log of a manager, in bytes.
const shownLog = 16 << 10

// ShowLogs copies the logs of all programs to a folder that outlives the data folder. It says where
// that folder is, and shows the ends of the logs of Cluster API's managers.
func (c *ControlPlane) ShowLogs(say func(format string, args ...any)) {
	kept, err := os.MkdirTemp("", "ingot-controlplane-logs-")
	if err == nil {
		err = os.CopyFS(kept, os.DirFS(c.dir.own("logs")))
	}
	if err != nil {
		say("keep the logs of the control plane: %v", err)
		return
	}
	say("the logs of the control plane are in %s", kept)
	for _, manager := range clusterAPIManagers {
		log, err := os.ReadFile(c.dir.log(manager))
		say("%s (%v):\n%s", manager, err, log[max(0, len(log)-shownLog):])
	}
}
