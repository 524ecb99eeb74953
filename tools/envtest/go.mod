// This module fetches published programs of a control plane with the client of
// controller-runtime's setup-envtest. It is separate from tools/controlplane because
// their requirements of Kubernetes' libraries differ.
module github.com/ingot-metal/ingot/tools/envtest

go 1.26.0

require (
	github.com/go-logr/logr v1.4.4
	sigs.k8s.io/controller-runtime/tools/setup-envtest v0.25.1
)

require (
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
