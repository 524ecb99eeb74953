package controlplanetest_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

func TestTheControlPlaneOfATestServesIngotsKinds(t *testing.T) {
	api, err := client.New(controlplanetest.Start(t, controlplanetest.Options{}).Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hosts := &unstructured.UnstructuredList{}
	hosts.SetAPIVersion("metal3.io/v1alpha1")
	hosts.SetKind("BareMetalHostList")
	if err := api.List(t.Context(), hosts); err != nil {
		t.Error(err)
	}
}
