package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/jsonscan"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of request bodies, in bytes.
const (
	maxBody           = 1 << 20
	maxProvisionBody  = 64 << 20 // carries a config drive
	maxInspectionBody = 16 << 20
	maxHeartbeatBody  = 128 << 10
)

// maxDepth is the largest nesting depth of JSON in a request.
const maxDepth = 25

// maxDrained is how much of a refused body is read and discarded, in bytes. A client that is still
// writing would not read the answer.
const maxDrained = 64 << 20

func bodyTooLarge(limit int64) *apiError {
	return &apiError{
		status: http.StatusRequestEntityTooLarge, form: bareForm,
		message: fmt.Sprintf("The request body is larger than %d bytes.", limit),
	}
}

// trustedLength is how much memory, in bytes, is allocated for the announced length of a body, and
// then at each step as bytes arrive.
const trustedLength = 64 << 10

// readBody reads the JSON body of a request. It checks only that the body is UTF-8 and not nested
// too deep. An empty body is nil.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, refuseBody(r, limit)
	}
	text, err := readParts(http.MaxBytesReader(w, r.Body, limit), min(max(r.ContentLength, 0), trustedLength)+bytes.MinRead)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuseBody(r, limit)
	case errors.Is(err, node.ErrBusy):
		return nil, err
	case err != nil:
		return nil, badRequest("Could not read the request body: %v", err)
	}
	body := bytes.TrimSpace(text)
	if !utf8.Valid(body) {
		return nil, badRequest("The request body is not UTF-8.")
	}
	if depth(body) > maxDepth {
		return nil, badRequest("The JSON of the request is nested deeper than %d levels.", maxDepth)
	}
	return body, nil
}

// readParts reads to the end, first into a buffer of the given size and then into parts, which it
// joins at the end. A growing buffer would leave copies of itself behind, and hundreds of bodies
// may be arriving for a long time.
func readParts(from io.Reader, first int64) ([]byte, error) {
	var full [][]byte
	part := make([]byte, 0, first)
	for {
		n, err := from.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		switch {
		case errors.Is(err, io.EOF) && len(full) == 0:
			return part, nil
		case errors.Is(err, io.EOF):
			return slices.Concat(append(full, part)...), nil
		case err != nil:
			return nil, err
		case len(part) == cap(part):
			full, part = append(full, part), make([]byte, 0, trustedLength)
		}
	}
}

// refuseBody returns the error for a body over its limit. It first reads the body to its end,
// unless the client waits for permission to send it (RFC 9110, section 10.1.1).
func refuseBody(r *http.Request, limit int64) error {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, uncharged(r.Body), maxDrained) // only lets the client finish
	}
	return bodyTooLarge(limit)
}

// checkContentType accepts every JSON media type, and a missing type.
func checkContentType(header string) error {
	if header == "" {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(header)
	if err == nil && (mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.Contains(mediaType, "json")) {
		return nil
	}
	return &apiError{
		status:  http.StatusUnsupportedMediaType,
		message: fmt.Sprintf("The content type %q is not supported; send application/json.", header),
	}
}

// depth returns the nesting depth of a JSON text. It does not check the text.
func depth(text []byte) int {
	deepest, level := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = jsonscan.StringEnd(text, i) - 1
		case '{', '[':
			level++
			deepest = max(deepest, level)
		case '}', ']':
			level--
		}
	}
	return deepest
}

// checkNumbers refuses numbers outside the range of float64. If such a number were stored, clients
// could read no list that contains it.
func checkNumbers(text []byte) error {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i = jsonscan.StringEnd(text, i) - 1
		case '0' <= c && c <= '9':
			end := i
			for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
				end++
			}
			if _, err := strconv.ParseFloat(string(text[i:end]), 64); errors.Is(err, strconv.ErrRange) {
				return badRequest("The number %s is too large.", node.CutText(string(text[i:end])))
			}
			i = end - 1
		}
	}
	return nil
}

// decodeBody reads a JSON body of at most limit bytes into target. Keys that target lacks are an
// error.
func decodeBody(w http.ResponseWriter, r *http.Request, limit int64, target any) error {
	body, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	return decodeRequired(body, target)
}

// decodeRequired is decode for a request that needs a body.
func decodeRequired(body []byte, target any) error {
	if len(body) == 0 {
		return badRequest("The request needs a JSON body.")
	}
	return decode(body, target)
}

func decode(body []byte, target any) error {
	if err := checkNumbers(body); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(target)
	if err == nil && decoder.More() {
		err = errors.New("there is more than one JSON value")
	}
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return badRequest("Invalid value for %q: got %s where %s is expected.", wrongType.Field, wrongType.Value, wrongType.Type)
	case errors.As(err, &wrongType):
		return badRequest("The request body is %s where %s is expected.", wrongType.Value, expected(target))
	}
	return badRequest("Malformed request body: %v", strings.TrimPrefix(err.Error(), "json: "))
}

// expected describes the required type of a request body in an error.
func expected(target any) string {
	switch target.(type) {
	case *[]patchOp:
		return "a JSON array of patch operations"
	}
	return "a JSON object"
}
