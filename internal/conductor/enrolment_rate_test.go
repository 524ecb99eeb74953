package conductor

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestSourcesTakeTurnsInBeingEnrolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 10
		e := newEnrolmentRate(perSecond, 1)
		if !e.take(time.Now()) || e.take(time.Now()) {
			t.Fatal("a burst of one lets other than one machine through")
		}
		flood, rack := netip.MustParseAddr("192.0.2.66"), netip.MustParseAddr("192.0.2.7")
		enrolled, refused := 0, 0
		answers := make(chan error, 100)
		for range cap(answers) {
			go func() { answers <- e.wait(t.Context(), time.Now, flood) }()
		}
		synctest.Wait()
		began := time.Now()
		if err := e.wait(t.Context(), time.Now, rack); err != nil {
			t.Errorf("a machine of another source was not enrolled: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second/perSecond {
			t.Errorf("a machine of another source waited %v behind a flood", took)
		}
		for range cap(answers) {
			switch err := <-answers; {
			case err == nil:
				enrolled++
			case errors.Is(err, errEnrolmentRate):
				refused++
			default:
				t.Errorf("a machine of the flood got %v", err)
			}
		}
		if took := time.Since(began); took > maxEnrolmentWait {
			t.Errorf("the flood waited %v, want at most %v", took, maxEnrolmentWait)
		}
		if want := int(maxEnrolmentWait.Seconds() * perSecond); enrolled < want-3 || enrolled > want || refused == 0 {
			t.Errorf("%d of the flood were enrolled and %d refused, want about %d enrolled", enrolled, refused, want)
		}
	})
}
