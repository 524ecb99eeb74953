package host

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestDecideMedia(t *testing.T) {
	const a, b = "https://images/a.iso", "https://images/b.iso"
	attach := func(url string) v1alpha1.DataImageRequest {
		return v1alpha1.DataImageRequest{Action: v1alpha1.DataImageAttach, URL: url}
	}
	detach := v1alpha1.DataImageRequest{Action: v1alpha1.DataImageDetach}
	accepted := func(r v1alpha1.DataImageRequest) *v1alpha1.DataImageRequest {
		r.Accepted = true
		return &r
	}
	unsure := func(r v1alpha1.DataImageRequest) *v1alpha1.DataImageRequest { return &r }
	has := func(url string) *v1alpha1.AttachedImageReference { return &v1alpha1.AttachedImageReference{URL: url} }
	failed := func(url string) *v1alpha1.DataImageError { return &v1alpha1.DataImageError{Count: 1, URL: url} }
	for _, tt := range []struct {
		name    string
		spec    string // "" for a deleted DataImage
		status  v1alpha1.DataImageStatus
		unused  bool
		hold    time.Duration
		want    mediaStep
		request v1alpha1.DataImageRequest
	}{
		{name: "a new image", spec: a, want: mediaAsk, request: attach(a)},
		{name: "the image is there", spec: a, status: v1alpha1.DataImageStatus{AttachedImage: has(a)}, want: mediaDone},
		{name: "another image goes before the new one comes", spec: b, status: v1alpha1.DataImageStatus{AttachedImage: has(a)}, want: mediaAsk, request: detach},
		{name: "deleted with its image attached", status: v1alpha1.DataImageStatus{AttachedImage: has(a)}, want: mediaAsk, request: detach},
		{name: "deleted without one", want: mediaDone},
		{name: "host that is not in use gets none", spec: a, unused: true, want: mediaDone},
		{name: "host that is not in use any more", spec: a, unused: true, status: v1alpha1.DataImageStatus{AttachedImage: has(a)}, want: mediaAsk, request: detach},
		{name: "accepted request is looked at", spec: b, status: v1alpha1.DataImageStatus{Request: accepted(attach(a))}, want: mediaCheck, request: *accepted(attach(a))},
		{name: "request without an answer is repeated", spec: a, status: v1alpha1.DataImageStatus{Request: unsure(attach(a))}, want: mediaAsk, request: attach(a)},
		{name: "request without an answer for an image that is not wanted any more", spec: b, status: v1alpha1.DataImageStatus{Request: unsure(attach(a))}, want: mediaAsk, request: detach},
		{name: "the same, deleted", status: v1alpha1.DataImageStatus{Request: unsure(attach(a))}, want: mediaAsk, request: detach},
		{name: "detaching without an answer", spec: a, status: v1alpha1.DataImageStatus{AttachedImage: has(a), Request: unsure(detach)}, want: mediaAsk, request: detach},
		{name: "failure whose wait is not over", spec: a, status: v1alpha1.DataImageStatus{Error: failed(a)}, hold: time.Minute, want: mediaHold, request: attach(a)},
		{name: "failure whose wait is over", spec: a, status: v1alpha1.DataImageStatus{Error: failed(a)}, want: mediaAsk, request: attach(a)},
		{name: "failure of another image", spec: b, status: v1alpha1.DataImageStatus{Error: failed(a)}, hold: time.Minute, want: mediaAsk, request: attach(b)},
		{name: "failure of an image that is deleted", status: v1alpha1.DataImageStatus{Error: failed(a)}, hold: time.Minute, want: mediaDone},
		{name: "failed detaching whose wait is not over", spec: b, status: v1alpha1.DataImageStatus{AttachedImage: has(a), Error: failed("")}, hold: time.Minute, want: mediaHold, request: detach},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &v1alpha1.DataImage{Spec: v1alpha1.DataImageSpec{URL: tt.spec}, Status: tt.status}
			if tt.spec == "" {
				at := metav1.Now()
				d.DeletionTimestamp, d.Spec.URL = &at, a
			}
			step, request := decideMedia(d, !tt.unused, tt.hold)
			if step != tt.want || request != tt.request {
				t.Errorf("decideMedia = %v, %+v; want %v, %+v", step, request, tt.want, tt.request)
			}
		})
	}
}

// hiddenDrives is an engine that takes images and does not show its drives. It shows one node.
type hiddenDrives struct {
	nodeView
	shown provisioner.Node
}

func (hiddenDrives) AttachImage(context.Context, string, string) error { return nil }
func (hiddenDrives) DetachImage(context.Context, string) error         { return nil }

func (hiddenDrives) HasImage(context.Context, string) (bool, error) {
	return false, fmt.Errorf("%w: reading virtual drives", provisioner.ErrUnsupported)
}

func (e hiddenDrives) Reread(context.Context, string) (provisioner.Node, error) { return e.shown, nil }

func TestErrorFromBeforeARequestForAnImageSaysNothingAboutIt(t *testing.T) {
	const older, newer = "the drive is stuck", "the BMC is away"
	for name, tt := range map[string]struct {
		before   string
		accepted provisioner.Node // when the engine has accepted the request
		after    string
		attached bool
	}{
		"the engine keeps it":                         {older, provisioner.Node{Busy: true, LastError: older}, older, true},
		"the engine keeps it, and fails":              {older, provisioner.Node{Busy: true, LastError: older}, newer, false},
		"the engine clears it":                        {older, provisioner.Node{Busy: true}, "", true},
		"the engine clears it, and fails like before": {older, provisioner.Node{Busy: true}, older, false},
		"the engine fails like before, at once":       {older, provisioner.Node{LastError: older}, older, false},
		"there was none, and the engine fails":        {"", provisioner.Node{Busy: true}, newer, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
			d.Spec.URL = "https://images/a.iso"
			d.Status.Error = &v1alpha1.DataImageError{Count: 3, URL: "https://images/old.iso", Message: older}
			api, engine := newAPI(t, d), hiddenDrives{shown: tt.accepted}
			p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Minute}
			for i, lastError := range []string{tt.before, tt.after} {
				s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
					h.Spec.Online, h.Status.Provisioning.State = true, v1alpha1.StateProvisioned
				}), testNow, time.Minute)
				s.node = &provisioner.Node{ID: "n1", LastError: lastError}
				if ready, _, err := p.reconcile(t.Context(), s); err != nil || ready != (tt.attached && i > 0) {
					t.Fatalf("after %d passes: ready %v, %v; want a machine that stays off until it has the image", i+1, ready, err)
				}
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			failed := d.Status.Error != nil && d.Status.Error.Count == 1
			if (d.Status.AttachedImage != nil) != tt.attached || failed == tt.attached || tt.attached && d.Status.Error != nil || d.Status.Request != nil {
				t.Errorf("status %+v, want attached: %v", d.Status, tt.attached)
			}
		})
	}
}

// dataImage creates the DataImage of a host, and restarts its machine with it.
func (l *life) dataImage(name string) *v1alpha1.DataImage {
	l.Helper()
	d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name, Finalizers: []string{v1alpha1.DataImageFinalizer}}}
	d.Spec.URL = "https://images/data.iso"
	l.create(d)
	before := len(l.effects(name))
	l.reboots(name)
	l.does(name, before, "soft power off", "attach image", "power on")
	return d
}

func (l *life) reboots(name string) {
	l.Helper()
	l.annotate(name, v1alpha1.RebootAnnotation, "")
	l.rests(name, v1alpha1.StateProvisioned)
}

func TestDataImageIsAttachedAgainWhenTheRamdiskOfAnUpdateTookItsPlace(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage) // boots from virtual media
	l.rests("web", v1alpha1.StateProvisioned)
	l.dataImage("web")
	l.update("web")
	before := len(l.effects("web"))
	l.reboots("web")
	l.reboots("web")
	l.does("web", before, "soft power off", "service", "soft power off", "attach image", "power on")
}

func TestDataImageThatIsDeletedIsNotInTheDriveOfTheNextDeployment(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.BMC.Address = "redfish://192.0.2.9/redfish/v1/Systems/web" // boots from the network
	})
	l.rests("web", v1alpha1.StateProvisioned)
	l.remove(l.dataImage("web"))
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") })
	l.until("web", "deployed again", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.Image.URL == testImage("b").URL })
	l.does("web", before, "undeploy", "detach image", "deploy")
}

// lostDrive is an engine that shows empty drives, or cannot read them, and fails to attach images.
type lostDrive struct {
	nodeView
	read     error
	attached *int
}

func (e lostDrive) HasImage(context.Context, string) (bool, error) { return false, e.read }
func (e lostDrive) DetachImage(context.Context, string) error      { return nil }

func (e lostDrive) AttachImage(context.Context, string, string) error {
	*e.attached++
	return fmt.Errorf("%w: 404 Not Found", provisioner.ErrInvalid)
}

// TestMachineThatHadItsImageIsPoweredOnWithoutIt has a BMC that lost an image which nobody serves
// any more, and a BMC that cannot list its drives.
func TestMachineThatHadItsImageIsPoweredOnWithoutIt(t *testing.T) {
	for name, tt := range map[string]struct {
		read            error
		attempts, count int
	}{
		"the drives are empty":         {nil, 1, 1},
		"the drives cannot be read":    {fmt.Errorf("%w: the BMC answers 500", provisioner.ErrFailed), 0, 0},
		"the BMC does not answer":      {fmt.Errorf("%w: the BMC did not answer in time", provisioner.ErrUnreachable), 0, 0},
		"the engine shows no drives":   {fmt.Errorf("%w: reading virtual drives", provisioner.ErrUnsupported), 0, 0},
		"the engine has other work on": {provisioner.ErrBusy, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
			d.Spec.URL = "https://images/a.iso"
			d.Status.AttachedImage = &v1alpha1.AttachedImageReference{URL: d.Spec.URL}
			var attempts int
			api, engine := newAPI(t, d), lostDrive{read: tt.read, attached: &attempts}
			p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Hour}
			pass := func() bool {
				s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
					h.Spec.Online, h.Status.Provisioning.State = true, v1alpha1.StateProvisioned
				}), testNow, time.Minute)
				s.node = &provisioner.Node{ID: "n1"}
				ready, _, err := p.reconcile(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				return ready
			}
			for i := 0; !pass(); i++ {
				if i > 3 {
					t.Fatal("the machine stays off")
				}
			}
			if !pass() { // at the next power on, before the pause is over
				t.Error("the machine stays off at the next power on")
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			count := 0
			if d.Status.Error != nil {
				count = d.Status.Error.Count
			}
			if attempts != tt.attempts || count != tt.count || d.Status.Request != nil {
				t.Errorf("attached %d times, status %+v", attempts, d.Status)
			}
		})
	}
}

// drive is an engine with one virtual drive.
type drive struct {
	nodeView
	image string
}

func (e *drive) HasImage(context.Context, string) (bool, error) { return e.image != "", nil }

func (e *drive) AttachImage(_ context.Context, _, url string) error {
	e.image = url
	return nil
}

func (e *drive) DetachImage(context.Context, string) error {
	e.image = ""
	return nil
}

// silentDrive is an engine that accepts images. Its drives are empty, until they cannot be read any
// more.
type silentDrive struct {
	nodeView
	read error
}

func (e *silentDrive) HasImage(context.Context, string) (bool, error)  { return false, e.read }
func (*silentDrive) AttachImage(context.Context, string, string) error { return nil }
func (*silentDrive) DetachImage(context.Context, string) error         { return nil }
func (*silentDrive) Reread(context.Context, string) (provisioner.Node, error) {
	return provisioner.Node{Busy: true, LastError: olderFailure}, nil
}

const olderFailure = "the drive is stuck"

// TestMachineThatHadItsImageIsPoweredOnWhenTheBMCCannotTellWhatBecameOfIt has an engine that
// accepts a request for an image, and after that drives that cannot be read.
func TestMachineThatHadItsImageIsPoweredOnWhenTheBMCCannotTellWhatBecameOfIt(t *testing.T) {
	for name, tt := range map[string]struct {
		lastError       string
		had             bool
		ready, attached bool
	}{
		"the engine has failed":                           {"the BMC answers 500", true, true, true},
		"the engine shows an older failure":               {olderFailure, true, true, true},
		"the engine has failed for one that had no image": {"the BMC answers 500", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
			d.Spec.URL = "https://images/a.iso"
			if tt.had {
				d.Status.AttachedImage = &v1alpha1.AttachedImageReference{URL: d.Spec.URL}
			}
			api, engine := newAPI(t, d), &silentDrive{}
			p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Minute}
			pass := func(lastError string) (bool, error) {
				s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
					h.Spec.Online, h.Status.Provisioning.State = true, v1alpha1.StateProvisioned
				}), testNow, time.Minute)
				s.node = &provisioner.Node{ID: "n1", LastError: lastError}
				ready, _, err := p.reconcile(t.Context(), s)
				return ready, err
			}
			for d.Status.Request == nil || !d.Status.Request.Accepted {
				if ready, err := pass(olderFailure); ready || err != nil {
					t.Fatalf("ready %v, %v before the image is asked for", ready, err)
				}
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
					t.Fatal(err)
				}
			}
			engine.read = fmt.Errorf("%w: the BMC did not answer in time", provisioner.ErrUnreachable)
			if ready, err := pass(tt.lastError); ready != tt.ready || (err != nil) == tt.ready {
				t.Errorf("ready %v, %v; want %v", ready, err, tt.ready)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			if (d.Status.AttachedImage != nil) != tt.attached || (d.Status.Request == nil) != tt.ready {
				t.Errorf("status %+v, want attached: %v", d.Status, tt.attached)
			}
		})
	}
}

// TestImageThatIsNotWantedAnyMoreIsTakenOutAlthoughTheBMCHadLostIt attaches an image once more
// while somebody decides that the machine gets another image, or is deployed anew.
func TestImageThatIsNotWantedAnyMoreIsTakenOutAlthoughTheBMCHadLostIt(t *testing.T) {
	const a, b = "https://images/a.iso", "https://images/b.iso"
	for name, tt := range map[string]struct {
		url   string
		state v1alpha1.ProvisioningState
		fails bool
		want  string
	}{
		"another image":                               {b, v1alpha1.StateProvisioned, false, b},
		"another image, and that one fails":           {b, v1alpha1.StateProvisioned, true, b},
		"the machine is deployed":                     {a, v1alpha1.StateProvisioning, false, ""},
		"the machine is deployed, and that one fails": {a, v1alpha1.StateProvisioning, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
			d.Spec.URL = a
			d.Status.AttachedImage = &v1alpha1.AttachedImageReference{URL: a}
			api, engine := newAPI(t, d), &drive{}
			p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Minute}
			state, lastError := v1alpha1.StateProvisioned, ""
			pass := func() bool {
				t.Helper()
				s := newScope(testHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.State = true, state }), testNow, time.Minute)
				s.node = &provisioner.Node{ID: "n1", LastError: lastError}
				ready, res, err := p.reconcile(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				if !ready && res.requeueAfter != soon {
					t.Fatalf("waits for %s with status %+v", res.requeueAfter, d.Status)
				}
				return ready
			}
			for engine.image == "" {
				if pass() {
					t.Fatal("the image is not attached once more")
				}
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			d.Spec.URL, state = tt.url, tt.state
			if err := api.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if tt.fails {
				engine.image, lastError = "", "the BMC refuses the image"
			}
			for i := 0; !pass(); i++ {
				if lastError = ""; i > 5 {
					t.Fatalf("the machine stays off with image %q, status %+v", engine.image, d.Status)
				}
			}
			if engine.image != tt.want {
				t.Errorf("the machine goes on with image %q, want %q", engine.image, tt.want)
			}
		})
	}
}

// TestDrivesThatCannotBeReadAreNotReadAtOnceForAnImageThatIsNotWantedAnyMore has a BMC that cannot
// tell what became of an image, and a host that is to get another one. The pass leaves the time of
// the next one to the back-off of its error.
func TestDrivesThatCannotBeReadAreNotReadAtOnceForAnImageThatIsNotWantedAnyMore(t *testing.T) {
	d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
	d.Spec.URL = "https://images/b.iso"
	d.Status.Request = &v1alpha1.DataImageRequest{Action: v1alpha1.DataImageAttach, URL: "https://images/a.iso", Accepted: true}
	api, engine := newAPI(t, d), &silentDrive{read: fmt.Errorf("%w: the BMC answers 500", provisioner.ErrFailed)}
	p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Minute}
	s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
		h.Spec.Online, h.Status.Provisioning.State = true, v1alpha1.StateProvisioned
	}), testNow, time.Minute)
	s.node = &provisioner.Node{ID: "n1", LastError: "the BMC refuses the image"}
	if ready, res, err := p.reconcile(t.Context(), s); ready || err == nil || res.requeueAfter != 0 {
		t.Errorf("ready %v, %v, the next pass after %s; want an error and its back-off", ready, err, res.requeueAfter)
	}
}

// TestMachineThatIsDeployedAnewIsNotPoweredOnWithoutAnImageThatTheOneBeforeHadLost has an image that
// nobody serves any more.
func TestMachineThatIsDeployedAnewIsNotPoweredOnWithoutAnImageThatTheOneBeforeHadLost(t *testing.T) {
	d := &v1alpha1.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.DataImageFinalizer}}}
	d.Spec.URL = "https://images/a.iso"
	d.Status.AttachedImage = &v1alpha1.AttachedImageReference{URL: d.Spec.URL}
	var attempts int
	api, engine := newAPI(t, d), lostDrive{attached: &attempts}
	p := media{client: api, live: api, engine: engine, nodes: engine, maxBackoff: time.Hour}
	goesOn := func(state v1alpha1.ProvisioningState) bool {
		t.Helper()
		for range 4 {
			s := newScope(testHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.State = true, state }), testNow, time.Minute)
			s.node = &provisioner.Node{ID: "n1"}
			if ready, _, err := p.reconcile(t.Context(), s); err != nil || ready {
				return err == nil
			}
		}
		return false
	}
	if !goesOn(v1alpha1.StateProvisioned) || attempts != 1 {
		t.Fatalf("the machine that had its image stays off after %d attempts", attempts)
	}
	if !goesOn(v1alpha1.StateProvisioning) {
		t.Fatal("the next deployment waits")
	}
	if goesOn(v1alpha1.StateProvisioned) || attempts != 2 {
		t.Errorf("the machine goes on without its image after %d attempts", attempts)
	}
}
