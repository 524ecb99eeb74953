package operator

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// uncalledEngine panics when it is asked for anything.
type uncalledEngine struct{ provisioner.Engine }

func TestEngineGetsNoURLOfItsOwnMachine(t *testing.T) {
	const local = "http://169.254.169.254/latest/meta-data"
	engine := remoteImages{uncalledEngine{}}
	image := &provisioner.Deployment{Image: &v1alpha1.Image{URL: local}}
	sums := provisioner.Deployment{Image: &v1alpha1.Image{URL: "http://192.0.2.1/a", Checksum: local}}
	firmware := provisioner.FirmwareSteps([]provisioner.FirmwareUpdate{{Component: "bmc", URL: "http://192.0.2.1/a"}, {Component: "bios", URL: local}})
	_, createErr := engine.Create(t.Context(), provisioner.Registration{Deployed: image})
	_, updateErr := engine.Update(t.Context(), "n", provisioner.Registration{Deployed: image}, provisioner.UpdateOptions{})
	for what, err := range map[string]error{
		"a node that is adopted":    createErr,
		"a node in use":             updateErr,
		"an image":                  engine.Deploy(t.Context(), "n", *image),
		"the sums of an image":      engine.Deploy(t.Context(), "n", sums),
		"firmware":                  engine.Clean(t.Context(), "n", firmware),
		"firmware of a node in use": engine.Service(t.Context(), "n", firmware),
		"a data image":              engine.AttachImage(t.Context(), "n", local),
	} {
		if err == nil || !strings.Contains(err.Error(), "--allow-local-image-urls") {
			t.Errorf("%s: %v, want that it is refused and what allows it", what, err)
		}
	}
}
