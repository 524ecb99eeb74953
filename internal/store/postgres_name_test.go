package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNameThatAnotherHoldsIsRefusedAlsoWhenTheTimeEndsDuringTheLastQuestion(t *testing.T) {
	broken := errors.New("broken")
	free := func(context.Context) (bool, error) { return true, nil }
	held := func(context.Context) (bool, error) { return false, nil }
	slow := func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
	fails := func(context.Context) (bool, error) { return false, broken }
	for name, test := range map[string]struct {
		first, then func(context.Context) (bool, error)
		within      time.Duration // of the caller
		want        string        // "" is none
	}{
		"free":                                {free, fails, time.Hour, ""},
		"free after a while":                  {held, free, time.Hour, ""},
		"held":                                {held, held, time.Hour, `another engine named "east"`},
		"held, and no answer then":            {held, slow, time.Hour, `another engine named "east"`},
		"no answer at all":                    {slow, slow, time.Hour, "deadline exceeded"},
		"a connection that breaks":            {fails, free, time.Hour, "broken"},
		"held, and it breaks then":            {held, fails, time.Hour, "broken"},
		"held, and the caller goes":           {held, held, time.Second, "deadline exceeded"},
		"held, and the caller goes meanwhile": {held, slow, time.Second, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.within)
				defer cancel()
				questions := 0
				err := (&postgresName{name: "east"}).claim(ctx, func(ctx context.Context) (bool, error) {
					if questions++; questions == 1 {
						return test.first(ctx)
					}
					return test.then(ctx)
				})
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("claim: got %v, want %q", err, test.want)
				}
			})
		})
	}
}
