package host

import "testing"

// TestLastAddresses: what /proc/PID/syscall says of threads in a call, in none, and of one that runs.
func TestLastAddresses(t *testing.T) {
	for text, want := range map[string]uint64{
		"0 0x3 0x7ffe5e2f0b60 0x1000 0x0 0x0 0x0 0x7ffe5e2f0b58 0x47b6fd\n": 0x47b6fd,
		"-1 0x7ffe5e2f0b58 0x401000\n":                                      0x401000,
		"running\n":                                                         0,
		"":                                                                  0,
	} {
		const sp = 0x7ffe5e2f0b58
		if ip, at, ok := lastAddresses(text); ip != want || ok != (want != 0) || ok && at != sp {
			t.Errorf("%q: %#x, %#x, %v", text, ip, at, ok)
		}
	}
}
