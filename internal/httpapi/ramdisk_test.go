package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

const secretToken = "Zl3vQmJx0123456789abcdefghijklmnopqrstu"

func lookupAnswer(token string) *node.LookupAnswer {
	return &node.LookupAnswer{
		Node: &node.Node{
			UUID: uuid1, Driver: "manual-management", Properties: node.ObjectOf(map[string]any{"cpu_arch": "x86_64"}),
			DriverInternalInfo: node.ObjectOf(map[string]any{"agent_secret_token": secretToken, "agent_url": "https://192.0.2.101:9999"}),
		},
		Token: token, HeartbeatTimeout: 300 * time.Second,
	}
}

func lookupDocument(token string) map[string]any {
	return map[string]any{
		"node": map[string]any{
			"uuid": uuid1, "properties": map[string]any{"cpu_arch": "x86_64"}, "instance_info": map[string]any{},
			"driver_internal_info": map[string]any{"agent_secret_token": "******", "agent_url": "https://192.0.2.101:9999"},
			"links": []any{
				map[string]any{"rel": "self", "href": "http://example.com/v1/nodes/" + uuid1},
				map[string]any{"rel": "bookmark", "href": "http://example.com/nodes/" + uuid1},
			},
		},
		"config": map[string]any{
			"heartbeat_timeout": 300.0, "agent_token": token, "agent_token_required": true, "agent_skip_bmc_detect": false,
			"agent_md5_checksum_enable": false, "disable_deep_image_inspection": false,
			"permitted_image_formats": []any{"raw", "gpt", "qcow2", "iso"},
			"metrics": map[string]any{
				"backend": "noop", "prepend_host": false, "prepend_uuid": false, "prepend_host_reverse": true, "global_prefix": nil,
			},
			"metrics_statsd": map[string]any{"statsd_host": "localhost", "statsd_port": 8125.0},
		},
	}
}

// wantLookup compares the only lookup, which came from the address of httptest's clients.
func wantLookup(t *testing.T, s *server, want node.LookupRequest) {
	t.Helper()
	want.Source = netip.MustParseAddr("192.0.2.1")
	if !reflect.DeepEqual(s.engine.lookups, []node.LookupRequest{want}) {
		t.Errorf("lookups = %+v, want %+v", s.engine.lookups, want)
	}
}

func TestLookupAnswersWithNodeAndConfiguration(t *testing.T) {
	for token, want := range map[string]string{secretToken: secretToken, "": "******"} {
		s := newServer(t)
		s.engine.answer = lookupAnswer(token)
		got := s.do("GET", "/v1/lookup?addresses=52:54:00:AB:CD:EF,nonsense,52:54:00:00:00:02", "1.62", "").want(200)
		diffJSON(t, "answer", lookupDocument(want), got.json())
		wantLookup(t, s, node.LookupRequest{Addresses: []string{"52:54:00:ab:cd:ef", "52:54:00:00:00:02"}, WantsToken: true})
	}
	s := newServer(t)
	s.engine.answer = lookupAnswer("")
	s.do("GET", "/v1/lookup?addresses=&node_uuid="+uuid1, "1.22", "").want(200)
	wantLookup(t, s, node.LookupRequest{NodeUUID: uuid1})
}

func TestUnknownMachinesGetTheSameAnswerForEveryReason(t *testing.T) {
	var bodies []string
	for _, err := range []error{
		node.ErrNotFound, &node.NotFoundError{Kind: "Node", Ident: uuid1}, errors.Join(node.ErrNotFound, errInternal),
	} {
		s := newServer(t)
		s.engine.err = err
		for _, got := range []reply{
			s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", ""),
			s.do("POST", "/v1/continue_inspection", "", `{}`),
			s.do("POST", "/v1/heartbeat/"+uuid1, "1.68", `{"callback_url":"http://192.0.2.1:9999","agent_version":"9"}`),
		} {
			bodies = append(bodies, got.want(404).body)
		}
	}
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("answers differ: %s, %s", body, bodies[0])
		}
	}
}

func TestHeartbeatIsAcceptedWithExactly202(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	got := s.do("POST", "/v1/heartbeat/"+uuid1, "1.72", `{"callback_url":"https://192.0.2.101:9999","agent_version":"11.0.0",
		"agent_token":"t","agent_verify_ca":"PEM","agent_status":"start","agent_status_message":"hello"}`).want(202)
	if got.body != "" {
		t.Errorf("body: got %q", got.body)
	}
	want := []node.Heartbeat{{
		CallbackURL: "https://192.0.2.101:9999", AgentVersion: "11.0.0", AgentToken: "t", AgentVerifyCA: "PEM",
		AgentStatus: "start", AgentStatusMessage: "hello",
	}}
	if diff := cmp.Diff(want, s.engine.beats); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeartbeatKeysFollowTheirVersion(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	for _, tt := range []struct {
		version, extra string
		status         int
	}{
		{"1.22", ``, 202},
		{"1.35", `,"agent_version":"9"`, 400},
		{"1.36", `,"agent_version":"9"`, 202},
		{"1.36", ``, 400},
		{"1.61", `,"agent_version":"9","agent_token":"t"`, 400},
		{"1.62", `,"agent_version":"9","agent_token":"t"`, 202},
		{"1.67", `,"agent_version":"9","agent_verify_ca":"c"`, 400},
		{"1.68", `,"agent_version":"9","agent_verify_ca":"c"`, 202},
		{"1.71", `,"agent_version":"9","agent_status":"end"`, 400},
		{"1.72", `,"agent_version":"9","agent_status":"end"`, 202},
	} {
		s.do("POST", "/v1/heartbeat/"+uuid1, tt.version, `{"callback_url":"http://192.0.2.1:9999"`+tt.extra+`}`).want(tt.status)
	}
}

// TestUnreadableHeartbeatsAreToldToTheEngine refuses heartbeats whose node nobody looked
// at.
func TestUnreadableHeartbeatsAreToldToTheEngine(t *testing.T) {
	const url = `"callback_url":"http://192.0.2.1:9999"`
	for body, want := range map[string]node.RefusalReason{
		`{` + url + `}`: node.RefusedVersion,
		`{` + url + `,"agent_version":"9","agent_status":"end"}`:           node.RefusedVersion,
		`{"agent_version":"9"}`:                                            node.RefusedMalformed,
		`{` + url + `,"agent_version":"` + strings.Repeat("9", 256) + `"}`: node.RefusedMalformed,
		`{"callback_url":"ftp://192.0.2.1","agent_version":"9"}`:           node.RefusedURL,
	} {
		s := newServer(t)
		s.addNode(uuid1)
		s.do("POST", "/v1/heartbeat/"+uuid1, "1.68", body).want(400)
		if diff := cmp.Diff([]node.RefusalReason{want}, s.engine.refused); diff != "" {
			t.Errorf("%s: refusals (-want +got):\n%s", body, diff)
		}
	}
}

func TestHeartbeatWithALongValueIsRefused(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	for key, longest := range map[string]int{
		"agent_version": 255, "agent_token": 255, "agent_verify_ca": 16 << 10, "agent_status_message": 64 << 10,
	} {
		for over, status := range []int{202, 400} {
			body := `{"callback_url":"http://192.0.2.1:9999","` + key + `":"` + strings.Repeat("x", longest+over) + `"`
			if key != "agent_version" {
				body += `,"agent_version":"11.0.0"`
			}
			s.do("POST", "/v1/heartbeat/"+uuid1, "1.72", body+"}").want(status)
		}
	}
	url := "http://192.0.2.1/" + strings.Repeat("x", 1024)
	s.do("POST", "/v1/heartbeat/"+uuid1, "1.72", `{"callback_url":"`+url+`","agent_version":"11.0.0"}`).want(400)
}

func TestRamdiskGetsOnlyWhatAgentsRead(t *testing.T) {
	s := newServer(t, func(o *Options) { o.LookupKeys = []string{"vendor_*", "rack"} })
	answer := lookupAnswer("")
	answer.Node.Properties = node.Object(`{"root_device":{"wwn":"1"},"rack":"r1","vendor_a":"b","vendor_image":"https://h/i?sig=hunter2","note":"http://u:hunter2@h/"}`)
	answer.Node.InstanceInfo = node.Object(`{"image_source":"http://h/i?sig=hunter2","user_data":"hunter2","capabilities":{"boot_mode":"uefi"}}`)
	answer.Node.DriverInternalInfo = node.Object(`{"agent_secret_token":"hunter2","agent_erase_devices_iterations":1,"agent_url":"https://u:hunter2@h","clean_steps":[],"heartbeat_refusals":[]}`)
	s.engine.answer = answer
	got := s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(200)
	if contains(got.body, "hunter2") || contains(got.body, "clean_steps") || contains(got.body, node.HeartbeatRefusalsKey) || contains(got.body, "note") {
		t.Errorf("a ramdisk gets %s", got.body)
	}
	for _, want := range []string{`"root_device":{"wwn":"1"}`, `"rack":"r1"`, `"vendor_a":"b"`, `"boot_mode":"uefi"`, `"agent_erase_devices_iterations":1`} {
		if !contains(got.body, want) {
			t.Errorf("a ramdisk does not get %s: %s", want, got.body)
		}
	}
	if !contains(string(answer.Node.InstanceInfo), "user_data") {
		t.Error("the node of the engine was changed")
	}
}

func TestRamdiskIsToldWhetherMD5IsAllowed(t *testing.T) {
	for allowed, want := range map[bool]string{true: `"agent_md5_checksum_enable":true`, false: `"agent_md5_checksum_enable":false`} {
		s := newServer(t, func(o *Options) { o.AllowMD5 = allowed })
		s.engine.answer = lookupAnswer("")
		if got := s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(200); !contains(got.body, want) {
			t.Errorf("allowed %v: the answer lacks %s: %s", allowed, want, got.body)
		}
	}
}

func TestLookupTakesAsManyAddressesAsAMachineHas(t *testing.T) {
	s := newServer(t)
	s.engine.answer = lookupAnswer("")
	addresses := func(count int) string {
		list := make([]string, count)
		for i := range list {
			list[i] = fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&0xff)
		}
		return strings.Join(list, ",")
	}
	s.do("GET", "/v1/lookup?addresses="+addresses(256), "1.22", "").want(200)
	s.do("GET", "/v1/lookup?addresses="+addresses(257), "1.22", "").want(400)
	s.do("GET", "/v1/lookup?node_uuid="+uuid1+"&addresses="+addresses(257), "1.22", "").want(200)
}

func TestInspectionPostAnswersByVersion(t *testing.T) {
	s := newServer(t)
	s.engine.answer = lookupAnswer(secretToken)
	got := s.do("POST", "/v1/continue_inspection?node_uuid="+strings.ToUpper(uuid1), "", ` {"inventory":{}} `).want(200)
	if want := `{"uuid":"` + uuid1 + `"}`; got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	diffJSON(t, "document", []string{uuid1 + `{"inventory":{}}`}, s.engine.documents)
	diffJSON(t, "answer", lookupDocument(secretToken), s.do("POST", "/v1/continue_inspection", "1.84", `{}`).want(200).json())
	diffJSON(t, "wants a token", []bool{false, true}, s.engine.wantsToken)
}

func TestInspectionPostMayBeAnsweredWith202(t *testing.T) {
	s := newServer(t, func(o *Options) { o.InspectionStatus = 202 })
	s.engine.answer = lookupAnswer(secretToken)
	s.do("POST", "/v1/continue_inspection", "", `{}`).want(202)
	s.do("POST", "/v1/continue_inspection", "1.84", `{}`).want(202)
	s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(200) // agents accept no other status here
}

// TestRefusedPostsGetIdenticalAnswers compares whole answers except the request IDs.
func TestRefusedPostsGetIdenticalAnswers(t *testing.T) {
	var first reply
	for i, err := range []error{
		node.ErrNotFound, &node.NotFoundError{Kind: "Node", Ident: uuid1}, errors.Join(node.ErrNotFound, errInternal),
	} {
		for _, version := range []string{"", "1.1"} {
			s := newServer(t)
			s.engine.err = err
			got := s.do("POST", "/v1/continue_inspection", version, `{}`).want(404)
			for _, id := range []string{"Openstack-Request-Id", "X-Openstack-Request-Id"} {
				got.header.Del(id)
			}
			if i == 0 && version == "" {
				first = got
			}
			if got.body != first.body {
				t.Errorf("%v: body %s, want %s", err, got.body, first.body)
			}
			diffJSON(t, "headers", first.header, got.header)
		}
	}
}

func TestMachinesDoNotGetTheNameOfALockedNode(t *testing.T) {
	s := newServer(t)
	s.engine.err = &node.LockedError{Node: uuid1, Holder: "ingot-1"}
	for _, got := range []reply{
		s.do("GET", "/v1/lookup?addresses=52:54:00:ab:cd:ef", "1.62", "").want(409),
		s.do("POST", "/v1/continue_inspection", "", `{}`).want(503),
	} {
		if strings.Contains(got.body, uuid1) || strings.Contains(got.body, "ingot-1") || !strings.Contains(got.body, "please retry") {
			t.Errorf("body %s", got.body)
		}
	}
}

func TestMachinesDoNotGetTheReasonOfADatabaseFailure(t *testing.T) {
	s := newServer(t)
	s.engine.err = &node.UnavailableError{Reason: "The disk of the database is full."}
	got := s.do("POST", "/v1/continue_inspection", "", `{}`)
	if got.want(503); strings.Contains(got.body, "disk") || !strings.Contains(got.body, "please retry") {
		t.Errorf("body %s", got.body)
	}
}

func TestSourceOfAPostIsItsSenderOrNamedByTrustedProxies(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, tc := range map[string]struct {
		sender    string
		forwarded []string
		trust     bool
		want      string // "" means unknown
	}{
		"sender":                        {sender: "192.0.2.7:4711", want: "192.0.2.7"},
		"IPv4 in IPv6":                  {sender: "[::ffff:192.0.2.7]:4711", want: "192.0.2.7"},
		"IPv6 with a zone":              {sender: "[fe80::1%eth0]:4711", want: "fe80::1"},
		"no address":                    {sender: "@"},
		"no trusted proxy":              {sender: "10.0.0.1:4711", forwarded: []string{"192.0.2.7"}, want: "10.0.0.1"},
		"sender is no proxy":            {sender: "192.0.2.9:4711", forwarded: []string{"192.0.2.7"}, trust: true, want: "192.0.2.9"},
		"proxy":                         {sender: "10.0.0.1:4711", forwarded: []string{"192.0.2.7"}, trust: true, want: "192.0.2.7"},
		"proxy, entry made up":          {sender: "10.0.0.1:4711", forwarded: []string{"192.0.2.66, 192.0.2.7"}, trust: true, want: "192.0.2.7"},
		"two proxies":                   {sender: "10.0.0.1:4711", forwarded: []string{"192.0.2.66", "192.0.2.7 , 2001:db8:1::1"}, trust: true, want: "192.0.2.7"},
		"proxies alone":                 {sender: "10.0.0.1:4711", forwarded: []string{"10.0.0.2"}, trust: true, want: "10.0.0.2"},
		"proxy that says nothing":       {sender: "10.0.0.1:4711", trust: true, want: "10.0.0.1"},
		"proxy that hides its client":   {sender: "10.0.0.1:4711", forwarded: []string{"192.0.2.7, unknown"}, trust: true},
		"proxy with IPv4 in IPv6":       {sender: "[::ffff:10.0.0.1]:4711", forwarded: []string{"::ffff:192.0.2.7"}, trust: true, want: "192.0.2.7"},
		"proxy with a header of commas": {sender: "10.0.0.1:4711", forwarded: []string{",, ,"}, trust: true, want: "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/v1/continue_inspection", nil)
			r.RemoteAddr = tc.sender
			for _, value := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", value)
			}
			var trusted []netip.Prefix
			if tc.trust {
				trusted = proxies
			}
			var want netip.Addr
			if tc.want != "" {
				want = netip.MustParseAddr(tc.want)
			}
			if got := sourceOf(r, trusted); got != want {
				t.Errorf("source = %v, want %v", got, want)
			}
		})
	}
}

func TestEngineGetsTheSourceOfAPost(t *testing.T) {
	s := newServer(t)
	s.engine.answer = lookupAnswer("")
	s.do("POST", "/v1/continue_inspection", "", `{}`).want(200)
	if len(s.engine.sources) != 1 || !s.engine.sources[0].IsValid() {
		t.Errorf("sources = %v, want the sender's address", s.engine.sources)
	}
}

func TestInspectionOverALimitOrOfABusyNodeIsRetriedLater(t *testing.T) {
	for _, err := range []error{node.ErrBusy, &node.LockedError{Node: uuid1, Holder: "conductor-2"}, node.ErrLeaseLost} {
		s := newServer(t)
		s.engine.err = err
		if got := s.do("POST", "/v1/continue_inspection", "", `{}`).want(503).header.Get("Retry-After"); got == "" {
			t.Errorf("%v: no Retry-After", err)
		}
	}
}

func TestRamdiskEndpointsCanBeDisabled(t *testing.T) {
	s := newServer(t, func(o *Options) { o.DisableRamdisk = true })
	s.addNode(uuid1)
	s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(403)
	s.do("POST", "/v1/heartbeat/"+uuid1, "1.68", `{}`).want(403)
	s.do("POST", "/v1/continue_inspection", "", `{}`).want(403)
	s.get("/v1/nodes").want(200)
	if len(s.engine.lookups)+len(s.engine.beats)+len(s.engine.documents) > 0 {
		t.Error("a disabled endpoint reached the engine")
	}
}

func TestRamdiskIsToldToSkipBMCDetection(t *testing.T) {
	s := newServer(t)
	s.engine.answer = lookupAnswer("")
	s.engine.answer.SkipBMCDetect = true
	config := s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(200).json()["config"].(map[string]any)
	diffJSON(t, "agent_skip_bmc_detect", true, config["agent_skip_bmc_detect"])
}

// FuzzSourceOf checks that only trusted proxies change the source, whatever the header
// has.
func FuzzSourceOf(f *testing.F) {
	for _, seed := range []string{"192.0.2.7", "192.0.2.66, 10.0.0.2", "unknown", ",,", "[2001:db8::1]:443", "fe80::1%eth0", "::ffff:10.0.0.1,"} {
		f.Add("10.0.0.1:4711", seed)
		f.Add("192.0.2.9:4711", seed)
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, sender, header string) {
		r := &http.Request{RemoteAddr: sender, Header: http.Header{"X-Forwarded-For": {header}}}
		plain := sourceOf(r, nil)
		got := sourceOf(r, proxies)
		if !proxies[0].Contains(plain) && got != plain {
			t.Errorf("the header %q moved the source from %v to %v", header, plain, got)
		}
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("source %v is not canonical", got)
		}
	})
}
