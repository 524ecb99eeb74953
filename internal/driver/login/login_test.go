package login_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/login"
)

// denial is the error of a try that is not permitted.
func denial(t *testing.T, tries *login.Tries) *login.RefusedError {
	t.Helper()
	var refused *login.RefusedError
	if err := tries.Permitted(); err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	return refused
}

func TestCredentialsThatWereNeverAcceptedAreTriedTwiceAndThenSeldom(t *testing.T) {
	now := time.Date(2031, time.May, 6, 7, 8, 9, 0, time.UTC)
	tries := login.NewTries(func() time.Time { return now }, time.Minute, "the_user and the_password")
	denied := func() *login.RefusedError { return denial(t, tries) }
	if denied() != nil || tries.Refused() {
		t.Error("credentials that nobody has refused are not permitted")
	}
	tries.Refuse()
	if got := denied(); got == nil {
		t.Errorf("at once after a refusal: %v, want a temporary error", got)
	}
	now = now.Add(time.Minute)
	if got := denied(); got != nil {
		t.Errorf("after the pause: %v, want a second try", got)
	}
	for _, pause := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		tries.Refuse()
		now = now.Add(pause - time.Minute)
		if got := denied(); got == nil || !strings.Contains(got.Error(), "Correct the_user and the_password.") || !got.Next.Equal(now.Add(time.Minute)) {
			t.Errorf("before %s: %v, want an error that names the keys", pause, got)
		}
		now = now.Add(time.Minute)
		if got := denied(); got != nil {
			t.Errorf("after %s: %v, want a try", pause, got)
		}
	}
	tries.Accept()
	if denied() != nil || tries.Refused() {
		t.Error("accepted credentials are not permitted")
	}
}

func TestCredentialsThatABMCRefusesWhileItMayStartAreTriedAgainAfterGrowingPauses(t *testing.T) {
	now := time.Date(2031, time.May, 6, 7, 8, 9, 0, time.UTC)
	tries := login.NewTries(func() time.Time { return now }, 30*time.Second, "the_user and the_password")
	tries.Accept()
	tries.Unanswered()
	for i, pause := range []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, // it may start
		5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
		20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour,
	} {
		tries.Refuse()
		now = now.Add(pause - time.Second)
		tries.Refuse() // that of a call at the same time
		if got := denial(t, tries); got == nil || !strings.Contains(got.Error(), "accepted before") || !strings.Contains(got.Error(), "correct the_user and the_password.") || !got.Next.Equal(now.Add(time.Second)) {
			t.Errorf("before the end of pause %d: %v, want a temporary error that says what to do and when it ends", i, got)
		}
		now = now.Add(time.Second)
		if got := denial(t, tries); got != nil {
			t.Errorf("after pause %d: %v, want a try", i, got)
		}
	}
	tries.Accept()
	tries.Refuse()
	now = now.Add(30 * time.Second)
	if got := denial(t, tries); got != nil {
		t.Errorf("30 seconds after the first refusal since the last login: %v, want a try", got)
	}
}

func TestPasswordThatWasChangedIsTriedSeldomAfterTheSecondRefusal(t *testing.T) {
	now := time.Date(2031, time.May, 6, 7, 8, 9, 0, time.UTC)
	tries := login.NewTries(func() time.Time { return now }, 30*time.Second, "the_user and the_password")
	tries.Accept()
	for i, pause := range []time.Duration{30 * time.Second, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		tries.Refuse()
		tries.Unanswered() // it has refused them before
		if got := denial(t, tries); got == nil || !got.Next.Equal(now.Add(pause)) {
			t.Errorf("refusal %d: %+v, want the next try in %s", i, got, pause)
		}
		now = now.Add(pause)
	}
	tries.MayStart()
	tries.Refuse()
	if got := denial(t, tries); got == nil || got.Next.After(now.Add(5*time.Minute)) {
		t.Errorf("of a BMC that starts: %+v, want the next try soon", got)
	}
}

func TestPasswordThatWasChangedAfterABMCHadStartedIsTriedSeldom(t *testing.T) {
	for name, answers := range map[string]func(*login.Tries){"with a login": (*login.Tries).Accept, "in a session": (*login.Tries).Started} {
		now := time.Date(2031, time.May, 6, 7, 8, 9, 0, time.UTC)
		tries := login.NewTries(func() time.Time { return now }, 30*time.Second, "the_user and the_password")
		tries.Accept()
		tries.Unanswered()
		answers(tries)
		for i, pause := range []time.Duration{30 * time.Second, 20 * time.Minute} {
			tries.Refuse()
			if got := denial(t, tries); got == nil || !got.Next.Equal(now.Add(pause)) {
				t.Errorf("a BMC that answered %s, refusal %d: %+v, want the next try in %s", name, i, got, pause)
			}
			now = now.Add(pause)
		}
	}
}
