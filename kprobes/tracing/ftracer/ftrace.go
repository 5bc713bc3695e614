package ftracer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// Functions are the kernel's fentry sites, at which functions can be traced.
type Functions interface {
	// All returns the sites by address.
	All() []uint64
	// Listen creates a listener that does not listen to any function yet.
	Listen(by Handler) Listener
	// Listened returns the sites that somebody listens to, by address.
	Listened() []Listened
	// Touched returns the sites that somebody has ever listened to, by address.
	Touched() []Listened
}

// Handler is the callback of a Listener.
type Handler struct {
	// Function is the kernel function that stands for the callback in files and stack
	// traces.
	Function string
	// Hit is called in handler context. trap.Regs.IP is the function's site, and
	// trap.Arg is the function's return address.
	Hit func(trap *abi.Trap)
	// Regs says that the callback gets all registers (FTRACE_OPS_FL_SAVE_REGS).
	Regs bool
	// Allocated says that the ftrace_ops is allocated rather than static, so it gets a
	// trampoline of its own.
	Allocated bool
	// Last says that it is called after all other listeners of the function.
	Last bool
}

// Listener is ftrace_ops.
type Listener interface {
	// Set replaces the functions that it listens to.
	Set(sites []uint64) error
}

// Listened is one function in enabled_functions.
type Listened struct {
	Addr  uint64
	Count int    // listeners; all kprobes together are one
	Regs  bool   // a listener gets all registers
	IPMod bool   // a listener may change the address to continue at (FTRACE_OPS_FL_IPMODIFY)
	Of    uint64 // the module's function for which the trampoline is; 0 if it is Func's
	Tramp uint64 // the trampoline if there is one listener, otherwise 0
	Func  string // the function that the trampoline calls; "" if it calls Of
}

// sites returns the fentry sites; there are none if the kernel has no function tracer.
func (t *Tracers) sites() []uint64 {
	if t.conf.Functions == nil {
		return nil
	}
	return t.conf.Functions.All()
}

// functionName is the name of the function at a site, with its module. A site of a weak function that
// another one has replaced is in none.
func (t *Tracers) functionName(site uint64) (name, module string) {
	sym, off, ok := t.conf.Symbols.Lookup(site)
	switch {
	case !ok:
		return fmt.Sprintf("%#x", site), ""
	case t.replaced(off):
		return fmt.Sprintf("__ftrace_invalid_address___%d", off), ""
	}
	return sym.Name, sym.Module
}

// mcountMaxOffset is FTRACE_MCOUNT_MAX_OFFSET: how far a site may be from the beginning of its function,
// which an endbr64 can be before it.
const mcountMaxOffset = 4

// replaced reports whether a site at an offset from a function belongs to another one that has no symbol.
func (t *Tracers) replaced(off uint64) bool {
	return off > mcountMaxOffset && t.conf.Has[release.InvalidFunctions]
}

// traceable returns the sites without replaced functions'.
func (t *Tracers) traceable() []uint64 {
	return slices.DeleteFunc(t.sites(), t.inNone)
}

func (t *Tracers) inNone(site uint64) bool {
	_, off, ok := t.conf.Symbols.Lookup(site)
	return ok && t.replaced(off)
}

// functionLine returns a function as the files list it.
func (t *Tracers) functionLine(site uint64) string {
	name, module := t.functionName(site)
	if module != "" {
		name += " [" + module + "]"
	}
	return name + "\n"
}

// AvailableFunctions returns the lines of available_filter_functions.
func (t *Tracers) AvailableFunctions() []string {
	var lines []string
	for _, site := range t.sites() {
		lines = append(lines, t.functionLine(site))
	}
	return lines
}

// FunctionAddrs returns the lines of available_filter_functions_addrs; ok is false if
// the release has no such file.
func (t *Tracers) FunctionAddrs() (lines func() []string, ok bool) {
	return func() []string {
		var lines []string
		for _, site := range t.sites() {
			lines = append(lines, fmt.Sprintf("%x %s", site, t.functionLine(site)))
		}
		return lines
	}, t.conf.Has[release.FunctionAddrs]
}

// EnabledFunctions returns the lines of enabled_functions.
func (t *Tracers) EnabledFunctions() []string {
	if t.conf.Functions == nil {
		return nil
	}
	return t.listenedLines(t.conf.Functions.Listened())
}

// TouchedFunctions returns the lines of touched_functions; ok is false if the release
// has no such file.
func (t *Tracers) TouchedFunctions() (func() []string, bool) {
	return func() []string {
		if t.conf.Functions == nil {
			return nil
		}
		return t.listenedLines(t.conf.Functions.Touched())
	}, t.conf.Has[release.TouchedFunctions]
}

// listenedLines is t_show of enabled_functions: a column for each flag, of which only R
// and I are ever set.
func (t *Tracers) listenedLines(functions []Listened) []string {
	columns := 6
	if t.conf.Has[release.TouchedFunctions] {
		columns = 11
	}
	var lines []string
	for _, f := range functions {
		line := []byte(strings.TrimSuffix(t.functionLine(f.Addr), "\n"))
		regs := ""
		if f.Regs {
			regs = " R"
		}
		if f.IPMod {
			regs = fmt.Sprintf("%-2s I", regs)
		}
		line = fmt.Appendf(line, " (%d)%-*s", f.Count, columns, regs)
		called := t.global.trace.AppendSymbol(nil, f.Of, true)
		if f.Func != "" {
			called = t.global.trace.AppendSymbol(nil, t.symbolAddr(f.Func), true)
		}
		if f.Tramp != 0 {
			of := called
			if f.Of != 0 {
				of = t.global.trace.AppendSymbol(nil, f.Of, true)
			}
			line = fmt.Appendf(line, "\ttramp: 0x%x (%s)", f.Tramp, of)
		}
		lines = append(lines, fmt.Sprintf("%s ->%s\n", line, called))
	}
	return lines
}

func (t *Tracers) symbolAddr(name string) uint64 {
	if syms := t.conf.Symbols.LookupName(name); len(syms) > 0 {
		return syms[0].Addr
	}
	return 0
}

// FunctionTotals returns the text of dyn_ftrace_total_info: the numbers of functions,
// of pages for their records, and of groups of such pages.
func (t *Tracers) FunctionTotals() string {
	const perPage = abi.PageSize / 16 // sizeof(struct dyn_ftrace)
	n := len(t.sites())
	return fmt.Sprintf("%d pages:%d groups: 1\n", n, (n+perPage-1)/perPage)
}

// Set is ftrace_hash: the functions of a filter. An empty set_ftrace_filter
// means all functions, an empty set_ftrace_notrace means none.
type Set struct {
	sites map[uint64]bool
	mods  []string // lines for modules that are not loaded
	gone  bool     // it had functions of modules that were unloaded: it is not empty until it is reset
}

// Clone returns a copy.
func (s *Set) Clone() Set {
	return Set{maps.Clone(s.sites), slices.Clone(s.mods), s.gone}
}

// Forget removes functions that are about to be unloaded: clear_mod_from_hash.
func (s *Set) Forget(goes func(site uint64, _ bool) bool) {
	before := len(s.sites)
	maps.DeleteFunc(s.sites, goes)
	s.gone = s.gone || len(s.sites) < before
}

// known returns the functions of the set that exist.
func (s *Set) known(t *Tracers) (known []uint64) {
	for _, site := range t.sites() {
		if s.sites[site] {
			known = append(known, site)
		}
	}
	return known
}

// lines lists functions of the set. The line empty stands for a set without functions; always
// has it shown even if the set waits for modules.
func (s *Set) lines(t *Tracers, sites []uint64, empty string, always bool) []string {
	var lines []string
	for _, site := range sites {
		lines = append(lines, t.functionLine(site))
	}
	if len(s.sites) == 0 && !s.gone && (len(s.mods) == 0 || always) {
		lines = append(lines, empty)
	}
	for _, m := range s.mods {
		lines = append(lines, m+"\n")
	}
	return lines
}

// functionMatch is ftrace_glob and what match_records does with it.
type functionMatch struct {
	name   filter.Pattern
	index  int // line in available_filter_functions, from 1; -1 matches nothing, 0 means by name
	module *filter.Pattern
}

// newFunctionMatch parses a pattern without its "!".
func (t *Tracers) newFunctionMatch(pattern string) functionMatch {
	if kstrtox.DigitFirst(pattern) {
		n, _ := kstrtox.SimpleUint(pattern, 0) // what follows the number is ignored
		if t.conf.Has[release.WholeIndex] {
			n, _ = kstrtox.ParseUint(pattern, 0, math.MaxUint64) // 0 if it is not a number
		}
		if n == 0 || n > math.MaxInt32 {
			return functionMatch{index: -1}
		}
		return functionMatch{index: int(n)}
	}
	return functionMatch{name: filter.NewPattern(pattern)}
}

// findFunctions returns the functions that match.
func (t *Tracers) findFunctions(m functionMatch) (found []uint64) {
	for i, site := range t.sites() {
		if m.index != 0 {
			if i == m.index-1 {
				found = append(found, site)
			}
			continue
		}
		name, module := t.functionName(site)
		if m.module != nil && !m.inModule(module) || t.inNone(site) {
			continue
		}
		if m.name.Covers([]byte(name)) {
			found = append(found, site)
		}
	}
	return found
}

// FindFunctions returns the sites of the functions that a pattern covers.
func (t *Tracers) FindFunctions(pattern string) []uint64 {
	return t.findFunctions(t.newFunctionMatch(pattern))
}

// SetGlobalFilter changes set_ftrace_filter, or set_ftrace_notrace, by a pattern; reset
// empties it before. It fails with EINVAL if no function matches.
func (t *Tracers) SetGlobalFilter(notrace bool, pattern string, reset bool) error {
	e := t.global.EditFunctions(notrace, reset)
	if pattern != "" {
		t.mu.Lock()
		err := e.set.Change(t, pattern, nil)
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
	e.Close()
	return nil
}

// inModule reports whether the match covers functions of that module ("" for the kernel
// itself).
func (m *functionMatch) inModule(module string) bool {
	if module == "" {
		return m.module.Not
	}
	return m.module.Covers([]byte(module)) != m.module.Not
}

// Len returns how many functions are in the set.
func (s *Set) Len() int { return len(s.sites) }

// Wanted returns the functions that the set selects as a filter.
func (s *Set) Wanted(t *Tracers) (sites []uint64) {
	for _, site := range t.traceable() {
		if s.sites[site] || len(s.sites) == 0 && len(s.mods) == 0 && !s.gone {
			sites = append(sites, site)
		}
	}
	return sites
}

// WantedBut returns the sites of Wanted that are not in the set of set_ftrace_notrace.
func (s *Set) WantedBut(t *Tracers, notrace *Set) []uint64 {
	return slices.DeleteFunc(s.Wanted(t), func(site uint64) bool { return notrace.sites[site] })
}

// Change applies a word of set_ftrace_filter that is not a command to the set. It
// fails with EINVAL if no function matches.
func (s *Set) Change(t *Tracers, pattern string, module *filter.Pattern) error {
	pattern, remove := strings.CutPrefix(pattern, "!")
	m := t.newFunctionMatch(pattern)
	m.module = module
	return s.edit(pattern, t.findFunctions(m), remove)
}

// edit adds the functions that a pattern has found to the set, or removes them. It fails
// with EINVAL if there are none.
func (s *Set) edit(pattern string, found []uint64, remove bool) error {
	if len(found) == 0 {
		return fmt.Errorf("no function %q: %w", pattern, syscall.EINVAL)
	}
	if s.sites == nil {
		s.sites = map[uint64]bool{}
	}
	for _, site := range found {
		if remove {
			delete(s.sites, site)
		} else {
			s.sites[site] = true
		}
	}
	return nil
}

// changeMod is ftrace_mod_callback: "PATTERN:mod:MODULE". If the module is not loaded,
// the line is kept until it is.
func (s *Set) changeMod(t *Tracers, line, pattern string, module *string) error {
	if module == nil {
		if pattern == "" {
			return fmt.Errorf("neither function nor module: %w", syscall.ENOMEM) // as on Linux
		}
		return s.Change(t, pattern, nil)
	}
	m := filter.NewPattern(*module)
	all := pattern
	if all == "" || all == "!" {
		all += "*"
	}
	if err := s.Change(t, all, &m); err == nil {
		return nil
	}
	// The kernel has cut the pattern in place while it searched.
	if m.OpenEnd() {
		line = strings.TrimSuffix(line, "*")
	}
	if strings.HasPrefix(line, "!") {
		i := slices.Index(s.mods, line[1:])
		if i < 0 {
			return fmt.Errorf("no line %q: %w", line[1:], syscall.EINVAL)
		}
		s.mods = slices.Delete(s.mods, i, i+1)
		return nil
	}
	if !slices.Contains(s.mods, line) {
		s.mods = append([]string{line}, s.mods...)
	}
	return nil
}

// come is process_mod_list: it replaces the lines for a module that is now loaded by
// the module's functions. It returns false if there were no such lines.
func (s *Set) come(t *Tracers, module string) bool {
	waiting := len(s.mods)
	s.mods = slices.DeleteFunc(slices.Clone(s.mods), func(line string) bool {
		pattern, name, _ := strings.Cut(line, ":mod:")
		if name != module {
			return false
		}
		if pattern == "" {
			pattern = "*"
		}
		m := t.newFunctionMatch(pattern)
		exact := filter.Exact(module)
		m.module = &exact
		for _, site := range t.findFunctions(m) {
			if s.sites == nil {
				s.sites = map[uint64]bool{}
			}
			s.sites[site] = true
		}
		return true
	})
	return len(s.mods) != waiting
}

// ModuleComing is ftrace_module_enable for the stack tracer. It is called, as the one of arrays,
// after the functions of a module have been added. The caller holds the mutex.
func (t *Tracers) ModuleComing(module string) {
	t.stacks.filter.come(t, module)
	t.say(t.updateStackTracer())
}

// ModuleComing is ftrace_module_enable: functions of the module that set_ftrace_filter waits
// for are traced. The caller holds the mutex.
func (a *Array) ModuleComing(module string) {
	for _, notrace := range []bool{false, true} {
		a.functions.set(notrace).come(a.tracer, module)
	}
	for _, p := range a.functions.probes {
		a.tracer.say(p.store(*p.entries.Load()))
	}
	if a.functions.tracing || a.graph.on.Load() {
		a.tracer.say(a.updateFunctions())
	}
}

// ModuleGoing is ftrace_release_mod: it removes functions that are about to be unloaded
// from the filters. Commands, the filter of the stack tracer, and the functions of
// function_graph stay where they are, for whatever comes to these addresses. The caller holds
// the mutex.
func (a *Array) ModuleGoing(goes func(site uint64, _ bool) bool) {
	a.functions.filter.Forget(goes)
	a.functions.notrace.Forget(goes)
}

// Edit is an open set_ftrace_filter or set_ftrace_notrace: a copy of the set,
// which takes effect when the file is closed.
type Edit struct {
	tracer *Tracers
	array  *Array // the array that runs commands; nil if none are accepted
	set    Set
	into   *Set
	update func() error
	plain  bool   // of function_graph: neither commands nor modules
	word   []byte // the start of a word that the next write continues
}

// functionWordMax is FTRACE_BUFF_MAX, bytes.
const functionWordMax = 550

// EditFunctions opens set_ftrace_filter, or set_ftrace_notrace, for writing.
func (a *Array) EditFunctions(notrace, truncate bool) *Edit {
	commands := a
	if notrace {
		commands = nil
	}
	return a.tracer.editFunctions(commands, a.functions.set(notrace), truncate, a.updateFunctions)
}

func (t *Tracers) editFunctions(commands *Array, set *Set, truncate bool, update func() error) *Edit {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &Edit{tracer: t, array: commands, into: set, update: update}
	if !truncate {
		e.set = set.Clone()
	}
	return e
}

// Write is ftrace_regex_write: it accepts one word and returns how many bytes that was.
// Commands act at once, sets of functions when the file is closed. It fails with EINVAL
// if there is no such function or command, and with ENODEV if there is no such command
// to remove.
func (e *Edit) Write(data []byte) (int, error) {
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	if len(e.word) == 0 && !strings.HasPrefix(kstrtox.SkipSpaces(string(data[:min(len(data), functionWordMax)])), "!") {
		if err := e.tracer.conf.Room(functionWordMax); err != nil {
			return 0, err
		}
	}
	isEnd := func(c byte) bool { return c == 0 || kstrtox.IsSpace(c) }
	i := 0
	if len(e.word) == 0 {
		for i < len(data) && isEnd(data[i]) {
			i++
		}
	}
	start := i
	for i < len(data) && !isEnd(data[i]) {
		i++
	}
	e.word = append(e.word, data[start:i]...)
	if len(e.word) >= functionWordMax {
		e.word = nil
		return 0, fmt.Errorf("a word of %d bytes: %w", functionWordMax, syscall.EINVAL)
	}
	if i == len(data) || len(e.word) == 0 {
		return i, nil
	}
	word := string(e.word)
	e.word = nil
	if err := e.take(word); err != nil {
		return 0, err
	}
	return i + 1, nil
}

// take is ftrace_process_regex.
func (e *Edit) take(line string) error {
	if e.plain {
		return e.set.changeGraph(e.tracer, line)
	}
	pattern, rest, isCommand := strings.Cut(line, ":")
	if !isCommand {
		return e.set.Change(e.tracer, pattern, nil)
	}
	name, rest, hasParam := strings.Cut(rest, ":")
	var param *string
	if hasParam {
		param = &rest
	}
	if name == "mod" {
		return e.set.changeMod(e.tracer, line, pattern, param)
	}
	i := slices.IndexFunc(functionCommands, func(c *functionCommand) bool { return c.name == name })
	if i < 0 || e.array == nil || e.tracer.conf.Functions == nil {
		return fmt.Errorf("no command %q: %w", name, syscall.EINVAL)
	}
	return e.array.functionCommand(functionCommands[i], pattern, param)
}

// Close runs at the last close(2) of a descriptor: the set that was written takes
// effect.
func (e *Edit) Close() {
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	switch {
	case len(e.word) > 0 && e.plain:
		_ = e.set.changeGraph(e.tracer, string(e.word))
	case len(e.word) > 0:
		_ = e.set.Change(e.tracer, string(e.word), nil) // no writer is left to report the error to
	}
	*e.into = e.set
	e.tracer.say(e.update())
}

// FunctionFilter returns the lines of set_ftrace_filter or set_ftrace_notrace.
func (a *Array) FunctionFilter(notrace bool) []string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	set := a.functions.set(notrace)
	if notrace {
		return set.lines(a.tracer, set.known(a.tracer), "#### no functions disabled ####\n", true)
	}
	lines := set.lines(a.tracer, set.known(a.tracer), "#### all functions enabled ####\n", false)
	for _, p := range a.functions.probes {
		lines = append(lines, p.lines()...)
	}
	return lines
}
