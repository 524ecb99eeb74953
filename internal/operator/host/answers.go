package host

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// answers remembers for each host what the BMC that it asks for last told, when that kept the host from
// getting it. The record of the operation does not: while the machine is powered off through the former BMC, it is
// about the power. It is lost with the process. It is safe for concurrent use.
type answers struct {
	mu   sync.Mutex
	last map[types.UID]answer
}

// answer is what a BMC told, or why it did not.
type answer struct {
	// question is a fingerprint of the BMC, its credentials and the spec.
	question string
	told     node.MachineFacts
	err      error
	at       time.Time
	// failures is how often in a row the question was asked in vain.
	failures int
}

// get returns the answer to a question until it may be asked again. The record of a registration that failed has a
// pause of its own, after which it may be.
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

// note keeps an answer that keeps the host from getting the BMC, and forgets the one before any other.
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
