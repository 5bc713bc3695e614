//go:build !race

package kprobefs_test

const (
	manyHits = 150000
	someHits = 20000
	largeKB  = 1408

	editedModules = 300
)
