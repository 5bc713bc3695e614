//go:build !race

package kprobes_test

// See race_test.go. Without the race detector fewer steps are enough.
const (
	stateSteps = 4000
	manyProbes = 100000
)
