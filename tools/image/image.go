package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations by which programs that load an archive know the name of the image: that of the OCI
// specification has the tag, that of containerd the whole name.
const (
	tagAnnotation  = "org.opencontainers.image.ref.name"
	nameAnnotation = "io.containerd.image.name"
)

// write builds the image of each platform and writes them as an OCI image layout and as an archive
// of it. It returns the digest of the image, or of the index when there are several. What was
// there before is replaced only when everything is built.
func write(ctx context.Context, opts options) (oci.Hash, error) {
	tmp, err := os.MkdirTemp("", "ingot-image-")
	if err != nil {
		return oci.Hash{}, err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary folder
	var trusted []byte
	if opts.caBundle != "" {
		if trusted, err = os.ReadFile(opts.caBundle); err != nil {
			return oci.Hash{}, fmt.Errorf("read certificate authorities: %w", err)
		}
	}
	base, err := layer(filepath.Join(tmp, "surroundings"), surroundings(trusted), opts.created)
	if err != nil {
		return oci.Hash{}, err
	}
	images := make([]oci.Image, len(opts.platforms))
	for i, platform := range opts.platforms {
		name := filepath.Join(tmp, "ingot-"+strconv.Itoa(i))
		if err := opts.build(ctx, platform, name); err != nil {
			return oci.Hash{}, err
		}
		top, err := layer(name+".tar", program(name), opts.created)
		if err != nil {
			return oci.Hash{}, err
		}
		if images[i], err = image(opts, platform, base, top); err != nil {
			return oci.Hash{}, fmt.Errorf("put the image for %s together: %w", platform, err)
		}
	}
	return store(opts, images)
}

// image puts layers together for a platform.
func image(opts options, platform oci.Platform, layers ...oci.Layer) (oci.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := oci.Time{Time: opts.created}
	img, err := mutate.ConfigFile(img, &oci.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Created: created, RootFS: oci.RootFS{Type: "layers"},
		Config: oci.Config{
			User:       fmt.Sprintf("%d:%d", userID, userID),
			Entrypoint: []string{"/" + programPath},
			WorkingDir: "/" + dataFolder,
			Env:        []string{"PATH=/usr/local/bin"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "ingot",
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.version":  opts.version,
				"org.opencontainers.image.revision": opts.commit,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		history := oci.History{Created: created, CreatedBy: "make image"}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	return img, nil
}

// store writes the layout and the archive.
func store(opts options, images []oci.Image) (oci.Hash, error) {
	if err := errors.Join(os.RemoveAll(opts.output), os.MkdirAll(filepath.Dir(opts.output), 0o755)); err != nil { //nolint:gosec // an image is no secret
		return oci.Hash{}, fmt.Errorf("make room for the image: %w", err)
	}
	path, err := layout.Write(opts.output, empty.Index)
	if err != nil {
		return oci.Hash{}, fmt.Errorf("write image layout: %w", err)
	}
	named := layout.WithAnnotations(map[string]string{tagAnnotation: tag(opts.name), nameAnnotation: opts.name})
	digest := oci.Hash{}
	if len(images) == 1 {
		err = path.AppendImage(images[0], named, layout.WithPlatform(opts.platforms[0]))
		if err == nil {
			digest, err = images[0].Digest()
		}
	} else {
		index := oci.ImageIndex(empty.Index)
		for i, img := range images {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: oci.Descriptor{Platform: &opts.platforms[i]}})
		}
		err = path.AppendIndex(index, named)
		if err == nil {
			digest, err = index.Digest()
		}
	}
	if err != nil {
		return oci.Hash{}, fmt.Errorf("write image layout %s: %w", opts.output, err)
	}
	return digest, archive(opts.output)
}

// tag is what follows the name of the repository.
func tag(name string) string {
	last := name[strings.LastIndex(name, "/")+1:]
	if _, after, ok := strings.Cut(last, ":"); ok {
		return after
	}
	return "latest"
}
