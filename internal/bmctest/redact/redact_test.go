package redact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// decode reads JSON as the recorder does.
func decode(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func encode(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// redacted returns one document without its secrets.
func redacted(t testing.TB, known Known, text string) map[string]any {
	t.Helper()
	body, _ := Documents([]Document{{Path: "/redfish/v1/Systems/1", Body: decode(t, text)}}, known)[0].Body.(map[string]any)
	return body
}

func TestSecretsAreReplacedAndTheRestStays(t *testing.T) {
	known := Known{User: "inspector", Password: "correct-horse-7", Host: "rack7-bmc.corp.test", Key: []byte("k")}
	for name, test := range map[string]struct {
		document string
		secrets  []string // that must be gone
		stays    []string
	}{
		"serial number":       {`{"SerialNumber":"CZ203507AB","Model":"DL360"}`, []string{"CZ203507AB"}, []string{"DL360"}},
		"short serial number": {`{"SerialNumber":"C1","Id":"C1"}`, []string{`"SerialNumber":"C1"`}, []string{`"Id":"C1"`}},
		"number":              {`{"ExpressServiceCode":12345678901}`, []string{"12345678901"}, nil},
		"service tag":         {`{"SKU":"7XYZ123","Oem":{"Dell":{"NodeId":"7XYZ123"}}}`, []string{"7XYZ123"}, nil},
		"UUID":                {`{"UUID":"4c4c4544-0058-3010-804e-b7c04f4a4a32"}`, []string{"4c4c4544-0058"}, nil},
		"UUID in a path":      {`{"x":{"@odata.id":"/redfish/v1/Systems/4c4c4544-0058-3010-804e-b7c04f4a4a32/Bios"}}`, []string{"4c4c4544-0058"}, []string{"/redfish/v1/Systems/", "/Bios"}},
		"MAC address":         {`{"MACAddress":"B0:7B:25:01:02:03","x":"port b07b25010203 b0-7b-25-01-02-03"}`, []string{"B0:7B:25", "b07b25010203", "b0-7b-25"}, []string{"port "}},
		"WWN":                 {`{"x":"WWN 50:01:43:80:24:D2:11:22"}`, []string{"50:01:43:80"}, []string{"WWN "}},
		"IPv4 address":        {`{"Address":"10.11.12.13","SubnetMask":"255.255.255.0","x":"at 10.11.12.13:80"}`, []string{"10.11.12.13"}, []string{"255.255.255.0", "at ", ":80"}},
		"IPv6 address":        {`{"Address":"fd00:aa::12","x":"::1 fe80::b27b:25ff:fe01:203"}`, []string{"fd00:aa::12", "b27b:25ff"}, []string{"::1", "fe80::"}},
		"version":             {`{"FirmwareVersion":"22.31.13.70","Name":"Installed 22.31.13.70"}`, nil, []string{`"22.31.13.70"`, "Installed 22.31.13.70"}},
		"host name":           {`{"HostName":"rack7","FQDN":"rack7.corp.test","x":"Manager rack7.corp.test"}`, []string{"rack7", "corp"}, []string{"Manager "}},
		"host name without a digit": {
			`{"HostName":"gatekeeper","DNSName":"edge","x":"Manager of Gatekeeper","y":"edge","z":"gatekeepers at the edge"}`,
			[]string{"Gatekeeper", `"edge"`},
			[]string{"Manager of ", "gatekeepers at the edge"},
		},
		"place without a digit": {
			`{"Building":"North Hall","x":"in north hall","@odata.id":"/redfish/v1/Chassis/North%20Hall"}`,
			[]string{"North", "north"},
			[]string{"in ", "/redfish/v1/Chassis/"},
		},
		"asset tag that is a host name": {`{"x":[{"HostName":"gatekeeper"},{"AssetTag":"gatekeeper"},"gatekeepers"]}`, []string{"gatekeeper"}, nil},
		"known host":                    {`{"x":"https of rack7-bmc.corp.test"}`, []string{"rack7-bmc"}, nil},
		"NTP servers":                   {`{"NTPServers":["time.corp.test","10.1.1.1"]}`, []string{"corp", "10.1.1.1"}, nil},
		"password":                      {`{"Password":"hunter2hunter2","MinPasswordLength":8,"PasswordPolicy":"Strict"}`, []string{"hunter2"}, []string{":8", "Strict"}},
		"password of a known":           {`{"Description":"set to correct-horse-7"}`, []string{"correct-horse"}, []string{"set to "}},
		"known user":                    {`{"Owner1":"inspector","x":"inspectors"}`, []string{`"inspector"`}, []string{"inspectors"}},
		"user name":                     {`{"UserName":"administrator","RoleId":"Administrator"}`, []string{`"administrator"`}, []string{`"Administrator"`}},
		"community":                     {`{"CommunityStrings":[{"CommunityString":"monitor-ro"}]}`, []string{"monitor-ro"}, nil},
		"license key":                   {`{"LicenseKey":"AAAA1-BBBB2-CCCC3"}`, []string{"BBBB2"}, nil},
		"certificate":                   {`{"x":"-----BEGIN CERTIFICATE-----\nMIIB"}`, []string{"MIIB"}, nil},
		"URL":                           {`{"Image":"http://images.corp.test/a/secret/boot.iso?sig=1"}`, []string{"corp", "secret", "sig"}, []string{"http://", ".iso"}},
		"schema":                        {`{"x":"http://redfish.dmtf.org/schemas/v1/Bios.json"}`, nil, []string{"http://redfish.dmtf.org/schemas/v1/Bios.json"}},
		"mail":                          {`{"x":"ask jane.doe@corp.test"}`, []string{"jane.doe"}, []string{"ask "}},
		"name of a property":            {`{"Members":{"52:54:00:aa:bb:cc":1}}`, []string{"52:54:00:aa"}, nil},
		"iSCSI name":                    {`{"x":"iqn.2017-07.test.corp:rack7"}`, []string{"corp"}, nil},
		"place":                         {`{"Location":{"PostalAddress":{"Building":"North 3"},"Placement":{"Rack":"R17"}}}`, []string{"North 3", "R17"}, nil},
		"placeholders":                  {`{"SerialNumber":"To be filled by O.E.M.","UUID":"00000000-0000-0000-0000-000000000000","AssetTag":"","MACAddress":"00:00:00:00:00:00"}`, nil, []string{"To be filled by O.E.M.", "00000000-0000-0000-0000-000000000000", "00:00:00:00:00:00"}},
		"annotations":                   {`{"Members@odata.count":2,"@odata.type":"#Bios.v1_1_0.Bios","Token@Redfish.AllowableValues":["A123456789"]}`, nil, []string{"#Bios.v1_1_0.Bios", "A123456789", ":2"}},
		"actions":                       {`{"Actions":{"#AccountService.ChangePassword":{"target":"/redfish/v1/x/Actions/ChangePassword"}}}`, nil, []string{"/redfish/v1/x/Actions/ChangePassword"}},
		"states":                        {`{"SecretState":"Present","HostNameRequired":true}`, nil, []string{"Present", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := encode(t, redacted(t, known, test.document))
			for _, secret := range test.secrets {
				if strings.Contains(got, secret) {
					t.Errorf("%s is in %s", secret, got)
				}
			}
			for _, text := range test.stays {
				if !strings.Contains(got, text) {
					t.Errorf("%s is not in %s", text, got)
				}
			}
		})
	}
}

func TestReplacementsHaveTheFormOfTheSecrets(t *testing.T) {
	got := redacted(t, Known{Key: []byte("k")}, `{"SerialNumber":"CZ20-x7","UUID":"4c4c4544-0058-3010-804e-b7c04f4a4a32","MACAddress":"B0:7B:25:01:02:0A",
		"PermanentMACAddress":"b07b2501020a","ExpressServiceCode":123,"Address":"10.0.0.1"}`)
	serial, _ := got["SerialNumber"].(string)
	if !isLike("CZ20-x7", serial) {
		t.Errorf("serial number %q", serial)
	}
	if uuid, _ := got["UUID"].(string); !uuids.MatchString(uuid) || uuid[14] != '3' || uuid[19] != '8' {
		t.Errorf("UUID %q, want one of the same version and variant", uuid)
	}
	mac, _ := got["MACAddress"].(string)
	bare, _ := got["PermanentMACAddress"].(string)
	if !pairs.MatchString(mac) || mac != strings.ToUpper(mac) || !strings.HasPrefix(mac, "02:") {
		t.Errorf("MAC address %q", mac)
	}
	if separated(lower(mac), "") != bare {
		t.Errorf("the same MAC address is %q and %q", mac, bare)
	}
	if number, err := got["ExpressServiceCode"].(json.Number).Int64(); err != nil || number < 100 || number > 999 {
		t.Errorf("number %v, %v", got["ExpressServiceCode"], err)
	}
	if address, _ := got["Address"].(string); !strings.HasPrefix(address, "198.1") {
		t.Errorf("IP address %q", address)
	}
}

// isLike reports whether two texts have the same kinds of characters.
func isLike(a, b string) bool {
	kinds := func(text string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case r >= '0' && r <= '9':
				return '0'
			case r >= 'a' && r <= 'z':
				return 'a'
			case r >= 'A' && r <= 'Z':
				return 'A'
			}
			return r
		}, text)
	}
	return a != b && kinds(a) == kinds(b)
}

func TestLinksLeadWhereTheyLed(t *testing.T) {
	documents := []Document{
		{Path: "/redfish/v1/Systems", Body: decode(t, `{"Members":[{"@odata.id":"/redfish/v1/Systems/CZ203507AB"},{"@odata.id":"/redfish/v1/Systems/CZ203507AC/"}]}`)},
		{Path: "/redfish/v1/Systems/CZ203507AB", Body: decode(t, `{"SerialNumber":"CZ203507AB"}`), Headers: map[string]string{"ETag": `W/"5FF97044"`, "Location": "/redfish/v1/Systems/CZ203507AB"}},
		{Path: "/redfish/v1/Systems/CZ203507AC/", Body: decode(t, `{"SerialNumber":"cz203507ac"}`)},
	}
	got := Documents(documents, Known{Key: []byte("k")})
	var linked []string
	for _, member := range got[0].Body.(map[string]any)["Members"].([]any) {
		linked = append(linked, member.(map[string]any)["@odata.id"].(string))
	}
	if diff := cmp.Diff([]string{got[1].Path, got[2].Path}, linked); diff != "" || got[1].Path == documents[1].Path || got[1].Path == got[2].Path {
		t.Errorf("links (-paths +links):\n%s", diff)
	}
	if tag := got[1].Headers["ETag"]; !strings.HasPrefix(tag, `W/"`) || !isLike(`W/"5ff97044"`, tag) {
		t.Errorf("entity tag %s", tag)
	}
	if got[1].Headers["Location"] != got[1].Path {
		t.Errorf("headers %v", got[1].Headers)
	}
	if serial := got[1].Body.(map[string]any)["SerialNumber"].(string); !strings.HasSuffix(got[1].Path, serial) {
		t.Errorf("serial number %s at %s", serial, got[1].Path)
	}
}

func TestAnotherKeyGivesOtherReplacements(t *testing.T) {
	const document = `{"SerialNumber":"CZ203507AB"}`
	one, again, other := redacted(t, Known{Key: []byte("1")}, document), redacted(t, Known{Key: []byte("1")}, document), redacted(t, Known{Key: []byte("2")}, document)
	if !cmp.Equal(one, again) || cmp.Equal(one, other) {
		t.Errorf("%v, %v, %v", one, again, other)
	}
}

// texts lists all texts of a document, names of properties included.
func texts(value any) []string {
	switch value := value.(type) {
	case map[string]any:
		all := slices.Collect(maps.Keys(value))
		for _, inner := range value {
			all = append(all, texts(inner)...)
		}
		return all
	case []any:
		var all []string
		for _, inner := range value {
			all = append(all, texts(inner)...)
		}
		return all
	case string:
		return []string{value}
	case json.Number:
		return []string{value.String()}
	}
	return nil
}

func FuzzNoSecretSurvives(f *testing.F) {
	for _, secret := range []string{"CZ203507AB", "hunter2hunter2", "4c4c4544-0058-3010-804e-b7c04f4a4a32", "b0:7b:25:01:02:03", "10.11.12.13", "fd00:aa::12", "a b/c%20d1", "ähnlich-1234", "host7.corp.test"} {
		for place := range uint8(4) {
			f.Add(secret, "see ", place, "Model")
		}
	}
	properties := []string{"Password", "SerialNumber", "UUID", "MACAddress"}
	f.Fuzz(func(t *testing.T, secret, around string, place uint8, property string) {
		class := properties[int(place)%len(properties)]
		switch {
		case !utf8.ValidString(secret + around + property), len(secret) < anywhere, !strings.ContainsAny(secret, "0123456789"):
			t.Skip("such texts may stay")
		case isPlaceholder(secret), strings.Contains(lower(class+around+property+root), lower(secret)), strings.ContainsAny(property, "@#"):
			t.Skip("no secret")
		}
		documents := []Document{
			{Path: root + "/A/" + secret, Body: map[string]any{
				property: []any{around + secret, secret + around, map[string]any{"@odata.id": root + "/A/" + secret + "/B"}},
				"Oem":    map[string]any{secret: around + strings.ToUpper(secret) + around},
			}, Headers: map[string]string{"Location": root + "/A/" + secret}},
			{Path: root + "/B", Body: map[string]any{class: secret, "Members": []any{secret}}},
		}
		for _, d := range Documents(documents, Known{Key: []byte("k")}) {
			for _, text := range append(texts(d.Body), d.Path, d.Headers["Location"]) {
				if strings.Contains(lower(text), lower(secret)) {
					t.Errorf("%q is in %q", secret, text)
				}
			}
		}
	})
}
