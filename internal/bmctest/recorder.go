package bmctest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ingot-metal/ingot/internal/bmctest/redact"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of a recording.
const (
	maxDocuments = 2000
	maxDocument  = 1 << 20  // bytes
	maxRecording = 16 << 20 // bytes
	recordWithin = 15 * time.Minute
	readOne      = time.Minute
	maxSilent    = 3 // paths in a row without an answer
)

// recordedHeaders are the headers of answers that clients use.
var recordedHeaders = []string{"Etag", "Allow", "Location"}

// recorder reads what a BMC shows. It follows links breadth first.
type recorder struct {
	*redfishTest
	todo      []string
	seen      map[string]bool
	documents []redact.Document
	statuses  []int
	leftOut   []LeftOut
	size      int
	silent    int // paths in a row without an answer
}

// record makes a recording. It leaves out documents that cannot be read.
func (t *redfishTest) record(ctx context.Context) *Recording {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	r := &recorder{redfishTest: t, seen: map[string]bool{}}
	r.follow("/redfish/v1/")
	for len(r.todo) > 0 {
		path := r.todo[0]
		r.todo = r.todo[1:]
		if why := r.ended(ctx); why != "" {
			r.leftOut = append(r.leftOut, LeftOut{path, why})
			continue
		}
		if why := r.read(ctx, path); why != "" {
			r.leftOut = append(r.leftOut, LeftOut{path, why})
		}
	}
	return r.recording()
}

// ended returns why no more documents are read, empty if they are.
func (r *recorder) ended(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "the time was over, or the test was interrupted"
	case len(r.documents) >= maxDocuments:
		return fmt.Sprintf("there are more than %d documents", maxDocuments)
	case r.size >= maxRecording:
		return fmt.Sprintf("the documents have more than %d MiB", maxRecording>>20)
	case r.silent >= maxSilent:
		return "the BMC has stopped answering"
	}
	return ""
}

// follow adds a path to read, unless the path is already known.
func (r *recorder) follow(path string) {
	if r.seen[sameResource(path)] {
		return
	}
	r.seen[sameResource(path)] = true
	if why := excluded(path); why != "" {
		r.leftOut = append(r.leftOut, LeftOut{path, why})
		return
	}
	r.todo = append(r.todo, path)
}

// read reads one document and follows its links. It returns why the document is left out, empty if
// it is not.
func (r *recorder) read(ctx context.Context, path string) (why string) {
	ctx, cancel := context.WithTimeout(ctx, min(readOne, r.options.Timeout))
	defer cancel()
	found, err := r.driver.Document(ctx, r.node, path, maxDocument)
	if err != nil {
		if found.Status == 0 {
			r.silent++
		}
		return describe(err)
	}
	r.silent = 0
	document := redact.Document{Path: path, Headers: map[string]string{}}
	for _, name := range recordedHeaders {
		if value := found.Header.Get(name); value != "" {
			document.Headers[name] = value
		}
	}
	if len(bytes.TrimSpace(found.Body)) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(found.Body))
		decoder.UseNumber()
		if err := decoder.Decode(&document.Body); err != nil {
			return fmt.Sprintf("it is no JSON: %s", http.StatusText(found.Status))
		}
	}
	if why := excludedType(document.Body); why != "" {
		return why
	}
	r.size += len(found.Body)
	r.documents, r.statuses = append(r.documents, document), append(r.statuses, found.Status)
	for _, link := range linksOf(document.Body) {
		r.follow(link)
	}
	return ""
}

// recording returns what was read, redacted. Paths and reasons of left-out documents may contain
// secrets, so they are redacted, too.
func (r *recorder) recording() *Recording {
	all := r.documents
	for _, left := range r.leftOut {
		all = append(all, redact.Document{Path: left.Path, Body: left.Why})
	}
	known := redact.Known{User: r.options.User, Password: r.options.Password, Key: make([]byte, 32)}
	_, _ = rand.Read(known.Key) // never fails
	if endpoint, err := r.driver.Endpoint(r.node); err == nil {
		if at, err := url.Parse(endpoint); err == nil {
			known.Host = at.Hostname()
		}
	}
	all = redact.Documents(all, known)
	out := &Recording{
		Format: recordingFormat, RecordedAt: r.options.Clock.Now().UTC().Truncate(time.Hour),
		Documents: make(map[string]RecordedDocument, len(r.documents)), LeftOut: []LeftOut{},
	}
	for i, d := range all {
		if i < len(r.documents) {
			out.Documents[d.Path] = RecordedDocument{Status: r.statuses[i], Headers: d.Headers, Body: d.Body}
			continue
		}
		why, _ := d.Body.(string)
		out.LeftOut = append(out.LeftOut, LeftOut{Path: d.Path, Why: node.CutText(why)})
	}
	return out
}
