//go:build !race

package kprobes_test

// stateSteps: see race_test.go. Without the race detector it is only a look.
const stateSteps = 4000
