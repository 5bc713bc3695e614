package release

// Debian is a kernel of Debian on which what Linux does was recorded, and can be asked again.
type Debian struct {
	Version   Version
	Suite     string // of Debian, which has the kernel: "bookworm"
	Types     bool   // it has types in BTF (/sys/kernel/btf/vmlinux), and so has the guest
	Selftests bool   // the kernel's own tests of tracing were run on it
}

// Recorded are these kernels, the oldest first. The tools of internal/tools, the tests and the Makefile
// ("go run ./internal/tools/golden releases") have the releases from here.
var Recorded = []Debian{
	{Version: Linux5_10, Suite: "bullseye"},
	{Version: Linux6_1, Suite: "bookworm", Types: true, Selftests: true},
	{Version: Linux6_12, Suite: "trixie", Types: true, Selftests: true},
}

// RecordedNames returns the names of those of Recorded for which of returns true: "6.1".
func RecordedNames(of func(Debian) bool) (names []string) {
	for _, d := range Recorded {
		if of(d) {
			names = append(names, d.Version.String())
		}
	}
	return names
}
