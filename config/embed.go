// Package config embeds the Kubernetes manifests that programs of this project
// install themselves.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions, one YAML document per file in the
// folder crd. They are generated from the types in api.
//
//go:embed crd/*_*.yaml
var CRDs embed.FS
