package vm

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
)

var names = kallsyms.NewSized([]abi.Symbol{
	{Addr: abi.TextBase, Type: 'T', Name: "strlen", Size: 0x20}, {Addr: abi.TextBase + 0x20, Type: 'T', Name: "sort", Size: 0x20},
})

func number(v uint64) Arg { return Arg{Value: v} }

func TestParseCall(t *testing.T) {
	for text, want := range map[string][]Arg{
		`strlen("abc")`:            {{Buffer: []byte("abc\x00")}},
		` strlen ( "a,)\"\x01" ) `: {{Buffer: []byte("a,)\"\x01\x00")}},
		`strlen()`:                 nil,
		`strlen(12, -1, 0x7f,'c')`: {number(12), number(1<<64 - 1), number(0x7f), number('c')},
		`strlen({de AD  beef}, 2)`: {{Buffer: []byte{0xde, 0xad, 0xbe, 0xef}}, number(2)},
		`strlen([3],[ 0x2 ])`:      {{Buffer: make([]byte, 3)}, {Buffer: make([]byte, 2)}},
		`strlen(sort, &strlen)`:    {number(abi.TextBase + 0x20), number(abi.TextBase)},
	} {
		e, err := ParseCall(text, names)
		if err != nil || e.Name != "strlen" || e.Function != abi.TextBase || !reflect.DeepEqual(e.Args, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, e.Args, err, want)
		}
	}
	for text, want := range map[string]error{
		"": syscall.EINVAL, "strlen": syscall.EINVAL, "strlen(": syscall.EINVAL, "(1)": syscall.EINVAL, "strlen(1,)": syscall.EINVAL,
		"strlen(1 2)": syscall.ENOENT, `strlen("a)`: syscall.EINVAL, `strlen("a" "b")`: syscall.EINVAL, "strlen([0])": syscall.EINVAL, "strlen([1048577])": syscall.EINVAL,
		"strlen([1})": syscall.EINVAL, "strlen({f})": syscall.EINVAL, "strlen({})": syscall.EINVAL, "strlen([)": syscall.EINVAL, "strlen('ab')": syscall.EINVAL, "strlen('')": syscall.EINVAL,
		"nope()": syscall.ENOENT, "strlen(nope)": syscall.ENOENT, "strlen(,)": syscall.ENOENT, "strlen(" + strings.Repeat("1,", maxArgs) + "1)": syscall.EINVAL,
	} {
		if _, err := ParseCall(text, names); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func FuzzParseCall(f *testing.F) {
	for _, text := range []string{`strlen("abc", 'c', -1)`, "sort({de ad}, [64], strlen)", "strlen(0x1", "strlen('')"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseCall(text, names)
		if err == nil && len(e.Args) > maxArgs {
			t.Errorf("%q: %d arguments", text, len(e.Args))
		}
	})
}

// TestShow: numbers, pointers into arguments and to symbols, and the buffers that have changed.
func TestShow(t *testing.T) {
	e, err := ParseCall(`strlen("abc", [2], 7)`, names)
	if err != nil {
		t.Fatal(err)
	}
	same := [][]byte{[]byte("abc\x00"), {0, 0}, nil}
	addrs := []uint64{arenaBase, arenaBase + 128, 0}
	for _, tc := range []struct {
		r    Result
		want string
	}{
		{Result{AX: 3, Buffers: same, Addrs: addrs}, " = 3 (0x3)\n"},
		{Result{AX: 1<<64 - 22, Buffers: same, Addrs: addrs}, " = -22 (0xffffffffffffffea)\n"},
		{Result{AX: 0xffffffea, Buffers: same, Addrs: addrs}, " = 4294967274 (0xffffffea, as int -22)\n"},
		{Result{AX: arenaBase + 129, Buffers: same, Addrs: addrs}, " = 0xffffc90100000081 (argument 2+1)\n"},
		{Result{AX: abi.TextBase + 0x21, Buffers: same, Addrs: addrs}, " = 0xffffffff81000021 (sort+0x1)\n"},
		{
			Result{Buffers: [][]byte{[]byte("abd\x00"), {0, 0}, nil}, Addrs: addrs},
			" = 0 (0x0)\n  argument 1  00000000  61 62 64 00                                       |abd.|\n",
		},
	} {
		if got := e.Show(tc.r); got != `strlen("abc", [2], 7)`+tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
