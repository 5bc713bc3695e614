package source

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/look"
)

const program = `
int twice(int x)
{
	return 2 * x;
}

void _start(void)
{
	twice(21);
}
`

// build compiles the program, and returns its file and a function's address.
func build(t *testing.T, flags ...string) (file string, addr uint64) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kernel.c"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "vmlinux")
	c := exec.Command("gcc", append(flags, "-O0", "-nostdlib", "-static", "-no-pie", "-o", file, "kernel.c")...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == "twice" {
			addr = s.Value
		}
	}
	return file, addr
}

// function is a function with an instruction at each byte.
func function(addr uint64) []look.Function {
	f := look.Function{Name: "twice"}
	for i := range uint64(8) {
		f.Instructions = append(f.Instructions, look.Instruction{Address: fmt.Sprintf("%016x", addr), Offset: i})
	}
	return []look.Function{f}
}

// lines returns the lines that a function has.
func lines(of []look.Function) (all []string) {
	for _, in := range of[0].Instructions {
		if in.Source != nil {
			all = append(all, in.Source.String())
		}
	}
	return all
}

func TestAdd(t *testing.T) {
	file, addr := build(t, "-g")
	k, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	f := function(addr)
	if n := k.Add(f); n != 1 || strings.Join(lines(f), "; ") != "kernel.c:3: {; kernel.c:4: return 2 * x;" {
		t.Errorf("%d, %q", n, lines(f))
	}
	f = function(addr + 1)
	if n := k.Add(f); n != 0 || lines(f) != nil {
		t.Errorf("another kernel: %d, %q", n, lines(f))
	}
	f = function(addr)
	f[0].Module = "m"
	if n := k.Add(f); n != 0 {
		t.Errorf("of a module: %d, %q", n, lines(f))
	}
	if err := os.Remove(filepath.Join(filepath.Dir(file), "kernel.c")); err != nil {
		t.Fatal(err)
	}
	if k, err = Open(file); err != nil {
		t.Fatal(err)
	}
	f = function(addr)
	if k.Add(f); strings.Join(lines(f), "; ") != "kernel.c:3; kernel.c:4" {
		t.Errorf("without the source: %q", lines(f))
	}
}

func TestOpen(t *testing.T) {
	file, _ := build(t, "-g0")
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), "no debug information") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"source.go", "nosuch"} {
		if _, err := Open(name); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
