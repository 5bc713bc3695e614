package why_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
	"github.com/kprobefs/kprobefs/optimizer"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

// world is a kernel of three functions.
func world(t *testing.T) (*why.Asker, *kprobetest.Kernel) {
	t.Helper()
	k := kprobetest.New()
	k.Func(0x100, "plain", 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x53, 0x48, 0x89, 0xfb, 0x5b, 0x5d, 0xc3)
	k.Func(0x140, "jumps", 0x55, 0x53, 0x48, 0x89, 0xfb, 0x74, 0xfa, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3)
	k.Func(0x180, "black", 0x55, 0x5d, 0xc3)
	k.Func(0x200, "optimized_callback", 0xc3)
	k.Func(0x240, "arch_rethook_trampoline", 0xc3)
	k.Site(kprobetest.Text + 0x100)
	k.Black = append(k.Black, abi.Range{Start: kprobetest.Text + 0x180, End: kprobetest.Text + 0x183})
	return why.New(why.Config{Kernel: listed{k}, Linux: release.Linux6_1, Preempt: true}), k
}

// listed adds the list of symbols.
type listed struct{ *kprobetest.Kernel }

func (l listed) All() []abi.Symbol { return l.Symtab }

func ask(t *testing.T, a *why.Asker, text string) (why.Verdict, why.Answer) {
	t.Helper()
	p, err := why.ParseProbe(text)
	if err != nil {
		t.Fatal(err)
	}
	v := a.Ask(p)
	return v, a.Explain("6.1.0-test", p, v)
}

func TestAnswers(t *testing.T) {
	a, _ := world(t)
	for _, c := range []struct {
		probe string
		errno syscall.Errno
		cell  string
		says  []string
	}{
		{"plain", 0, "ftrace", []string{"ftrace calls the handlers"}},
		{"plain+5", 0, "jump", []string{"a jump replaces 5 bytes", "push %rbx"}},
		{"plain+0x1", syscall.EILSEQ, "EILSEQ", []string{"inside an instruction", "would do", "plain+0x0 (ftrace)", "plain+0x5 (jump)"}},
		{"jumps", 0, "breakpoint", []string{"not a jump   EILSEQ: the function jumps to one of the five bytes", "je jumps+0x1"}},
		{"black", syscall.EINVAL, "EINVAL", []string{"black is blacklisted"}},
		{"plian", syscall.ENOENT, "ENOENT", []string{"no symbol plian"}},
		{"r:plain", 0, "ftrace", nil},
		{"plain+5%return", syscall.EINVAL, "EINVAL", nil},
		{"p:mine jumps", syscall.EINVAL, "EINVAL", []string{"kprobe_events takes no function without an fentry site"}},
		{"p:mine plain+5 a=%di", 0, "jump", nil},
	} {
		v, answer := ask(t, a, c.probe)
		if v.Errno() != c.errno || why.Cell(v) != c.cell {
			t.Errorf("%s: %v (%v), %s; want %v, %s", c.probe, v.Errno(), v.Err, why.Cell(v), c.errno, c.cell)
		}
		var b strings.Builder
		if err := answer.Write(&b, nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.says {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", c.probe, want, b.String())
			}
		}
	}
}

// TestArguments: arguments are parsed as Linux parses them, before the place is looked at, and types say
// what they fetch.
func TestArguments(t *testing.T) {
	k := kprobetest.New()
	k.Func(0x100, "plain", 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x53, 0x48, 0x89, 0xfb, 0x5b, 0x5d, 0xc3)
	k.Func(0x140, "bare", 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x5d, 0xc3)
	k.Func(0x180, "notrace", 0x55, 0x5d, 0xc3)
	k.Func(0x200, "optimized_callback", 0xc3)
	k.Func(0x240, "arch_rethook_trampoline", 0xc3)
	k.Site(kprobetest.Text + 0x100)
	k.Site(kprobetest.Text + 0x140)
	types, err := btf.Parse([]byte("int 4 s int\nstruct 16 pair\n. 1 0 0 a\n. 1 64 0 b\nptr 2\nfunc 1 plain 3:p 1:n\n"))
	if err != nil {
		t.Fatal(err)
	}
	without := why.Config{Kernel: listed{k}, Linux: release.Linux6_1, Preempt: true, NoTypes: "; give them"}
	with, newer := without, without
	with.Types = func(string) *btf.Types { return types }
	newer.Types, newer.Linux = with.Types, release.Linux6_12
	for _, c := range []struct {
		config why.Config
		probe  string
		errno  syscall.Errno
		says   string
	}{
		{with, "p:x plain n=$arg2 b=+8($arg1):s32", 0, "  function     int plain(struct pair *p, int n)\n  at its entry %di has struct pair *p, %si has int n\n  argument     n=$arg2: %si has int n\n  argument     b=+8($arg1):s32: %di has struct pair *p; reads p->b (int b)\n"},
		{with, "p:x plain b=+4($arg1)", 0, "warning: no member of struct pair is at +0x4; a at +0x0 has 4 bytes"},
		{with, "p:x plain+5 n=%si", 0, "warning: %si has it at the entry of plain; the instructions before +0x5"},
		{with, "r:x plain $retval", 0, "argument     arg1=$retval: %ax has int"},
		{with, "p:x bare n=$arg1", 0, "no types     the kernel's types (BTF) have no function bare"},
		{without, "p:x plain n=$arg1", 0, "no types     it cannot be said which register has which parameter"},
		{without, "p:x plain n=$arg1", 0, "functions; give them"},
		{without, "p:x plain n=%foo", syscall.EINVAL, "refused      EINVAL: \"n=%foo\": Invalid register name\n  error_log    Invalid register name\n               p:x plain n=%foo\n                           ^\n"},
		{without, "p:x plain+5 n=$arg1", syscall.EINVAL, "error_log    Invalid $-variable specified"},
		{without, "r:x plain n=$retval:foo", syscall.EINVAL, "error_log    Unknown type is specified"},
		{without, "p:9x plain", syscall.EINVAL, "error_log    Event name must follow the same rules as C identifiers"},
		{without, "p:x notrace n=%foo", syscall.EINVAL, "error_log    Invalid register name"}, // before the place
		{without, "p:x notrace n=%di", syscall.EINVAL, "error_log    Failed to register probe event"},
		{without, "p:x plain+1", syscall.EILSEQ, "error_log    Probe point is not an instruction boundary"},
		{without, "p:x nofunc", syscall.ENOENT, "error_log    Invalid probed address or symbol"},
		{newer, "p:x plain p->b", 0, "reads p->b (int b)"},
		{newer, "p:x plain p->c", syscall.ENOENT, "error_log    This field is not found."},
	} {
		v, answer := ask(t, why.New(c.config), c.probe)
		var b strings.Builder
		if err := answer.Write(&b, nil); err != nil {
			t.Fatal(err)
		}
		if v.Errno() != c.errno || !strings.Contains(b.String(), c.says) {
			t.Errorf("%s: %v, want %v, and %q in\n%s", c.probe, v.Err, c.errno, c.says, b.String())
		}
	}
}

// TestListing: the instructions around the probe are shown, with marks, and in styles.
func TestListing(t *testing.T) {
	a, _ := world(t)
	for probe, want := range map[string]string{
		"plain+5": "  text           plain+0x0  0f 1f 44 00 00                   nopl (%rax,%rax)\n" +
			"               <4> plain+0x5  55                               push %rbp\n" +
			"               <5| plain+0x6  53                               push %rbx\n" +
			"               <5| plain+0x7  48 89 fb                         mov %rdi,%rbx\n" +
			"                 plain+0xa  5b                               pop %rbx\n" +
			"                 plain+0xb  5d                               pop %rbp\n" +
			"                 plain+0xc  c3                               retq\n",
		"jumps": "  text         <4> jumps+0x0  55                               push %rbp\n" +
			"                 jumps+0x1  53                               push %rbx\n" +
			"                 jumps+0x2  48 89 fb                         mov %rdi,%rbx\n" +
			"               <3! jumps+0x5  74 fa                            je jumps+0x1\n" +
			"                 jumps+0x7  90                               nop\n" +
			"                 jumps+0x8  90                               nop\n" +
			"                 jumps+0x9  90                               nop\n" +
			"               ...\n",
	} {
		_, answer := ask(t, a, probe)
		var b strings.Builder
		if err := answer.Write(&b, func(s why.Style, text string) string {
			if s != why.Plain {
				return fmt.Sprintf("<%d%s", s, text)
			}
			return text
		}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%s:\n%s, want\n%s", probe, b.String(), want)
		}
	}
}

// TestNothingStays: a question leaves no probe, and no text is changed.
func TestNothingStays(t *testing.T) {
	a, k := world(t)
	before := bytes.Clone(k.Bytes(kprobetest.Text+0x100, 0x100))
	for range 3 {
		for _, probe := range []string{"plain+5", "r:plain", "jumps", "black", "plain+5"} {
			ask(t, a, probe)
		}
	}
	if !bytes.Equal(k.Bytes(kprobetest.Text+0x100, 0x100), before) {
		t.Error("the text has changed")
	}
}

// TestRulesHaveSentences: each reason of package optimizer is explained.
func TestRulesHaveSentences(t *testing.T) {
	for r := optimizer.NoSymbol; r <= optimizer.NoCallback; r++ {
		if why.Rule(r) == "" {
			t.Errorf("%s has no sentence", r)
		}
	}
}

func TestParseProbe(t *testing.T) {
	for text, want := range map[string]why.Probe{
		"vfs_read":                     {Symbol: "vfs_read"},
		"vfs_read+0x10":                {Symbol: "vfs_read", Offset: 16},
		"vfs_read+16":                  {Symbol: "vfs_read", Offset: 16},
		"0xffffffff81000000":           {Addr: 0xffffffff81000000},
		"ext4:ext4_open":               {Symbol: "ext4:ext4_open"},
		"p:x do_sys_openat2":           {Symbol: "do_sys_openat2", Event: true},
		"p:g/x do_sys_openat2 dfd=%di": {Symbol: "do_sys_openat2", Event: true},
		"p vfs_read+5":                 {Symbol: "vfs_read", Offset: 5, Event: true},
		"r8:x vfs_read $retval":        {Symbol: "vfs_read", Event: true, Return: true},
		"r:kernel_clone":               {Symbol: "kernel_clone", Event: true, Return: true},
		"p:x vfs_read%return":          {Symbol: "vfs_read", Event: true, Return: true},
		"printk":                       {Symbol: "printk"},
		"psmouse:psmouse_reset":        {Symbol: "psmouse:psmouse_reset"},
	} {
		want.Text = text
		if got, err := why.ParseProbe(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "0x", "0xg", "+5", "f+x", "f+0x100000000", "vfs_read 5", "p:", "p %return"} {
		if got, err := why.ParseProbe(text); !errors.Is(err, why.ErrSyntax) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseProbe(f *testing.F) {
	for _, text := range []string{"vfs_read+0x10", "p:x do_sys_openat2 a=%di", "r8:g/e f%return", "0xffffffff81000000", "m:f+1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := why.ParseProbe(text)
		if err == nil && p.Symbol == "" && p.Addr == 0 && !strings.Contains(text, "0x0") && !strings.Contains(strings.ToLower(text), "0x") {
			t.Errorf("%q: neither a symbol nor an address", text)
		}
	})
}

// TestReference holds the answers for a kernel against a table with the columns of --tsv that was
// recorded elsewhere: KPROBEFS_VERDICTS names the table, KPROBEFS_KERNEL the kernel's image. What the
// table has as "-" was not asked. The project's own recordings are held by "golden verdicts check".
func TestReference(t *testing.T) {
	table, image := os.Getenv("KPROBEFS_VERDICTS"), os.Getenv("KPROBEFS_KERNEL")
	if table == "" || image == "" {
		t.Skip("KPROBEFS_VERDICTS and KPROBEFS_KERNEL name no table and no kernel")
	}
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	k, err := vmlinux.Load(b, vmlinux.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	a := why.New(why.Config{Kernel: k, Linux: k.Linux, Preempt: k.Preempt})
	bad, n := 0, 0
	for line := range strings.Lines(string(text)) {
		want := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		p, err := why.ParseProbe("0x" + want[0])
		if err != nil {
			continue // the head
		}
		n++
		got := strings.Split(a.TSV(a.Ask(p)), "\t")
		if want[2] == "0" && want[3] == "-" && want[4] == "-" { // only armed and listed
			copy(got[4:9], want[4:9])
		}
		for i := range want {
			if i == 9 && want[9] == "-" || i == 10 && want[10] == "-" {
				continue
			}
			if i >= len(got) || got[i] != want[i] {
				if bad++; bad <= 20 {
					t.Errorf("%q, want\n%q", got, want)
				}
				break
			}
		}
	}
	if n == 0 {
		t.Errorf("%s has no rows", table)
	}
	t.Logf("%d rows, %d differ", n, bad)
}
