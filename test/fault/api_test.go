//go:build fault

package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// api speaks JSON with a process.
type api struct {
	url    string
	client *http.Client
}

// newAPI returns the API at an address; answers may take as long as timeout says.
func newAPI(address string, timeout time.Duration) api {
	return api{url: "http://" + address, client: &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// ask sends a request and returns its answer.
func (a api) ask(method, path string, body any) (status int, answer []byte, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), method, a.url+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	response, err := a.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// tell makes a request about something that exists or is created by the request.
func (a api) tell(t *testing.T, method, path string, body any) {
	t.Helper()
	status, answer, err := a.ask(method, path, body)
	if err != nil || status != http.StatusOK && status != http.StatusNotFound {
		t.Errorf("%s %s: %d %v: %s", method, path, status, err, answer)
	}
}

// read asks for something and decodes it.
func (a api) read(path string, into any) error {
	status, answer, err := a.ask(http.MethodGet, path, nil)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("GET %s: status %d: %s", path, status, answer)
	}
	return json.Unmarshal(answer, into)
}
