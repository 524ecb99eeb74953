package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// media gives the machine of a host the image of its DataImage before the machine is powered on.
// Before something is deployed, media takes out the image of an earlier use. It is the only writer
// of attachedImage, request and error in the status of a DataImage; package dataimage writes the
// rest.
type media struct {
	client     client.Client
	live       client.Reader
	engine     provisioner.MediaController
	nodes      nodeView
	maxBackoff time.Duration
}

// mediaStep is what has to be done next about a DataImage.
type mediaStep int

const (
	mediaDone  mediaStep = iota // the machine has the image that it should have, or none
	mediaHold                   // a failure was shown; its wait is not over
	mediaAsk                    // the engine has to be asked
	mediaCheck                  // the engine has accepted a request and is idle again
)

// decideMedia returns the next step for a DataImage, and the request that the step is about, which
// is empty for mediaDone. used says whether the host is in use: no other host gets an image. hold
// is the wait that is left after the last failure.
func decideMedia(d *v1alpha1.DataImage, used bool, hold time.Duration) (mediaStep, v1alpha1.DataImageRequest) {
	wanted := wantedURL(d, used)
	next := v1alpha1.DataImageRequest{Action: v1alpha1.DataImageAttach, URL: wanted}
	detach := v1alpha1.DataImageRequest{Action: v1alpha1.DataImageDetach}
	switch last, attached := d.Status.Request, attachedURL(d); {
	case last != nil && last.Accepted:
		return mediaCheck, *last
	case last != nil && (last.Action != v1alpha1.DataImageAttach || last.URL != wanted):
		next = detach // nobody knows what became of the last request
	case last != nil: // the same request is sent again
		next.Lost = last.Lost
	case wanted == attached:
		return mediaDone, v1alpha1.DataImageRequest{}
	case attached != "":
		next = detach
	}
	if failed := d.Status.Error; failed != nil && failed.URL == next.URL {
		next.Lost = next.Lost || failed.Lost
		if hold > 0 {
			return mediaHold, next
		}
	}
	return mediaAsk, next
}

// wantedURL returns the image that a machine should have; "" means none.
func wantedURL(d *v1alpha1.DataImage, used bool) string {
	if !used || !d.DeletionTimestamp.IsZero() {
		return ""
	}
	return d.Spec.URL
}

func attachedURL(d *v1alpha1.DataImage) string {
	if d.Status.AttachedImage == nil {
		return ""
	}
	return d.Status.AttachedImage.URL
}

// reconcile makes the next step for a host whose machine is about to be powered on or deployed.
// ready reports whether that may happen now.
func (p media) reconcile(ctx context.Context, s *scope) (ready bool, res result, err error) {
	key := client.ObjectKeyFromObject(s.host)
	var d v1alpha1.DataImage
	if err := p.client.Get(ctx, key, &d); err != nil {
		return apierrors.IsNotFound(err), stopped(), client.IgnoreNotFound(err)
	}
	// The cache may not have what this phase has written a moment ago.
	if err := p.live.Get(ctx, key, &d); err != nil {
		return apierrors.IsNotFound(err), stopped(), client.IgnoreNotFound(err)
	}
	hold := p.hold(s, &d)
	used := hasDeployment[s.state()] && s.host.Spec.Online
	step, request := decideMedia(&d, used, hold)
	switch step {
	case mediaDone:
		if failed := d.Status.Error; failed != nil && failed.Lost && wantedURL(&d, used) == "" {
			// What is deployed next has not had the image yet.
			return true, result{}, p.write(ctx, &d, func(status *v1alpha1.DataImageStatus) { status.Error = nil })
		}
		return p.verifyDrive(ctx, s, &d)
	case mediaHold:
		if request.Lost {
			return true, result{}, nil
		}
		s.waiting("The machine stays off because of DataImage %s: %s", d.Name, d.Status.Error.Message)
		return false, stoppedFor(hold), nil
	case mediaCheck:
		if s.node.Busy {
			return false, stoppedFor(powerPoll), nil
		}
		// With Lost the machine is ready whatever is in the drive, which must not be an image that
		// is no longer wanted.
		wanted := wantedURL(&d, used)
		request.Lost = request.Lost && request.URL == wanted
		done, res, err := p.check(ctx, s, &d, request)
		if err == nil && request.Action == v1alpha1.DataImageAttach && request.URL != wanted {
			res.requeueAfter = soon // the wait after a failure is not for another image
		}
		return done && (request.Lost || attachedURL(&d) == wanted), res, err
	}
	if record := &s.host.Status.Operation; record.Name == v1alpha1.OperationPower && record.Request != "" {
		// A failure of the request for an image must not count as one of the earlier power request.
		record.Request, record.Accepted = "", false
		return false, stoppedFor(soon), nil
	}
	if d.DeletionTimestamp.IsZero() && !slices.Contains(d.Finalizers, v1alpha1.DataImageFinalizer) {
		return false, stoppedFor(soon), nil // nothing would take the image out again
	}
	return p.ask(ctx, s, &d, request)
}

// verifyDrive requests the attached image once more if the drives of the machine are empty: a
// ramdisk that is booted from virtual media takes the place of the image, and a BMC may lose it. If
// the engine does not show the drives, or the BMC does not answer, the image counts as attached,
// because the machine may well be powered on.
func (p media) verifyDrive(ctx context.Context, s *scope, d *v1alpha1.DataImage) (bool, result, error) {
	lost := v1alpha1.DataImageRequest{Action: v1alpha1.DataImageAttach, URL: attachedURL(d), Lost: true}
	if lost.URL == "" {
		return true, result{}, nil
	}
	there, err := p.engine.HasImage(ctx, s.node.ID)
	if ctx.Err() != nil {
		return false, stopped(), ctx.Err()
	}
	if err != nil && !errors.Is(err, provisioner.ErrUnsupported) {
		log.FromContext(ctx).Info("The virtual drives could not be read; the DataImage counts as attached", "node", s.node.ID, "err", err)
	}
	if there || err != nil {
		return true, result{}, nil
	}
	return false, stoppedFor(soon), p.write(ctx, d, func(status *v1alpha1.DataImageStatus) {
		status.AttachedImage, status.Request = nil, &lost
	})
}

// hold returns the wait that is left after the last failure.
func (p media) hold(s *scope, d *v1alpha1.DataImage) time.Duration {
	failed := d.Status.Error
	if failed == nil || failed.Time == nil {
		return 0
	}
	return requeue.Left(requeue.Backoff(failed.Count, p.maxBackoff, string(d.UID)), failed.Time.Time, s.now)
}

// ask records a request and sends it. It drops the failure of another image.
func (p media) ask(ctx context.Context, s *scope, d *v1alpha1.DataImage, request v1alpha1.DataImageRequest) (bool, result, error) {
	before := d.DeepCopy()
	d.Status.Request = &request
	if failed := d.Status.Error; failed != nil && request.Action == v1alpha1.DataImageAttach && failed.URL != request.URL {
		d.Status.Error = nil
	}
	if err := p.client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, stopped(), fmt.Errorf("write DataImage %s: %w", d.Name, err)
	}
	var err error
	if request.Action == v1alpha1.DataImageAttach {
		err = p.engine.AttachImage(ctx, s.node.ID, request.URL)
	} else {
		err = p.engine.DetachImage(ctx, s.node.ID)
	}
	switch {
	case err == nil:
		older, err := p.olderError(ctx, s)
		if err != nil {
			return false, stopped(), err
		}
		s.waiting("The machine is powered on when the engine has done the %s of DataImage %s", request.Action, d.Name)
		return false, stoppedFor(soon), p.write(ctx, d, func(status *v1alpha1.DataImageStatus) {
			status.Request.Accepted, status.Request.OlderError = true, older
		})
	case errors.Is(err, provisioner.ErrUnsupported):
		// Waiting does not change the engine, so the machine is powered on without the image.
		return true, result{}, p.write(ctx, d, func(status *v1alpha1.DataImageStatus) {
			status.Request = nil
			status.Error = &v1alpha1.DataImageError{Count: 1, URL: request.URL, Message: node.CutText(node.MaskURLs(fmt.Sprintf("%s the image: %v", request.Action, err)))}
		})
	case isTemporary(err), errors.Is(err, provisioner.ErrNotFound), errors.Is(err, provisioner.ErrDenied):
		return false, stopped(), err
	default:
		return p.fail(ctx, s, d, request, err.Error())
	}
}

// olderError returns a fingerprint of a failure that the node had before a request and still shows
// while the engine works on the request. "" means that there is none.
func (p media) olderError(ctx context.Context, s *scope) (string, error) {
	if s.node.LastError == "" {
		return "", nil
	}
	n, err := p.nodes.Reread(ctx, s.node.ID)
	if err != nil || !n.Busy || n.LastError != s.node.LastError {
		return "", err
	}
	return fingerprint(n.LastError), nil
}

// check records the outcome of a request that the engine has ended. A machine that has its image
// then is powered on at once, because not every BMC shows such a drive as full.
//
// If the node shows a failure, the BMC decides whether the request succeeded, because some engines
// keep the message of an older failure. If the engine does not show its drives, the request
// succeeded only if the message is that of an older failure. If the BMC cannot tell, an image that
// the machine had before counts as attached, as in verifyDrive: it may be in the drive, and must be
// taken out of it later.
func (p media) check(ctx context.Context, s *scope, d *v1alpha1.DataImage, request v1alpha1.DataImageRequest) (bool, result, error) {
	attach := request.Action == v1alpha1.DataImageAttach
	if s.node.LastError != "" {
		there, err := p.engine.HasImage(ctx, s.node.ID)
		hidden := errors.Is(err, provisioner.ErrUnsupported)
		switch {
		case hidden && request.OlderError == fingerprint(s.node.LastError):
		case err != nil && !hidden && request.Lost && ctx.Err() == nil:
			log.FromContext(ctx).Info("The virtual drives could not be read; the DataImage counts as attached", "node", s.node.ID, "err", err)
		case hidden, err == nil && there != attach:
			return p.fail(ctx, s, d, request, s.node.LastError)
		case err != nil:
			return false, stopped(), refused(v1alpha1.OperationPower, "read the virtual drives of", s.node.ID, err)
		}
	}
	err := p.write(ctx, d, func(status *v1alpha1.DataImageStatus) {
		status.Request, status.AttachedImage = nil, nil
		if attach {
			status.AttachedImage = &v1alpha1.AttachedImageReference{URL: request.URL}
		}
		if status.Error != nil && status.Error.URL == request.URL {
			status.Error = nil
		}
	})
	return attach && err == nil, stoppedFor(soon), err
}

// fail records that a request failed. That keeps the machine off, unless it had the image before.
func (p media) fail(ctx context.Context, s *scope, d *v1alpha1.DataImage, request v1alpha1.DataImageRequest, why string) (bool, result, error) {
	failures := 1
	if last := d.Status.Error; last != nil && last.URL == request.URL {
		failures = last.Count + 1
	}
	at := metav1.NewTime(s.now)
	message := node.CutText(node.MaskURLs(fmt.Sprintf("%s the image on node %s: %s", request.Action, s.node.ID, why)))
	err := p.write(ctx, d, func(status *v1alpha1.DataImageStatus) {
		status.Request = nil
		status.Error = &v1alpha1.DataImageError{Count: failures, Message: message, URL: request.URL, Time: &at, Lost: request.Lost}
	})
	if request.Lost {
		return err == nil, stoppedFor(soon), err
	}
	s.waiting("The machine stays off because of DataImage %s: %s", d.Name, message)
	return false, stoppedFor(p.hold(s, d)), err
}

func (p media) write(ctx context.Context, d *v1alpha1.DataImage, change func(*v1alpha1.DataImageStatus)) error {
	before := d.DeepCopy()
	change(&d.Status)
	if err := p.client.Status().Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write DataImage %s: %w", d.Name, err)
	}
	return nil
}
