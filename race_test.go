//go:build race

package kprobefs_test

// manyHits and someHits are the numbers of hits on each vCPU in a load test, and in
// one with -short. With the race detector a hit takes 40 times as long.
const (
	manyHits = 25000
	someHits = 5000
	// largeKB is the size of a buffer of many pages that these hits still fill.
	largeKB = 280
	// editedModules is how many broken modules are loaded.
	editedModules = 100
)
