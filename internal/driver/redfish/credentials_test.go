package redfish_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

func TestRefusedCredentialsAreTriedTwiceAndThenSeldom(t *testing.T) {
	for _, auth := range []string{"auto", "basic"} {
		t.Run(auth, func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			now := time.Now()
			d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
			defer func() { _ = d.Close(context.Background()) }()
			m.info(map[string]any{"redfish_password": "not-this-one", "redfish_auth_type": auth})

			first := read(t, d, m.node)
			if first == nil || !first.Retryable || !strings.Contains(first.Reason, "refuses the user name or password") || strings.Contains(first.Reason, "not-this-one") {
				t.Fatalf("first try: %v, want a temporary failure that names the cause and no password", first)
			}
			asked := m.Recorder.Reads(redfishtest.Name)
			if again := read(t, d, m.node); again == nil || !again.Retryable || m.Recorder.Reads(redfishtest.Name) != asked {
				t.Errorf("at once: %v, and %d requests reached the BMC, want none", again, m.Recorder.Reads(redfishtest.Name)-asked)
			}
			now = now.Add(2 * time.Minute)
			if second := read(t, d, m.node); second == nil || m.Recorder.Reads(redfishtest.Name) == asked {
				t.Errorf("after the pause: %v, want that the BMC was asked", second)
			}
			asked = m.Recorder.Reads(redfishtest.Name)
			now = now.Add(19 * time.Minute)
			if third := read(t, d, m.node); third == nil || !strings.Contains(third.Reason, "Correct redfish_username") || m.Recorder.Reads(redfishtest.Name) != asked {
				t.Errorf("after 19 minutes: %v, want a failure without a request", third)
			}
			now = now.Add(time.Minute)
			if fourth := read(t, d, m.node); fourth == nil || m.Recorder.Reads(redfishtest.Name) == asked {
				t.Errorf("after 20 minutes: %v, want that the BMC was asked", fourth)
			}
			m.info(map[string]any{"redfish_password": redfishtest.Password})
			if right := read(t, d, m.node); right != nil {
				t.Errorf("with other credentials: %v", right)
			}
		})
	}
}

func TestCredentialsThatABMCRefusesWhileItRestartsAreSentAfterwards(t *testing.T) {
	for _, auth := range []string{"session", "basic"} {
		t.Run(auth, func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			now, restarts := time.Now(), false
			d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
			defer func() { _ = d.Close(context.Background()) }()
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if restarts {
					said(w, http.StatusUnauthorized, `{}`)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			m.info(map[string]any{"redfish_auth_type": auth})
			for i := range 3 {
				for _, restarts = range []bool{false, true} {
					if failure := read(t, d, m.node); (failure != nil) != restarts {
						t.Fatalf("restart %d: %v, want a failure: %t", i, failure, restarts)
					}
					now = now.Add(2 * time.Minute)
				}
			}
		})
	}
}

func TestAcceptedCredentialsAreTriedAgainThoughTheyWereNotUsedForLong(t *testing.T) {
	m, _ := newMachine(t, "dell")
	began := time.Now()
	var hours atomic.Int64 // that have passed; the end of an idle session reads the clock, too
	d := redfish.New(redfish.Options{Clock: func() time.Time { return began.Add(time.Duration(hours.Load()) * time.Hour) }, SessionIdle: time.Millisecond})
	defer func() { _ = d.Close(context.Background()) }()
	var refuses atomic.Bool
	var logins atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if refuses.Load() && r.Method == http.MethodPost {
			logins.Add(1)
			said(w, http.StatusUnauthorized, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	m.info(map[string]any{"redfish_auth_type": "session"})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	for deadline := time.Now().Add(10 * time.Second); sessions(t, m) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the session was never given back")
		}
	}
	refuses.Store(true)
	for try := range int64(3) {
		if failure := read(t, d, m.node); failure == nil || !failure.Retryable || logins.Load() != try+1 {
			t.Errorf("%v after %d logins, want a temporary failure after %d", failure, logins.Load(), try+1)
		}
		hours.Add(1)
	}
}

func TestBMCThatRefusesLoginsAfterItDidNotAnswerIsAskedAgainSoon(t *testing.T) {
	for _, test := range []struct{ silent, answers bool }{{silent: false}, {silent: true}, {silent: true, answers: true}} {
		m, _ := newMachine(t, "dell")
		now := time.Now()
		d := redfish.New(redfish.Options{Clock: func() time.Time { return now }})
		defer func() { _ = d.Close(context.Background()) }()
		silent, refuses, logins := false, false, 0
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			switch {
			case silent:
				panic(http.ErrAbortHandler)
			case refuses && r.Method == http.MethodPost:
				logins++
				fallthrough
			case refuses:
				said(w, http.StatusUnauthorized, `{}`)
			default:
				bmc.ServeHTTP(w, r)
			}
		})
		m.info(map[string]any{"redfish_auth_type": "session"})
		if failure := read(t, d, m.node); failure != nil {
			t.Fatal(failure)
		}
		silent = test.silent
		if failure := read(t, d, m.node); (failure != nil) != test.silent {
			t.Fatal(failure)
		}
		silent = false
		if test.answers { // in the session that it has granted before
			if failure := read(t, d, m.node); failure != nil {
				t.Fatal(failure)
			}
		}
		refuses = true
		for range 16 {
			if failure := read(t, d, m.node); failure == nil || !failure.Retryable {
				t.Fatalf("%v, want a temporary failure", failure)
			}
			now = now.Add(time.Minute)
		}
		if soon := logins > 2; soon != (test.silent && !test.answers) {
			t.Errorf("%+v: %d logins in 16 minutes, want more than two only where the BMC may start", test, logins)
		}
	}
}

func TestPasswordThatWasChangedIsNotSentWithEachCallToABMCThatDoesNotSaySo(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusInternalServerError} {
		m, _ := newMachine(t, "dell")
		now := time.Now()
		d := redfish.New(redfish.Options{Clock: func() time.Time { return now }})
		defer func() { _ = d.Close(context.Background()) }()
		changed, sent := false, 0
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			_, _, given := r.BasicAuth()
			switch {
			case changed && r.Method == http.MethodPost:
				sent++
				said(w, status, `{}`)
			case changed && given:
				sent++
				said(w, http.StatusUnauthorized, `{}`)
			case changed && r.Header.Get("X-Auth-Token") != "":
				said(w, http.StatusUnauthorized, `{}`) // the session has ended
			default:
				bmc.ServeHTTP(w, r)
			}
		})
		if failure := read(t, d, m.node); failure != nil {
			t.Fatal(failure)
		}
		changed = true
		for range 60 {
			if failure := read(t, d, m.node); failure == nil || !failure.Retryable {
				t.Fatalf("%d: %v, want a temporary failure", status, failure)
			}
			now = now.Add(time.Minute)
		}
		if sent > 15 {
			t.Errorf("%d: the wrong password was sent %d times within an hour, want growing pauses", status, sent)
		}
	}
}
