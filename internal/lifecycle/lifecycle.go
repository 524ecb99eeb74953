// Package lifecycle starts the parts of a program in order and stops them in reverse order. If a
// part fails to start, the parts before it are stopped. A part that does not stop in time does not
// block the others.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultStopTimeout is the StopTimeout of a Stack that does not set one.
const DefaultStopTimeout = 15 * time.Second

// grace is how long a stop may continue after its context has ended. It leaves time to clean up and
// to return an error that says more than the stack can.
const grace = time.Second

// Part is one part of a program.
type Part struct {
	Name string
	// Start returns when the part is ready, or with an error that says what was tried. A part that
	// failed to start is not stopped. Nil means that there is nothing to start.
	Start func(context.Context) error
	// Stop returns when the part has ended, or soon after ctx has ended. Nil means that there is
	// nothing to stop.
	Stop func(context.Context) error
}

// Stack has the running parts. The zero value is ready to use. It is not safe for
// concurrent use.
type Stack struct {
	StopTimeout time.Duration // for each part; 0 means DefaultStopTimeout
	running     []Part
}

// Start starts parts in the given order. If one fails to start, every part on the stack is stopped,
// even if ctx has ended. The error joins the error of the start with those of the stops.
func (s *Stack) Start(ctx context.Context, parts ...Part) error {
	for _, part := range parts {
		if part.Start != nil {
			if err := part.Start(ctx); err != nil {
				return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
			}
		}
		s.Push(part)
	}
	return nil
}

// Push adds a running part to the stack. A Start function that starts several parts
// pushes each as soon as it runs.
func (s *Stack) Push(part Part) { s.running = append(s.running, part) }

// Stop stops all parts, last started first. It returns all errors, each with the name of its part.
// ctx and StopTimeout limit each stop. A stop that has not returned a second after that is
// reported and no longer waited for. A second call does nothing.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for len(s.running) > 0 {
		last := len(s.running) - 1
		part := s.running[last]
		s.running = s.running[:last]
		if part.Stop == nil {
			continue
		}
		if err := s.stop(ctx, part); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", part.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Stack) stop(ctx context.Context, part Part) error {
	timeout := s.StopTimeout
	if timeout == 0 {
		timeout = DefaultStopTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- part.Stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-stopped:
		return err
	case <-timer.C:
		return fmt.Errorf("still running, no longer waited for: %w", ctx.Err())
	}
}
