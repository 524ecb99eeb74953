package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestTraitsAreSetAddedAndRemoved(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	want := func(traits ...any) {
		t.Helper()
		diffJSON(t, "traits", append([]any{}, traits...), s.get(n + "/traits").want(http.StatusOK).json()["traits"])
		diffJSON(t, "traits of the node", append([]any{}, traits...), s.get(n).want(http.StatusOK).json()["traits"])
	}
	do := func(status int, method, path, body string) {
		t.Helper()
		s.do(method, n+path, "latest", body).want(status)
	}
	want()
	do(http.StatusNoContent, "PUT", "/traits", `{"traits":["HW_CPU_X86_VMX","CUSTOM_B","CUSTOM_B"]}`)
	want("CUSTOM_B", "HW_CPU_X86_VMX")
	do(http.StatusNoContent, "PUT", "/traits/CUSTOM_A", "")
	do(http.StatusNoContent, "PUT", "/traits/CUSTOM_A", "")
	want("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX")
	do(http.StatusNoContent, "DELETE", "/traits/CUSTOM_B", "")
	do(http.StatusNotFound, "DELETE", "/traits/CUSTOM_B", "")
	want("CUSTOM_A", "HW_CPU_X86_VMX")
	do(http.StatusBadRequest, "PATCH", "", `[{"op":"add","path":"/traits/-","value":"CUSTOM_C"}]`)
	do(http.StatusNoContent, "DELETE", "/traits", "")
	want()
}

func TestInvalidTraitsAreRefused(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	many := make([]string, node.MaxTraits+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"CUSTOM_%d"`, i)
	}
	for _, body := range []string{
		``, `{}`, `{"traits":null}`, `{"traits":"CUSTOM_A"}`, `{"traits":[1]}`, `{"traits":["custom_a"]}`, `{"traits":["A"]}`,
		`{"traits":["CUSTOM_"]}`, `{"traits":["CUSTOM_A,B"]}`, `{"traits":[],"more":1}`,
		`{"traits":["CUSTOM_` + strings.Repeat("A", 249) + `"]}`, `{"traits":[` + strings.Join(many, ",") + `]}`,
	} {
		s.do("PUT", n+"/traits", "latest", body).want(http.StatusBadRequest)
	}
	s.do("PUT", n+"/traits/bad", "latest", "").want(http.StatusBadRequest)
	s.do("PUT", n+"/traits/CUSTOM_A", "latest", `{"traits":["CUSTOM_A"]}`).want(http.StatusBadRequest)
	s.do("PUT", n+"/traits", "latest", `{"traits":[`+strings.Join(many[1:], ",")+`]}`).want(http.StatusNoContent)
	s.do("PUT", n+"/traits/CUSTOM_A", "latest", "").want(http.StatusBadRequest)
	s.get("/v1/nodes/nobody/traits").want(http.StatusNotFound)
	s.do("PUT", "/v1/nodes/nobody/traits/CUSTOM_A", "latest", "").want(http.StatusNotFound)
}

func TestTraitsBeforeTheirVersionAreRefusedAsIronicDoes(t *testing.T) {
	s := newEngineServer(t)
	traits := "/v1/nodes/" + s.node() + "/traits"
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", traits, http.StatusNotAcceptable},
		{"PUT", traits, http.StatusMethodNotAllowed},
		{"POST", traits, http.StatusMethodNotAllowed},
		{"DELETE", traits, http.StatusNotFound},
		{"PUT", traits + "/CUSTOM_A", http.StatusMethodNotAllowed},
		{"POST", traits + "/CUSTOM_A", http.StatusMethodNotAllowed},
		{"DELETE", traits + "/CUSTOM_A", http.StatusNotFound},
	} {
		s.do(tt.method, tt.path, "1.36", "").want(tt.status)
	}
	s.do("POST", traits, "1.37", "").want(http.StatusMethodNotAllowed)
}

func TestPartsOfNodesNewerThanTheRequestDoNotExistForAnyMethod(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	s.do("PUT", n+"/vmedia", "1.88", "").want(http.StatusNotFound)
	s.do("PUT", n+"/vmedia", "1.89", "").want(http.StatusMethodNotAllowed)
	s.do("PATCH", n+"/bios", "1.39", "").want(http.StatusNotFound)
	s.do("PATCH", n+"/bios", "1.40", "").want(http.StatusMethodNotAllowed)
	s.do("DELETE", "/v1/lookup", "1.21", "").want(http.StatusMethodNotAllowed)
}
