//go:build tools

// Package tools pins the programs that hold jobs in queues and make sets of them.
package tools

import (
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
