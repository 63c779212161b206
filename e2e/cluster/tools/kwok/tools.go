//go:build tools

// Package tools pins the program that keeps nodes alive which are not there.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
