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

const moduleProgram = `
__attribute__((section(".init.text"))) int thrice(int x)
{
	return 3 * x;
}

int twice(int x)
{
	return 2 * x;
}
`

// object compiles a module's object.
func object(t testing.TB, text string, flags ...string) (b []byte, dir string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc")
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.c"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("gcc", append(flags, "-O0", "-mcmodel=kernel", "-fno-pic", "-c", "-o", "m.ko", filepath.Join(dir, "m.c"))...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "m.ko"))
	if err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// tree has the files of a module m.
type tree map[string]string

func (tr tree) read(name string) ([]byte, error) {
	text, ok := tr[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return []byte(text), nil
}

// of is a function of the module m, with an instruction at each byte.
func of(name string, addr uint64) []look.Function {
	f := function(addr)
	f[0].Name, f[0].Module = name, "m"
	return f
}

func TestModules(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		ko, dir := object(t, moduleProgram, version)
		files := tree{"machine/modules/m.ko": string(ko), "sys/module/m/sections/.text": "0xffffffffc0000000\n", "sys/module/m/sections/.init.text": "0xffffffffc0005000\n"}
		m := NewModules(Anywhere)
		text, init := of("twice", 0xffffffffc0000000), of("thrice", 0xffffffffc0005000)
		if n := m.Add(files.read, append(text, init...)); n != 2 {
			t.Errorf("%s: %d functions have lines", version, n)
		}
		if got, want := strings.Join(lines(text), "; "), dir+"/m.c:8: {; "+dir+"/m.c:9: return 2 * x;"; got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
		if got, want := strings.Join(lines(init), "; "), dir+"/m.c:3: {; "+dir+"/m.c:4: return 3 * x;"; got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
		for what, f := range map[string][]look.Function{"elsewhere": of("twice", 0xffffffffc0000001), "hidden": of("twice", 0), "of the kernel": function(0xffffffffc0000000)} {
			if n := m.Add(files.read, f); n != 0 {
				t.Errorf("%s: %q", what, lines(f))
			}
		}
		files["sys/module/m/sections/.text"] = "0xffffffffc0010000\n"
		text = of("twice", 0xffffffffc0010000)
		if n := m.Add(files.read, text); n != 1 || len(lines(text)) != 2 {
			t.Errorf("loaded again: %q", lines(text))
		}
		changed, _ := object(t, "\n"+moduleProgram, version)
		files["machine/modules/m.ko"] = string(changed)
		text = of("twice", 0xffffffffc0010000)
		if n := m.Add(files.read, text); n != 1 || !strings.Contains(lines(text)[0], "m.c:9") {
			t.Errorf("another object at the same address: %q", lines(text))
		}
	}
	ko, _ := object(t, moduleProgram)
	files := tree{"machine/modules/m.ko": string(ko), "sys/module/m/sections/.text": "0xffffffffc0000000\n"}
	text := of("twice", 0xffffffffc0000000)
	if n := NewModules(Anywhere).Add(files.read, text); n != 0 {
		t.Errorf("without debug information: %q", lines(text))
	}
	if n := NewModules(Anywhere).Add(tree{}.read, text); n != 0 {
		t.Errorf("without its object: %q", lines(text))
	}
}

// TestWithin: an object cannot have a file read that is not in the directories.
func TestWithin(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{dir + "/a.c": "a", dir + "/sub/b.c": "b", other + "/secret": "secret"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other+"/secret", dir+"/link.c"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir + "/a.c":               "a a.c",
		dir + "/sub/b.c":           "b sub/b.c",
		"/build/m/sub/b.c":         "b sub/b.c",
		"/build/m/a.c":             "a a.c",
		"a.c":                      "a a.c",
		other + "/secret":          " " + other + "/secret",
		dir + "/link.c":            " " + dir + "/link.c",
		dir + "/../" + other[1:]:   " " + dir + "/../" + other[1:],
		"../../../../etc/hostname": " ../../../../etc/hostname",
		"":                         " ",
		dir:                        " " + dir,
	} {
		text, short := Within([]string{other + "/nosuch", dir})(name)
		if got := string(text) + " " + short; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if text, _ := Within(nil)(dir + "/a.c"); text != nil {
		t.Errorf("without directories: %q", text)
	}
}

// FuzzObject: no object ends the program, or keeps it.
func FuzzObject(f *testing.F) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		ko, _ := object(f, moduleProgram, version)
		f.Add(ko)
	}
	f.Fuzz(func(_ *testing.T, ko []byte) {
		files := tree{"machine/modules/m.ko": string(ko), "sys/module/m/sections/.text": "0xffffffffc0000000\n"}
		NewModules(Within(nil)).Add(files.read, of("twice", 0xffffffffc0000000))
	})
}

func TestNew(t *testing.T) {
	file, addr := build(t, "-g")
	l, err := New([]string{t.TempDir(), file}, Within)
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Add(tree{}.read, function(addr)); n != 1 {
		t.Errorf("%d functions", n)
	}
	for _, names := range [][]string{{file, file}, {file + ".nosuch"}} {
		if _, err := New(names, Within); err == nil {
			t.Errorf("%q is taken", names)
		}
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
