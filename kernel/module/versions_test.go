package module

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// TestCRCs: the table has a line for each symbol that the guest exports, in order, with
// a CRC of at least one kernel, and no line for another.
func TestCRCs(t *testing.T) {
	img, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	exports := slices.Sorted(slices.Values(append(img.Exports, "module_layout")))
	lines := strings.Split(strings.TrimSpace(crcs61), "\n")
	kernels := strings.Fields(lines[0])[1:]
	for _, k := range kernels {
		if !Debian61.uname.MatchString(k) {
			t.Errorf("%s is no kernel of Debian", k)
		}
	}
	var names []string
	for _, line := range lines[1:] {
		w := strings.Fields(line)
		names = append(names, w[0])
		known := 0
		for _, crc := range w[1:] {
			if _, err := strconv.ParseUint(crc, 16, 32); err == nil || crc == "=" {
				known++
			} else if crc != "-" {
				t.Errorf("%s: %q is no CRC", w[0], crc)
			}
		}
		if len(w) != len(kernels)+1 || known == 0 {
			t.Errorf("%q: %d kernels, %d CRCs", line, len(w)-1, known)
		}
	}
	if !slices.Equal(names, exports) {
		for _, n := range exports {
			if !slices.Contains(names, n) {
				t.Errorf("no line for %s", n)
			}
		}
		for _, n := range names {
			if !slices.Contains(exports, n) {
				t.Errorf("%s is not exported", n)
			}
		}
		t.Error("go run ./kernel/module/gencrcs, with Debian's headers installed")
	}
}

func TestParseCRCs(t *testing.T) {
	got := parseCRCs("symbol a b c\nx 10 = 20\ny - 30 -\n")
	for _, tt := range []struct {
		kernel, symbol string
		want           uint32
		known          bool
	}{
		{"a", "x", 0x10, true},
		{"b", "x", 0x10, true},
		{"c", "x", 0x20, true},
		{"a", "y", 0, false},
		{"b", "y", 0x30, true},
		{"c", "y", 0, false},
		{"d", "x", 0, false},
	} {
		if crc, known := got[tt.kernel][tt.symbol]; crc != tt.want || known != tt.known {
			t.Errorf("%s of %s: %#x %t, want %#x %t", tt.symbol, tt.kernel, crc, known, tt.want, tt.known)
		}
	}
}

func TestAccepts(t *testing.T) {
	with := &object{crcs: map[string]uint32{}}
	for _, tt := range []struct {
		vermagic string
		object   *object
		want     bool
	}{
		{"6.1.0-56-amd64 SMP preempt mod_unload modversions", with, true},
		{"6.1.0-7-amd64 SMP preempt mod_unload modversions", with, true},
		{"6.1.0-56-amd64 SMP preempt mod_unload modversions", &object{}, false},
		{"6.1.0-56-amd64 SMP mod_unload modversions", with, false},
		{"6.1.0-56-cloud-amd64 SMP preempt mod_unload modversions", with, true},
		{"6.1.0-56-rt-amd64 SMP preempt_rt mod_unload modversions", with, false},
		{"6.1.176 SMP preempt mod_unload modversions", with, true}, // same_magic: the CRCs decide,
		{"", with, false},
	} {
		if got := Debian61.accepts(tt.vermagic, tt.object); got != tt.want {
			t.Errorf("%q, CRCs %t: %t", tt.vermagic, tt.object.crcs != nil, got)
		}
	}
	if (*ABI)(nil).accepts("6.1.0-56-amd64 SMP preempt mod_unload modversions", with) {
		t.Error("accepted without an ABI")
	}
}
