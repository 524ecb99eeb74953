package host

import (
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// answers remembers, for each host, the last answer of the BMC that the host asks for, if that
// answer kept the node from getting the BMC. The record of the operation cannot hold the answer:
// while the machine is being powered off through the former BMC, it is the record of that change of
// power.
type answers struct{ memo[answer] }

// answer is what a BMC told about its machine, or the error of the question.
type answer struct {
	// question is a fingerprint of the BMC, its credentials and the spec.
	question string
	told     node.MachineFacts
	err      error
	at       time.Time
	// failures is how often in a row the question was asked in vain.
	failures int
}

// to returns the last answer to a question. It returns false when the BMC may be asked again, and
// also while the record of the operation is that of a failed registration: that record has a pause
// of its own.
func (a *answers) to(s *scope, question string, limit time.Duration) (answer, bool) {
	last, known := a.get(s.host.UID)
	record := s.before.Status.Operation
	if !known || last.question != question || record.Name == v1alpha1.OperationRegister && record.Failures > 0 {
		return answer{}, false
	}
	return last, requeue.Left(requeue.Backoff(last.failures, limit, string(s.host.UID)), last.at, s.now) > 0
}

// note remembers an answer that keeps the host from getting the BMC. Any other answer makes note
// forget the one before.
func (a *answers) note(s *scope, latest answer, keeps bool) {
	a.update(s.host.UID, func(last answer, _ bool) (answer, bool) {
		latest.at, latest.failures = s.now, 1
		if last.question == latest.question {
			latest.failures += last.failures
		}
		return latest, keeps
	})
}
