package conversion

import (
	stdjson "encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta1"
	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// filler fills objects with random values that JSON can represent.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Uint32()), 0) },
		func(d *metav1.Duration, c randfill.Continue) {
			d.Duration = time.Duration(c.Uint32()) * 100 * time.Millisecond
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = []byte([]string{`"text"`, `7`, `true`, `{"a":["b",1]}`}[c.Intn(4)])
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Name, m.Namespace = "name", "namespace"
			if c.Bool() {
				m.Annotations = map[string]string{"a": c.String(8)}
			}
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
	)
}

// randomObject returns an object of a kind with random content, as the API server stores it.
func randomObject(t testing.TB, s *runtime.Scheme, kind schema.GroupVersionKind, seed int64) *unstructured.Unstructured {
	t.Helper()
	typed, err := s.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	filler(seed).Fill(typed)
	return untyped(t, typed, kind)
}

func untyped(t testing.TB, typed runtime.Object, kind schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	text, err := stdjson.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetGroupVersionKind(kind)
	if metadata, _ := obj.Object["metadata"].(map[string]any); metadata != nil {
		delete(metadata, "creationTimestamp")
	}
	return obj
}

// pruned returns an object as the API server stores it: with only the fields of its schema. It
// fails the test if the type of the object's version lacks a field.
func pruned(t testing.TB, s *runtime.Scheme, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	kind := obj.GroupVersionKind()
	typed, err := s.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	text, err := obj.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, typed); err != nil {
		t.Fatalf("%s has what its version does not have: %v\n%s", kind.Kind, err, text)
	}
	return obj
}

func other(version schema.GroupVersion) schema.GroupVersion {
	if version == v1beta1.GroupVersion {
		return v1beta2.GroupVersion
	}
	return v1beta1.GroupVersion
}

// TestNothingIsLostOnTheWayToTheOtherVersionAndBack fills every field of every kind at random.
func TestNothingIsLostOnTheWayToTheOtherVersionAndBack(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	for kind := range rules {
		for _, version := range []schema.GroupVersion{v1beta1.GroupVersion, v1beta2.GroupVersion} {
			t.Run(version.Version+"/"+kind, func(t *testing.T) {
				t.Parallel()
				for range 300 {
					seed := rand.Int64()
					obj := randomObject(t, s, version.WithKind(kind), seed)
					there, err := Convert(obj.DeepCopy(), other(version))
					if err != nil {
						t.Fatal(err)
					}
					back, err := Convert(pruned(t, s, there).DeepCopy(), version)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(obj.Object, back.Object); diff != "" {
						t.Fatalf("seed %d (-before +after):\n%s", seed, diff)
					}
				}
			})
		}
	}
}

// TestWhatIsChangedInTheOtherVersionComesBackChanged replaces what both versions have by the values
// of another object. It expects the same as for an object without any history.
func TestWhatIsChangedInTheOtherVersionComesBackChanged(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	for kind, r := range rules {
		for _, version := range []schema.GroupVersion{v1beta1.GroupVersion, v1beta2.GroupVersion} {
			forth, back := r.up, r.down
			if version == v1beta2.GroupVersion {
				forth, back = r.down, r.up
			}
			for range 100 {
				seed := rand.Int64()
				obj := randomObject(t, s, version.WithKind(kind), seed)
				there, err := Convert(obj.DeepCopy(), other(version))
				if err != nil {
					t.Fatal(err)
				}
				now := randomObject(t, s, other(version).WithKind(kind), seed+1)
				now.SetAnnotations(there.GetAnnotations())
				came, err := Convert(now.DeepCopy(), version)
				if err != nil {
					t.Fatal(err)
				}
				// Mapped to the other version again, the object has what was written there.
				want, got := forth(back(content(now))), forth(content(came))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s %s, seed %d (-written +came back):\n%s", version, kind, seed, diff)
				}
			}
		}
	}
}

func TestMappingThereBackAndThereIsMappingOnce(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	for kind, r := range rules {
		for range 100 {
			seed := rand.Int64()
			old, hub := content(randomObject(t, s, v1beta1.GroupVersion.WithKind(kind), seed)), content(randomObject(t, s, v1beta2.GroupVersion.WithKind(kind), seed))
			if up := r.up(old); !reflect.DeepEqual(up, r.up(r.down(up))) {
				t.Fatalf("%s, seed %d, up:\n%s", kind, seed, cmp.Diff(up, r.up(r.down(up))))
			}
			if down := r.down(hub); !reflect.DeepEqual(down, r.down(r.up(down))) {
				t.Fatalf("%s, seed %d, down:\n%s", kind, seed, cmp.Diff(down, r.down(r.up(down))))
			}
		}
	}
}

// object reads a manifest.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// converted has objects in both versions.
var converted = map[string]struct{ old, hub string }{
	"Metal3Cluster": {
		`{spec: {controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}, cloudProviderEnabled: false, noCloudProvider: true,
			failureDomains: {b: {attributes: {row: "2"}}, a: {controlPlane: true}}},
		  status: {ready: true, failureReason: CreateError, failureMessage: broken, failureDomains: {a: {controlPlane: true}},
			conditions: [{type: Ready, status: "True", severity: Info}], v1beta2: {conditions: [{type: Ready, status: "False"}]}}}`,
		`{spec: {controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}, cloudProviderEnabled: false,
			failureDomains: [{name: a, controlPlane: true}, {name: b, attributes: {row: "2"}}]},
		  status: {initialization: {provisioned: true}, failureDomains: [{name: a, controlPlane: true}], conditions: [{type: Ready, status: "False"}],
			deprecated: {v1beta1: {failureReason: CreateError, failureMessage: broken, conditions: [{type: Ready, status: "True", severity: Info}]}}}}`,
	},
	"Metal3ClusterTemplate": {
		`{spec: {template: {spec: {cloudProviderEnabled: true, noCloudProvider: false, failureDomains: {}}}}}`,
		`{spec: {template: {spec: {cloudProviderEnabled: true, failureDomains: []}}}}`,
	},
	"Metal3Machine": {
		`{spec: {image: {url: "http://a", checksum: c, format: qcow2}, dataTemplate: {name: d, namespace: n}, hostSelector: {matchLabels: {a: b}}},
		  status: {ready: false, renderedData: {name: r}, addresses: [{type: InternalIP, address: 192.0.2.2}]}}`,
		`{spec: {image: {url: "http://a", checksum: c, diskFormat: qcow2}, dataTemplate: {name: d, namespace: n}, hostSelector: {matchLabels: {a: b}}},
		  status: {initialization: {provisioned: false}, renderedData: {name: r}, addresses: [{type: InternalIP, address: 192.0.2.2}]}}`,
	},
	"Metal3MachineTemplate": {
		`{spec: {nodeReuse: true, template: {spec: {image: {url: "http://a", checksum: c, format: raw}, automatedCleaningMode: disabled}}}}`,
		`{spec: {nodeReuse: true, template: {spec: {image: {url: "http://a", checksum: c, diskFormat: raw}, automatedCleaningMode: disabled}}}}`,
	},
	"Metal3Remediation": {
		`{spec: {strategy: {type: Reboot, retryLimit: 2, timeout: 5m0s}}, status: {phase: Running, retryCount: 1}}`,
		`{spec: {strategy: {type: Reboot, retryLimit: 2, timeoutSeconds: 300}}, status: {phase: Running, retryCount: 1}}`,
	},
	"Metal3RemediationTemplate": {
		`{spec: {template: {spec: {strategy: {timeout: 1h40m0s}}}}}`,
		`{spec: {template: {spec: {strategy: {timeoutSeconds: 6000}}}}}`,
	},
	"Metal3DataTemplate": {
		`{spec: {clusterName: c, metaData: {strings: [{key: a, value: b}], ipAddressesFromIPPool: [{key: i, name: p}], prefixesFromIPPool: [{key: x, name: p}],
			gatewaysFromIPPool: [{key: g, name: p}], dnsServersFromIPPool: [{key: s, name: p}]},
			networkData: {links: {bonds: [{id: bond0, bondMode: 802.3ad, parameters: {miimon: 100, a: {b: c}}}], bridges: [{id: br0, parameters: {stp: true}}]}}},
		  status: {indexes: {m-b: 0, m-a: 1}}}`,
		`{spec: {clusterName: c, metaData: {strings: [{key: a, value: b}], ipAddressesFromPool: [{key: i, name: p}], prefixesFromPool: [{key: x, name: p}],
			gatewaysFromPool: [{key: g, name: p}], dnsServersFromPool: [{key: s, name: p}]},
			networkData: {links: {bonds: [{id: bond0, bondMode: 802.3ad, parameters: [{name: a, value: {b: c}}, {name: miimon, value: 100}]}],
				bridges: [{id: br0, parameters: [{name: stp, value: true}]}]}}},
		  status: {indexes: [{name: m-b, index: 0}, {name: m-a, index: 1}]}}`,
	},
	"Metal3Data": {
		`{spec: {index: 3, claim: {name: c}, template: {name: t}, metaData: {name: s}}, status: {ready: true}}`,
		`{spec: {index: 3, claim: {name: c}, template: {name: t}, metaData: {name: s}}, status: {ready: true}}`,
	},
	"Metal3DataClaim": {
		`{spec: {template: {name: t}}, status: {errorMessage: e}}`,
		`{spec: {template: {name: t}}, status: {errorMessage: e}}`,
	},
}

// TestEachKindIsConvertedWithoutAnAnnotationWhereBothVersionsHaveAPlace converts in both
// directions.
func TestEachKindIsConvertedWithoutAnAnnotationWhereBothVersionsHaveAPlace(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	if len(converted) != len(rules) {
		t.Errorf("%d examples for %d kinds", len(converted), len(rules))
	}
	for kind, texts := range converted {
		old, hub := object(t, texts.old), object(t, texts.hub)
		old.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kind))
		hub.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind))
		for _, pair := range [][2]*unstructured.Unstructured{{old, hub}, {hub, old}} {
			from, want := pair[0], pair[1]
			got, err := Convert(from.DeepCopy(), want.GroupVersionKind().GroupVersion())
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			if diff := cmp.Diff(want.Object, pruned(t, s, got).Object); diff != "" {
				t.Errorf("%s to %s (-want +got):\n%s", kind, want.GetAPIVersion(), diff)
			}
		}
	}
}

// TestWhatOnlyOneVersionHasSurvivesAChangeInTheOther changes one field in version v1beta2.
func TestWhatOnlyOneVersionHasSurvivesAChangeInTheOther(t *testing.T) {
	t.Parallel()
	old := object(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Machine, metadata: {name: m},
		spec: {image: {url: "http://a", checksum: c}, customDeploy: {method: ""}, dataTemplate: {kind: Metal3DataTemplate, name: d}}, status: {phase: Pending}}`)
	hub, err := Convert(old.DeepCopy(), v1beta2.GroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if _, there, _ := unstructured.NestedMap(hub.Object, "spec", "customDeploy"); there {
		t.Error("an empty object counts as one")
	}
	_ = unstructured.SetNestedField(hub.Object, "http://b", "spec", "image", "url")
	_ = unstructured.SetNestedField(hub.Object, "e", "spec", "dataTemplate", "name")
	_ = unstructured.SetNestedField(hub.Object, "rack1", "status", "failureDomain")
	back, err := Convert(hub.DeepCopy(), v1beta1.GroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	want := old.DeepCopy()
	_ = unstructured.SetNestedField(want.Object, "http://b", "spec", "image", "url")
	_ = unstructured.SetNestedField(want.Object, "e", "spec", "dataTemplate", "name")
	if diff := cmp.Diff(content(want), content(back)); diff != "" {
		t.Errorf("v1beta1 (-want +got):\n%s", diff)
	}
	again, err := Convert(back, v1beta2.GroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content(hub), content(again)); diff != "" {
		t.Errorf("v1beta2 (-want +got):\n%s", diff)
	}
}

// TestAChangeOfTheCloudProviderIsFollowedByBothNames is about two fields for one setting.
func TestAChangeOfTheCloudProviderIsFollowedByBothNames(t *testing.T) {
	t.Parallel()
	hub, err := Convert(object(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Cluster, spec: {noCloudProvider: true}}`), v1beta2.GroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if enabled, there, _ := unstructured.NestedBool(hub.Object, "spec", "cloudProviderEnabled"); enabled || !there {
		t.Errorf("cloudProviderEnabled = %v, %v", enabled, there)
	}
	_ = unstructured.SetNestedField(hub.Object, true, "spec", "cloudProviderEnabled")
	old, err := Convert(hub, v1beta1.GroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{"noCloudProvider": false, "cloudProviderEnabled": true}}
	if diff := cmp.Diff(want, content(old)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTimeoutsAreRoundedUpToSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{"100s": int64(100), "1m40.2s": int64(101), "1h": int64(3600), "soon": nil, "1000000h": int64(1<<31 - 1)} {
		got, _ := timeoutSeconds(map[string]any{"timeout": text})
		if strategy, _ := got.(map[string]any); strategy["timeoutSeconds"] != want {
			t.Errorf("%s: got %v, want %v", text, strategy["timeoutSeconds"], want)
		}
	}
}

func TestAnnotationsOfOtherProvidersStay(t *testing.T) {
	t.Parallel()
	obj := object(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3DataClaim, metadata: {annotations: {cluster.x-k8s.io/conversion-data: '{"spec":{}}'}}}`)
	got, err := Convert(obj, v1beta2.GroupVersion)
	if err != nil || got.GetAnnotations()[DataAnnotation] != `{"spec":{}}` {
		t.Errorf("annotations %v, %v", got.GetAnnotations(), err)
	}
}

func TestForgedAnnotationsDoNotBreakAnObject(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	for _, data := range []string{
		"not JSON", "[]", "{}", `{"apiVersion":7}`,
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","spec":"text"}`,
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","spec":{"noCloudProvider":{"a":1},"cloudProviderEnabled":[]}}`,
		`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","status":{"conditions":[7]}}`,
	} {
		obj := object(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Metal3Cluster, spec: {controlPlaneEndpoint: {host: a, port: 6443}}}`)
		obj.SetAnnotations(map[string]string{DataAnnotation: data})
		got, err := Convert(obj, v1beta1.GroupVersion)
		if err != nil {
			t.Errorf("%s: %v", data, err)
			continue
		}
		typed, err := s.New(v1beta1.GroupVersion.WithKind("Metal3Cluster"))
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, typed); err != nil {
			t.Errorf("%s: a client cannot read it: %v", data, err)
		}
		if host, _, _ := unstructured.NestedString(got.Object, "spec", "controlPlaneEndpoint", "host"); host != "a" {
			t.Errorf("%s: the object became %v", data, got.Object)
		}
	}
}

func TestWhatCannotBeConvertedIsNamed(t *testing.T) {
	t.Parallel()
	for text, to := range map[string]schema.GroupVersion{
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Pod}`:            v1beta2.GroupVersion,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha5, kind: Metal3Machine}`: v1beta2.GroupVersion,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Metal3Machine}`:  {Group: "metal3.io", Version: "v1beta1"},
	} {
		if got, err := Convert(object(t, text), to); err == nil {
			t.Errorf("%s became %v", text, got)
		}
	}
}
