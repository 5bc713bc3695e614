package output

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// kernel is an Env of one symbol and one string.
type kernel struct{ memory }

const (
	symbolAddr = 0xffffffff81000000
	stringAddr = 0xffffffff82000000
)

func (kernel) AppendSymbol(b []byte, addr uint64, offset bool) []byte {
	sym := abi.Symbol{Name: "sym", Addr: symbolAddr, Size: 32}
	if !offset {
		return append(b, sym.Name...)
	}
	return AppendSprint(b, sym, addr-symbolAddr, addr, true)
}

func (kernel) AppendPointer(b []byte, addr uint64) []byte { return fmt.Appendf(b, "<%x>", addr) }

func (k kernel) Memory() abi.Memory { return k.memory }

// memory is memory with that string.
type memory struct{ abi.Memory }

func (memory) ReadAt(addr uint64, p []byte) error {
	if addr != stringAddr {
		return syscall.EFAULT
	}
	clear(p)
	copy(p, "text")
	return nil
}

var members = []field.Field{
	field.New("unsigned long ip", 8, 8, false), field.New("int n", 16, 4, true), field.New("u8 flags", 20, 1, false),
	field.New("char c", 21, 1, true), field.New("u16 list[2]", 22, 4, false), field.New("__data_loc char[] name", 28, 4, true),
	field.New("const char * s", 32, 8, false), field.New("char room[8]", 40, 8, true),
}

func entry() []byte {
	e := make([]byte, 48, 64)
	binary.LittleEndian.PutUint64(e[8:], symbolAddr+4)
	binary.LittleEndian.PutUint32(e[16:], 0xfffffffe)
	e[20], e[21] = 7, 'x'
	copy(e[22:], []byte{1, 0, 2, 0})
	field.PutDataLoc(e[28:], 48, 5)
	binary.LittleEndian.PutUint64(e[32:], stringAddr)
	copy(e[40:], "room")
	return append(e, "file\x00"...)
}

func TestFormat(t *testing.T) {
	for text, want := range map[string]string{
		`"%pS %ps %p", (void *)REC->ip, (void *)REC->ip, REC->ip`:                             "sym+0x4/0x20 sym <ffffffff81000004>",
		`"%d %u %x %hhx %ld", REC->n, REC->n, REC->n, REC->n, REC->n`:                         "-2 4294967294 fffffffe fe -2",
		`"%s|%s|%s", __get_str(name), REC->s, REC->room`:                                      "file|text|room",
		`"%c %03d%%", REC->c, REC->list[1]`:                                                   "x 002%",
		`"%s", __print_flags(REC->flags, "|", {1, "A"}, {2, "B"})`:                            "A|B|0x4",
		`"%s %s", __print_symbolic(REC->c, {120, "X"}), __print_symbolic(REC->n, {1, "one"})`: "X 0xfffffffffffffffe",
		`"%d", REC->n < 0 ? 1 + 2 * 3 : 0`:                                                    "0",
		`"%s", REC->flags & 4 && !(REC->flags == 4) ? "yes" : "no"`:                           "yes",
		`"%lu", (unsigned long)((struct page *)0 + 2)`:                                        "128",
	} {
		f, err := ParseFormat(text, members)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := string(f.Append(nil, entry(), kernel{})); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{``, `%d`, `"%d"`, `"%d", REC->none`, `"%d", REC->n, 1`, `"%d", nothing`, `"%d", REC->list[2]`, `"%d", (1`, `"%s", __get_str(x)`} {
		if _, err := ParseFormat(text, members); err == nil {
			t.Errorf("%s is parsed", text)
		}
	}
}

func TestMembers(t *testing.T) {
	want := " ip=0xffffffff81000004 (-2130706428) n=0xfffffffe (-2) flags=(7) c='x'(120) list=0x20001 (131073) name=file s=(0xffffffff82000000) room=room\n"
	if got := string(AppendMembers(nil, entry(), members)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(AppendMembers(nil, entry()[:18], members[1:2])); got != " n=<OVERFLOW>\n" {
		t.Errorf("a short entry: %q", got)
	}
}

func TestColumns(t *testing.T) {
	x := &Context{PID: 42, TGID: 40, CPU: 3, Flags: field.FlagIRQsOff | field.FlagHardirq, Preempt: 0x21, Time: 1234567890, Index: 5, Since: 2500, Delta: 20000}
	copy(x.Comm[:], "cat")
	for _, c := range []struct {
		columns       Columns
		task, latency string
	}{
		{Columns{IRQInfo: true, MigrateDisable: true, Nanoseconds: true}, "             cat-42      [003] d.h12     1.234568: ", "     cat-42        3d.h12    3us+: "},
		{Columns{IRQInfo: true, Nanoseconds: true}, "             cat-42      [003] d.h1     1.234568: ", "     cat-42        3d.h1    3us+: "},
		{Columns{TGID: true}, "             cat-42      (     40) [003]    1234567890: ", "     cat-42        3d.h1 2500: "},
		{Columns{Verbose: true, Nanoseconds: true}, "             cat-42      [003]      1.234568: ", "             cat      42   3 9 00000021 00000005 [0012d688] 0.003ms (+0.020ms): "},
	} {
		if got := string(c.columns.AppendTask(nil, x)); got != c.task {
			t.Errorf("%+v: %q, want %q", c.columns, got, c.task)
		}
		if got := string(c.columns.AppendLatency(nil, x)); got != c.latency {
			t.Errorf("%+v, latency: %q, want %q", c.columns, got, c.latency)
		}
		head := string(c.columns.AppendHeader(nil))
		if strings.Contains(head, "TGID") != c.columns.TGID || strings.Contains(head, "migrate-disable") != (c.columns.MigrateDisable && c.columns.IRQInfo) {
			t.Errorf("%+v: %q", c.columns, head)
		}
	}
}
