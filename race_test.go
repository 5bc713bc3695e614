//go:build race

package kprobefs_test

// manyHits and someHits are how often each vCPU hits in a test with load, and with
// -short. With the race detector a hit takes 40 times as long.
const (
	manyHits = 25000
	someHits = 5000
	// largeKB is a buffer with many pages, which these hits fill all the same.
	largeKB = 280
)
