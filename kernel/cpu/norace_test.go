//go:build !race

package cpu

// replayStride: every case is replayed.
const replayStride = 1
