package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// inspectPauses are the pauses between the attempts to post the document:
// exponential, at least 5 seconds. One attempt more than pauses is made.
var inspectPauses = []time.Duration{5 * time.Second, 5 * time.Second, 6 * time.Second, 12 * time.Second}

// postWorthRepeating says whether an answer (status zero means there was none)
// may be different next time.
func postWorthRepeating(status int) bool {
	return status == 0 || status >= http.StatusInternalServerError || status == http.StatusConflict
}

// inspect posts the document and returns the node's UUID if the engine said
// it. A refusal is no error: the agent goes on to look itself up, as a node
// may exist that does not want inspection. An error means that ctx ended.
func (a *Agent) inspect(ctx context.Context, document []byte) (string, error) {
	for attempt := 0; ; attempt++ {
		status, answer, err := a.engine.do(ctx, request{
			call: CallInspect, method: http.MethodPost, path: "/v1/continue_inspection", body: document,
		})
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		switch {
		case err == nil && status < http.StatusBadRequest:
			var accepted struct {
				UUID string `json:"uuid"`
			}
			if err := json.Unmarshal(answer, &accepted); err != nil {
				a.log.Debug("Engine accepted the inspection data with an unreadable answer", "err", err)
			}
			return accepted.UUID, nil
		case !postWorthRepeating(status):
			a.log.Debug("Engine refused the inspection data", "status", status, "fault", faultText(answer))
			return "", nil
		case attempt == len(inspectPauses):
			a.log.Debug("Gave up posting the inspection data", "status", status, "err", err, "attempt", attempt+1)
			return "", nil
		}
		if err := Sleep(ctx, a.clock, inspectPauses[attempt]); err != nil {
			return "", err
		}
	}
}
