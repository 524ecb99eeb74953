package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
)

func TestDefinitionWithoutTheRecordsOfOperationsIsRecognized(t *testing.T) {
	const path = "/openapi/v3/apis/metal3.io/v1alpha1"
	for name, tt := range map[string]struct {
		properties string
		lacks      bool
	}{
		"present":               {`{"operation":{"type":"object"},"updates":{"type":"object"}}`, false},
		"of an earlier version": {`{"operation":{"type":"object"}}`, true},
		"of another version":    {`{"poweredOn":{"type":"boolean"}}`, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path != path {
				_, _ = fmt.Fprintf(w, `{"paths":{"apis/metal3.io/v1alpha1":{"serverRelativeURL":%q}}}`, path)
				return
			}
			_, _ = fmt.Fprintf(w, `{"openapi":"3.0.0","info":{"title":"t","version":"v"},"paths":{},"components":{"schemas":{
				"io.metal3.v1alpha1.BareMetalHost":{"type":"object","properties":{"status":{"type":"object","properties":%s}}}}}}`, tt.properties)
		}))
		client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if got := lacksRecords(openapi3.NewRoot(client.OpenAPIV3())); got != tt.lacks {
			t.Errorf("%s: lacks %v, want %v", name, got, tt.lacks)
		}
		server.Close()
	}
}
