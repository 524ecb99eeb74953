package up

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
)

// The account and the port of every BMC.
const (
	BMCUser     = "root"
	BMCPassword = "calvin"
	bmcPort     = 8443
)

// part returns one of four equal parts of the network, 0 to 3.
func (o Options) part(n byte) netip.Prefix {
	bytes := o.Network.Masked().Addr().As4()
	bits := o.Network.Bits() + 2
	value := uint32(bytes[0])<<24 | uint32(bytes[1])<<16 | uint32(bytes[2])<<8 | uint32(bytes[3])
	value |= uint32(n) << (32 - bits)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), bits)
}

// The parts of the network: for machines that nobody registered, for machines with BMCs, and for
// the BMCs.
func (o Options) discoveredNetwork() netip.Prefix { return o.part(0) }
func (o Options) registeredNetwork() netip.Prefix { return o.part(1) }
func (o Options) bmcNetwork() netip.Prefix        { return o.part(2) }

// startBMCs starts machines with BMCs. The machines are off until somebody registers them.
func (u *Up) startBMCs(ctx context.Context) (string, error) {
	if u.opts.BMCs == 0 {
		return "none", nil
	}
	machines, err := sim.New(sim.Options{
		Engine: u.engine.URL(), Machines: u.opts.BMCs, Seed: u.opts.Seed + 1, Network: u.opts.registeredNetwork(), Log: u.log.With("part", "sim with BMCs"),
		Instance: u.runInstance(), Clock: agent.Accelerated(u.opts.Speed), HeartbeatTimeout: u.opts.heartbeatTimeout(), BMC: &sim.BMCOptions{
			Vendor: sim.MixedVendors, Network: u.opts.bmcNetwork(), Port: bmcPort, User: BMCUser, Password: BMCPassword,
		},
	})
	if err != nil {
		return "", err
	}
	u.onStop("machines with BMCs", func(context.Context) error { machines.Stop(); return nil })
	if err := machines.ServeBMCs(ctx); err != nil {
		return "", fmt.Errorf("serve the BMCs: %w", err)
	}
	u.bmcMachines, u.authority = machines, filepath.Join(u.opts.DataDir, "bmcs.pem")
	if err := os.WriteFile(u.authority, machines.Authority().PEM(), 0o600); err != nil {
		return "", fmt.Errorf("write the certificate authority of the BMCs: %w", err)
	}
	if err := u.writeManifest(); err != nil {
		return "", fmt.Errorf("write a manifest for a machine with a BMC: %w", err)
	}
	return fmt.Sprintf("%d simulated, off, with Redfish at %s …", u.opts.BMCs, machines.Machine(0).BMCURL()), nil
}

// hostImage is the end of the manifest of a host that is deployed with the image.
const hostImage = `  image:
    url: %s
    checksum: %s
    checksumType: sha256
    format: raw
`

// writeManifest writes a manifest for the first machine with a BMC: the Secret and a host. The host
// has the image, unless Machines are to set it.
func (u *Up) writeManifest() error {
	m := u.bmcMachines.Machine(0)
	address, err := url.Parse(m.BMCURL())
	if err != nil {
		return err
	}
	u.manifest = filepath.Join(u.opts.DataDir, "rack1.yaml")
	image := fmt.Sprintf(hostImage, u.image, u.imageSum)
	if u.opts.ClusterAPI {
		image = ""
	}
	return os.WriteFile(u.manifest, fmt.Appendf(nil, `apiVersion: v1
kind: Secret
metadata:
  name: rack1-bmc
  namespace: %[1]s
stringData:
  username: %[2]s
  password: %[3]s
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: rack1
  namespace: %[1]s
spec:
  online: true
  bootMACAddress: %[4]s
  bmc:
    address: redfish-virtualmedia://%[5]s
    credentialsName: rack1-bmc
    disableCertificateVerification: true # its authority is in %[6]s
%[7]s`, namespace, BMCUser, BMCPassword, m.BootMAC(), address.Host, u.authority, image), 0o600)
}

// growthHints returns commands that make the first machine with a BMC a Node of the workload
// cluster.
func (u *Up) growthHints(kubectl string) string {
	return fmt.Sprintf(`
A machine with a BMC waits to be plugged in. The cluster grows with it, and it can be fenced:

  %[1]s annotate machinedeployment %[3]s metal3.io/autoscale-to-hosts=all-hosts
  %[1]s apply -f %[2]s
  %[1]s get bmh rack1 --watch                                    # its consumer is the new Machine
  %[1]s annotate machine MACHINE host.metal3.io/external-remediation=   # off, its Node deleted, on again
`, kubectl, u.manifest, clusterName)
}

// bmcHints returns commands to try with machines that have a BMC: the first machine as a host, and
// the second one, if there is one, as a node of the engine alone.
func (u *Up) bmcHints(kubectl string) string {
	if u.bmcMachines == nil {
		return ""
	}
	if u.workload != nil {
		return u.growthHints(kubectl)
	}
	m := u.bmcMachines.Machine(min(1, u.opts.BMCs-1))
	return fmt.Sprintf(`
A machine with a BMC waits to be registered, inspected and deployed, which takes half a minute:

  %[1]s apply -f %[2]s
  %[1]s get bmh rack1 --watch
  %[1]s annotate bmh rack1 reboot.metal3.io/me=    # off until the annotation is removed
  %[1]s delete -f %[2]s

Or use the engine alone:

  ingot node create --driver redfish --name rack2 --inspect-interface agent \
    --driver-info redfish_address=%[3]s --driver-info redfish_verify_ca=%[4]s \
    --driver-info redfish_username=%[5]s --driver-info redfish_password=%[6]s
  ingot port create --node rack2 --address %[7]s
  ingot node manage rack2 --wait && ingot node inspect rack2 --wait && ingot node provide rack2 --wait
  ingot node deploy rack2 --image %[8]s --checksum %[9]s --wait
`, kubectl, u.manifest, m.BMCURL(), u.authority, BMCUser, BMCPassword, m.BootMAC(), u.image, u.imageSum)
}
