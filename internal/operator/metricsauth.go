package operator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// reviewTimeout bounds the two questions to the API server about a caller.
	reviewTimeout = 10 * time.Second
	// reviewQPS and reviewBurst bound these questions for all callers together. Otherwise somebody
	// without a valid token could use up the time of the API server or the requests of the
	// controllers. A collector asks two questions per scrape, usually every 15 s or less often.
	reviewQPS, reviewBurst = 10, 20
	// reviewSlots bounds how many callers wait at the same time.
	reviewSlots = 16
)

// callers decides who may read metrics, as Kubernetes' own components do: the API server says whose
// token it is (TokenReview) and whether that user may get the path (SubjectAccessReview). The
// filters of controller-runtime ask the same, but they import k8s.io/apiserver, which would make
// the program grow by more than half.
type callers struct {
	tokens  authenticationclient.TokenReviewInterface
	rights  authorizationclient.SubjectAccessReviewInterface
	waiting chan struct{}
}

// onlyAuthorized is a filter provider of controller-runtime's metrics server.
func onlyAuthorized(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewQPS, reviewBurst
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("prepare authentication of metrics: %w", err)
	}
	rights, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("prepare authorization of metrics: %w", err)
	}
	c := callers{tokens: tokens.TokenReviews(), rights: rights.SubjectAccessReviews(), waiting: make(chan struct{}, reviewSlots)}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := c.check(r)
			if err != nil {
				log.Error(err, "Nobody could be asked who may read metrics")
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			handler.ServeHTTP(w, r)
		}), nil
	}, nil
}

// check returns 200 for a caller who may make the request. Otherwise it returns the status of the
// refusal: 401 without a valid token, 403 without the right, 503 while too many callers wait. It
// returns 500 and an error if the API server could not be asked.
func (c callers) check(r *http.Request) (int, error) {
	token, ok := bearerToken(r)
	if !ok {
		return http.StatusUnauthorized, nil
	}
	select {
	case c.waiting <- struct{}{}:
		defer func() { <-c.waiting }()
	default:
		return http.StatusServiceUnavailable, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	whose, err := c.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("ask whose token it is: %w", err)
	}
	if !whose.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	may, err := c.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: access(whose.Status.User, r)}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, fmt.Errorf("ask whether %s may read metrics: %w", whose.Status.User.Username, err)
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// bearerToken returns the token of a request (RFC 6750, section 2.1), and whether there is one.
func bearerToken(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// access asks whether a user may make a request.
func access(user authenticationv1.UserInfo, r *http.Request) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}
}
