package cpu

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// programs are those of testdata/programs: what they compute for n, and an n
// for benchmarks.
var programs = []struct {
	name  string
	n     uint64
	bench uint64
	want  func(n uint64) uint64
}{
	{"alu", 1000, 10_000_000, func(n uint64) (sum uint64) {
		x := uint64(88172645463325252)
		for i := range n {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			sum += x&0xff + uint64(uint32(i)*3)
		}
		return sum
	}},
	{"fib", 15, 32, fib},
	{"crc32", 3, 3000, func(n uint64) uint64 {
		b := make([]byte, 4096)
		for i := range b {
			b[i] = byte(i*7 + 3)
		}
		crc := uint32(0)
		for range n {
			crc = crc32.Update(crc, crc32.IEEETable, b)
		}
		return uint64(crc)
	}},
	{"scan", 10, 20_000, func(n uint64) (sum uint64) {
		for n > 0 {
			n--
			sum += 1000 + 'a' + n&511%26
		}
		return sum
	}},
	{"sort", 10, 500, func(n uint64) (sum uint64) {
		x := uint64(1)
		for range n {
			var a [200]uint64
			for i := range a {
				x = x*6364136223846793005 + 1442695040888963407
				a[i] = x >> 33
			}
			slices.Sort(a[:])
			sum += a[0] + a[100]*3 + a[199]*5
		}
		return sum
	}},
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// program is a machine about to call run(n, memory); it then halts.
func program(t testing.TB, name string, n uint64) *CPU {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/programs", name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	c := machine(t, text...)
	if err := c.mem.PokeText(textVA+4096, []byte{0xf4}); err != nil {
		t.Fatal(err)
	}
	c.call(n)
	return c
}

func (c *CPU) call(n uint64) {
	c.RIP, c.R[4], c.R[7], c.R[6] = textVA, stackVA-8, n, dataVA+0x8000
	c.mem.WriteU64(c.R[4], textVA+4096)
}

func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			c := program(t, p.name, p.n)
			e, n := c.Run(1 << 40)
			if want := p.want(p.n); e.Reason != Halt || c.R[0] != want {
				t.Fatalf("%+v at %#x, rax %d, want %d", e, c.RIP, c.R[0], want)
			}
			// The same in small pieces, and with interrupted blocks.
			small := program(t, p.name, p.n)
			var sum uint64
			for i := uint64(1); ; i = i*5%97 + 1 {
				e, k := small.Run(i)
				if sum += k; e.Reason == Halt {
					break
				} else if e.Reason != Budget || k != i {
					t.Fatalf("%+v, %d of %d retired", e, k, i)
				}
			}
			if sum != n || small.State != c.State {
				t.Errorf("in pieces: %d retired, %d at once; %+v, %+v", sum, n, small.State, c.State)
			}
		})
	}
}

// cpuTime is how long this thread has run: other processes do not count.
func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPrograms prints millions of instructions a second, and how many times
// as long as the bare processor they take (if gcc is there to build the harness).
func BenchmarkPrograms(b *testing.B) {
	native := filepath.Join(b.TempDir(), "native")
	if exec.Command("gcc", "-O2", "-o", native, "testdata/programs/native.c").Run() != nil {
		native = ""
	}
	for _, p := range programs {
		b.Run(p.name, func(b *testing.B) {
			c := program(b, p.name, p.bench)
			var n uint64
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := cpuTime(b)
			for b.Loop() {
				c.call(p.bench)
				e, k := c.Run(1 << 40)
				if n += k; e.Reason != Halt {
					b.Fatalf("%+v", e)
				}
			}
			took := cpuTime(b) - start
			b.ReportMetric(float64(n)*1000/float64(took), "MIPS")
			if out, err := exec.Command(native, "testdata/programs/"+p.name+".bin", fmt.Sprint(p.bench)).Output(); err == nil {
				var res uint64
				var ns time.Duration
				fmt.Sscan(string(out), &res, &ns)
				if res != c.R[0] {
					b.Errorf("result %d, bare processor %d", c.R[0], res)
				}
				b.ReportMetric(float64(took)/float64(b.N)/float64(ns), "x-native")
			}
		})
	}
}

// BenchmarkInt3 is a Run that ends at an int3, again and again.
func BenchmarkInt3(b *testing.B) {
	c := machine(b, 0x90, 0xcc)
	for b.Loop() {
		c.RIP = textVA
		if e, n := c.Run(1000); e.Vector != abi.VecBP || n != 2 {
			b.Fatalf("%+v", e)
		}
	}
}
