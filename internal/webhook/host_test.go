package webhook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/webhook"
)

// newHost returns a host with which nothing is wrong.
func newHost(changes ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: "rack1-7"}}
	h.Spec.Online = true
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1", CredentialsName: "bmc"}
	h.Spec.BootMACAddress = "00:00:5e:00:53:0a"
	for _, change := range changes {
		change(h)
	}
	return h
}

type edit = func(*v1alpha1.BareMetalHost)

// withSpec changes the spec of a host.
func withSpec(change func(*v1alpha1.BareMetalHostSpec)) edit {
	return func(h *v1alpha1.BareMetalHost) { change(&h.Spec) }
}

func address(text string) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.BMC.Address = text })
}

func mac(text string) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.BootMACAddress = text })
}

func annotation(key, value string) edit {
	return func(h *v1alpha1.BareMetalHost) {
		h.Annotations = maps.Clone(h.Annotations)
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[key] = value
	}
}

func inState(state v1alpha1.ProvisioningState) edit {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state }
}

func named(name string) edit { return func(h *v1alpha1.BareMetalHost) { h.Name = name } }

func image(url, checksum string, changes ...func(*v1alpha1.Image)) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) {
		s.Image = &v1alpha1.Image{URL: url, Checksum: checksum}
		for _, change := range changes {
			change(s.Image)
		}
	})
}

func format(name string) func(*v1alpha1.Image) {
	return func(i *v1alpha1.Image) { i.DiskFormat = &name }
}

func hardwareRAID(volumes ...v1alpha1.HardwareRAIDVolume) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: volumes} })
}

func softwareRAID(volumes ...v1alpha1.SoftwareRAIDVolume) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: volumes} })
}

func hint(name string) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.RootDeviceHints = &v1alpha1.RootDeviceHints{DeviceName: name} })
}

func mode(m v1alpha1.InspectionMode) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.InspectionMode = m })
}

func bootMode(m v1alpha1.BootMode) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.BootMode = m })
}

func power(online, disablePowerOff bool) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.Online, s.DisablePowerOff = online, disablePowerOff })
}

func nics(list ...v1alpha1.NetworkInterface) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.NetworkInterfaces = list })
}

func userData(namespace string) edit {
	return withSpec(func(s *v1alpha1.BareMetalHostSpec) {
		s.UserData = &corev1.SecretReference{Name: "user-data", Namespace: namespace}
	})
}

func size(n int) *int { return &n }

// row is one host and what is to be said about it. An empty text means nothing; any other text is
// part of the only error or warning.
type row struct {
	edits   []edit
	err     string
	warning string
}

func hostRows() map[string]row {
	const netboot = "redfish://192.0.2.7/redfish/v1/Systems/1"
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	do := func(edits ...edit) []edit { return edits }
	return map[string]row{
		"complete host":                  {},
		"host without a BMC":             {edits: do(address(""), mac(""))},
		"name with all characters":       {edits: do(named("Rack_1.node-7"))},
		"name with other characters":     {edits: do(named("rack/1")), err: `metadata.name: Invalid value: "rack/1": may only have letters`},
		"name that is a UUID":            {edits: do(named("6b4a1c3e-1d6f-4f0e-9a53-3c1f1e9d2a77")), err: "metadata.name: Invalid value: \"6b4a1c3e-1d6f-4f0e-9a53-3c1f1e9d2a77\": is a UUID"},
		"name of 32 hexadecimal digits":  {edits: do(named(strings.Repeat("0a", 16))), err: "Put something before it"},
		"name of 31 hexadecimal digits":  {edits: do(named(strings.Repeat("0", 31)))},
		"unreadable address":             {edits: do(address("ilo4://192.0.2.7")), err: "spec.bmc.address: Invalid value: \"ilo4://192.0.2.7\": the scheme ilo4 is of a driver that no longer exists; use redfish://"},
		"address with a password":        {edits: do(address("redfish://root:calvin@192.0.2.7")), err: "spec.bmc.address: Invalid value: the address contains a user name"},
		"address that is IPv6":           {edits: do(address("redfish-virtualmedia://[2001:db8::7]:8443"))},
		"host that is no DNS name":       {edits: do(address("my-.example.org")), err: "spec.bmc.address"},
		"MAC in upper case":              {edits: do(mac("00:00:5E:00:53:0A"))},
		"MAC with dashes":                {edits: do(mac("00-00-5e-00-53-0a")), err: "spec.bootMACAddress: Invalid value: \"00-00-5e-00-53-0a\": is not a MAC address"},
		"MAC of eight pairs":             {edits: do(mac("00:00:5e:00:53:0a:0b:0c")), warning: "spec.bootMACAddress: is no address of Ethernet"},
		"MAC of InfiniBand":              {edits: do(mac("80:00:02:08:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:27:47:18")), warning: "spec.bootMACAddress: is no address of Ethernet"},
		"MAC of seven pairs":             {edits: do(mac("00:00:5e:00:53:0a:0b")), err: "spec.bootMACAddress"},
		"MAC without a BMC":              {edits: do(address(""), mac("xx")), err: "spec.bootMACAddress"},
		"no MAC, virtual media":          {edits: do(mac(""))},
		"no MAC, HTTP boot":              {edits: do(mac(""), address("redfish-uefihttp://192.0.2.7"))},
		"no MAC, iPXE over Redfish":      {edits: do(mac(""), address(netboot)), warning: "spec.bootMACAddress: is not set"},
		"no MAC, IPMI":                   {edits: do(mac(""), address("192.0.2.7")), warning: "spec.bootMACAddress: is not set"},
		"no MAC, libvirt":                {edits: do(mac(""), address("libvirt://192.0.2.7:6230")), err: "spec.bootMACAddress: Required value: hosts with a BMC of the scheme libvirt need it"},
		"no MAC, inspection disabled":    {edits: do(mac(""), mode(v1alpha1.InspectionModeDisabled)), err: "spec.bootMACAddress: Required value: without inspection"},
		"no MAC, disabled the old way":   {edits: do(mac(""), annotation(v1alpha1.InspectAnnotation, "disabled")), err: "spec.bootMACAddress: Required value"},
		"no MAC, no BMC, not inspected":  {edits: do(mac(""), address(""), mode(v1alpha1.InspectionModeDisabled))},
		"Secret of the same namespace":   {edits: do(userData("racks"))},
		"Secret without a namespace":     {edits: do(userData(""))},
		"Secret of another namespace":    {edits: do(userData("kube-system")), err: "spec.userData.namespace: Forbidden: a host reads Secrets of its own namespace only"},
		"network data of another":        {edits: do(withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.NetworkData = &corev1.SecretReference{Namespace: "a"} })), err: "spec.networkData.namespace"},
		"metadata of another":            {edits: do(withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.MetaData = &corev1.SecretReference{Namespace: "a"} })), err: "spec.metaData.namespace"},
		"firmware":                       {edits: do(withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.Firmware = &v1alpha1.FirmwareConfig{} })), err: "spec.firmware: Forbidden: no driver has these settings"},
		"hardware RAID":                  {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", Name: "root"}, v1alpha1.HardwareRAIDVolume{Level: "5", Name: "data"}))},
		"hardware RAID without names":    {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1"}, v1alpha1.HardwareRAIDVolume{Level: "5"}))},
		"hardware RAID over IPMI":        {edits: do(address("192.0.2.7"), hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1"})), err: "spec.raid.hardwareRAIDVolumes: Forbidden: a BMC of the scheme ipmi"},
		"no volumes over IPMI":           {edits: do(address("192.0.2.7"), hardwareRAID())},
		"both kinds of RAID":             {edits: do(withSpec(bothRAID)), err: "spec.raid.softwareRAIDVolumes: Forbidden: a host has either"},
		"software and an empty list":     {edits: do(withSpec(oneRAID)), warning: "spec.raid.hardwareRAIDVolumes: an empty list counts as null"},
		"hardware and an empty list":     {edits: do(withSpec(otherRAID)), warning: "spec.raid.softwareRAIDVolumes: an empty list counts as null"},
		"disks of a controller":          {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", Controller: "c", NumberOfPhysicalDisks: size(2), PhysicalDisks: []string{"a", "b"}}))},
		"disks without a controller":     {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", PhysicalDisks: []string{"a", "b"}})), err: "spec.raid.hardwareRAIDVolumes[0].controller: Required value"},
		"wrong number of disks":          {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", Controller: "c", NumberOfPhysicalDisks: size(3), PhysicalDisks: []string{"a", "b"}})), err: "spec.raid.hardwareRAIDVolumes[0].numberOfPhysicalDisks: Invalid value: 3: is not the number of physicalDisks, which is 2"},
		"number without disks":           {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", NumberOfPhysicalDisks: size(3)}))},
		"name of two volumes":            {edits: do(hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", Name: "a"}, v1alpha1.HardwareRAIDVolume{Level: "1", Name: "a"})), err: `spec.raid.hardwareRAIDVolumes[1].name: Duplicate value: "a"`},
		"software RAID over IPMI":        {edits: do(address("192.0.2.7"), softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1"}))},
		"marked root volume":             {edits: do(softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "0"}, v1alpha1.SoftwareRAIDVolume{Level: "1", RootVolume: true}))},
		"two root volumes":               {edits: do(softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1", RootVolume: true}, v1alpha1.SoftwareRAIDVolume{Level: "1", RootVolume: true})), err: "spec.raid.softwareRAIDVolumes[1].rootVolume: Forbidden: volume 0 is the root volume already"},
		"root volume of another level":   {edits: do(softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "0", RootVolume: true})), err: `spec.raid.softwareRAIDVolumes[0].level: Invalid value: "0": the root volume must have level 1`},
		"unmarked root of another level": {edits: do(softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "0"})), warning: "spec.raid.softwareRAIDVolumes[0].level: this is the root volume"},
		"root volume and hints":          {edits: do(hint("/dev/sda"), softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1", RootVolume: true})), err: "spec.raid.softwareRAIDVolumes[0].rootVolume: Forbidden: the root volume is the root device"},
		"hints and an unmarked volume":   {edits: do(hint("/dev/sda"), softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1"}))},
		"hints and another level":        {edits: do(hint("/dev/sda"), softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "0"}))},
		"secure boot over Redfish":       {edits: do(bootMode(v1alpha1.BootModeUEFISecureBoot))},
		"secure boot over IPMI":          {edits: do(address("192.0.2.7"), bootMode(v1alpha1.BootModeUEFISecureBoot)), err: `spec.bootMode: Invalid value: "UEFISecureBoot"`},
		"secure boot without a BMC":      {edits: do(address(""), bootMode(v1alpha1.BootModeUEFISecureBoot))},
		"legacy boot over IPMI":          {edits: do(address("192.0.2.7"), bootMode(v1alpha1.BootModeLegacy))},
		"device":                         {edits: do(hint("/dev/sda"))},
		"device by path":                 {edits: do(hint("/dev/disk/by-path/pci-0000:01:00.0-scsi-0:2:0:0"))},
		"device by ID":                   {edits: do(hint("/dev/disk/by-id/wwn-0x5")), err: "spec.rootDeviceHints.deviceName: Invalid value: \"/dev/disk/by-id/wwn-0x5\": is neither a device"},
		"device that is no path":         {edits: do(hint("sda")), err: "spec.rootDeviceHints.deviceName"},
		"folder of devices":              {edits: do(hint("/dev/")), err: "spec.rootDeviceHints.deviceName"},
		"image":                          {edits: do(image("https://example.org/disk.qcow2", digest))},
		"image without a URL":            {edits: do(image("", ""))},
		"image over FTP":                 {edits: do(image("ftp://example.org/disk", digest))},
		"image over Gopher":              {edits: do(image("gopher://example.org/disk", digest))},
		"image of a registry":            {edits: do(image("oci://example.org/disk:1", "", func(i *v1alpha1.Image) { name := "pull"; i.OCIAuthSecretName = &name }))},
		"user in front of a registry":    {edits: do(image("oci://registry.example.org@192.0.2.7/disk:1", "")), err: "has a user in front of its registry"},
		"image of a registry, checksum":  {edits: do(image("oci://example.org/disk:1", digest)), err: "spec.image.checksum: Forbidden"},
		"image that is a file":           {edits: do(image("file:///disk", digest)), err: `spec.image.url: Invalid value: "file:///disk": has the scheme "file"`},
		"image that is no URL":           {edits: do(image("disk.qcow2", digest)), err: "spec.image.url: Invalid value: \"disk.qcow2\": is not a URL"},
		"image without a host":           {edits: do(image("https:///disk", digest)), err: "has no host"},
		"image with a password":          {edits: do(image("scp://a:hunter2@example.org/disk", digest)), err: "spec.image.url: Invalid value: has the scheme"},
		"image with a signature":         {edits: do(image("s3://example.org/disk?signature=hunter2", digest)), err: "spec.image.url: Invalid value: has the scheme"},
		"image of the engine's machine":  {edits: do(image("http://169.254.169.254/latest", digest)), err: `spec.image.url: Invalid value: "http://169.254.169.254/latest": may not be given to the engine: the host 169.254.169.254`},
		"sums of the engine's machine":   {edits: do(image("https://example.org/disk", "http://localhost:6385/v1/nodes")), err: "spec.image.checksum: Invalid value"},
		"image without a checksum":       {edits: do(image("https://example.org/disk", "")), err: "spec.image.checksum: Required value"},
		"live ISO without a checksum":    {edits: do(image("https://example.org/live.iso", "", format(v1alpha1.FormatLiveISO)))},
		"live ISO with a checksum":       {edits: do(image("https://example.org/live.iso", digest, format(v1alpha1.FormatLiveISO)))},
		"checksum type":                  {edits: do(image("https://example.org/disk", digest, func(i *v1alpha1.Image) { i.ChecksumType = v1alpha1.ChecksumSHA256 }))},
		"unknown checksum type":          {edits: do(image("https://example.org/disk", digest, func(i *v1alpha1.Image) { i.ChecksumType = "crc32" })), err: `spec.image.checksumType: Invalid value: "crc32"`},
		"Secret without a registry":      {edits: do(image("https://example.org/disk", digest, func(i *v1alpha1.Image) { name := "pull"; i.OCIAuthSecretName = &name })), warning: "spec.image.ociAuthSecretName: has no effect"},
		"externally provisioned":         {edits: do(withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.ExternallyProvisioned = true }))},
		"power off is disabled, on":      {edits: do(power(true, true))},
		"power off is disabled, off":     {edits: do(power(false, true)), err: "spec.online: Invalid value: false: contradicts disablePowerOff"},
		"off":                            {edits: do(power(false, false))},
		"inspection by agent":            {edits: do(mode(v1alpha1.InspectionModeAgent))},
		"fast inspection":                {edits: do(mode(v1alpha1.InspectionModeFast))},
		"fast inspection over IPMI":      {edits: do(address("192.0.2.7"), mode(v1alpha1.InspectionModeFast)), err: `spec.inspectionMode: Invalid value: "fast": a BMC of the scheme ipmi`},
		"unknown inspection":             {edits: do(mode("slow")), err: "spec.inspectionMode"},
		"inspection disabled twice":      {edits: do(mode(v1alpha1.InspectionModeDisabled), annotation(v1alpha1.InspectAnnotation, "disabled"))},
		"inspection contradicts itself":  {edits: do(mode(v1alpha1.InspectionModeAgent), annotation(v1alpha1.InspectAnnotation, "disabled")), err: "spec.inspectionMode: Invalid value: \"agent\": contradicts the annotation"},
		"new inspection, mode agent":     {edits: do(mode(v1alpha1.InspectionModeAgent), annotation(v1alpha1.InspectAnnotation, ""))},
		"inspect annotation":             {edits: do(annotation(v1alpha1.InspectAnnotation, "yes")), err: "metadata.annotations[inspect.metal3.io]: Invalid value: \"yes\""},
		"reboot":                         {edits: do(annotation(v1alpha1.RebootAnnotation, ""))},
		"reboot with arguments":          {edits: do(annotation("reboot.metal3.io/fence", `{"mode":"hard","force":true}`))},
		"reboot in an unknown mode":      {edits: do(annotation("reboot.metal3.io/fence", `{"mode":"warm"}`)), err: "metadata.annotations[reboot.metal3.io/fence]: Invalid value: \"{\\\"mode\\\":\\\"warm\\\"}\": mode is not one of"},
		"reboot that is no JSON":         {edits: do(annotation(v1alpha1.RebootAnnotation, "now")), err: "is neither empty nor of the form"},
		"annotation of somebody else":    {edits: do(annotation("reboot.metal3.iox", "now"))},
		"status":                         {edits: do(annotation(v1alpha1.StatusAnnotation, `{"operationalStatus":"servicing","errorType":"detach error"}`))},
		"status with servicing error":    {edits: do(annotation(v1alpha1.StatusAnnotation, `{"errorType":"servicing error"}`))},
		"empty status":                   {edits: do(annotation(v1alpha1.StatusAnnotation, ""))},
		"status with an unknown field":   {edits: do(annotation(v1alpha1.StatusAnnotation, `{"mood":"good"}`)), warning: `metadata.annotations[baremetalhost.metal3.io/status]: unknown field "mood"`},
		"unknown operational status":     {edits: do(annotation(v1alpha1.StatusAnnotation, `{"operationalStatus":"on fire"}`)), err: `operationalStatus "on fire" is not one of "OK", "discovered"`},
		"unknown error type":             {edits: do(annotation(v1alpha1.StatusAnnotation, `{"errorType":"odd"}`)), err: `errorType "odd" is not one of`},
		"error type with a password":     {edits: do(annotation(v1alpha1.StatusAnnotation, `{"errorType":"http://a:hunter2@example.org"}`)), err: `errorType "http://******@example.org" is not one of`},
		"status that is no JSON":         {edits: do(annotation(v1alpha1.StatusAnnotation, `{`)), err: "is not the status of a host in JSON"},
		"details, not inspected":         {edits: do(mode(v1alpha1.InspectionModeDisabled), annotation(v1alpha1.HardwareDetailsAnnotation, `{"hostname":"a"}`))},
		"details, inspected":             {edits: do(annotation(v1alpha1.HardwareDetailsAnnotation, `{"hostname":"a"}`)), err: "metadata.annotations[inspect.metal3.io/hardwaredetails]: Forbidden: an inspection would replace"},
		"details with an unknown field":  {edits: do(mode(v1alpha1.InspectionModeDisabled), annotation(v1alpha1.HardwareDetailsAnnotation, `{"mood":"good"}`)), err: `unknown field "mood"`},
		"empty details":                  {edits: do(annotation(v1alpha1.HardwareDetailsAnnotation, ""))},
		"interfaces":                     {edits: do(nics(v1alpha1.NetworkInterface{Name: "eno1"}, v1alpha1.NetworkInterface{MACAddress: "00:00:5e:00:53:0a"}))},
		"interface without a selector":   {edits: do(nics(v1alpha1.NetworkInterface{})), err: "spec.networkInterfaces[0].name: Required value"},
		"interface with two selectors":   {edits: do(nics(v1alpha1.NetworkInterface{Name: "a", MACAddress: "00:00:5e:00:53:0a"})), err: "spec.networkInterfaces[0].macAddress: Forbidden"},
		"interface twice by name":        {edits: do(nics(v1alpha1.NetworkInterface{Name: "a"}, v1alpha1.NetworkInterface{Name: "a"})), err: `spec.networkInterfaces[1].name: Duplicate value: "a"`},
		"interface twice by MAC":         {edits: do(nics(v1alpha1.NetworkInterface{MACAddress: "00:00:5e:00:53:0a"}, v1alpha1.NetworkInterface{MACAddress: "00:00:5E:00:53:0A"})), err: "spec.networkInterfaces[1].macAddress: Duplicate value"},
	}
}

func bothRAID(s *v1alpha1.BareMetalHostSpec) {
	s.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}, SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
}

func oneRAID(s *v1alpha1.BareMetalHostSpec) {
	s.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}, SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
}

func otherRAID(s *v1alpha1.BareMetalHostSpec) {
	s.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}, SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{}}
}

// check compares findings with what a row says.
func (r row) check(t *testing.T, f webhook.Findings) {
	t.Helper()
	var errs []string
	for _, err := range f.Errors {
		errs = append(errs, err.Error())
	}
	for kind, found := range map[string]struct {
		texts []string
		want  string
	}{"error": {errs, r.err}, "warning": {f.Warnings, r.warning}} {
		switch {
		case found.want == "" && len(found.texts) > 0:
			t.Errorf("unexpected %ss %q", kind, found.texts)
		case found.want != "" && (len(found.texts) != 1 || !strings.Contains(found.texts[0], found.want)):
			t.Errorf("%ss = %q, want one with %q", kind, found.texts, found.want)
		}
		if slices.ContainsFunc(found.texts, func(s string) bool { return strings.Contains(s, "calvin") || strings.Contains(s, "hunter2") }) {
			t.Errorf("%s repeats a password: %q", kind, found.texts)
		}
	}
}

func TestEveryRuleForHostsAcceptsAndRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range hostRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.check(t, webhook.Checks{}.Host(nil, newHost(r.edits...)))
		})
	}
}

// TestWhatWasWrongBeforeStopsNoOtherChange is about hosts that were stored before a rule existed:
// the operator writes finalizers and annotations into them.
func TestWhatWasWrongBeforeStopsNoOtherChange(t *testing.T) {
	t.Parallel()
	for name, r := range hostRows() {
		if r.err == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := newHost(r.edits...)
			changed := old.DeepCopy()
			changed.Finalizers = append(changed.Finalizers, v1alpha1.HostFinalizer)
			row{warning: r.err}.check(t, webhook.Checks{}.Host(old, changed))
			row{err: r.err}.check(t, webhook.Checks{}.Host(newHost(mac(""), address("")), old))
		})
	}
}

func TestHostThatIsBeingDeletedMayBeAnything(t *testing.T) {
	t.Parallel()
	for name, r := range hostRows() {
		old := newHost(r.edits...)
		old.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		changed := old.DeepCopy()
		changed.Finalizers = nil
		if f := (webhook.Checks{}).Host(old, changed); len(f.Errors) > 0 || len(f.Warnings) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestChangesOfHostsFollowTheirState(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.ProvisioningState{
		v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering, v1alpha1.StateMatchProfile,
		v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateReady, v1alpha1.StateAvailable, v1alpha1.StateProvisioning,
		v1alpha1.StateProvisioned, v1alpha1.StateExternallyProvisioned, v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete, v1alpha1.StateDeleting,
	}
	external := withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.ExternallyProvisioned = true })
	detached := func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached }
	worked := func(h *v1alpha1.BareMetalHost) {
		h.Status.GoodCredentials.Reference = &corev1.SecretReference{Name: "web-bmc"}
	}
	for name, tc := range map[string]struct {
		before, after []edit
		allowed       []v1alpha1.ProvisioningState
		err           string
	}{
		"address that never worked": {after: []edit{address("redfish://192.0.2.8")}, allowed: all},
		"another address":           {before: []edit{worked}, after: []edit{worked, address("redfish://192.0.2.8")}, allowed: []v1alpha1.ProvisioningState{v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateRegistering}, err: "spec.bmc.address: Forbidden"},
		"no address":                {before: []edit{worked}, after: []edit{worked, address("")}, allowed: []v1alpha1.ProvisioningState{v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateRegistering}, err: "spec.bmc.address: Forbidden"},
		"first address":             {before: []edit{address("")}, after: []edit{address("redfish://192.0.2.8")}, allowed: all},
		"other credentials":         {after: []edit{withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.BMC.CredentialsName = "other" })}, allowed: all},
		"address while detached":    {before: []edit{detached}, after: []edit{detached, address("redfish://192.0.2.8")}, allowed: all},
		"another MAC":               {after: []edit{mac("00:00:5e:00:53:0b")}, err: "spec.bootMACAddress: Forbidden: the address cannot change from 00:00:5e:00:53:0a"},
		"no MAC":                    {after: []edit{mac("")}, err: "spec.bootMACAddress: Forbidden"},
		"MAC in another case":       {after: []edit{mac("00:00:5E:00:53:0A")}, allowed: all},
		"first MAC":                 {before: []edit{mac("")}, allowed: all},
		"declared external":         {after: []edit{external}, allowed: []v1alpha1.ProvisioningState{v1alpha1.StateAvailable, v1alpha1.StateReady}, err: "spec.externallyProvisioned: Forbidden"},
		"still external":            {before: []edit{external}, after: []edit{external}, allowed: all},
		"no longer external":        {before: []edit{external}, allowed: all},
		"taken off":                 {after: []edit{power(false, false)}, allowed: all},
	} {
		for _, state := range all {
			want := row{err: tc.err}
			if slices.Contains(tc.allowed, state) {
				want.err = ""
			}
			t.Run(name+" in "+string(state), func(t *testing.T) {
				t.Parallel()
				old := newHost(append([]edit{inState(state)}, tc.before...)...)
				want.check(t, webhook.Checks{}.Host(old, newHost(append([]edit{inState(state)}, tc.after...)...)))
			})
		}
	}
}

func TestChangesWithoutEffectAreWarnedAbout(t *testing.T) {
	t.Parallel()
	deployed := []edit{inState(v1alpha1.StateProvisioned), image("https://example.org/a", "0123"), userData("")}
	for name, tc := range map[string]struct {
		edits   []edit
		warning string
	}{
		"other checksum":   {[]edit{image("https://example.org/a", "4567")}, "spec.image.checksum: has no effect"},
		"other format":     {[]edit{image("https://example.org/a", "0123", format("raw"))}, "spec.image.format: has no effect"},
		"other user data":  {[]edit{userData("racks")}, "spec.userData: has no effect"},
		"no user data":     {[]edit{withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.UserData = nil })}, "spec.userData: has no effect"},
		"other network":    {[]edit{withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.NetworkData = &corev1.SecretReference{Name: "n"} })}, "spec.networkData: has no effect"},
		"another image":    {[]edit{image("https://example.org/b", "4567"), userData("racks")}, ""},
		"image removed":    {[]edit{withSpec(func(s *v1alpha1.BareMetalHostSpec) { s.Image, s.UserData = nil, nil })}, ""},
		"while available":  {[]edit{inState(v1alpha1.StateAvailable), image("https://example.org/a", "4567")}, ""},
		"something else":   {[]edit{power(false, false)}, ""},
		"nothing":          {nil, ""},
		"while it deploys": {[]edit{inState(v1alpha1.StateProvisioning), userData("racks")}, "spec.userData: has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row{warning: tc.warning}.check(t, webhook.Checks{}.Host(newHost(deployed...), newHost(append(slices.Clone(deployed), tc.edits...)...)))
		})
	}
}

func TestImagesOfTheEnginesMachineAreAcceptedWhereThatIsMeant(t *testing.T) {
	t.Parallel()
	h := newHost(image("http://127.0.0.1:8080/disk", "http://localhost:8080/sums"))
	row{}.check(t, webhook.Checks{LocalImages: true}.Host(nil, h))
}
