package hardware_test

import (
	"encoding/json"
	"os"
	"testing"
)

// recordedDocument is the inspection document of a real agent.
func recordedDocument(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile("../agent/testdata/ironic-python-agent-9.11.0.json")
	if err != nil {
		t.Fatalf("read recording: %v", err)
	}
	var exchanges []struct {
		Path string          `json:"path"`
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(raw, &exchanges); err != nil {
		t.Fatalf("decode recording: %v", err)
	}
	for _, e := range exchanges {
		if e.Path == "/v1/continue_inspection" {
			return e.Body
		}
	}
	t.Fatal("recording holds no inspection document")
	return nil
}
