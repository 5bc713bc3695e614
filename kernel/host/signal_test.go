package host

import "testing"

// TestLastAddress: what /proc/PID/syscall says of threads in a call, in none, and of one that runs.
func TestLastAddress(t *testing.T) {
	for text, want := range map[string]uint64{
		"0 0x3 0x7ffe5e2f0b60 0x1000 0x0 0x0 0x0 0x7ffe5e2f0b58 0x47b6fd\n": 0x47b6fd,
		"-1 0x7ffe5e2f0b58 0x401000\n":                                      0x401000,
		"running\n":                                                         0,
		"":                                                                  0,
	} {
		if got, ok := lastAddress(text); got != want || ok != (want != 0) {
			t.Errorf("%q: %#x, %v", text, got, ok)
		}
	}
}
