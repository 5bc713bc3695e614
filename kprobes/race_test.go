//go:build race

package kprobes_test

// stateSteps is how many steps TestStateMachine does.
const stateSteps = 100000
