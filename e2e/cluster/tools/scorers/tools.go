//go:build tools

// Package tools pins the programs that judge the rendered chart.
package tools

import (
	_ "github.com/controlplaneio/kubesec/v2"
	_ "github.com/zegl/kube-score/cmd/kube-score"
)
