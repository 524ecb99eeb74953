package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetricsAreReadWithTheirLabels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# HELP calls Calls.\n" +
			"calls{route=\"/v1/nodes/{ident}\",code=\"200\"} 12\n" +
			"calls{route=\"a \\\"b\\\"\",code=\"404\"} 1.5e+01\n" +
			"calls_more{route=\"x\"} 7\n"))
	}))
	defer server.Close()
	got, err := scrape(context.Background(), http.DefaultTransport, server.URL, "calls")
	if err != nil {
		t.Fatal(err)
	}
	want := []sample{
		{map[string]string{"route": "/v1/nodes/{ident}", "code": "200"}, 12},
		{map[string]string{"route": `a \"b\"`, "code": "404"}, 15},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("samples differ (-want +got):\n%s", diff)
	}
}
