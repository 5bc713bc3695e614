package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

// TestWhy asks the emulated kernels, and looks at what is printed and at the exit status.
func TestWhy(t *testing.T) {
	nothing := filepath.Join(t.TempDir(), "nothing")
	if err := os.WriteFile(nothing, []byte("no kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"vfs_read", "vfs_read+5"}, 0, "optimized    a jump replaces"},
		{[]string{"vfs_read+1"}, 1, "refused      EILSEQ"},
		{[]string{"--release", "6.12", "vfs_read"}, 0, "on Linux 6.12"},
		{[]string{"--release", "5.10", "r:vfs_read+5"}, 1, "refused      EINVAL"},
		{[]string{"vfs_raed"}, 1, "similar      vfs_read"},
		{[]string{"p:x exc_int3"}, 1, "refused      EINVAL"},
		{[]string{"--tsv", "vfs_read"}, 0, "\tFTRACE\t"},
		{[]string{}, cli.UsageStatus, "requires at least 1 arg"},
		{[]string{"+5"}, cli.UsageStatus, "has no function"},
		{[]string{"--kernel", nothing, "vfs_read"}, cli.UsageStatus, "neither a bzImage"},
		{[]string{"--kernel", "/nonexistent/vmlinuz", "vfs_read"}, cli.UsageStatus, "no such file"},
		{[]string{"--symbols", nothing, "vfs_read"}, cli.UsageStatus, "belong to a --kernel"},
		{[]string{"--release", "7.0", "vfs_read"}, cli.UsageStatus, "7.0"},
		{[]string{"--json", "--tsv", "vfs_read"}, cli.UsageStatus, "two forms"},
		{[]string{"--release", "6.12", "p:x vfs_read f=+0($arg1)"}, 0, "at its entry %di has struct file *file"},
		{[]string{"--release", "6.1", "p:x vfs_read f=$arg1"}, 0, "no types     it cannot be said"},
		{[]string{"p:x vfs_read f=%foo"}, 1, "error_log    Invalid register name"},
		{[]string{"--cpu", "baseline", "vfs_read"}, cli.UsageStatus, "belong to a --kernel"},
		{[]string{"--kernel", nothing, "--cpu", "smapp", "vfs_read"}, cli.UsageStatus, "\"smapp\" is no feature"},
		{[]string{"--btf", nothing, "p:x vfs_read"}, cli.UsageStatus, "belong to a --kernel"},
	} {
		out, st := output(t, append([]string{"why"}, c.args...)...)
		if st.ExitCode() != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, want %d with %q:\n%s", c.args, st.ExitCode(), c.status, c.says, out)
		}
	}
}

// TestWhyLines reads probes from the standard input, and prints an object for each.
func TestWhyLines(t *testing.T) {
	cmd := runProgram("why", "--json", "-")
	cmd.Stdin = strings.NewReader("# a comment\nvfs_read\n\np:mine vfs_read+5 count=%dx\nnofunc\n")
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Error(err)
	}
	var answers []why.Answer
	for line := range strings.Lines(string(out)) {
		var a why.Answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		answers = append(answers, a)
	}
	if len(answers) != 3 || answers[0].Kind != "ftrace" || !answers[1].Optimized || len(answers[1].Region) == 0 || answers[2].Errno != "ENOENT" {
		t.Errorf("%+v", answers)
	}
}

// TestWhyColors: there are colours on a terminal, unless NO_COLOR is set, and where --color asks for
// them.
func TestWhyColors(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		env      string
		args     []string
		colors   bool
	}{
		{false, "", nil, false},
		{false, "", []string{"--color=auto"}, false},
		{false, "NO_COLOR=1", []string{"--color=always"}, true},
		{false, "", []string{"--color=always", "--json"}, false},
		{true, "", nil, true},
		{true, "NO_COLOR=1", nil, false},
		{true, "TERM=dumb", nil, false},
		{true, "", []string{"--color=never"}, false},
	} {
		cmd := runProgram(append([]string{"why", "vfs_read+5"}, c.args...)...)
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=", c.env)
		out := []byte(nil)
		var err error
		if c.terminal {
			out, err = onTerminal(t, cmd)
		} else {
			out, err = cmd.Output()
		}
		if err != nil {
			t.Fatalf("%q: %v", c.args, err)
		}
		if got := bytes.Contains(out, []byte("\x1b[32maccepted")); got != c.colors || !c.colors && bytes.ContainsRune(out, '\x1b') {
			t.Errorf("%+v: colours %v:\n%q", c, got, out)
		}
	}
	if _, st := output(t, "why", "--color=sometimes", "vfs_read"); st.ExitCode() != cli.UsageStatus {
		t.Errorf("--color=sometimes: %v", st)
	}
}

// onTerminal returns what a program writes to a terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) ([]byte, error) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	cmd.Stdout = slave
	err = cmd.Start()
	_ = slave.Close()
	if err != nil {
		return nil, err
	}
	out, _ := io.ReadAll(master) // it ends with EIO when nobody has the terminal open
	return out, cmd.Wait()
}

// TestWhyFile asks about a kernel's file: the guest's image, whose symbols and types lie in files of
// their own.
func TestWhyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	b := guest.Image("6.1")
	m, err := image.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	var symbols []byte
	for _, s := range m.Symbols {
		symbols = fmt.Appendf(symbols, "%016x %c %s\n", s.Addr, s.Type, s.Name)
	}
	flags := []string{"why", "--kernel", write("vmlinux", b), "--symbols", write("System.map", symbols)}
	types, nothing := write("btf", fileTypes(t)), write("nothing", []byte("no types"))
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"p:x vfs_read f=+8($arg1):u32"}, 0, "of this kernel's functions; --btf FILE gives them"},
		{[]string{"--btf", types, "p:x vfs_read f=+8($arg1):u32"}, 0, "%di has struct file *file; reads file->f_flags (unsigned int f_flags)"},
		{[]string{"--btf", types, "--json", "p:x vfs_read f=+4($arg1)"}, 0, `"warnings":["no member of struct file is at +0x4; f_mode at +0x0 has 4 bytes"]`},
		{[]string{"--btf", types, "r:x vfs_read $retval"}, 0, "%ax has long"},
		{[]string{"--btf", types, "vfs_read"}, 0, "at an fentry site"}, // the types are not read
		{[]string{"--btf", nothing, "vfs_read"}, 0, "at an fentry site"},
		{[]string{"--btf", nothing, "p:x vfs_read"}, cli.UsageStatus, "no BTF"},
		{[]string{"--btf", types, "--btf", types, "p:x vfs_read"}, cli.UsageStatus, "more --modules or --btf than --kernel"},
		{[]string{"--cpu", "baseline,smap", "vfs_read"}, 0, "at an fentry site"},
		{[]string{"--cpu", "host", "vfs_read"}, 0, "at an fentry site"},
	} {
		out, st := output(t, append(slices.Clone(flags), c.args...)...)
		if st.ExitCode() != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, want %d with %q:\n%s", c.args, st.ExitCode(), c.status, c.says, out)
		}
	}
}

// fileTypes returns the BTF of long vfs_read(struct file *file).
func fileTypes(t *testing.T) []byte {
	t.Helper()
	number := &btf.Int{Name: "unsigned int", Size: 4}
	file := &btf.Struct{Name: "file", Size: 16, Members: []btf.Member{{Name: "f_mode", Type: number}, {Name: "f_flags", Type: number, Offset: 64}}}
	read := &btf.Func{Name: "vfs_read", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}, Params: []btf.FuncParam{{Name: "file", Type: &btf.Pointer{Target: file}}},
	}}
	types, err := btf.NewBuilder([]btf.Type{read}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := types.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
