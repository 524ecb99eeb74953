package conversion

import (
	stdjson "encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ask sends a request as the API server does.
func ask(t *testing.T, to string, objects ...string) *apiextensionsv1.ConversionResponse {
	t.Helper()
	review := apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
		Request:  &apiextensionsv1.ConversionRequest{UID: "7", DesiredAPIVersion: to},
	}
	for _, text := range objects {
		review.Request.Objects = append(review.Request.Objects, runtime.RawExtension{Raw: []byte(text)})
	}
	body, err := stdjson.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", strings.NewReader(string(body))))
	var got apiextensionsv1.ConversionReview
	if err := stdjson.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Response == nil || got.Kind != "ConversionReview" || got.Response.UID != "7" {
		t.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	return got.Response
}

func TestObjectsOfARequestAreConvertedInTheirOrder(t *testing.T) {
	t.Parallel()
	got := ask(
		t, "infrastructure.cluster.x-k8s.io/v1beta2",
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Metal3Remediation","metadata":{"name":"a"},"spec":{"strategy":{"timeout":"5m"}}}`,
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"Metal3Remediation","metadata":{"name":"b"}}`,
	)
	if got.Result.Status != metav1.StatusSuccess || len(got.ConvertedObjects) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{`"timeoutSeconds":300`, `"name":"b"`} {
		if text := string(got.ConvertedObjects[i].Raw); !strings.Contains(text, want) || !strings.Contains(text, "v1beta2") {
			t.Errorf("object %d: %s", i, text)
		}
	}
}

func TestOneObjectThatCannotBeConvertedFailsItsRequest(t *testing.T) {
	t.Parallel()
	good := `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Metal3Data","metadata":{"name":"a"}}`
	for text, to := range map[string]string{
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Pod"}`: "infrastructure.cluster.x-k8s.io/v1beta2",
		`[]`: "infrastructure.cluster.x-k8s.io/v1beta2",
		good: "a/b/c",
	} {
		if got := ask(t, to, good, text); got.Result.Status != metav1.StatusFailure || got.Result.Message == "" || len(got.ConvertedObjects) > 0 {
			t.Errorf("%s to %s: %+v", text, to, got)
		}
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "{}"} {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q: status %d", body, w.Code)
		}
	}
}
