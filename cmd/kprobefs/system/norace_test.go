//go:build !race

package system_test

const (
	manyHits = 150000
	someHits = 20000
	largeKB  = 1408
)
