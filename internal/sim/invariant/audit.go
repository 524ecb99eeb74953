package invariant

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// auditEvent is the part of an event of audit.k8s.io/v1 that this package uses.
type auditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef *struct {
		Resource string `json:"resource"`
		Name     string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// ResponseObject is a Status, or the Node if that has finalizers.
	ResponseObject *struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Details *struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
		// Items are the objects that the deletion of a collection has deleted.
		Items []struct {
			Metadata struct {
				Name string    `json:"name"`
				UID  types.UID `json:"uid"`
			} `json:"metadata"`
		} `json:"items"`
	} `json:"responseObject"`
	RequestReceived metav1.MicroTime `json:"requestReceivedTimestamp"`
}

// ReadAuditLog returns the deletions of Nodes in an audit log. The log has one event in each line,
// with the answer of the API server. It returns nothing for a log that does not exist, and ignores
// an incomplete last line.
func ReadAuditLog(path string) ([]Deletion, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	var deletions []Deletion
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return deletions, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read a line of the audit log %s: %w", path, err)
		}
		deletions = append(deletions, event.deletions()...)
	}
}

// deletions returns the deletions of Nodes that the event reports.
func (e auditEvent) deletions() []Deletion {
	if e.Stage != "ResponseComplete" || e.ObjectRef == nil || e.ObjectRef.Resource != "nodes" ||
		e.ResponseStatus == nil || e.ResponseStatus.Code >= http.StatusMultipleChoices {
		return nil
	}
	d := Deletion{Node: e.ObjectRef.Name, User: e.User.Username, Agent: e.UserAgent, At: e.RequestReceived.Time}
	switch {
	case e.Verb == "delete":
		if r := e.ResponseObject; r != nil && r.Metadata.UID != "" {
			d.UID = r.Metadata.UID
		} else if r != nil && r.Details != nil {
			d.UID = r.Details.UID
		}
		return []Deletion{d}
	case e.Verb == "deletecollection" && e.ResponseObject != nil:
		var all []Deletion
		for _, item := range e.ResponseObject.Items {
			d.Node, d.UID = item.Metadata.Name, item.Metadata.UID
			all = append(all, d)
		}
		return all
	default:
		return nil
	}
}
