package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// programDir has the programs' bytes and the harness for the host's processor. bench
// must be run in the project's root.
const programDir = "kernel/cpu/testdata/programs"

// programs with their arguments.
var programs = []struct {
	name string
	n    uint64
}{
	{"alu", 5_000_000},
	{"fib", 31},
	{"crc32", 1500},
	{"scan", 10_000},
	{"sort", 300},
}

// engines runs each program with the native engine, in the interpreter, on the host's
// processor and in Unicorn, and compares millions of instructions per second.
func engines(b *bench) error {
	native := b.compile("native", filepath.Join(programDir, "native.c"))
	unicorn := b.compile("unicorn", "internal/tools/bench/testdata/unicorn.c", "-lunicorn")
	for _, p := range programs {
		file := filepath.Join(programDir, p.name+".bin")
		m, err := newProgram(file, p.n, cpu.Auto)
		if err != nil {
			return err
		}
		interp, err := newProgram(file, p.n, cpu.Interp)
		if err != nil {
			return err
		}
		ts := []timed{{"kprobefs", m.run}, {"interp", interp.run}}
		for name, tool := range map[string]string{"native": native, "unicorn": unicorn} {
			if tool != "" {
				ts = append(ts, timed{name, func() (float64, error) { return m.elsewhere(tool, file, p.n) }})
			}
		}
		got, err := b.medians(ts)
		if err != nil {
			return err
		}
		row := Row{Section: "engines", Name: p.name, Unit: "MIPS", Value: got["kprobefs"], Beside: got}
		delete(got, "kprobefs")
		b.add(row)
		if err := errors.Join(m.mem.Close(), interp.mem.Close()); err != nil {
			return err
		}
	}
	return nil
}

// compile builds a C program. If that fails, it adds a note.
func (b *bench) compile(name, source string, flags ...string) string {
	out := filepath.Join(b.dir, name)
	args := append([]string{"-O2", "-o", out, source}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		b.note("without %s: gcc %v: %v: %.120s", name, args, err, text)
		return ""
	}
	return out
}

// Addresses of a program; kernel/cpu's tests use others.
const (
	progText  = abi.TextBase
	progHalt  = progText + abi.PageSize // a hlt, what it returns to
	progData  = uint64(abi.DirectMap)
	progStack = progData + 16*abi.PageSize - 64
)

// program is a machine without a kernel.
type program struct {
	mem     *mem.Memory
	cpu     *cpu.CPU
	n       uint64
	retired uint64 // instructions of one run
}

func newProgram(file string, n uint64, e cpu.Engine) (*program, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("run it in the project's root: %w", err)
	}
	ram, err := mem.New(1 << 20)
	if err != nil {
		return nil, err
	}
	copy(ram.Phys(0, 2*abi.PageSize), text)
	ram.Phys(abi.PageSize, 1)[0] = 0xf4
	c, err := cpu.New(ram, 0, cpu.NewCache(ram, e))
	err = errors.Join(err,
		ram.Map(progText, 0, 2, mem.Read|mem.Exec),
		ram.Map(progData, 2*abi.PageSize, 32, mem.Read|mem.Write))
	return &program{mem: ram, cpu: c, n: n}, err
}

// run is run(n, memory) once.
func (p *program) run() (mips float64, err error) {
	c := p.cpu
	c.RIP, c.R[4], c.R[7], c.R[6] = progText, progStack, p.n, progData+16*abi.PageSize
	if err := p.mem.WriteU64(progStack, progHalt); err != nil {
		return 0, err
	}
	start := cpuTime()
	e, n := c.Run(1 << 40)
	took := cpuTime() - start
	if e.Reason != cpu.Halt {
		return 0, fmt.Errorf("it ended with %+v", e)
	}
	p.retired = n
	return float64(n) * 1000 / float64(took), nil
}

// elsewhere runs the same bytes with another tool, which prints the result and the
// nanoseconds.
func (p *program) elsewhere(tool, file string, n uint64) (mips float64, err error) {
	out, err := exec.Command(tool, file, fmt.Sprint(n)).Output()
	if err != nil {
		return 0, err
	}
	var res uint64
	var ns time.Duration
	if _, err := fmt.Sscan(string(out), &res, &ns); err != nil {
		return 0, err
	}
	if res != p.cpu.R[0] {
		return 0, fmt.Errorf("%s computes %d, kprobefs %d: %w", tool, res, p.cpu.R[0], unix.EILSEQ)
	}
	return float64(p.retired) * 1000 / float64(ns), nil
}
