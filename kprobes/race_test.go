//go:build race

package kprobes_test

// stateSteps is how many steps TestStateMachine does, manyProbes how many probes
// Test100000 has at once.
const (
	stateSteps = 100000
	manyProbes = 10000
)
