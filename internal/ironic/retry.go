package ironic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

const (
	// DefaultRetryInterval is the time between two attempts when
	// [Options.RetryInterval] is zero.
	DefaultRetryInterval = 5 * time.Second
	// maxRetryAfter limits the time that an engine may ask to wait.
	maxRetryAfter = time.Minute
)

// call runs one request. If the failure is temporary, call repeats the request as often as
// [Options.Retries] allows.
func (c *Client) call(ctx context.Context, op string, request func(context.Context, *gophercloud.ServiceClient) error) error {
	for left := c.retries; ; left-- {
		err := c.once(ctx, op, request)
		if left <= 0 || !refusedForNow(err) {
			return err
		}
		var failed *Error
		errors.As(err, &failed)
		pause := time.NewTimer(min(cmp.Or(failed.RetryAfter, c.interval), max(c.interval, maxRetryAfter)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
	}
}

// refusedForNow reports whether the engine did nothing but may do it later. An engine that did not
// answer in time may have acted all the same. So the only network error that counts is a refused
// connection.
func refusedForNow(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrOverloaded) ||
		errors.Is(err, ErrUnreachable) && errors.Is(err, syscall.ECONNREFUSED)
}
