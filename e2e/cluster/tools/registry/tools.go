//go:build tools

// Package tools pins crane, the registry of the tests of releases.
package tools

import (
	_ "github.com/google/go-containerregistry/cmd/crane"
)
