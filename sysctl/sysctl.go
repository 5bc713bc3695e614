// Package sysctl has the rows of /proc/sys that concern probes, and the parsers
// of kernel/sysctl.c that decide what a write to them means.
//
// A Row is a file: its path, its mode and its Proc, the handler that reads and writes
// it. Parsing and printing are pure functions of the bytes and the position; the Table
// has the state that rows share, such as sysctl_writes_strict.
package sysctl

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Caller is the process that makes the call.
type Caller struct {
	Comm     string // current->comm
	SysAdmin bool   // has CAP_SYS_ADMIN
}

// Proc is proc_handler: what a file of /proc/sys does. Positions are bytes.
type Proc interface {
	// Read returns at most n bytes of the text at pos, and nothing at the end.
	Read(n int, pos int64) []byte
	// Write handles data at pos. It returns how many bytes of it count as written,
	// which may be fewer. It fails with EINVAL if data is not a number or out of range.
	Write(c Caller, data []byte, pos int64) (int, error)
}

// Row is a ctl_table entry.
type Row struct {
	Path string // below /proc/sys
	Mode uint32 // permission bits
	Proc Proc
}

// Strict is kernel.sysctl_writes_strict: what a write at a position other than 0 does.
type Strict int

// The modes of Strict, with Linux's values.
const (
	Legacy Strict = -1 // the position is ignored
	Warn   Strict = 0  // the position is ignored, with one warning
	Ignore Strict = 1  // the write is ignored, and seems to succeed
)

// Table is all rows.
type Table struct {
	rows   []Row
	printk func(level int, format string, args ...any)

	mu     sync.Mutex
	strict Strict
	warned bool
}

// Kernel is what the rows act on. Each row is always there, so nothing of it is optional.
type Kernel interface {
	Printk(level int, format string, args ...any)

	Optimization() bool // debug.kprobes-optimization
	SetOptimization(on bool)

	SetFtrace(on bool) error      // kernel.ftrace_enabled: on for any value except 0
	SetStackTracer(on bool) error // kernel.stack_tracer_enabled: the same

	SetKptrRestrict(v int) error // kernel.kptr_restrict, for the log

	ConsoleLevels() []int // the numbers of kernel.printk
	SetConsoleLevels([]int)

	Taints() uint64 // the bits of kernel.tainted
	SetTaints(bits uint64)
}

// Config is a kernel and what is said of it.
type Config struct {
	Kernel           Kernel
	NoOptprobes      bool   // without CONFIG_OPTPROBES there is no debug.kprobes-optimization
	Release, Version string // uname -r and -v

	Linux release.Version // whose behaviour it is; 0 means release.Default
}

// New returns Debian 6.1's rows with their defaults.
func New(c Config) *Table {
	t := &Table{printk: c.Kernel.Printk, strict: Ignore}
	plain := func(v int) Proc { return t.stored(v, anyInt, nil) }
	t.rows = []Row{
		{"debug/exception-trace", 0o644, plain(1)},
		{"debug/kprobes-optimization", 0o644, t.optimization(c)},
		{"kernel/ftrace_enabled", 0o644, t.ftrace(c)},
		{"kernel/kptr_restrict", 0o644, sysAdmin{t.stored(0, Bounds{0, 2}, c.Kernel.SetKptrRestrict)}},
		{"kernel/osrelease", 0o444, Text(c.Release)},
		{"kernel/perf_event_paranoid", 0o644, plain(3)},
		{"kernel/printk", 0o644, ints{t, "printk", c.Kernel.ConsoleLevels, c.Kernel.SetConsoleLevels}},
		{"kernel/randomize_va_space", 0o644, plain(2)},
		{"kernel/sched_rt_runtime_us", 0o644, t.stored(950000, Bounds{-1, 1000000}, nil)},
		{"kernel/stack_tracer_enabled", 0o644, t.stored(0, anyInt, func(v int) error { return c.Kernel.SetStackTracer(v != 0) })},
		{"kernel/sysctl_writes_strict", 0o644, t.strictness()},
		{"kernel/tainted", 0o644, tainted{t, c}},
		{"kernel/version", 0o444, Text(c.Version)},
	}
	if c.NoOptprobes {
		t.rows = slices.DeleteFunc(t.rows, func(r Row) bool { return r.Path == "debug/kprobes-optimization" })
	} else if !c.Linux.Has(release.OptimizationDash) {
		both := switched{t.optimization(c)}
		t.rows[1].Proc = both
		t.rows = slices.Insert(t.rows, 2, Row{"debug/kprobes_optimization", 0o644, both})
	}
	for i := range t.rows {
		t.rows[i].name()
	}
	return t
}

// Rows returns all rows by path.
func (t *Table) Rows() []Row { return t.rows }

// Row returns the row of a path.
func (t *Table) Row(path string) (Row, bool) {
	for _, r := range t.rows {
		if r.Path == path {
			return r, true
		}
	}
	return Row{}, false
}

// Int returns the value of an integer row, such as kptr_restrict, or 0 if there is no
// such row.
func (t *Table) Int(path string) int {
	r, _ := t.Row(path)
	if r.Proc == nil {
		return 0
	}
	v, _ := strconv.Atoi(string(trimNewline(r.Proc.Read(32, 0))))
	return v
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

// SetStrict sets kernel.sysctl_writes_strict.
func (t *Table) SetStrict(s Strict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strict = s
}

// admit decides whether a write at pos is used, as proc_first_pos_non_zero_ignore does.
func (t *Table) admit(comm, name string, pos int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos == 0 || t.strict == Legacy {
		return true
	}
	if t.strict == Ignore {
		return false
	}
	if !t.warned {
		t.warned = true
		t.printk(4, "%s wrote to %s when file position was not 0!\n"+
			"This will not be supported in the future. To silence this\n"+
			"warning, set kernel.sysctl_writes_strict = -1", comm, name)
	}
	return true
}

// Text is a read-only string (proc_do_uts_string).
type Text string

// Read returns the text and a newline, from pos on.
func (s Text) Read(n int, pos int64) []byte {
	if pos < 0 || pos > int64(len(s)) {
		return nil
	}
	line := string(s[pos:]) + "\n"
	return []byte(line[:min(n, len(line))])
}

// Write fails with EPERM, although the mode does not let a write come this far.
func (s Text) Write(Caller, []byte, int64) (int, error) {
	return 0, fmt.Errorf("the string cannot be written: %w", syscall.EPERM)
}

// integer is proc_dointvec_minmax of one int.
type integer struct {
	t      *Table
	name   string // the last part of the path
	bounds Bounds
	get    func() int
	set    func(v int) error

	mu *sync.Mutex // serializes writes
}

// Read returns the number and a newline, at position 0 only: the rest of a short read
// is lost.
func (i integer) Read(n int, pos int64) []byte {
	if pos != 0 {
		return nil
	}
	line := strconv.AppendInt(nil, int64(i.get()), 10)
	line = append(line, '\n')
	return line[:min(n, len(line))]
}

// Write sets the number at the start of data.
func (i integer) Write(c Caller, data []byte, pos int64) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	if !i.t.admit(c.Comm, i.name, pos) {
		return len(data), nil
	}
	v, n, err := ParseInt(data, i.bounds)
	if err != nil {
		return 0, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.set(v); err != nil {
		return 0, err
	}
	return n, nil
}

// name stores the name of its row in an integer, for the warning.
func (r *Row) name() {
	base := r.Path
	for i := range r.Path {
		if r.Path[i] == '/' {
			base = r.Path[i+1:]
		}
	}
	switch p := r.Proc.(type) {
	case integer:
		p.name = base
		r.Proc = p
	case sysAdmin:
		p.integer.name = base
		r.Proc = p
	case switched:
		p.integer.name = base
		r.Proc = p
	}
}

// stored is an integer that is stored here; changed, if not nil, is called after a
// change.
func (t *Table) stored(v int, b Bounds, changed func(v int) error) integer {
	var mu sync.Mutex
	return integer{
		t: t, bounds: b, mu: new(sync.Mutex),
		get: func() int {
			mu.Lock()
			defer mu.Unlock()
			return v
		},
		set: func(to int) error {
			if changed != nil {
				if err := changed(to); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			v = to
			return nil
		},
	}
}

func (t *Table) optimization(c Config) integer {
	return integer{
		t: t, bounds: Bounds{0, 1}, mu: new(sync.Mutex),
		get: func() int {
			if c.Kernel.Optimization() {
				return 1
			}
			return 0
		},
		set: func(v int) error {
			c.Kernel.SetOptimization(v != 0)
			return nil
		},
	}
}

// ints is proc_dointvec of several ints.
type ints struct {
	t    *Table
	name string // the last part of the path
	get  func() []int
	set  func([]int)
}

// Read returns the numbers between tabs and a newline, at position 0 only.
func (i ints) Read(n int, pos int64) []byte {
	if pos != 0 {
		return nil
	}
	var line []byte
	for at, v := range i.get() {
		if at > 0 {
			line = append(line, '\t')
		}
		line = strconv.AppendInt(line, int64(v), 10)
	}
	line = append(line, '\n')
	return line[:min(n, len(line))]
}

// Write sets the first numbers. What follows the last of them is not written. It fails with
// EINVAL at what is no number, and the numbers before it are set, as printk_levels shows.
func (i ints) Write(c Caller, data []byte, pos int64) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	if !i.t.admit(c.Comm, i.name, pos) {
		return len(data), nil
	}
	var values []int
	done := 0
	for len(values) < len(i.get()) && done < len(data) {
		v, n, err := ParseInt(data[done:], anyInt)
		if err != nil {
			i.set(values)
			return 0, err
		}
		values, done = append(values, v), done+n
	}
	i.set(values)
	return done, nil
}

// switched is an integer, 0 or 1, that also accepts n and y.
type switched struct{ integer }

// Write is integer.Write, except for a line that is n or y.
func (s switched) Write(c Caller, data []byte, pos int64) (int, error) {
	switch string(trimNewline(data)) {
	case "n":
		return s.word(c, "0", len(data), pos)
	case "y":
		return s.word(c, "1", len(data), pos)
	}
	return s.integer.Write(c, data, pos)
}

func (s switched) word(c Caller, number string, n int, pos int64) (int, error) {
	if _, err := s.integer.Write(c, []byte(number), pos); err != nil {
		return 0, err
	}
	return n, nil
}

func (t *Table) ftrace(c Config) integer {
	return t.stored(1, anyInt, func(v int) error { return c.Kernel.SetFtrace(v != 0) })
}

func (t *Table) strictness() integer {
	return t.stored(int(t.strict), Bounds{-1, 1}, func(v int) error {
		t.SetStrict(Strict(v))
		return nil
	})
}

// sysAdmin is proc_dointvec_minmax_sysadmin: writing needs CAP_SYS_ADMIN, whatever the mode says.
type sysAdmin struct{ integer }

// Write is integer.Write, or fails with EPERM.
func (s sysAdmin) Write(c Caller, data []byte, pos int64) (int, error) {
	if !c.SysAdmin {
		return 0, fmt.Errorf("writing %s needs CAP_SYS_ADMIN: %w", s.integer.name, syscall.EPERM)
	}
	return s.integer.Write(c, data, pos)
}

// tainted is proc_taint: bits of a written number are added to the others.
type tainted struct {
	t *Table
	c Config
}

// Read returns the number and a newline, as an integer's.
func (p tainted) Read(n int, pos int64) []byte {
	if pos != 0 {
		return nil
	}
	line := strconv.AppendUint(nil, p.c.Kernel.Taints(), 10)
	line = append(line, '\n')
	return line[:min(n, len(line))]
}

// Write fails with EPERM without CAP_SYS_ADMIN.
func (p tainted) Write(c Caller, data []byte, pos int64) (int, error) {
	switch {
	case !c.SysAdmin:
		return 0, fmt.Errorf("writing tainted needs CAP_SYS_ADMIN: %w", syscall.EPERM)
	case len(data) == 0:
		return 0, nil
	case !p.t.admit(c.Comm, "tainted", pos):
		return len(data), nil
	}
	bits, n, err := parseUnsigned(data)
	if err != nil {
		return 0, err
	}
	p.c.Kernel.SetTaints(bits)
	return n, nil
}
