package login_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/login"
)

func TestCredentialsAreTriedTwiceUnlessTheyAreAccepted(t *testing.T) {
	now := time.Date(2031, time.May, 6, 7, 8, 9, 0, time.UTC)
	tries := login.NewTries(func() time.Time { return now }, time.Minute, "the_user and the_password")
	denied := func() *login.RefusedError {
		var refused *login.RefusedError
		if err := tries.Permitted(); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return refused
	}
	if denied() != nil || tries.Refused() {
		t.Error("credentials that nobody has refused are not permitted")
	}
	tries.Refuse()
	if got := denied(); got == nil || got.Final {
		t.Errorf("at once after a refusal: %v, want a temporary error", got)
	}
	now = now.Add(time.Minute)
	if got := denied(); got != nil {
		t.Errorf("after the pause: %v, want a second try", got)
	}
	tries.Refuse()
	now = now.Add(time.Hour)
	if got := denied(); got == nil || !got.Final || !strings.Contains(got.Error(), "Correct the_user and the_password.") {
		t.Errorf("after two refusals: %v, want a final error that names the keys", got)
	}
	tries.Accept()
	if denied() != nil || tries.Refused() {
		t.Error("accepted credentials are not permitted")
	}
}
