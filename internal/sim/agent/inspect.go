package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// inspectPauses are the pauses between the attempts to post the document. They grow exponentially
// and are at least 5 seconds. There is one more attempt than there are pauses.
var inspectPauses = []time.Duration{5 * time.Second, 5 * time.Second, 6 * time.Second, 12 * time.Second}

// postWorthRepeating reports whether agents post again after an answer with this status; zero means
// that there was no answer. New releases also post again after a 409; the simulated versions do
// not.
func postWorthRepeating(status int) bool {
	return status == 0 || status >= http.StatusInternalServerError
}

// inspect posts the document. It returns the UUID of the node if the answer has it. A refusal is no
// error: the agent then looks itself up, because its node may exist without being inspected. An
// error means that ctx ended, or is [ErrInspectionUnanswered].
func (a *Agent) inspect(ctx context.Context, document []byte) (string, error) {
	for attempt := 0; ; attempt++ {
		status, answer, err := a.postDocument(ctx, document)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		switch {
		case errors.Is(err, errReadTimeout):
			return "", fmt.Errorf("%w (%s)", ErrInspectionUnanswered, requestTimeout)
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

// postDocument posts to the callback URLs in turn until one is answered.
func (a *Agent) postDocument(ctx context.Context, document []byte) (status int, answer []byte, err error) {
	for _, target := range a.config.CallbackURLs {
		status, answer, err = a.engine.do(ctx, request{call: CallInspect, method: http.MethodPost, path: target, body: document})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return status, answer, err
}
