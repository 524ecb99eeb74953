package machine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestMachineHasTheHostThatNamesItAndAnyOtherOnlyBeforeItRan(t *testing.T) {
	own, others := consumedBy("Metal3Machine", "m-1"), consumedBy("Metal3Machine", "m-2")
	for name, tt := range map[string]struct {
		host        *v1alpha1.BareMetalHost
		before, ran claimStep
	}{
		"its own":                          {newHost("h", own), stepHold, stepHold},
		"its own, paused":                  {newHost("h", own, annotated(v1alpha1.PausedAnnotation)), stepHold, stepHold},
		"its own, with an UID":             {newHost("h", own, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.UID = "uid-of-m-1" }), stepHold, stepHold},
		"of an earlier machine":            {newHost("h", own, claimedAs("earlier", "uid-of-h")), stepRetry, stepBeLost},
		"of an earlier machine, unstamped": {newHost("h", own, claimedAs("earlier", "")), stepRetry, stepBeLost},
		"its own, from elsewhere":          {newHost("h", own, claimedAs("elsewhere", "host-elsewhere")), stepHold, stepHold},
		"free":                             {newHost("h"), stepClaim, stepBeLost},
		"free, but paused":                 {newHost("h", annotated(v1alpha1.PausedAnnotation)), stepRetry, stepBeLost},
		"of another":                       {newHost("h", others), stepRetry, stepBeLost},
		"gone":                             {nil, stepRetry, stepBeLost},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine("m-1")
			if got := decideClaim(wants(m), tt.host); got != tt.before {
				t.Errorf("step %d before it ran, want %d", got, tt.before)
			}
			m.Spec.ProviderID = "metal3://metal/h/m-1"
			if got := decideClaim(wants(m), tt.host); got != tt.ran {
				t.Errorf("step %d after it ran, want %d", got, tt.ran)
			}
		})
	}
}

// claimedAs gives the reference to the consumer a UID, and says for which host object it was written.
func claimedAs(consumer, host types.UID) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef.UID = consumer
		if host != "" {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1beta2.ConsumerHostUIDAnnotation, string(host))
		}
	}
}

func TestGateNamesWhatIsMissingFirst(t *testing.T) {
	machine, cluster, infrastructure := newOwners("m-1")
	ready := *cluster
	ready.Status.Initialization.InfrastructureProvisioned = new(false)
	bare := *machine
	bare.Spec.Bootstrap.DataSecretName = nil
	deleted := *machine
	deleted.DeletionTimestamp = &metav1.Time{Time: began}
	for name, tt := range map[string]struct {
		machine        *clusterv1.Machine
		cluster        *clusterv1.Cluster
		infrastructure *v1beta2.Metal3Cluster
		want           string
	}{
		"no Machine":               {nil, nil, nil, v1beta2.WaitingForMetal3MachineOwnerRefReason},
		"Machine being deleted":    {&deleted, cluster, infrastructure, v1beta2.DeletingReason},
		"no Cluster":               {machine, nil, nil, v1beta2.WaitingForClusterInfrastructureReadyReason},
		"no Metal3Cluster":         {machine, cluster, nil, v1beta2.WaitingForMetal3ClusterReason},
		"Metal3Cluster not ready":  {machine, &ready, infrastructure, v1beta2.WaitingForClusterInfrastructureReadyReason},
		"Machine has no bootstrap": {&bare, cluster, infrastructure, v1beta2.WaitingForBootstrapDataReason},
		"all there":                {machine, cluster, infrastructure, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := gate(tt.machine, tt.cluster, tt.infrastructure)
			if got.reason != tt.want || (got.message == "") != (tt.want == "") {
				t.Errorf("reason %+v, want %q with a message", got, tt.want)
			}
		})
	}
}

func TestHostIsDeployedAsTheMachineSays(t *testing.T) {
	secret := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	h := newHost("h")
	h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeMetadata
	m := newMachine("m-1")
	m.Spec.AutomatedCleaningMode = v1beta2.CleaningModeDisabled
	deploy(h, m, secrets{userData: secret("boot"), metaData: secret("meta")})
	want := newHost("h")
	want.Spec.Image = &v1alpha1.Image{URL: "https://images/os.qcow2", Checksum: "abc", ChecksumType: v1alpha1.ChecksumSHA256, DiskFormat: new("qcow2")}
	want.Spec.UserData, want.Spec.MetaData = secret("boot"), secret("meta")
	want.Spec.Online, want.Spec.AutomatedCleaningMode = true, v1alpha1.CleaningModeDisabled
	if diff := cmp.Diff(want.Spec, h.Spec); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	m.Spec.Image, m.Spec.CustomDeploy.Method, m.Spec.AutomatedCleaningMode = v1beta2.Image{}, "flash", ""
	custom := newHost("h")
	deploy(custom, m, secrets{})
	if custom.Spec.Image != nil || custom.Spec.CustomDeploy == nil || custom.Spec.CustomDeploy.Method != "flash" || custom.Spec.AutomatedCleaningMode != v1alpha1.CleaningModeMetadata {
		t.Errorf("host has %+v, want a custom deployment alone and its own cleaning mode", custom.Spec)
	}
}

func TestSecretsOfTheSpecComeBeforeThoseThatAreMade(t *testing.T) {
	machine, _, _ := newOwners("m-1")
	m := newMachine("m-1")
	rendered := secrets{metaData: &corev1.SecretReference{Namespace: namespace, Name: "rendered"}}
	s := secretsOf(m, machine, rendered)
	if s.userData.Name != "m-1-bootstrap" || s.userData.Namespace != namespace || s.metaData.Name != "rendered" || s.networkData != nil {
		t.Errorf("Secrets %+v, want bootstrap and rendered data", s)
	}
	m.Spec.UserData, m.Spec.MetaData = &corev1.SecretReference{Name: "own"}, &corev1.SecretReference{Name: "own-meta"}
	s = secretsOf(m, machine, rendered)
	if s.userData.Name != "own" || s.userData.Namespace != namespace || s.metaData.Name != "own-meta" {
		t.Errorf("Secrets %+v, want those of the spec, in its namespace", s)
	}
}

func TestAddressesAreThoseOfNICsAndTheName(t *testing.T) {
	got := addressesOf(&v1alpha1.HardwareDetails{Hostname: "node-1", NICs: []v1alpha1.NIC{{IP: "192.0.2.7"}, {IP: "2001:db8::7"}, {IP: "192.0.2.7"}, {}}})
	want := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "192.0.2.7"},
		{Type: clusterv1.MachineInternalIP, Address: "2001:db8::7"},
		{Type: clusterv1.MachineHostName, Address: "node-1"},
		{Type: clusterv1.MachineInternalDNS, Address: "node-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	var many v1alpha1.HardwareDetails
	for i := range 50 {
		many.NICs = append(many.NICs, v1alpha1.NIC{IP: fmt.Sprintf("192.0.2.%d", i)})
	}
	if n := len(addressesOf(&many)); n != maxAddresses {
		t.Errorf("%d addresses, want no more than fit", n)
	}
	many.Hostname = "node-1"
	if all := addressesOf(&many); len(all) != maxAddresses || all[maxAddresses-1].Type != clusterv1.MachineInternalDNS {
		t.Errorf("%d addresses, want no more than fit, with the name", len(all))
	}
	if addressesOf(nil) != nil {
		t.Error("unknown hardware has addresses")
	}
}

// releasePowers says whether a host is on after its release.
var releasePowers = []struct {
	fastTrack  bool
	mode       v1alpha1.AutomatedCleaningMode
	disableOff bool
	want       bool
}{
	{false, v1alpha1.CleaningModeMetadata, true, true},
	{false, v1alpha1.CleaningModeDisabled, true, true},
	{true, v1alpha1.CleaningModeDisabled, true, true},
	{true, v1alpha1.CleaningModeMetadata, true, true},
	{true, v1alpha1.CleaningModeMetadata, false, true},
	{true, "", false, true},
	{true, v1alpha1.CleaningModeDisabled, false, false},
	{false, v1alpha1.CleaningModeMetadata, false, false},
	{false, v1alpha1.CleaningModeDisabled, false, false},
	{false, "", false, false},
}

func TestPowerAfterReleaseFollowsTheTable(t *testing.T) {
	for _, tt := range releasePowers {
		h := newHost("h")
		h.Spec.AutomatedCleaningMode, h.Spec.DisablePowerOff = tt.mode, tt.disableOff
		if got := onlineAfterRelease(h, tt.fastTrack); got != tt.want {
			t.Errorf("%+v: online %v", tt, got)
		}
	}
}

func TestHostThatIsProvisionedByOthersIsPoweredOffWithFastTrack(t *testing.T) {
	m := newMachine("m-1")
	h := newHost("h", consumedBy("Metal3Machine", "m-1"), inState(v1alpha1.StateExternallyProvisioned), online, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ExternallyProvisioned, h.Status.PoweredOn = true, true
	})
	giveBack(h, m, secrets{}, "", true)
	if step := decideRelease(m, h, h); h.Spec.Online || step != stepWait {
		t.Errorf("online %v, step %d, want it off and awaited", h.Spec.Online, step)
	}
}

func TestOnlySecretsThatTheMachineSetAreTakenBack(t *testing.T) {
	secret := func(name string) *corev1.SecretReference { return &corev1.SecretReference{Name: name} }
	m := newMachine("m-1")
	m.Status.MetaData = secret("rendered")
	h := newHost("h", consumedBy("Metal3Machine", "m-1"))
	h.Spec.Image, h.Spec.Online = &v1alpha1.Image{URL: "x"}, true
	h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secret("boot"), secret("rendered"), secret("of the host")
	giveBack(h, m, secrets{userData: &corev1.SecretReference{Namespace: namespace, Name: "boot"}}, "", false)
	if h.Spec.UserData != nil || h.Spec.MetaData != nil || h.Spec.Image != nil || h.Spec.Online {
		t.Errorf("host keeps %+v", h.Spec)
	}
	if h.Spec.NetworkData == nil {
		t.Error("the host lost network data that the machine had not set")
	}
}

func TestHostOfADeletedMachineGoesStepByStep(t *testing.T) {
	own := consumedBy("Metal3Machine", "m-1")
	with := func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: "x"} }
	external := func(on, online bool) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Spec.ExternallyProvisioned, h.Status.Provisioning.State = true, v1alpha1.StateExternallyProvisioned
			h.Status.PoweredOn, h.Spec.Online = on, online
		}
	}
	noOff := func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff, h.Spec.Online = true, true }
	for name, tt := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want releaseStep
	}{
		"gone":                                {nil, stepEnd},
		"of nobody":                           {newHost("h"), stepEnd},
		"of another machine":                  {newHost("h", consumedBy("Metal3Machine", "m-2"), inState(v1alpha1.StateProvisioned)), stepEnd},
		"with an image":                       {newHost("h", own, with, inState(v1alpha1.StateProvisioned)), stepReturn},
		"never deployed":                      {newHost("h", own), stepFree},
		"being deployed":                      {newHost("h", own, inState(v1alpha1.StateProvisioning)), stepWait},
		"deployed":                            {newHost("h", own, inState(v1alpha1.StateProvisioned)), stepWait},
		"deprovisioning":                      {newHost("h", own, inState(v1alpha1.StateDeprovisioning)), stepWait},
		"preparing":                           {newHost("h", own, inState(v1alpha1.StatePreparing)), stepWait},
		"powering off before it is deleted":   {newHost("h", own, inState(v1alpha1.StatePoweringOffBeforeDelete)), stepWait},
		"being deleted":                       {newHost("h", own, inState(v1alpha1.StateDeleting)), stepWait},
		"available":                           {newHost("h", own, inState(v1alpha1.StateAvailable)), stepFree},
		"never reconciled":                    {newHost("h", own, inState(v1alpha1.StateNone)), stepWait},
		"reserved and never reconciled":       {newHost("h", reservedFor(owner, began), inState(v1alpha1.StateNone)), stepWait},
		"inspecting":                          {newHost("h", own, inState(v1alpha1.StateInspecting)), stepFree},
		"unmanaged":                           {newHost("h", own, inState(v1alpha1.StateUnmanaged)), stepFree},
		"external and to be off":              {newHost("h", own, external(true, true)), stepReturn},
		"external and on":                     {newHost("h", own, external(true, false)), stepWait},
		"external and off":                    {newHost("h", own, external(false, false)), stepFree},
		"external and never off":              {newHost("h", own, external(true, true), noOff), stepFree},
		"external, with no BMC":               {newHost("h", own, external(true, false), func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }), stepFree},
		"external and detached":               {newHost("h", own, external(true, false), annotated(v1alpha1.DetachedAnnotation)), stepFree},
		"reserved and deprovisioning":         {newHost("h", reservedFor(owner, began), inState(v1alpha1.StateDeprovisioning)), stepWait},
		"reserved and available":              {newHost("h", reservedFor(owner, began)), stepEnd},
		"freed and deprovisioning":            {newHost("h", inState(v1alpha1.StateDeprovisioning)), stepWait},
		"freed, and still deployed":           {newHost("h", inState(v1alpha1.StateProvisioned)), stepWait},
		"freed, and deployed by a person":     {newHost("h", with, inState(v1alpha1.StateProvisioned)), stepEnd},
		"taken by another, being deployed":    {newHost("h", consumedBy("Metal3Machine", "m-2"), with, inState(v1alpha1.StateProvisioning)), stepEnd},
		"taken by another, not deployed":      {newHost("h", consumedBy("Metal3Machine", "m-2"), inState(v1alpha1.StatePreparing)), stepEnd},
		"paused by this controller":           {newHost("h", own, inState(v1alpha1.StateDeprovisioning), pausedAs(v1alpha1.PausedByClusterAPI)), stepReturn},
		"paused by somebody else":             {newHost("h", own, inState(v1alpha1.StateProvisioned), pausedAs("me")), stepWait},
		"left with the power that it had not": {newHost("h", own, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = true }), stepReturn},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine("m-1")
			var returned *v1alpha1.BareMetalHost
			if tt.host != nil {
				returned = tt.host.DeepCopy()
				giveBack(returned, m, secrets{}, "", false)
			}
			if got := decideRelease(m, tt.host, returned); got != tt.want {
				t.Errorf("step %d, want %d", got, tt.want)
			}
		})
	}
}

// TestHostIsWaitedForInEachStateWhateverBecomesOfItsPower combines the states of a host with
// releasePowers.
func TestHostIsWaitedForInEachStateWhateverBecomesOfItsPower(t *testing.T) {
	own := consumedBy("Metal3Machine", "m-1")
	for state, want := range map[v1alpha1.ProvisioningState]struct{ unused, ran releaseStep }{
		v1alpha1.StateNone:                    {stepWait, stepWait},
		v1alpha1.StateUnmanaged:               {stepFree, stepFree},
		v1alpha1.StateRegistering:             {stepFree, stepWait},
		v1alpha1.StateImporting:               {stepFree, stepWait},
		v1alpha1.StateMatchProfile:            {stepFree, stepWait},
		v1alpha1.StateInspecting:              {stepFree, stepWait},
		v1alpha1.StatePreparing:               {stepWait, stepWait},
		v1alpha1.StateReady:                   {stepFree, stepFree},
		v1alpha1.StateAvailable:               {stepFree, stepFree},
		v1alpha1.StateProvisioning:            {stepWait, stepWait},
		v1alpha1.StateProvisioned:             {stepWait, stepWait},
		v1alpha1.StateExternallyProvisioned:   {stepFree, stepFree}, // it is off
		v1alpha1.StateDeprovisioning:          {stepWait, stepWait},
		v1alpha1.StatePoweringOffBeforeDelete: {stepWait, stepWait},
		v1alpha1.StateDeleting:                {stepWait, stepWait},
	} {
		for _, ran := range []bool{false, true} {
			for _, power := range releasePowers {
				t.Run(fmt.Sprintf("%s, ran %v, %+v", state, ran, power), func(t *testing.T) {
					m, step := newMachine("m-1"), want.unused
					if ran {
						m.Spec.ProviderID, step = "metal3://metal/h/m-1", want.ran
					}
					h := newHost("h", own, inState(state), online, func(h *v1alpha1.BareMetalHost) {
						h.Spec.Image = &v1alpha1.Image{URL: "x"}
						h.Spec.AutomatedCleaningMode, h.Spec.DisablePowerOff = power.mode, power.disableOff
					})
					returned := h.DeepCopy()
					giveBack(returned, m, secrets{}, "", power.fastTrack)
					if got := decideRelease(m, h, returned); got != stepReturn {
						t.Errorf("step %d for a deployed host, want %d", got, stepReturn)
					}
					again := returned.DeepCopy()
					giveBack(again, m, secrets{}, "", power.fastTrack)
					if got := decideRelease(m, returned, again); got != step || returned.Spec.Online != power.want {
						t.Errorf("step %d, online %v, want step %d, online %v", got, returned.Spec.Online, step, power.want)
					}
				})
			}
		}
	}
}

func pausedAs(value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PausedAnnotation, value)
	}
}

func TestHostRunsOnlyWhenItIsProvisionedAndOnline(t *testing.T) {
	for name, tt := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want bool
	}{
		"provisioned":            {newHost("h", inState(v1alpha1.StateProvisioned), online), true},
		"externally provisioned": {newHost("h", inState(v1alpha1.StateExternallyProvisioned), online), true},
		"to be off":              {newHost("h", inState(v1alpha1.StateProvisioned)), false},
		"provisioning":           {newHost("h", inState(v1alpha1.StateProvisioning), online), false},
		"available":              {newHost("h", online), false},
		"with an error afterwards": {newHost("h", inState(v1alpha1.StateProvisioned), online, func(h *v1alpha1.BareMetalHost) {
			h.Status.ErrorMessage = "the power cannot be read"
		}), true},
	} {
		got, why := runs(tt.host)
		if got != tt.want || got == (why != "") {
			t.Errorf("%s: %v (%s), want %v", name, got, why, tt.want)
		}
	}
}

func online(h *v1alpha1.BareMetalHost) { h.Spec.Online = true }

// newOwners are a Machine, its Cluster and the Cluster's infrastructure, ready for machines.
func newOwners(name string) (*clusterv1.Machine, *clusterv1.Cluster, *v1beta2.Metal3Cluster) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-of-machine"}}
	machine.Spec.ClusterName = "edge"
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name}
	machine.Spec.Bootstrap.DataSecretName = new(name + "-bootstrap")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge", UID: "uid-of-cluster"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: "edge"}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge"}}
	return machine, cluster, infrastructure
}
