//go:build tools

// Package tools pins the programs that stand beside Kubernetes in the e2e cluster.
package tools

import (
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
	_ "github.com/versity/versitygw/cmd/versitygw"
	_ "helm.sh/helm/v4/cmd/helm"
)
