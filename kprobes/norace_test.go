//go:build !race

package kprobes_test

// See race_test.go. Without the race detector random steps are only a look.
const (
	stateSteps = 4000
	manyProbes = 100000
)
