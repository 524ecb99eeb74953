package redfish

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxBody limits the body of a request, in bytes. A larger one is refused.
const maxBody = 64 << 10

// object is a JSON object.
type object map[string]any

// answer is the answer to a request.
type answer struct {
	status   int // 0 means 200
	location string
	token    string // token of a new session
	body     any    // nil means none
	gzip     bool   // the body is sent compressed, even to a client that does not accept that
	tagged   bool   // the body is a resource, which has an ETag
}

// resource answers with a document.
func resource(body object) answer { return answer{body: body, tagged: true} }

// write sends the answer.
func (a answer) write(s *Service, w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("OData-Version", "4.0")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", "application/json; charset=utf-8")
	if a.location != "" {
		h.Set("Location", s.shape.locate(r, a.location))
	}
	if a.token != "" {
		h.Set("X-Auth-Token", a.token)
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	var text []byte
	if a.body != nil {
		text = encode(a.body)
	}
	if a.tagged {
		h.Set("ETag", etagOf(text))
	}
	if a.gzip {
		h.Set("Content-Encoding", "gzip")
		text = compressed(text)
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Basic realm="RedfishService"`)
	}
	if a.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "30")
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client may be gone
	}
}

// encode writes JSON. Its keys are sorted, so that equal documents have equal ETags.
func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil { // documents have nothing that JSON cannot express
		panic("encode a document: " + err.Error())
	}
	return text
}

// etagOf returns the weak entity tag of a document.
func etagOf(text []byte) string {
	sum := fnv.New32a()
	_, _ = sum.Write(text) // never fails
	return `W/"` + strings.ToUpper(strconv.FormatUint(uint64(sum.Sum32()), 16)) + `"`
}

// matches reports whether a header If-Match accepts a document.
func matches(header string, document object) bool {
	bare := func(tag string) string { return strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`) }
	for tag := range strings.SplitSeq(header, ",") {
		if bare(tag) == "*" || bare(tag) == bare(etagOf(encode(document))) {
			return true
		}
	}
	return false
}

func compressed(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	return b.Bytes()
}

// decode reads the body of a request, which may be empty.
func (s *Service) decode(q *request) *answer {
	text, err := io.ReadAll(io.LimitReader(q.Body, maxBody+1))
	malformed := s.problem(problem{http.StatusBadRequest, "MalformedJSON"}, "", "")
	if err != nil || len(text) > maxBody {
		return &malformed
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &q.body); err != nil {
		return &malformed
	}
	return nil
}

// text returns a property of the body that must be a string; "" if it is missing. It returns false
// if the property is something else.
func (o object) text(name string) (string, bool) {
	value, ok := o[name]
	if !ok || value == nil {
		return "", true
	}
	text, isText := value.(string)
	return text, isText
}

// object returns a property of the body that must be an object, or nil if it is none.
func (o object) object(name string) object {
	value, _ := o[name].(map[string]any)
	return value
}
