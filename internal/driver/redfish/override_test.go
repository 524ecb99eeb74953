package redfish_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// nextReset is a BMC that shows boot settings in its system only after a reset, and in the
// settings resource what that applies.
type nextReset struct {
	pending map[string]any // Boot of the settings resource; nil for none
	missing bool           // the link to the settings resource leads nowhere
	// The requests that it does not ignore. One to the settings resource needs its entity tag.
	takesSystem, takesSettings bool

	system, settings []string // bodies of the requests
}

const pendingTag = `"pending-1"`

// answer stands in for the BMC at its system and its settings resource.
func (n *nextReset) answer(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
	path, below, found := strings.Cut(strings.TrimRight(r.URL.Path, "/"), "/System.Embedded.1")
	path += "/System.Embedded.1"
	switch {
	case !found || below != "" && below != "/Settings" || n.missing && below == "" && r.Method == http.MethodPatch:
		bmc.ServeHTTP(w, r)
	case below != "" && n.missing:
		said(w, http.StatusNotFound, `{}`)
	case r.Method == http.MethodPatch && below == "":
		n.system = append(n.system, n.take(r, n.takesSystem))
		said(w, http.StatusOK, `{}`)
	case r.Method == http.MethodPatch && r.Header.Get("If-Match") != pendingTag:
		said(w, http.StatusPreconditionFailed, `{}`)
	case r.Method == http.MethodPatch:
		n.settings = append(n.settings, n.take(r, n.takesSettings))
		said(w, http.StatusOK, `{}`)
	case below != "":
		text, _ := json.Marshal(map[string]any{"@odata.id": r.URL.Path, "Boot": n.pending})
		w.Header().Set("ETag", pendingTag)
		said(w, http.StatusOK, string(text))
	default:
		shown := httptest.NewRecorder()
		bmc.ServeHTTP(shown, r)
		link := `{"@Redfish.Settings": {"SettingsObject": {"@odata.id": "` + path + `/Settings"}}, `
		said(w, shown.Code, link+strings.TrimPrefix(shown.Body.String(), "{"))
	}
}

// take reads a request, and does what it asks for if the BMC does.
func (n *nextReset) take(r *http.Request, does bool) string {
	text, _ := io.ReadAll(r.Body)
	var body struct{ Boot map[string]any }
	if does && json.Unmarshal(text, &body) == nil {
		n.pending = maps.Clone(n.pending)
		maps.Copy(n.pending, body.Boot)
	}
	return string(text)
}

func TestOverrideMayWaitForTheNextReset(t *testing.T) {
	none := map[string]any{"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}
	network := map[string]any{"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
	for name, test := range map[string]struct {
		bmc              nextReset
		attempt          driver.Attempt
		system, settings int // requests
		failure          string
	}{
		"asked of the system":               {nextReset{pending: none, takesSystem: true}, driver.Fresh, 1, 0, ""},
		"asked of the settings":             {nextReset{pending: none, takesSettings: true}, driver.Fresh, 1, 1, ""},
		"left from an earlier boot":         {nextReset{pending: network, takesSettings: true}, driver.Fresh, 1, 1, ""},
		"asked before, its answer was lost": {nextReset{pending: network}, driver.Unknown, 0, 0, ""},
		"ignored":                           {nextReset{pending: none}, driver.Fresh, 1, 1, "the BMC accepted Pxe (Once) and shows None (Disabled)"},
		"settings without boot settings":    {nextReset{}, driver.Fresh, 1, 0, "the BMC accepted Pxe (Once) and shows None (Disabled)"},
		"settings that are not there":       {nextReset{missing: true}, driver.Fresh, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.behind(test.bmc.answer)
			_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, driver.Turn{Attempt: test.attempt})
			if test.failure == "" && err != nil || test.failure != "" && (err == nil || !strings.Contains(err.Error(), test.failure)) {
				t.Errorf("error = %v, want %q", err, test.failure)
			}
			if len(test.bmc.system) != test.system || len(test.bmc.settings) != test.settings {
				t.Errorf("the system was sent %q, its settings %q, want %d and %d requests", test.bmc.system, test.bmc.settings, test.system, test.settings)
			}
		})
	}
}

func TestOverrideMayBeShownForOtherBootsThanItIs(t *testing.T) {
	yes, no := true, false
	for shown, fails := range map[string]bool{"Continuous": false, "Once": false, "Disabled": true, "": true} {
		for _, persistent := range []*bool{&yes, &no} {
			m, d := newMachine(t, "dell")
			m.behind(func(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
				if r.Method != http.MethodGet || !strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/System.Embedded.1") {
					proxy.ServeHTTP(w, r)
					return
				}
				document := httptest.NewRecorder()
				proxy.ServeHTTP(document, r)
				text := document.Body.String()
				for _, duration := range []bmc.Enabled{bmc.Disabled, bmc.Once, bmc.Continuous} {
					text = strings.Replace(text, `"BootSourceOverrideEnabled":"`+string(duration)+`"`, `"BootSourceOverrideEnabled":"`+shown+`"`, 1)
				}
				said(w, document.Code, text)
			})
			_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe", Persistent: persistent}, fresh)
			got := m.Override()
			if (err != nil) != fails || got.Target != bmc.TargetPXE || (got.Enabled == bmc.Continuous) != *persistent {
				t.Errorf("shown %q, for good %t: error = %v, boot settings %+v, want an error: %t", shown, *persistent, err, got, fails)
			}
		}
	}
}

func TestOverrideIsNotToldItsDurationWhereTheBMCRefusesWhatItHas(t *testing.T) {
	once, forGood := false, true
	for name, test := range map[string]struct {
		vendor        string
		before, after bool // for good
		target        string
		requests      int
		fails         bool
	}{
		"once again":               {"dell", once, once, "Cd", 2, false},
		"for good again":           {"dell", forGood, forGood, "Cd", 2, false},
		"another":                  {"dell", once, forGood, "Cd", 1, false},
		"it must be named, though": {"supermicro", once, once, "UsbCd", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, test.vendor)
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe", Persistent: &test.before}, fresh); err != nil {
				t.Fatal(err)
			}
			requests := 0
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if r.Method == http.MethodPatch {
					requests++
					text, _ := io.ReadAll(r.Body)
					if strings.Contains(string(text), `"BootSourceOverrideEnabled":"`+string(m.Override().Enabled)+`"`) {
						said(w, http.StatusBadRequest, `{}`)
						return
					}
					r.Body = io.NopCloser(strings.NewReader(string(text)))
				}
				bmc.ServeHTTP(w, r)
			})
			before := m.Override()
			_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "cdrom", Persistent: &test.after}, fresh)
			if (err != nil) != test.fails || requests != test.requests {
				t.Errorf("error = %v after %d requests, want one: %t after %d", err, requests, test.fails, test.requests)
			}
			got := m.Override()
			if changed := got.Target != before.Target; changed == test.fails || changed && test.before == test.after && got.Enabled != before.Enabled {
				t.Errorf("boot settings %+v, were %+v", got, before)
			}
		})
	}
}

func TestBootModeThatTheBMCChangesWithTheBootDeviceIsRestored(t *testing.T) {
	// What the BMC does with a request that names the mode.
	const takes, refuses, ignores, breaks = "takes it", "refuses it", "ignores it", "breaks"
	for then, want := range map[string]bmc.Mode{takes: bmc.UEFI, refuses: bmc.Legacy, ignores: bmc.Legacy, breaks: bmc.Legacy} {
		t.Run(then, func(t *testing.T) {
			m, d := newUEFI(t, "dell")
			var requests []string
			m.behind(func(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
				if r.Method != http.MethodPatch {
					proxy.ServeHTTP(w, r)
					return
				}
				text, _ := io.ReadAll(r.Body)
				sent := string(text)
				requests = append(requests, sent)
				named := strings.Contains(sent, `"BootSourceOverrideMode":"UEFI"`)
				if !named {
					sent = strings.Replace(sent, `{"Boot":{`, `{"Boot":{"BootSourceOverrideMode":"Legacy",`, 1)
				}
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(sent)), int64(len(sent))
				switch {
				case named && then == refuses:
					said(w, http.StatusBadRequest, `{}`)
				case named && then == ignores:
					said(w, http.StatusOK, `{}`)
				case named && then == breaks:
					said(w, http.StatusInternalServerError, `{}`)
				default:
					proxy.ServeHTTP(w, r)
				}
			})
			_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh)
			got := m.Override()
			if (err != nil) != (then == breaks) || len(requests) != 2 || got.Mode != want || got.Target != bmc.TargetPXE || got.Enabled != bmc.Once {
				t.Errorf("error = %v after %q, boot settings %+v, want the mode %s after two requests", err, requests, got, want)
			}
		})
	}
}
