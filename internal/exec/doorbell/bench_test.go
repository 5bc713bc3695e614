package doorbell

import (
	"os"
	"testing"
)

// BenchmarkRead reads the text of this test's program, some 3 MB: what a program pays when it is first executed
// below exec.
func BenchmarkRead(b *testing.B) {
	name, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := Read(f); err != nil {
			b.Fatal(err)
		}
	}
}
