package bmctest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/bmctest"
)

// hostile serves a BMC whose other documents come from a function.
func hostile(t *testing.T, other func(w http.ResponseWriter, r *http.Request)) bmctest.Options {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "/redfish/v1":
			fmt.Fprint(w, `{"@odata.id":"/redfish/v1/","Systems":{"@odata.id":"/redfish/v1/Systems"},"More":{"@odata.id":"/redfish/v1/More"}}`)
		case "/redfish/v1/Systems":
			fmt.Fprint(w, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`)
		case "/redfish/v1/Systems/1":
			fmt.Fprint(w, `{"@odata.id":"/redfish/v1/Systems/1","@odata.type":"#ComputerSystem.v1_0_0.ComputerSystem","PowerState":"On"}`)
		default:
			other(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return bmctest.Options{Address: server.URL, Insecure: true, Record: true}
}

func TestRecordingEndsAtABMCWithoutEnd(t *testing.T) {
	reads := 0
	o := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/redfish/v1/More") {
			reads++
			fmt.Fprintf(w, `{"Next":{"@odata.id":"/redfish/v1/More/%d"},"Other":{"@odata.id":"/redfish/v1/More/%d#/a"}}`, reads, reads+1)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	recording := run(t.Context(), t, o).Recording
	if recording == nil || len(recording.Documents) != 2000 {
		t.Fatalf("recording %v, want 2000 documents", recording != nil)
	}
	if left := recording.LeftOut; len(left) == 0 || !strings.Contains(left[0].Why, "more than 2000") {
		t.Errorf("left out: %+v", left)
	}
}

func TestRecordingLeavesOutWhatDoesNotBelongThere(t *testing.T) {
	asked := map[string]bool{}
	o := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path] = true
		switch r.URL.Path {
		case "/redfish/v1/More":
			var links []string
			for _, path := range []string{
				"AccountService/Accounts/1", "Managers/1/LogServices/Sel/Entries", "LicenseService", "CertificateService", "Large", "Text", "Odd/One", "Fails", "../../etc", "Fine?$skip=2",
			} {
				links = append(links, fmt.Sprintf(`{"@odata.id":"/redfish/v1/%s"}`, path))
			}
			fmt.Fprintf(w, `{"Links":[%s,{"@odata.id":"https://elsewhere.example/redfish/v1/x"},{"@odata.id":"//elsewhere.example/x"}]}`, strings.Join(links, ","))
		case "/redfish/v1/Large":
			_, _ = w.Write(append([]byte(`"`), make([]byte, 2<<20)...))
		case "/redfish/v1/Text":
			fmt.Fprint(w, "<html>")
		case "/redfish/v1/Odd/One":
			fmt.Fprint(w, `{"@odata.type":"#ManagerAccount.v1_0_0.ManagerAccount","UserName":"root"}`)
		case "/redfish/v1/Fine":
			fmt.Fprintf(w, `{"Query":%q}`, r.URL.RawQuery)
		case "/redfish/v1/Fails":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	recording := run(t.Context(), t, o).Recording
	if recording == nil {
		t.Fatal("there is no recording")
	}
	for path, why := range map[string]string{
		"/redfish/v1/AccountService/Accounts/1": "accounts", "/redfish/v1/Managers/1/LogServices/Sel/Entries": "log", "/redfish/v1/LicenseService": "license",
		"/redfish/v1/CertificateService": "certificates", "/redfish/v1/Large": "more than", "/redfish/v1/Text": "no JSON", "/redfish/v1/Odd/One": "accounts",
	} {
		if _, there := recording.Documents[path]; there {
			t.Errorf("%s is recorded", path)
		}
		found := false
		for _, left := range recording.LeftOut {
			found = found || left.Path == path && strings.Contains(left.Why, why)
		}
		if !found {
			t.Errorf("%s is not left out because of %s: %+v", path, why, recording.LeftOut)
		}
	}
	if recording.Documents["/redfish/v1/Fails"].Status != 500 || recording.Documents["/redfish/v1/Fine?$skip=2"].Status != 200 {
		t.Errorf("documents %+v", recording.Documents)
	}
	for _, path := range []string{"/redfish/v1/AccountService/Accounts/1", "/redfish/v1/LicenseService", "/etc", "/x", "/redfish/v1/x"} {
		if asked[path] {
			t.Errorf("%s was read", path)
		}
	}
}

func TestTextOfABMCIsCleanedOfThePassword(t *testing.T) {
	o := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"no, %s"}}`, r.Header.Get("Authorization"))
	})
	o.User, o.Password, o.Record = "root", "swordfish-77", false
	for _, r := range run(t.Context(), t, o).Results {
		if strings.Contains(r.Found+r.Advice, "swordfish") || strings.Contains(r.Found, "cm9vdDpzd29yZGZpc2gtNzc=") {
			t.Errorf("%+v", r)
		}
	}
}
