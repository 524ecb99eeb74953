package conversion

import (
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// maxRequest bounds the size of a request, in bytes. The API server sends all objects of a list in
// one request.
const maxRequest = 64 << 20

// Handler answers the API server's requests for conversion. A panic becomes an answer with an error
// and does not end the program.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := stdjson.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "the body is not a ConversionReview with a request", http.StatusBadRequest)
		return
	}
	log := logf.FromContext(r.Context()).WithValues("uid", review.Request.UID, "version", review.Request.DesiredAPIVersion)
	converted, err := convertAll(log, review.Request)
	review.Response = &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, ConvertedObjects: converted, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	if err != nil {
		log.Error(err, "Objects could not be converted")
		review.Response.ConvertedObjects = nil
		review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := stdjson.NewEncoder(w).Encode(&review); err != nil {
		log.Error(err, "An answer could not be written")
	}
}

// convertAll converts the objects of a request. If one cannot be converted, all fail.
func convertAll(log logr.Logger, request *apiextensionsv1.ConversionRequest) (converted []runtime.RawExtension, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("convert to %s: panic: %v", request.DesiredAPIVersion, p)
			log.Error(err, "A conversion panicked", "stack", string(debug.Stack()))
		}
	}()
	version, err := schema.ParseGroupVersion(request.DesiredAPIVersion)
	if err != nil {
		return nil, err
	}
	converted = make([]runtime.RawExtension, 0, len(request.Objects))
	for _, raw := range request.Objects {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw.Raw, &obj.Object); err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		if obj, err = Convert(obj, version); err != nil {
			return nil, err
		}
		text, err := json.Marshal(obj.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
		converted = append(converted, runtime.RawExtension{Raw: text})
	}
	return converted, nil
}
