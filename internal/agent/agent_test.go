package agent

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

const window = 5 * time.Minute

var now = time.Date(2031, time.March, 4, 10, 11, 12, 131415000, time.UTC)

// machine returns a discovered node without a BMC whose agent holds the token
// since that long before now.
func machine(held time.Duration, changes ...func(*node.Node)) *node.Node {
	n := &node.Node{UUID: "node-1", Driver: "manual-management", ProvisionState: node.Enroll, AutoDiscovered: true}
	n.DriverInternalInfo = WithToken(nil, "the-token", now.Add(-held))
	for _, change := range changes {
		change(n)
	}
	return n
}

// hardware is what holds for a node's machine.
func hardware(n *node.Node) node.HardwareAttributes { return new(driver.Registry).Attributes(n) }

// beaten adds a heartbeat that long before now.
func beaten(before time.Duration) func(*node.Node) {
	return func(n *node.Node) {
		n.DriverInternalInfo = WithHeartbeat(n.DriverInternalInfo, node.Heartbeat{CallbackURL: "https://192.0.2.7:9999"}, now.Add(-before))
	}
}

// posted has the inspection of the node get its inventory.
func posted(n *node.Node) { n.DriverInternalInfo = WithRebootSeen(n.DriverInternalInfo, now) }

func TestTokensAreLongRandomAndFitForURLs(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken()
		if !form.MatchString(token) || seen[token] {
			t.Fatalf("token %q: want 43 URL-safe characters that never came before", token)
		}
		seen[token] = true
	}
}

func TestOnlyTheStoredTokenMatches(t *testing.T) {
	for _, tc := range []struct {
		stored, sent string
		want         bool
	}{
		{"abc", "abc", true}, {"abc", "abd", false}, {"abc", "ab", false}, {"abc", "", false}, {"", "", false}, {"", "abc", false},
	} {
		if got := tokenMatches(tc.stored, tc.sent); got != tc.want {
			t.Errorf("tokenMatches(%q, %q) = %v, want %v", tc.stored, tc.sent, got, tc.want)
		}
	}
}

func TestAnAgentIsAliveForAWindowAfterItWasHeard(t *testing.T) {
	for name, tc := range map[string]struct {
		heartbeat, inspected time.Duration // before now; 0 means never
		want                 bool
	}{
		"never heard":                  {0, 0, false},
		"heard just now":               {time.Second, 0, true},
		"heard at the window's border": {window, 0, true},
		"heard before the window":      {window + time.Microsecond, 0, false},
		"inspected in the window":      {0, window, true},
		"inspected before the window":  {0, window + time.Microsecond, false},
		"silent, but inspected":        {time.Hour, time.Minute, true},
		"inspected long ago, but beat": {time.Minute, time.Hour, true},
	} {
		n := machine(time.Hour)
		if tc.heartbeat != 0 {
			beaten(tc.heartbeat)(n)
		}
		if tc.inspected != 0 {
			n.InspectionFinishedAt = now.Add(-tc.inspected)
		}
		n.Interfaces[node.InspectInterface] = "agent"
		if got := Alive(n, now, window); got != tc.want {
			t.Errorf("%s: alive = %v, want %v", name, got, tc.want)
		}
		n.Interfaces[node.InspectInterface] = "redfish"
		if got := Alive(n, now, window); got != (tc.want && tc.heartbeat != 0 && tc.heartbeat <= window) {
			t.Errorf("%s, inspected through the BMC: alive = %v", name, got)
		}
	}
}

func TestUnreadableHeartbeatTimeMeansNeverHeard(t *testing.T) {
	n := &node.Node{DriverInternalInfo: node.ObjectOf(map[string]any{LastHeartbeatKey: "yesterday"})}
	if got := LastHeartbeat(n); !got.IsZero() {
		t.Errorf("last heartbeat = %v, want none", got)
	}
}

func TestFastTrackFollowsNodeThenConfigurationThenMachine(t *testing.T) {
	with := func(value any) node.Object { return node.ObjectOf(map[string]any{"fast_track": value}) }
	for name, tc := range map[string]struct {
		n         node.Node
		byDefault bool
		want      bool
	}{
		"registered":                      {node.Node{Driver: "redfish"}, false, false},
		"registered, on by default":       {node.Node{Driver: "redfish"}, true, true},
		"discovered without BMC":          {node.Node{Driver: "manual-management", AutoDiscovered: true}, false, true},
		"discovered fake":                 {node.Node{Driver: "fake-hardware", AutoDiscovered: true}, false, true},
		"discovered with BMC":             {node.Node{Driver: "redfish", AutoDiscovered: true}, false, false},
		"registered without BMC":          {node.Node{Driver: "manual-management"}, false, true},
		"registered fake":                 {node.Node{Driver: "fake-hardware"}, false, false},
		"asked for":                       {node.Node{Driver: "redfish", DriverInfo: with(true)}, false, true},
		"refused, on by default":          {node.Node{Driver: "redfish", DriverInfo: with(false)}, true, false},
		"refused, discovered":             {node.Node{Driver: "manual-management", AutoDiscovered: true, DriverInfo: with(false)}, false, false},
		"nonsense counts as not set":      {node.Node{Driver: "redfish", DriverInfo: with("perhaps")}, true, true},
		"nonsense, discovered, counts so": {node.Node{Driver: "manual-management", AutoDiscovered: true, DriverInfo: with(3)}, false, true},
	} {
		if got := FastTrack(&tc.n, hardware(&tc.n), tc.byDefault); got != tc.want {
			t.Errorf("%s: fast-track = %v, want %v", name, got, tc.want)
		}
	}
}

func TestLookupIsAllowedInStatesWithARamdisk(t *testing.T) {
	always := []node.State{"deploying", "wait call-back", "cleaning", "clean wait", "inspecting", "inspect wait", "rescuing", "rescue wait", "service wait"}
	fastTrack := []node.State{"enroll", "manageable", "available", "servicing", "service hold"}
	for _, s := range append(node.States(), "nowhere") {
		if got, want := MayLookUp(s, false), slices.Contains(always, s); got != want {
			t.Errorf("lookup in %q = %v, want %v", s, got, want)
		}
		if got, want := MayLookUp(s, true), slices.Contains(always, s) || slices.Contains(fastTrack, s); got != want {
			t.Errorf("lookup in %q with fast-track = %v, want %v", s, got, want)
		}
	}
}

func TestHeartbeatsAreRecordedWhereARamdiskMayRun(t *testing.T) {
	want := []node.State{
		"wait call-back", "clean wait", "rescue wait", "service wait", "inspect wait",
		"deploying", "cleaning", "rescuing", "servicing", "inspecting",
		"clean hold", "deploy hold", "service hold", "rescue", "enroll", "manageable", "available",
	}
	for _, s := range append(node.States(), "nowhere") {
		if got := Records(s); got != slices.Contains(want, s) {
			t.Errorf("heartbeat in %q is recorded: %v, want %v", s, got, !got)
		}
	}
}

func TestNewTokenForgetsTheOldAgent(t *testing.T) {
	n := machine(time.Hour, beaten(time.Minute), posted)
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{
		VerifyCAKey: "PEM", VersionKey: "11.0.0", "kept": "by others",
	})
	n.DriverInternalInfo = WithToken(n.DriverInternalInfo, "new-token", now)
	for key, want := range map[string]string{
		TokenKey: "new-token", "kept": "by others", URLKey: "", VerifyCAKey: "", VersionKey: "", RebootSeenKey: "",
	} {
		if got := n.DriverInternalInfo.Text(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := DecideToken(n, hardware(n), now.Add(window), window, Call{}); got != RetryLater {
		t.Errorf("answer within the window = %d, want the token kept", got)
	}
}

// heartbeat is what the agent of a machine sends.
func heartbeat(changes ...func(*node.Heartbeat)) node.Heartbeat {
	beat := node.Heartbeat{CallbackURL: "https://192.0.2.7:9999", AgentVersion: "11.0.0", AgentToken: "the-token"}
	for _, change := range changes {
		change(&beat)
	}
	return beat
}

func addresses(texts ...string) func() ([]netip.Addr, error) {
	return func() ([]netip.Addr, error) {
		var all []netip.Addr
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all, nil
	}
}

func TestCheckHeartbeat(t *testing.T) {
	known := func(url, ca string) func(*node.Node) {
		return func(n *node.Node) {
			n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{URLKey: url, VerifyCAKey: ca})
		}
	}
	url := func(raw string) node.Heartbeat {
		return heartbeat(func(b *node.Heartbeat) { b.CallbackURL = raw })
	}
	strict := Rules{RequireTLS: true, VerifyAddress: true, AllowedNetworks: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00::/8"),
	}}
	for name, tc := range map[string]struct {
		n      *node.Node
		beat   node.Heartbeat
		rules  Rules
		want   string // part of the text; empty means believed
		reason node.RefusalReason
	}{
		"first":                  {machine(0), heartbeat(), strict, "", ""},
		"first without rules":    {machine(0), url("http://198.51.100.1:9999/"), Rules{}, "", ""},
		"IPv6":                   {machine(0), url("https://[fd00::7]:9999"), strict, "", ""},
		"IPv4 mapped into IPv6":  {machine(0), url("https://[::ffff:192.0.2.7]:9999"), strict, "", ""},
		"no port":                {machine(0), url("https://192.0.2.7"), strict, "", ""},
		"again":                  {machine(0, beaten(time.Second)), heartbeat(), strict, "", ""},
		"again after the rules":  {machine(0, known("http://198.51.100.1", "")), url("http://198.51.100.1"), strict, "", ""},
		"same certificate":       {machine(0, known("https://192.0.2.7:9999", "PEM")), heartbeat(func(b *node.Heartbeat) { b.AgentVerifyCA = "PEM" }), strict, "", ""},
		"certificate left out":   {machine(0, known("https://192.0.2.7:9999", "PEM")), heartbeat(), strict, "", ""},
		"first certificate":      {machine(0), heartbeat(func(b *node.Heartbeat) { b.AgentVerifyCA = "PEM" }), strict, "", ""},
		"no token":               {machine(0), heartbeat(func(b *node.Heartbeat) { b.AgentToken = "" }), strict, "token", node.RefusedNoToken},
		"wrong token":            {machine(0), heartbeat(func(b *node.Heartbeat) { b.AgentToken = "the-tokem" }), strict, "token", node.RefusedToken},
		"token never issued":     {machine(0, func(n *node.Node) { n.DriverInternalInfo = nil }), heartbeat(func(b *node.Heartbeat) { b.AgentToken = "" }), strict, "token", node.RefusedNoToken},
		"changed certificate":    {machine(0, known("https://192.0.2.7:9999", "PEM")), heartbeat(func(b *node.Heartbeat) { b.AgentVerifyCA = "OTHER" }), strict, "certificate", node.RefusedChangedCert},
		"changed URL":            {machine(0, beaten(time.Second)), url("https://192.0.2.7:9998"), strict, "change its callback URL", node.RefusedChangedURL},
		"URL taken back":         {machine(0, beaten(time.Second)), url(""), strict, "change its callback URL", node.RefusedChangedURL},
		"no URL":                 {machine(0), url(""), strict, "must be http(s)", node.RefusedURL},
		"no URL, no rules":       {machine(0), url(""), Rules{}, "must be http(s)", node.RefusedURL},
		"no scheme":              {machine(0), url("192.0.2.7:9999"), Rules{}, "must be http(s)", node.RefusedURL},
		"other scheme":           {machine(0), url("file:///etc/passwd"), Rules{}, "must be http(s)", node.RefusedURL},
		"scheme and no host":     {machine(0), url("https://"), Rules{}, "must be http(s)", node.RefusedURL},
		"user in the URL":        {machine(0), url("https://root:pw@192.0.2.7"), Rules{}, "must be http(s)", node.RefusedURL},
		"broken URL":             {machine(0), url("https://192.0.2.7:port"), Rules{}, "must be http(s)", node.RefusedURL},
		"plain http":             {machine(0), url("http://192.0.2.7:9999"), strict, "agent.require_tls", node.RefusedPlainHTTP},
		"host name":              {machine(0), url("https://evil.example:9999"), Rules{}, "IP address", node.RefusedHostName},
		"foreign network":        {machine(0), url("https://198.51.100.1:9999"), strict, "agent.allowed_networks", node.RefusedNetwork},
		"address of another":     {machine(0), url("https://192.0.2.8:9999"), strict, "not an address of its inventory", node.RefusedInventory},
		"loopback of the engine": {machine(0), url("https://127.0.0.1:6385"), Rules{VerifyAddress: true}, "not an address of its inventory", node.RefusedInventory},
	} {
		err := CheckHeartbeat(tc.n, tc.beat, tc.rules, addresses("192.0.2.7", "fd00::7"))
		var invalid *node.ValidationError
		var refused *RefusedError
		if errors.As(err, &refused) != (tc.reason != "") || refused != nil && refused.Reason != tc.reason {
			t.Errorf("%s: error = %#v, want the reason %q", name, err, tc.reason)
		}
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v, want it believed", name, err)
		case tc.want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error = %v, want one about %q", name, err, tc.want)
		case err != nil && strings.Contains(err.Error(), "the-token"):
			t.Errorf("%s: error %q shows the token", name, err)
		}
	}
}

func TestUnknownInventoryLeavesTheNetworksToDecide(t *testing.T) {
	rules := Rules{VerifyAddress: true, AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	if err := CheckHeartbeat(machine(0), heartbeat(), rules, addresses()); err != nil {
		t.Errorf("heartbeat: %v, want it believed", err)
	}
	broken := errors.New("disk on fire")
	err := CheckHeartbeat(machine(0), heartbeat(), rules, func() ([]netip.Addr, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error = %v, want that of reading the inventory", err)
	}
}

func TestKnownURLNeedsNoInventory(t *testing.T) {
	err := CheckHeartbeat(machine(0, beaten(time.Second)), heartbeat(), Rules{VerifyAddress: true}, func() ([]netip.Addr, error) {
		t.Error("the inventory was read: every heartbeat would cost that")
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHeartbeatIsMergedIntoWhatIsKnown(t *testing.T) {
	info := WithRebootSeen(WithToken(node.ObjectOf(map[string]any{"other": 1}), "the-token", now), now)
	full := heartbeat(func(b *node.Heartbeat) {
		b.AgentVerifyCA, b.AgentStatus, b.AgentStatusMessage = "PEM", "start", "a\x00"+strings.Repeat("b", 1<<20)
	})
	info = WithHeartbeat(info, full, now.Add(time.Minute))
	if message := info.Text(StatusMessageKey); len(message) > 2048 || strings.ContainsRune(message, 0) {
		t.Errorf("status message has %d bytes, want it cut and cleaned", len(message))
	}
	bare := heartbeat(func(b *node.Heartbeat) { b.AgentVersion = "" })
	info = WithHeartbeat(info, bare, now.Add(2*time.Minute))
	got := info.Without(StatusMessageKey, knownSinceKey).Values()
	want := node.ObjectOf(map[string]any{
		"other": 1, TokenKey: "the-token", URLKey: "https://192.0.2.7:9999", VersionKey: "11.0.0", VerifyCAKey: "PEM",
		StatusKey: "start", LastHeartbeatKey: "2031-03-04T10:13:12.131415Z",
	}).Values()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("driver_internal_info (-want +got):\n%s", diff)
	}
	if got := LastHeartbeat(&node.Node{DriverInternalInfo: info}); !got.Equal(now.Add(2 * time.Minute)) {
		t.Errorf("last heartbeat = %v", got)
	}
}
