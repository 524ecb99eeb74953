package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

const testNodeID = "0a6d3c0e-5a52-4b0e-9f0a-5a2f6c4f4b11"

func testFacts(change func(*nameFacts)) nameFacts {
	f := nameFacts{
		NodeID: testNodeID, BootMAC: "52:54:00:aa:bb:cc",
		Hostname: "the-host-name", IP: "192.0.2.7", Serial: "SN-42",
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestBaseName(t *testing.T) {
	type template = discoveryv1.ResourceNameTemplate
	long := strings.Repeat("x", 80)
	for _, tt := range []struct {
		name     string
		template template
		facts    func(*nameFacts)
		want     string
		wantErr  error
	}{
		{
			name:     "prefix, detail and suffix",
			template: template{Prefix: "string-literal1-", Suffix: "-string-literal2", HardwareDetails: discoveryv1.DetailHostname},
			want:     "string-literal1-the-host-name-string-literal2",
		},
		{name: "host name", template: template{HardwareDetails: discoveryv1.DetailHostname}, want: "the-host-name"},
		{
			name: "host name with a domain loses it", template: template{HardwareDetails: discoveryv1.DetailHostname},
			facts: func(f *nameFacts) { f.Hostname = "Rack1.Example.ORG" }, want: "rack1",
		},
		{name: "address", template: template{HardwareDetails: discoveryv1.DetailIP}, want: "192-0-2-7"},
		{
			name: "IPv6 address", template: template{HardwareDetails: discoveryv1.DetailIP},
			facts: func(f *nameFacts) { f.IP = "2001:db8::7" }, want: "2001-db8-7",
		},
		{name: "serial number", template: template{HardwareDetails: discoveryv1.DetailSerialNumber}, want: "sn-42"},
		{name: "boot MAC", template: template{HardwareDetails: discoveryv1.DetailBootMAC}, want: "52-54-00-aa-bb-cc"},
		{
			name:     "provisioning ID with a prefix",
			template: template{Prefix: "n-", HardwareDetails: discoveryv1.DetailProvisioningID}, want: "n-" + testNodeID,
		},
		{
			name:     "provisioning ID alone gets the guard",
			template: template{HardwareDetails: discoveryv1.DetailProvisioningID}, want: "host-" + testNodeID,
		},
		{
			name: "serial number of 32 hexadecimal digits gets the guard", template: template{HardwareDetails: discoveryv1.DetailSerialNumber},
			facts: func(f *nameFacts) { f.Serial = "4C4C4544004D5710804BB7C04F4E4E32" }, want: "host-4c4c4544004d5710804bb7c04f4e4e32",
		},
		{
			name: "illegal characters become single dashes", template: template{HardwareDetails: discoveryv1.DetailSerialNumber},
			facts: func(f *nameFacts) { f.Serial = " __Ä/7 & b__ " }, want: "7-b",
		},
		{
			name: "too long is cut and marked by a hash", template: template{Prefix: "p-", Suffix: "-s", HardwareDetails: discoveryv1.DetailSerialNumber},
			facts: func(f *nameFacts) { f.Serial = "a" + long }, want: "p-a" + strings.Repeat("x", 51) + "-" + hashOf(testNodeID) + "-s",
		},
		{
			name: "cut does not leave two dashes", template: template{HardwareDetails: discoveryv1.DetailSerialNumber},
			facts: func(f *nameFacts) { f.Serial = strings.Repeat("y", 55) + "-" + long }, want: strings.Repeat("y", 55) + "-" + hashOf(testNodeID),
		},
		{
			name: "missing detail falls back to the MAC", template: template{Prefix: "a-", Suffix: "-z", HardwareDetails: discoveryv1.DetailIP},
			facts: func(f *nameFacts) { f.IP = "" }, want: "a-52-54-00-aa-bb-cc-z",
		},
		{
			name: "missing detail without fallback", template: template{HardwareDetails: discoveryv1.DetailIP, Fallback: discoveryv1.FallbackNone},
			facts: func(f *nameFacts) { f.IP = "" }, wantErr: errMissingDetail,
		},
		{
			name: "nothing left after sanitising is missing", template: template{HardwareDetails: discoveryv1.DetailSerialNumber, Fallback: discoveryv1.FallbackNone},
			facts: func(f *nameFacts) { f.Serial = "___" }, wantErr: errMissingDetail,
		},
		{
			name: "illegal prefix", template: template{Prefix: "a..", HardwareDetails: discoveryv1.DetailHostname}, wantErr: errNameInvalid,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := baseName(tt.template, testFacts(tt.facts))
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("error = %v, want %v", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if len(got) > validation.LabelValueMaxLength {
				t.Errorf("%d characters, want at most %d", len(got), validation.LabelValueMaxLength)
			}
		})
	}
}

func TestPlaceholdersCountAsMissing(t *testing.T) {
	hostname := discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailHostname, Fallback: discoveryv1.FallbackNone}
	serial := discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailSerialNumber, Fallback: discoveryv1.FallbackNone}
	for _, text := range []string{
		"", "localhost", "LOCALHOST.localdomain", "To Be Filled By O.E.M.", "Default string", "0123456789",
		"0000000000", "00-00-00", "None", " none ", "Not Specified", "localhost.example.org",
	} {
		facts := testFacts(func(f *nameFacts) { f.Hostname, f.Serial = text, text })
		if got, err := baseName(hostname, facts); !errors.Is(err, errMissingDetail) {
			t.Errorf("host name %q: got %q, %v; want a missing detail", text, got, err)
		}
		if text == "localhost.example.org" {
			continue
		}
		if got, err := baseName(serial, facts); !errors.Is(err, errMissingDetail) {
			t.Errorf("serial number %q: got %q, %v; want a missing detail", text, got, err)
		}
	}
}

func TestSerialNumberOfOneCharacterRepeatedCountsAsMissing(t *testing.T) {
	serial := discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailSerialNumber, Fallback: discoveryv1.FallbackNone}
	for _, text := range []string{"XXXXXXXXXX", " FFFF ", "........"} {
		if got, err := baseName(serial, testFacts(func(f *nameFacts) { f.Serial = text })); !errors.Is(err, errMissingDetail) {
			t.Errorf("serial number %q: got %q, %v; want a missing detail", text, got, err)
		}
	}
}

func TestCandidateNamesEndInMACAndThenHash(t *testing.T) {
	got := candidateNames("web", testFacts(nil))
	want := []string{"web", "web-aabbcc", "web-" + hashOf(testNodeID)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names differ (-want +got):\n%s", diff)
	}
	for _, name := range candidateNames(strings.Repeat("z", maxName), testFacts(nil)) {
		if len(name) > maxName {
			t.Errorf("%q has %d characters, want at most %d", name, len(name), maxName)
		}
	}
}

func TestGuardedNamesAreRecognised(t *testing.T) {
	bare := discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailProvisioningID}
	own := discoveryv1.ResourceNameTemplate{Prefix: "host-", HardwareDetails: discoveryv1.DetailProvisioningID}
	if !readsAsUUID(bare, "host-"+testNodeID) {
		t.Error("guard was not recognised")
	}
	if readsAsUUID(own, "host-"+testNodeID) || readsAsUUID(bare, "web") {
		t.Error("a name without guard was taken for one with it")
	}
}

func FuzzBaseName(f *testing.F) {
	f.Add("p-", "-s", "SN 42", "host.example.org")
	f.Add("", "", "4C4C4544004D5710804BB7C04F4E4E32", "\xff\x00")
	f.Fuzz(func(t *testing.T, prefix, suffix, serial, hostname string) {
		facts := nameFacts{NodeID: testNodeID, BootMAC: "52:54:00:aa:bb:cc", Serial: serial, Hostname: hostname}
		for detail := range details {
			template := discoveryv1.ResourceNameTemplate{Prefix: prefix, Suffix: suffix, HardwareDetails: detail}
			name, err := baseName(template, facts)
			if err != nil {
				continue
			}
			for _, candidate := range candidateNames(name, facts) {
				if problems := validation.IsDNS1123Subdomain(candidate); len(problems) > 0 {
					t.Errorf("%q is not a name: %v", candidate, problems)
				}
			}
		}
	})
}
