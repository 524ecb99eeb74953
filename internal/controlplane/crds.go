package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
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
	// applyTimeout is how long the API server may take to serve new kinds.
	applyTimeout = 2 * time.Minute
	crdKind      = "CustomResourceDefinition"
)

// InstallCRDs applies every CustomResourceDefinition in the YAML files of fsys, including those in
// subfolders. It ignores objects of other kinds. Then it waits until the API server serves the
// kinds, [applyTimeout] at most for everything. It may be repeated, and updates CRDs of an older
// version.
func InstallCRDs(ctx context.Context, config *rest.Config, fsys fs.FS) error {
	crds, err := readCRDs(fsys)
	if err != nil {
		return err
	}
	return apply(ctx, config, crds)
}

// apply applies objects in their order. It then waits until the API server serves the kinds of the
// CRDs among them, and until kube-controller-manager has filled the aggregated roles among them.
func apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register CRD types: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client for CRDs: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, applyTimeout, fmt.Errorf("not ready after %s", applyTimeout))
	defer cancel()
	for _, object := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	for _, object := range objects {
		ready := func() (bool, error) { return true, nil }
		if object.GetKind() == crdKind {
			ready = func() (bool, error) { return served(ctx, c, object.GetName()) }
		} else if _, aggregated := object.Object["aggregationRule"]; aggregated {
			ready = func() (bool, error) { return hasRules(ctx, c, object) }
		}
		if err := waitUntil(ctx, ready); err != nil {
			return fmt.Errorf("wait for %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// readCRDs decodes the CRDs of all YAML files. It is an error if there are none, because then the
// folder is wrong.
func readCRDs(fsys fs.FS) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		found, err := readObjects(fsys, name, crdKind)
		crds = append(crds, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	if len(crds) == 0 {
		return nil, errors.New("read CRDs: there are none in the folder; run `make generate`")
	}
	return crds, nil
}

// readObjects decodes the objects of some kinds in a YAML file.
func readObjects(fsys fs.FS, name string, kinds ...string) ([]*unstructured.Unstructured, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		if slices.Contains(kinds, object.GetKind()) {
			objects = append(objects, object)
		}
	}
}

// waitUntil polls until ready returns true. It returns the error of ready, or the cause of ctx.
func waitUntil(ctx context.Context, ready func() (bool, error)) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		done, err := ready()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// hasRules reports whether a stored role has any rules.
func hasRules(ctx context.Context, c client.Client, role *unstructured.Unstructured) (bool, error) {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(role.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(role), stored); err != nil {
		return false, err
	}
	rules, _, err := unstructured.NestedSlice(stored.Object, "rules")
	return len(rules) > 0, err
}

// served reports whether the API server serves the kind of a CRD.
func served(ctx context.Context, c client.Client, name string) (bool, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return false, err
	}
	return established(crd)
}

// established reports whether the API server serves the CRD's kind. An error means that it never
// will, because another CRD has one of its names.
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
