package bmctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Recording is what a Redfish BMC showed, without data that identifies its machine. The keys of
// Documents are paths with their queries.
type Recording struct {
	// Format is "ingot-bmc-recording/1".
	Format     string                      `json:"format"`
	RecordedAt time.Time                   `json:"recorded_at"`
	Documents  map[string]RecordedDocument `json:"documents"`
	LeftOut    []LeftOut                   `json:"left_out"`
}

const recordingFormat = "ingot-bmc-recording/1"

// RecordedDocument is an answer to a GET.
type RecordedDocument struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    any               `json:"body,omitempty"`
}

// LeftOut is a path that documents link to but that is not recorded.
type LeftOut struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Write writes the recording to a file that only its owner may read. It replaces an existing file
// after the new one is completely written.
func (r *Recording) Write(path string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".recording-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it has its name by then, or an error is returned
	_, err = io.Copy(file, &text)
	if syncErr := file.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the recording %s: %w", path, err)
	}
	return nil
}
