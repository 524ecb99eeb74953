package redfish

import (
	"io"
	"net/http"
	"net/http/httptest"
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
