package controlplane

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestReadCRDsTakesOnlyCRDsOfYAMLFiles(t *testing.T) {
	crds, err := readCRDs(fstest.MapFS{
		"two.yaml":           {Data: []byte("kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: CustomResourceDefinition\nmetadata: {name: b}\n")},
		"deeper/one.yaml":    {Data: []byte("kind: CustomResourceDefinition\nmetadata: {name: c}\n")},
		"kustomization.yaml": {Data: []byte("kind: Kustomization\n")},
		"README.md":          {Data: []byte("kind: [")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range crds {
		names = append(names, crd.GetName())
	}
	slices.Sort(names)
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("CRDs = %v, want %v", names, want)
	}
}

func TestReadCRDsRefusesAFolderWithoutAny(t *testing.T) {
	for name, fsys := range map[string]fstest.MapFS{
		"empty":     {},
		"malformed": {"bad.yaml": {Data: []byte("kind: [")}},
	} {
		if _, err := readCRDs(fsys); err == nil {
			t.Errorf("%s folder: no error", name)
		}
	}
}

func TestEstablished(t *testing.T) {
	type condition = apiextensionsv1.CustomResourceDefinitionCondition
	accepted := condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}
	refused := condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: `"widgets" is taken`}
	serving := condition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
	installing := condition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse}
	for name, tc := range map[string]struct {
		conditions []condition
		want       bool
		wantErr    string
	}{
		"new":            {},
		"names accepted": {conditions: []condition{accepted, installing}},
		"served":         {conditions: []condition{accepted, serving}, want: true},
		"name conflict":  {conditions: []condition{refused, installing}, wantErr: "is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			crd.Status.Conditions = tc.conditions
			got, err := established(crd)
			if got != tc.want {
				t.Errorf("established = %t, want %t", got, tc.want)
			}
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error = %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}
