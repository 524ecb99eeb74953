package duplicate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
)

func host(namespace, name, mac, address string, change ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.BootMACAddress, h.Spec.BMC.Address = mac, address
	for _, c := range change {
		c(h)
	}
	return h
}

func withNICs(macs ...string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Status.HardwareDetails = &v1alpha1.HardwareDetails{}
		for _, mac := range macs {
			h.Status.HardwareDetails.NICs = append(h.Status.HardwareDetails.NICs, v1alpha1.NIC{MAC: mac})
		}
	}
}

func withBMCs(addresses ...string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Status.HardwareDetails = &v1alpha1.HardwareDetails{BMCAddresses: addresses}
	}
}

func deleted(h *v1alpha1.BareMetalHost) {
	h.DeletionTimestamp, h.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{v1alpha1.HostFinalizer}
}

func annotated(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.AllowDuplicateAnnotation: ""}
}

// builder indexes a fake client as the operator indexes its cache.
type builder struct{ *fake.ClientBuilder }

func (b builder) IndexField(_ context.Context, obj client.Object, name string, values client.IndexerFunc) error {
	b.WithIndex(obj, name, values)
	return nil
}

func readerOf(t *testing.T, hosts ...*v1alpha1.BareMetalHost) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := builder{fake.NewClientBuilder().WithScheme(scheme)}
	if err := duplicate.IndexFields(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		b.WithObjects(h.DeepCopy())
	}
	return b.Build()
}

func TestHostsWithTheSameMachineAreFound(t *testing.T) {
	t.Parallel()
	const mac, nic = "00:00:5e:00:53:0a", "00:00:5e:00:53:0b"
	existing := []*v1alpha1.BareMetalHost{
		host("racks", "by-mac", mac, ""),
		host("racks", "by-system", "", "redfish://192.0.2.7/redfish/v1/Systems/1"),
		host("other", "by-port", "", "ipmi://bmc.example.org:6230"),
		host("other", "with-nics", "00:00:5e:00:53:0c", "", withNICs("00:00:5E:00:53:0C", nic, nic)),
		host("other", "only", "", "redfish+http://192.0.2.9"),
		host("other", "going", "00:00:5e:00:53:0d", "", deleted),
		host("other", "unreadable", "", "ilo4://192.0.2.7"),
		host("other", "without", "", ""),
		host("other", "discovered", "", "", withBMCs("192.0.2.30", "2001:db8::c9")),
		host("other", "managed", "", "redfish://192.0.2.32/redfish/v1/Systems/1", withBMCs("192.0.2.31")),
	}
	for name, tc := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want map[string]duplicate.Reason
	}{
		"same MAC":                   {host("new", "h", mac, ""), map[string]duplicate.Reason{"racks/by-mac": duplicate.SameMAC}},
		"same MAC in upper case":     {host("new", "h", strings.ToUpper(mac), ""), map[string]duplicate.Reason{"racks/by-mac": duplicate.SameMAC}},
		"another MAC":                {host("new", "h", "00:00:5e:00:53:ff", ""), nil},
		"same system":                {host("new", "h", "", "ilo5-virtualmedia+https://192.0.2.7:443/redfish/v1/Systems/1/"), map[string]duplicate.Reason{"racks/by-system": duplicate.SameBMC}},
		"another system":             {host("new", "h", "", "redfish://192.0.2.7/redfish/v1/Systems/2"), nil},
		"no system":                  {host("new", "h", "", "redfish://192.0.2.7"), map[string]duplicate.Reason{"racks/by-system": duplicate.SharedBMC}},
		"a system, other has none":   {host("new", "h", "", "redfish+http://192.0.2.9:80/redfish/v1/Systems/1"), map[string]duplicate.Reason{"other/only": duplicate.SharedBMC}},
		"another protocol":           {host("new", "h", "", "ipmi://192.0.2.7:443"), nil},
		"same port of a host name":   {host("new", "h", "", "BMC.example.org:6230"), map[string]duplicate.Reason{"other/by-port": duplicate.SameBMC}},
		"another port":               {host("new", "h", "", "bmc.example.org:6231"), nil},
		"MAC of another NIC":         {host("new", "h", strings.ToUpper(nic), ""), map[string]duplicate.Reason{"other/with-nics": duplicate.OtherNIC}},
		"host that is being deleted": {host("new", "h", "00:00:5e:00:53:0d", ""), map[string]duplicate.Reason{"other/going": duplicate.SameMAC}},
		"the host itself":            {host("racks", "by-mac", mac, ""), nil},
		"same name elsewhere":        {host("new", "by-mac", mac, ""), map[string]duplicate.Reason{"racks/by-mac": duplicate.SameMAC}},
		"allowed":                    {host("new", "h", mac, "redfish://192.0.2.7/redfish/v1/Systems/1", annotated), nil},
		"discovered BMC":             {host("new", "h", "", "redfish://192.0.2.30:8443/redfish/v1/Systems/1"), map[string]duplicate.Reason{"other/discovered": duplicate.DiscoveredBMC}},
		"discovered BMC, IPv6":       {host("new", "h", "", "ipmi://[2001:DB8:0:0::C9]"), map[string]duplicate.Reason{"other/discovered": duplicate.DiscoveredBMC}},
		"discovered, has another":    {host("new", "h", "", "redfish://192.0.2.31/redfish/v1/Systems/1"), nil},
		"nothing to compare":         {host("new", "h", "", ""), nil},
		"unreadable address":         {host("new", "h", "", "ilo4://192.0.2.7"), nil},
		"both":                       {host("new", "h", mac, "bmc.example.org:6230"), map[string]duplicate.Reason{"racks/by-mac": duplicate.SameMAC, "other/by-port": duplicate.SameBMC}},
	} {
		reader := readerOf(t, existing...)
		matches, err := duplicate.Finder{Cache: reader, Live: reader}.Find(t.Context(), tc.host)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got map[string]duplicate.Reason
		for _, m := range matches {
			if got == nil {
				got = map[string]duplicate.Reason{}
			}
			key := m.Host.Namespace + "/" + m.Host.Name
			got[key] = m.Reason
			if !strings.Contains(m.String(), key) {
				t.Errorf("%s: %q does not name the other host", name, m)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHostThatIsGoneOrChangedIsNoDuplicate(t *testing.T) {
	t.Parallel()
	const mac = "00:00:5e:00:53:0a"
	cache := readerOf(t, host("racks", "gone", mac, ""), host("racks", "changed", "", "192.0.2.7"))
	live := readerOf(t, host("racks", "changed", "", "192.0.2.8"))
	matches, err := duplicate.Finder{Cache: cache, Live: live}.Find(t.Context(), host("new", "h", mac, "192.0.2.7"))
	if err != nil || len(matches) > 0 {
		t.Errorf("matches = %v, error %v; want none", matches, err)
	}
}

func TestChassisWithManyMachinesIsComparedWithoutReadingEach(t *testing.T) {
	t.Parallel()
	var hosts []*v1alpha1.BareMetalHost
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		hosts = append(hosts, host("racks", name, "", "redfish://192.0.2.7/redfish/v1/Systems/"+name))
	}
	finder := duplicate.Finder{Cache: readerOf(t, hosts...), Live: readerOf(t)} // nothing is found when it is read again
	matches, err := finder.Find(t.Context(), host("new", "h", "", "redfish://192.0.2.7/redfish/v1/Systems/x"))
	if err != nil || len(matches) > 0 {
		t.Errorf("matches = %v, error %v; want none", matches, err)
	}
	matches, err = finder.Find(t.Context(), host("new", "h", "", "redfish://192.0.2.7"))
	if err != nil || len(matches) != 4 {
		t.Errorf("%d matches, error %v; want 4", len(matches), err)
	}
}
