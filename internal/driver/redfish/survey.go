package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of what is read of one machine.
const (
	maxResources = 1024    // documents
	maxMembers   = 256     // of one collection
	maxSurvey    = 8 << 20 // of all documents, in bytes
	maxLeftOut   = 32      // remarks
)

// survey reads a machine's hardware, document by document. A resource that the BMC does
// not have, or cannot show, is left out with a remark; a BMC that is busy or cannot be
// reached ends the survey.
type survey struct {
	*call
	count   int      // of the documents that were read
	bytes   int      // of them
	missed  int      // number of resources that are left out
	leftOut []string // remarks about the first of them
	// unlisted: the BMC could not show all of its list of storage controllers.
	unlisted bool
}

// resourceStatus is how a resource is (DSP0268, Status).
type resourceStatus struct{ State, Health string }

// present reports whether a resource is there and in use. Resources of machines that are
// off are on standby, and old BMCs tell no state.
func (s resourceStatus) present() bool {
	return !slices.Contains([]string{"Absent", "Disabled", "UnavailableOffline"}, s.State)
}

// page is one page of a collection.
type page struct {
	Members  []schemas.Link
	NextLink string `json:"Members@odata.nextLink"`
}

// remark notes what is left out.
func (s *survey) remark(format string, args ...any) {
	s.missed++
	if len(s.leftOut) < maxLeftOut {
		s.leftOut = append(s.leftOut, node.CutText(s.cleaned(fmt.Sprintf(format, args...))))
	}
}

// show reads a document and reports whether the BMC has it. An empty path is that of a
// resource that the BMC does not link.
func (s *survey) show(path string, into any) (bool, error) {
	if path == "" {
		return false, nil
	}
	if s.count++; s.count > maxResources {
		s.remark("%s: more than %d resources are not read", path, maxResources)
		return false, nil
	}
	answer, err := s.api.Get(path)
	if status := statusOf(err); status != 0 && status != http.StatusUnauthorized && !slices.Contains(tryLater, status) && status != http.StatusServiceUnavailable && !temporary(err) {
		s.remark("%s: %s", path, reason(err))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if errors.Is(err, errTooLarge) {
		s.remark("%s: %v", path, err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if s.bytes += len(text); s.bytes > maxSurvey {
		s.remark("%s: more than %d bytes are not read", path, maxSurvey)
		return false, nil
	}
	var mistyped *json.UnmarshalTypeError // the other properties are there
	if err := json.Unmarshal(text, into); err != nil && !errors.As(err, &mistyped) {
		s.remark("%s: %v", path, err)
		return false, nil
	}
	return true, nil
}

// list lists the members of a collection, which may have several pages.
func (s *survey) list(path string) ([]string, error) {
	var all []string
	for path != "" {
		var one page
		ok, err := s.show(path, &one)
		if err != nil || !ok {
			return all, err
		}
		for _, member := range one.Members {
			all = append(all, member.String())
		}
		if len(all) > maxMembers {
			s.remark("%s: only the first %d members are read", path, maxMembers)
			return all[:maxMembers], nil
		}
		path = one.NextLink
	}
	return all, nil
}

// each reads the documents at some paths, at most maxMembers.
func each[T any](s *survey, paths []string, take func(path string, document T)) error {
	for i, path := range paths {
		if i == maxMembers {
			s.remark("%s: only the first %d of these resources are read", path, maxMembers)
			return nil
		}
		var document T
		ok, err := s.show(path, &document)
		if err != nil {
			return err
		}
		if ok {
			take(path, document)
		}
	}
	return nil
}

// membersOf reads the members of a collection.
func membersOf[T any](s *survey, collection string, take func(path string, document T)) error {
	paths, err := s.list(collection)
	if err != nil {
		return err
	}
	return each(s, paths, take)
}
