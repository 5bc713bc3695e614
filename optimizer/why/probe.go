package why

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Probe is a question.
type Probe struct {
	Text   string // as it was asked
	Symbol string // "function" or "module:function"; "" if there is an address
	Offset uint32
	Addr   uint64
	Return bool // a return probe
	Event  bool // a definition of kprobe_events, which has rules of its own
}

// ErrSyntax means that a text is no probe.
var ErrSyntax = errors.New("no probe")

// ParseProbe parses FUNCTION[+OFFSET], MODULE:FUNCTION[+OFFSET], an address that begins with 0x, or a
// line of kprobe_events: p[:[GROUP/]EVENT] PLACE [ARGS], r[MAXACTIVE][:[GROUP/]EVENT] PLACE [ARGS]. A
// place may end with %return. A lone "p:NAME" or "r:NAME" is the function NAME. It fails with ErrSyntax.
func ParseProbe(text string) (Probe, error) {
	p := Probe{Text: strings.TrimSpace(text)}
	words := strings.Fields(p.Text)
	if len(words) == 0 {
		return p, fmt.Errorf("%w: it is empty", ErrSyntax)
	}
	place := words[0]
	if kind, name, isEvent := head(words[0]); isEvent && (len(words) > 1 || name != "") {
		p.Event, p.Return = true, kind == 'r'
		if place = name; len(words) > 1 {
			place = words[1]
		}
	} else if len(words) > 1 {
		return p, fmt.Errorf("%w: %q: a definition begins with p or r", ErrSyntax, p.Text)
	}
	place, returns := strings.CutSuffix(place, "%return")
	p.Return = p.Return || returns
	return p, p.parsePlace(place)
}

// head takes the first word of a definition apart.
func head(word string) (kind byte, name string, ok bool) {
	before, name, _ := strings.Cut(word, ":")
	if before == "" || before[0] != 'p' && before[0] != 'r' {
		return 0, "", false
	}
	if _, err := strconv.ParseUint(before[1:], 10, 32); before[1:] != "" && (err != nil || before[0] == 'p') {
		return 0, "", false // a module whose name begins so
	}
	return before[0], name, true
}

func (p *Probe) parsePlace(place string) (err error) {
	if strings.HasPrefix(place, "0x") || strings.HasPrefix(place, "0X") {
		if p.Addr, err = strconv.ParseUint(place[2:], 16, 64); err != nil {
			return fmt.Errorf("%w: %q is no address", ErrSyntax, place)
		}
		return nil
	}
	name, off, plus := strings.Cut(place, "+")
	if plus {
		n, err := strconv.ParseUint(off, 0, 32)
		if err != nil {
			return fmt.Errorf("%w: %q: the offset is no number of up to 32 bits", ErrSyntax, place)
		}
		p.Offset = uint32(n)
	}
	if name == "" || strings.HasSuffix(name, ":") {
		return fmt.Errorf("%w: %q has no function", ErrSyntax, p.Text)
	}
	p.Symbol = name
	return nil
}

// Ask answers a question.
func (a *Asker) Ask(p Probe) Verdict {
	var v Verdict
	if p.Symbol != "" {
		v = a.Symbol(p.Symbol, p.Offset)
	} else {
		v = a.At(p.Addr)
	}
	if p.Return && v.Err == nil {
		v.Err = a.returnRefused(p)
	}
	if p.Event {
		if err := a.eventRefused(p, v); err != nil {
			v.Err = err
		}
		a.parse(p, &v)
	}
	if v.Err != nil {
		v.Ftrace, v.Carried, v.NotJump, v.Region, v.Detour = false, "", nil, nil, nil
	}
	return v
}

// parse parses a line of kprobe_events. Linux parses the whole line before it registers the probe, so
// what it refuses there comes first. A lone "p:NAME", which Linux does not know, has no line.
func (a *Asker) parse(p Probe, v *Verdict) {
	argv := kstrtox.ArgvSplit(p.Text)
	if len(argv) < 2 {
		return
	}
	var err error
	var derr *probe.Error
	v.Definition, err = a.events.Parse(p.Text)
	switch {
	case err == nil && v.Err == nil:
		return
	case err == nil:
		derr = a.events.RegisterError(v.Err)
	case !errors.As(err, &derr):
		v.Err, v.Words = err, true
		return
	default:
		// What is said about a place that Linux refuses for the same reason says more.
		if derr.Word() != 1 || v.Errno() != derr.Errno {
			v.Err, v.Words = definitionRefused(derr, argv), derr.Word() != 1
		}
	}
	command, column := derr.Caret(argv)
	v.Log = &Log{derr.Text, command, column}
}

// definitionRefused returns the error for a word of a definition.
func definitionRefused(derr *probe.Error, argv []string) error {
	if w := derr.Word(); w < len(argv) {
		return fmt.Errorf("%q: %s: %w", argv[w], strings.TrimSuffix(derr.Text, "."), derr.Errno)
	}
	return fmt.Errorf("%s: %w", derr.Text, derr.Errno)
}

// returnRefused returns what register_kretprobe refuses of what register_kprobe takes.
func (a *Asker) returnRefused(p Probe) error {
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: p.Symbol, Offset: p.Offset, Addr: p.Addr, Flags: kprobes.FlagDisabled}}
	err := a.probes.RegisterRetprobe(rp)
	if err == nil {
		_ = a.probes.UnregisterRetprobe(rp)
	}
	return err
}

// eventRefused returns what kprobe_events refuses in addition: a function that is not unique, and one
// without an fentry site, in which the tracer itself may run.
func (a *Asker) eventRefused(p Probe, v Verdict) error {
	if p.Symbol != "" && a.has[release.EarlySymbols] && !strings.Contains(p.Symbol, ":") {
		switch n := a.functions(p.Symbol); {
		case n > 1 && a.has[release.SymbolEINVAL]:
			return fmt.Errorf("there are %d functions %s; give an address, or _text+OFFSET: %w", n, p.Symbol, syscall.EINVAL)
		case n > 1:
			return fmt.Errorf("there are %d functions %s; give an address, or _text+OFFSET: %w", n, p.Symbol, syscall.EADDRNOTAVAIL)
		case n == 0 && a.has[release.SymbolEINVAL]:
			return fmt.Errorf("no function %s: %w", p.Symbol, syscall.EINVAL)
		}
	}
	if v.Symbol.Name == "" || a.traced(v.Symbol.Addr, v.Symbol.Size) {
		return nil
	}
	if base, _, derived := strings.Cut(v.Symbol.Name, "."); derived && base != "" {
		if syms := a.kernel.LookupName(base); len(syms) > 0 && a.traced(syms[0].Addr, syms[0].Size) {
			return nil
		}
	}
	return fmt.Errorf("kprobe_events takes no function without an fentry site (notrace), and %s has none; a module's register_kprobe is asked without p: or r: %w", v.Symbol.Name, syscall.EINVAL)
}

func (a *Asker) traced(start, size uint64) bool { return a.kernel.FtraceOverlap(start, start+size) }

// functions returns the number of functions of a name.
func (a *Asker) functions(name string) (n int) {
	for _, s := range a.kernel.LookupName(name) {
		if strings.IndexByte("tTwW", s.Type) >= 0 {
			n++
		}
	}
	return n
}
