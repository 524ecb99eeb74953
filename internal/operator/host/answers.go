package host

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// answers remembers, for each host, the last answer of the BMC that the host asks for, if that
// answer kept the node from getting the BMC. The record of the operation cannot hold the answer:
// while the machine is being powered off through the former BMC, it is the record of that change of
// power. The answers are lost with the process. It is safe for concurrent use.
type answers struct {
	mu   sync.Mutex
	last map[types.UID]answer
}

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

// get returns the last answer to a question. It returns false when the BMC may be asked again, and
// also while the record of the operation is that of a failed registration: that record has a pause
// of its own.
func (a *answers) get(s *scope, question string, limit time.Duration) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.last[s.host.UID]
	record := s.before.Status.Operation
	if !known || last.question != question || record.Name == v1alpha1.OperationRegister && record.Failures > 0 {
		return answer{}, false
	}
	return last, requeue.Left(requeue.Backoff(last.failures, limit, string(s.host.UID)), last.at, s.now) > 0
}

// note remembers an answer that keeps the host from getting the BMC. Any other answer makes note
// forget the one before.
func (a *answers) note(s *scope, latest answer, keeps bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !keeps {
		delete(a.last, s.host.UID)
		return
	}
	latest.at, latest.failures = s.now, 1
	if last := a.last[s.host.UID]; last.question == latest.question {
		latest.failures += last.failures
	}
	a.last[s.host.UID] = latest
}

func (a *answers) forget(host types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, host)
}
