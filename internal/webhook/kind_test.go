package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "racks", Name: name} }

func components(updates ...v1alpha1.FirmwareUpdate) client.Object {
	return &v1alpha1.HostFirmwareComponents{ObjectMeta: meta("rack1-7"), Spec: v1alpha1.HostFirmwareComponentsSpec{Updates: updates}}
}

func dataImage(url string) client.Object {
	return &v1alpha1.DataImage{ObjectMeta: meta("rack1-7"), Spec: v1alpha1.DataImageSpec{URL: url}}
}

func subscription(headers string) client.Object {
	s := &v1alpha1.BMCEventSubscription{ObjectMeta: meta("events")}
	if headers != "none" {
		s.Spec.HTTPHeadersRef = &corev1.SecretReference{Name: "headers", Namespace: headers}
	}
	return s
}

// kindRow is an object of another kind, and what is to be said about it.
type kindRow struct {
	kind    string
	obj     client.Object
	err     string
	warning string
}

func kindRows() map[string]kindRow {
	const url = "https://example.org/firmware.bin"
	const firmware, data, events, policy = "hostfirmwarecomponents", "dataimage", "bmceventsubscription", "hostupdatepolicy"
	return map[string]kindRow{
		"no firmware":                   {kind: firmware, obj: components()},
		"all kinds of components":       {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: url}, v1alpha1.FirmwareUpdate{Component: "bios", URL: url}, v1alpha1.FirmwareUpdate{Component: "nic:1", URL: url})},
		"unknown component":             {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "disk", URL: url}), err: `spec.updates[0].component: Invalid value: "disk": is not one of bmc, bios`},
		"NIC without a name":            {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "nic:", URL: url}), err: "spec.updates[0].component: Invalid value: \"nic:\": does not say which NIC"},
		"component twice":               {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: url}, v1alpha1.FirmwareUpdate{Component: "bmc", URL: url}), err: `spec.updates[1].component: Duplicate value: "bmc"`},
		"firmware that is a file":       {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "file:///a"}), err: `spec.updates[0].url: Invalid value: "file:///a": has the scheme "file"`},
		"firmware over FTP":             {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "ftp://example.org/a"}), err: `has the scheme "ftp"; the engine reads only http, https`},
		"firmware without a host":       {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https:///a"}), err: "spec.updates[0].url"},
		"data image":                    {kind: data, obj: dataImage("http://example.org/data.iso")},
		"data image that is no URL":     {kind: data, obj: dataImage("data.iso"), err: "spec.url: Invalid value: \"data.iso\": is not a URL"},
		"data image over SMB":           {kind: data, obj: dataImage("smb://example.org/data.iso"), err: `spec.url: Invalid value: "smb://example.org/data.iso": has the scheme "smb"`},
		"data image of the engine":      {kind: data, obj: dataImage("http://[::1]/data.iso"), err: "spec.url: Invalid value: \"http://[::1]/data.iso\": may not be given to the engine"},
		"firmware of the engine":        {kind: firmware, obj: components(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "http://localhost/a"}), err: "spec.updates[0].url: Invalid value"},
		"headers of the same namespace": {kind: events, obj: subscription("racks")},
		"headers without a namespace":   {kind: events, obj: subscription("")},
		"no headers":                    {kind: events, obj: subscription("none")},
		"headers of another namespace":  {kind: events, obj: subscription("other"), err: "spec.httpHeadersRef.namespace: Forbidden: a subscription reads a Secret of its own namespace only"},
		"policy of a host":              {kind: policy, obj: &v1alpha1.HostUpdatePolicy{ObjectMeta: meta("rack1-7")}},
		"policy without a host":         {kind: policy, obj: &v1alpha1.HostUpdatePolicy{ObjectMeta: meta("rack1-8")}, warning: "metadata.name: there is no BareMetalHost racks/rack1-8"},
	}
}

func TestEveryRuleForOtherKindsAcceptsAndRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, newHost())
	for name, r := range kindRows() {
		got := b.ask(r.kind, nil, r.obj)
		if got.allowed != (r.err == "") || !strings.Contains(got.message, r.err) {
			t.Errorf("%s: %+v, want an error with %q", name, got, r.err)
		}
		if len(got.warnings) > 1 || !strings.Contains(strings.Join(got.warnings, ""), r.warning) || (r.warning == "") != (len(got.warnings) == 0) {
			t.Errorf("%s: warnings %q, want %q", name, got.warnings, r.warning)
		}
	}
}

func TestObjectsThatWereWrongBeforeCanBeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, newHost())
	for name, r := range kindRows() {
		if r.err == "" {
			continue
		}
		changed, _ := r.obj.DeepCopyObject().(client.Object)
		changed.SetLabels(map[string]string{"a": "b"})
		if got := b.ask(r.kind, r.obj, changed); !got.allowed || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], r.err) {
			t.Errorf("%s: %+v, want a warning with %q", name, got, r.err)
		}
		changed.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		if got := b.ask(r.kind, r.obj, changed); !got.allowed || len(got.warnings) > 0 {
			t.Errorf("%s, being deleted: %+v", name, got)
		}
	}
}

func TestUpdateThatMakesAnObjectWrongIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.ask("dataimage", dataImage("http://example.org/a"), dataImage("nfs://example.org/a")); got.allowed {
		t.Errorf("%+v, want a refusal", got)
	}
}

func TestPolicyWhoseHostCannotBeReadIsWarnedAbout(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("unable to get: racks/rack1-7 because of unknown namespace for the cache")
	}}, newHost())
	got := b.ask("hostupdatepolicy", nil, &v1alpha1.HostUpdatePolicy{ObjectMeta: meta("rack1-7")})
	if !got.allowed || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], "does not watch the namespace") {
		t.Errorf("%+v, want a warning", got)
	}
}
