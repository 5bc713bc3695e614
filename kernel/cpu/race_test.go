//go:build race

package cpu

// replayStride: the race detector makes the replay slow and has nothing to find
// in it.
const replayStride = 20
