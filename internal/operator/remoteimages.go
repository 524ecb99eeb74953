package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/imageurl"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// remoteImages wraps an engine and refuses URLs of images and firmware that lead to the engine's
// own machine, whichever object they come from. Webhooks alone are not enough: they may not be
// installed, and objects may be older than the webhooks' rules.
type remoteImages struct{ provisioner.Engine }

// Create creates a node; see [provisioner.Registrar].
func (e remoteImages) Create(ctx context.Context, r provisioner.Registration) (provisioner.Node, error) {
	if err := checkDeployed(r.Deployed); err != nil {
		return provisioner.Node{}, err
	}
	return e.Engine.Create(ctx, r)
}

// Update writes the settings of a node; see [provisioner.Registrar].
func (e remoteImages) Update(ctx context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	if err := checkDeployed(r.Deployed); err != nil {
		return provisioner.Node{}, err
	}
	return e.Engine.Update(ctx, id, r, opts)
}

// Deploy asks for a deployment; see [provisioner.Worker].
func (e remoteImages) Deploy(ctx context.Context, id string, d provisioner.Deployment) error {
	if err := checkDeployed(&d); err != nil {
		return err
	}
	return e.Engine.Deploy(ctx, id, d)
}

// Clean runs steps of cleaning; see [provisioner.Worker].
func (e remoteImages) Clean(ctx context.Context, id string, steps []node.Step) error {
	if err := checkURLs("firmware", provisioner.FirmwareURLs(steps)...); err != nil {
		return err
	}
	return e.Engine.Clean(ctx, id, steps)
}

// Service runs steps on a deployed node; see [provisioner.Worker].
func (e remoteImages) Service(ctx context.Context, id string, steps []node.Step) error {
	if err := checkURLs("firmware", provisioner.FirmwareURLs(steps)...); err != nil {
		return err
	}
	return e.Engine.Service(ctx, id, steps)
}

// AttachImage puts an image into a virtual drive; see [provisioner.MediaController].
func (e remoteImages) AttachImage(ctx context.Context, id, url string) error {
	if err := checkURLs("image", url); err != nil {
		return err
	}
	return e.Engine.AttachImage(ctx, id, url)
}

func checkDeployed(d *provisioner.Deployment) error {
	if d == nil || d.Image == nil {
		return nil
	}
	return checkURLs("image", urlsOf(d.Image)...)
}

// urlsOf returns the URLs of an image that the engine reads. One of them may be a file of
// checksums.
func urlsOf(image *v1alpha1.Image) []string {
	urls := []string{image.URL}
	if strings.Contains(image.Checksum, ":/") {
		urls = append(urls, image.Checksum)
	}
	return urls
}

func checkURLs(what string, urls ...string) error {
	for _, url := range urls {
		if err := imageurl.Check(url); err != nil {
			return fmt.Errorf("the URL of the %s is not given to the engine: %w, or start the operator with --allow-local-image-urls", what, err)
		}
	}
	return nil
}
