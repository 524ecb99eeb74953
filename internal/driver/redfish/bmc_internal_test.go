package redfish

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestKeptServiceRootIsSmall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Vendor": "Dell", "Oem": {"Dell": {}}, "@Message.ExtendedInfo": [{}, {}], "Systems": {"@odata.id": "/redfish/v1/Systems"}}`)
	}))
	defer server.Close()
	b := newBMC(access{endpoint: server.URL}, Options{Clock: time.Now})
	b.use(server.Client().Transport)
	if _, err := b.client(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := b.known().Service; kept.Vendor != "Dell" || kept.OEM != nil || kept.ExtendedInfo != nil {
		t.Errorf("kept %+v, want the vendor without what is of any size", kept)
	}
}

func TestErrorsOfTLSWithoutACommonVersionSaySo(t *testing.T) {
	for text, want := range map[string]bool{
		"tls: server selected unsupported protocol version 301": true, // what a BMC says that knows TLS 1.0 only
		"remote error: tls: protocol version not supported":     true,
		"remote error: tls: internal error":                     false,
	} {
		if got := strings.Contains(reason(&url.Error{Op: "Get", URL: "https://192.0.2.1", Err: errors.New(text)}), "update the firmware"); got != want {
			t.Errorf("%s: advice to update is %v, want %v", text, got, want)
		}
	}
}
