package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fieldOwner owns the fields of the CRDs in server-side apply.
	fieldOwner = client.FieldOwner("ingot")
	// crdTimeout is how long the API server may take to serve a new kind.
	crdTimeout = 30 * time.Second
	crdKind    = "CustomResourceDefinition"
)

// InstallCRDs applies every CustomResourceDefinition in the YAML files of fsys
// and waits, 30 s at most, until the API server serves their kinds. Files in
// subfolders count, objects of other kinds do not. It may be repeated, and
// brings CRDs of an older version up to date.
func InstallCRDs(ctx context.Context, config *rest.Config, fsys fs.FS) error {
	crds, err := readCRDs(fsys)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register CRD types: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client for CRDs: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, crdTimeout, fmt.Errorf("not served after %s", crdTimeout))
	defer cancel()
	for _, crd := range crds {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		if err := waitServed(ctx, c, crd.GetName()); err != nil {
			return fmt.Errorf("wait for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// readCRDs decodes the CRDs of all YAML files. To find none is an error: the
// folder is the wrong one then.
func readCRDs(fsys fs.FS) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		file, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("decode %s: %w", name, err)
			}
			if object.GetKind() == crdKind {
				crds = append(crds, object)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	if len(crds) == 0 {
		return nil, errors.New("read CRDs: there are none in the folder; run `make generate`")
	}
	return crds, nil
}

// waitServed polls a CRD until it is established.
func waitServed(ctx context.Context, c client.Client, name string) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		served, err := established(crd)
		if served || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// established reports whether the API server serves the CRD's kind. The error
// tells that it never will, because another CRD has one of its names.
func established(crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	served := false
	for _, cond := range crd.Status.Conditions {
		switch {
		case cond.Type == apiextensionsv1.NamesAccepted && cond.Status == apiextensionsv1.ConditionFalse:
			return false, fmt.Errorf("names are not accepted: %s", cond.Message)
		case cond.Type == apiextensionsv1.Established && cond.Status == apiextensionsv1.ConditionTrue:
			served = true
		}
	}
	return served, nil
}
