package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
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
