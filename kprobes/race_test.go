//go:build race

package kprobes_test

// stateSteps is the number of steps of TestStateMachine, manyProbes the number of
// probes of Test100000.
const (
	stateSteps = 50000
	manyProbes = 10000
)
