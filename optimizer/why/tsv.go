package why

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/insn"
)

// TSVHead names the columns of TSV.
const TSVHead = "addr\tsymbol+off\terrno\treg_flag\tinsn_len\tcan_boost\temulate\topt_errno\topt_size\treasons\tarmed_flags"

// TSV returns a verdict as a row: address; place; errno of register_kprobe; FTRACE; length of the
// instruction; whether the region of a jump may hold it; kind of emulation; errno and size of the
// optimization; what the kernel's tables say about the address; flags in kprobes/list once it is armed.
// A column that does not apply is "-".
func (a *Asker) TSV(v Verdict) string {
	row := []string{
		fmt.Sprintf("%016x", v.Addr), "-", errnoWord(v.Errno()), "-", "-", "-", "-", "-", "-",
		a.reasons(v), errnoWord(v.Errno()),
	}
	if v.Symbol.Name != "" {
		row[1] = place(v.Symbol, v.Offset)
	}
	switch {
	case v.Err != nil:
	case v.Ftrace:
		row[3], row[10] = "FTRACE", "[FTRACE]"
	default:
		row[4], row[5] = strconv.Itoa(v.Insn.Len), "0"
		if v.Boosts {
			row[5] = "1"
		}
		if v.Carried != "step" && v.Carried != "boost" {
			row[6] = v.Carried
		}
		row[7], row[8], row[10] = errnoWord(v.OptErrno()), strconv.Itoa(len(v.Region)), "none"
		if v.NotJump == nil {
			row[10] = "[OPTIMIZED]"
		}
	}
	return strings.Join(row, "\t")
}

func errnoWord(e syscall.Errno) string {
	if e == 0 {
		return "0"
	}
	return unix.ErrnoName(e)
}

// reasons returns what makes an address special, in alphabetical order.
func (a *Asker) reasons(v Verdict) string {
	k, addr := a.kernel, v.Addr
	in := func(is bool, word string) string {
		if is {
			return word
		}
		return ""
	}
	black := false
	for _, r := range k.Blacklist() {
		black = black || r.Contains(addr)
	}
	_, i := a.insnAt(addr)
	words := []string{
		in(black || a.derived(addr), "blacklist"), in(k.Bug(addr), "bug"), in(k.ExTable(addr), "extable"),
		in(k.FtraceSite(addr), "ftrace"), in(k.FtraceOverlap(addr, addr+1), "ftrace_overlap"), in(k.JumpLabel(addr, addr+1), "jump_label"),
		in(!k.KernelText(addr), "not_text"), in(k.StaticCall(addr, addr+1), "static_call"),
	}
	words = strings.Fields(strings.Join(words, " "))
	switch {
	case len(words) > 0:
		return strings.Join(words, ",")
	case v.Errno() == syscall.EINVAL && !insn.Copyable(i):
		return "uncopyable"
	}
	return "-"
}

// derived reports whether an address is in a part of a blacklisted function, such as its .cold part.
func (a *Asker) derived(addr uint64) bool {
	s, _, _ := a.kernel.Lookup(addr)
	base, _, ok := strings.Cut(s.Name, ".")
	if !ok || base == "" {
		return false
	}
	syms := a.kernel.LookupName(base)
	if len(syms) == 0 {
		return false
	}
	for _, r := range a.kernel.Blacklist() {
		if r.Contains(syms[0].Addr) {
			return true
		}
	}
	return false
}
