package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Files in the pki folder.
const (
	authorityFile  = "authority.pem"  // lasts: certificate and key of the authority
	tokenKeyFile   = "sa.key"         // lasts: signs service account tokens
	tokenPubFile   = "sa.pub"         // new at each start, like all below
	authorityCert  = "ca.crt"         // what clients and servers trust
	servingName    = "serving"        // API server and etcd, .crt and .key
	etcdClientName = "etcd-client"    // API server towards etcd
	managerConfig  = "manager.config" // kubeconfig of kube-controller-manager
)

const (
	loopback = "127.0.0.1"
	// serviceRange is the range of the addresses of Services. It is not routed, because there are
	// no pods that could call a Service.
	serviceRange = "10.96.0.0/16"
	// adminGroup is the group that may do everything by definition of Kubernetes' authorizer.
	adminGroup = "system:masters"
	// serviceAccountsGroup is the group of all service accounts.
	serviceAccountsGroup = "system:serviceaccounts"
	// tokenIssuer is the usual issuer of in-cluster service account tokens.
	tokenIssuer = "https://kubernetes.default.svc.cluster.local" //nolint:gosec // a name, not a credential
)

// controllers are the controllers of kube-controller-manager that are useful in a cluster without
// nodes.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"serviceaccount-controller",
}

// prepareKeys loads the permanent keys and writes the certificates of this start.
func (c *ControlPlane) prepareKeys(now time.Time) error {
	ca, err := loadAuthority(c.dir.pki(authorityFile), now)
	if err != nil {
		return err
	}
	c.ca = ca
	tokenPub, err := loadTokenKey(c.dir.pki(tokenKeyFile))
	if err != nil {
		return err
	}
	serving, err := ca.serving("kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	client, err := ca.client("kube-apiserver")
	if err != nil {
		return err
	}
	caKey, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		authorityKey:            caKey,
		tokenPubFile:            tokenPub,
		authorityCert:           ca.certPEM(),
		servingName + ".crt":    serving.cert,
		servingName + ".key":    serving.key,
		etcdClientName + ".crt": client.cert,
		etcdClientName + ".key": client.key,
	} {
		if err := writeFile(c.dir.pki(name), data); err != nil {
			return err
		}
	}
	return nil
}

// endpoint returns the base URL of a server on a loopback port.
func endpoint(port int) string {
	return "https://" + net.JoinHostPort(loopback, strconv.Itoa(port))
}

// startEtcd starts etcd and returns when it is ready.
func (c *ControlPlane) startEtcd(ctx context.Context, port int) error {
	// A single-member cluster never talks to a peer, but etcd insists on a listener.
	const peer = "https://" + loopback + ":0"
	p, err := c.run(
		etcdProgram,
		"--name=ingot",
		"--data-dir="+c.dir.etcd(),
		"--listen-client-urls="+endpoint(port),
		"--advertise-client-urls="+endpoint(port),
		"--client-cert-auth=true",
		"--trusted-ca-file="+c.dir.pki(authorityCert),
		"--cert-file="+c.dir.pki(servingName+".crt"),
		"--key-file="+c.dir.pki(servingName+".key"),
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=ingot="+peer,
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file="+c.dir.pki(authorityCert),
		"--peer-cert-file="+c.dir.pki(servingName+".crt"),
		"--peer-key-file="+c.dir.pki(servingName+".key"),
		// A single member waits for one election timeout before it serves. The values are in
		// milliseconds; etcd requires the second to be at least five times the first.
		"--heartbeat-interval=50",
		"--election-timeout=250",
		"--unsafe-no-fsync="+strconv.FormatBool(c.volatile),
	)
	if err != nil {
		return err
	}
	return c.waitHealthy(ctx, p, endpoint(port), "/health")
}

// startAPIServer starts kube-apiserver for the etcd at a port, on its own port. It returns when
// kube-apiserver is ready.
func (c *ControlPlane) startAPIServer(ctx context.Context, etcdPort, port int) error {
	p, err := c.run(apiServerProgram, append([]string{
		"--etcd-servers=" + endpoint(etcdPort),
		"--etcd-cafile=" + c.dir.pki(authorityCert),
		"--etcd-certfile=" + c.dir.pki(etcdClientName+".crt"),
		"--etcd-keyfile=" + c.dir.pki(etcdClientName+".key"),
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		// Without a network interface there is no other address to advertise, and
		// a loopback address is refused as an endpoint of the default service.
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.dir.pki(servingName+".crt"),
		"--tls-private-key-file=" + c.dir.pki(servingName+".key"),
		"--client-ca-file=" + c.dir.pki(authorityCert),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=" + tokenIssuer,
		"--service-account-key-file=" + c.dir.pki(tokenPubFile),
		"--service-account-signing-key-file=" + c.dir.pki(tokenKeyFile),
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		// The plugin would refuse pods until their namespace has a service account.
		"--disable-admission-plugins=ServiceAccount",
		"--profiling=false",
	}, slices.Concat(c.ownershipFlags(), c.workloadAPIServerFlags())...)...)
	if err != nil {
		return err
	}
	return c.waitHealthy(ctx, p, endpoint(port), "/readyz")
}

// ownershipFlags make kube-apiserver check the rights on owners, as some distributions do, such as
// OpenShift. Cluster API's managers, and machines, have only the rights of their releases. Control
// planes that run with these do not check.
func (c *ControlPlane) ownershipFlags() []string {
	if c.clusterAPI || c.workload != nil {
		return nil
	}
	return []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"}
}

// admitAdmin creates the administrator's client configuration and kubeconfig for the
// API server on a port.
func (c *ControlPlane) admitAdmin(port int) error {
	config, err := c.clientConfig(endpoint(port), "ingot-admin", adminGroup)
	if err != nil {
		return err
	}
	c.config = config
	return writeKubeconfig(c.dir.kubeconfig(), config)
}

// startControllerManager starts kube-controller-manager. It does not wait, because no endpoint
// shows when the program is ready.
func (c *ControlPlane) startControllerManager() error {
	// All controllers share one identity, so it needs the right to do everything.
	config, err := c.clientConfig(c.config.Host, "system:kube-controller-manager", adminGroup)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(c.dir.pki(managerConfig), config); err != nil {
		return err
	}
	started := controllers
	if c.workload != nil {
		started = append(slices.Clone(controllers), nodeControllers...)
	}
	_, err = c.run(controllerManagerProgram, append([]string{
		"--kubeconfig=" + c.dir.pki(managerConfig),
		"--controllers=" + strings.Join(started, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
	}, c.workloadManagerFlags()...)...)
	return err
}

// clientConfig returns the configuration of a new client that acts as a user with some groups.
func (c *ControlPlane) clientConfig(server, user string, groups ...string) (*rest.Config, error) {
	pair, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.certPEM(), CertData: pair.cert, KeyData: pair.key},
		QPS:             -1, // the server's own fairness is enough
	}, nil
}

// waitHealthy waits until path answers 200 to a client with a certificate of the authority.
func (c *ControlPlane) waitHealthy(ctx context.Context, p *process, server, path string) error {
	config, err := c.clientConfig(server, "ingot-probe", adminGroup)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make client for %s: %w", server, err)
	}
	defer client.CloseIdleConnections()
	target, err := url.JoinPath(server, path)
	if err != nil {
		return fmt.Errorf("make URL of %s: %w", p.name, err)
	}
	return p.waitReady(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", target, resp.Status)
		}
		return nil
	})
}
