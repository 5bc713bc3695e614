// Package module loads relocatable objects (.ko) into the running guest kernel
// and takes them out again, as load_module and delete_module do: sections go to
// the core and init areas of the module, symbols are resolved against what the
// kernel and other modules export, relocations are applied, the module's own
// fentry sites, bugs and blacklist join the kernel's, its symbols join kallsyms,
// and its init and exit functions run on a task of the guest.
//
// An object is hostile: what it says is checked, and a refused one leaves
// nothing behind. Once its init runs it is kernel code.
//
// Left out: jump labels and static calls of modules are not patched (they do
// what they were compiled to), per-CPU data is refused, fixups of faults are the
// core kernel's only, parameters cannot be given.
package module

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// Machine is memory, the log and waiting.
type Machine interface {
	AllocModule(pages uint64) (uint64, error)
	MapModule(addr uint64, p []byte, perm image.Perm) error
	FreeModule(addr uint64)
	SynchronizeRCU()
	SynchronizeRCUTasks()
	Printk(level int, format string, args ...any)
	Taint(letter byte)
}

// Symbols is kallsyms.
type Symbols interface {
	SetModule(name string, areas []abi.Range, syms []abi.Symbol)
	RemoveModule(name string)
}

// Tables is what the kernel knows of text.
type Tables interface {
	AddModule(s *image.Sites) error
	InitDone(module string)
	RemoveModule(name string)
}

// Sites are the fentry sites that can be armed.
type Sites interface {
	Add(addrs []uint64)
	Remove(r abi.Range)
}

// State is a module's state, as /proc/modules names it.
type State string

// States of a module.
const (
	Coming State = "Loading"
	Live   State = "Live"
	Going  State = "Unloading"
)

// Event tells the notifiers (blocking_notifier_call_chain) that a module has
// entered a state.
type Event struct {
	Name  string
	State State
	Core  []abi.Range // its memory, but for what init leaves behind
	Init  []abi.Range // what is freed after init
}

// Config is what a Loader works on.
type Config struct {
	Machine Machine
	Symbols Symbols
	Tables  Tables
	Sites   Sites
	// Export gives a symbol of the core kernel that modules may use.
	Export func(name string) (addr uint64, ok bool)
	// Call runs a function on a task of the guest made for it, by the name comm, and
	// gives what the function returns. ErrStays: the task has died in it.
	Call func(ctx context.Context, comm string, addr uint64, args ...uint64) (uint64, error)
	// InitCall is the address of do_one_initcall, which calls init functions.
	InitCall uint64
	// Notify is told of states, in this order: Coming before init runs, Live
	// after, Going before the module's memory is freed. It may wait.
	Notify func(Event)
	// TextSymbols keeps the symbols of text only, once init is done:
	// CONFIG_KALLSYMS_ALL=n.
	TextSymbols bool
	// Vermagic is what a module's vermagic must be.
	Vermagic string
}

// ErrStays says that an init or exit function has not come to its end, and that
// the module therefore stays, for good if the function died.
var ErrStays = errors.New("the module stays")

// Loader is the list of modules.
type Loader struct {
	conf Config

	mu      sync.Mutex // guards all below; not held while guest code runs
	mods    []*module  // the oldest first
	tainted bool       // it was said that an out-of-tree module taints the kernel
	unsign  bool       // it was said that a module has no signature
}

// module is one loaded module.
type module struct {
	name    string
	state   State
	at      [areas]placed
	sites   *image.Sites
	exports map[string]uint64
	uses    []*module
	users   []*module // the newest first
	init    uint64    // its functions, 0: none
	exit    uint64
	syms    []abi.Symbol // all, until init is freed
	core    []abi.Symbol // those that stay
	taints  string
	refs    int  // besides those of users: 1 while init is not done, -1 while it is being deleted
	dead    bool // its init or exit function has died
}

// Info is a line of /proc/modules.
type Info struct {
	Name   string
	Size   uint64 // bytes
	Refs   int
	Users  []string
	State  State
	Addr   uint64
	Taints string // "OE"
}

// New gives a loader without modules.
func New(c Config) *Loader { return &Loader{conf: c} }

// List is the modules, the newest first.
func (l *Loader) List() []Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Info
	for _, m := range slices.Backward(l.mods) {
		i := Info{Name: m.name, Refs: m.refs + len(m.users), State: m.state, Addr: m.at[coreText].start, Taints: m.taints}
		for a := range m.at {
			i.Size += m.at[a].pages() * abi.PageSize
		}
		for _, u := range m.users {
			i.Users = append(i.Users, u.name)
		}
		if m.state == Coming {
			i.Taints += "+"
		} else if m.state == Going {
			i.Taints += "-"
		}
		all = append(all, i)
	}
	return all
}

// Loaded says whether a module of that name is there and not on its way out.
func (l *Loader) Loaded(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.find(name)
	return m != nil && m.state != Going
}

func (l *Loader) find(name string) *module {
	if i := slices.IndexFunc(l.mods, func(m *module) bool { return m.name == name }); i >= 0 {
		return l.mods[i]
	}
	return nil
}

// Load is init_module: it puts the object in place and runs its init function.
// The name is the object's own. ENOEXEC: no module, or one for another kernel;
// ENOENT: it needs a symbol that nobody exports; EEXIST: it is loaded; EBUSY: it is
// on its way out, or its init function has died; ENOMEM: no room; ErrStays: its init
// function dies, or ctx has ended and the function has not; else what the function
// returned, and the module is gone again.
func (l *Loader) Load(ctx context.Context, ko []byte) (name string, err error) {
	o, err := parse(ko)
	if err != nil {
		return "", err
	}
	m := &module{name: o.name(), state: Coming, refs: 1, exports: map[string]uint64{}}
	if m.name == "" || len(m.name) > maxName || strings.ContainsAny(m.name, "/ \n") {
		return "", fmt.Errorf("a module without a name: %w", syscall.ENOEXEC)
	}
	if err := l.admit(m, o); err != nil {
		return m.name, err
	}
	if err := l.build(m, o); err != nil {
		l.release(m)
		return m.name, err
	}
	return m.name, toTheEnd(ctx, func(ctx context.Context) error { return l.run(ctx, m) })
}

// toTheEnd runs f, whoever waits for it: memory in which code may run is not given
// back because a caller has gone. ErrStays and EINTR: that one has not waited.
func toTheEnd(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(context.WithoutCancel(ctx)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(host.Patience(ctx)):
		return fmt.Errorf("%w: its init or exit function still runs: %w", ErrStays, syscall.EINTR)
	}
}

// maxName is MODULE_NAME_LEN less the final zero.
const maxName = 64 - 8 - 1

// name is the module's own: of .modinfo, or of struct module, whose name lies 24
// bytes behind its start.
func (o *object) name() string {
	if n := o.info["name"]; n != "" {
		return n
	}
	const nameOff = 24
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.Name == ".gnu.linkonce.this_module" })
	if i < 0 || len(o.sections[i].data) <= nameOff {
		return ""
	}
	n, _, _ := bytes.Cut(o.sections[i].data[nameOff:], []byte{0})
	return string(n)
}

// admit checks the module's words about itself and puts it on the list.
func (l *Loader) admit(m *module, o *object) error {
	if v := strings.TrimRight(o.info["vermagic"], " "); v != l.conf.Vermagic {
		l.conf.Machine.Printk(3, "%s: version magic '%s' should be '%s'", m.name, o.info["vermagic"], l.conf.Vermagic+" ")
		return fmt.Errorf("%s is for %q: %w", m.name, v, syscall.ENOEXEC)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.find(m.name); old != nil {
		if old.dead || old.state == Going {
			return fmt.Errorf("%s is %s: %w", m.name, old.state, syscall.EBUSY)
		}
		return fmt.Errorf("%s is loaded: %w", m.name, syscall.EEXIST)
	}
	l.mods = append(l.mods, m)
	l.taint(m, o.info)
	return nil
}

// taint notes, and says once each, what Debian's kernel minds.
func (l *Loader) taint(m *module, info map[string]string) {
	if lic := info["license"]; lic == "" || !gplCompatible(lic) {
		if lic == "" {
			lic = "unspecified"
		}
		l.conf.Machine.Printk(4, "%s: module license '%s' taints kernel.", m.name, lic)
		m.taints += "P"
	}
	if info["intree"] == "" {
		if !l.tainted {
			l.conf.Machine.Printk(4, "%s: loading out-of-tree module taints kernel.", m.name)
		}
		l.tainted = true
		m.taints += "O"
	}
	if !l.unsign {
		l.conf.Machine.Printk(5, "%s: module verification failed: signature and/or required key missing - tainting kernel", m.name)
	}
	l.unsign = true
	m.taints += "E"
	for i := range m.taints {
		l.conf.Machine.Taint(m.taints[i])
	}
}

func gplCompatible(license string) bool {
	return slices.Contains([]string{"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}, license)
}

// build places, resolves and maps the module, and tells the kernel's tables.
func (l *Loader) build(m *module, o *object) error {
	if err := o.layout(&m.at); err != nil {
		return err
	}
	base, err := l.alloc(m)
	if err != nil {
		return err
	}
	o.place(&m.at, base)
	if err := o.relocate(&m.at, func(i uint32) (uint64, error) { return l.value(m, o, i) }); err != nil {
		return err
	}
	m.init, _ = o.symbol("init_module")
	m.exit, _ = o.symbol("cleanup_module")
	for _, f := range []*uint64{&m.init, &m.exit} {
		if *f != 0 && m.code(*f, 1) == nil {
			return fmt.Errorf("%s: its init or exit is not text: %w", m.name, syscall.ENOEXEC)
		}
	}
	if err := m.tables(o, l.conf.TextSymbols); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return l.publish(m)
}

// alloc gets memory: the areas of core, and those of init, each in one piece.
func (l *Loader) alloc(m *module) (base [areas]uint64, err error) {
	for a := range m.at {
		if m.at[a].size == 0 {
			continue
		}
		if base[a], err = l.conf.Machine.AllocModule(m.at[a].pages()); err != nil {
			return base, err
		}
		m.at[a].start = base[a]
	}
	return base, nil
}

// value resolves symbol i of the ELF.
func (l *Loader) value(m *module, o *object, i uint32) (uint64, error) {
	if i == 0 {
		return 0, nil
	}
	if int(i) > len(o.symbols) {
		return 0, fmt.Errorf("symbol %d of %d: %w", i, len(o.symbols), syscall.ENOEXEC)
	}
	s := &o.symbols[i-1]
	if s.Section != elf.SHN_UNDEF {
		addr, err := o.define(s)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
		}
		return addr, nil
	}
	if addr, ok := l.conf.Export(s.Name); ok {
		return addr, nil
	}
	if addr, ok := l.ofModules(m, s.Name); ok {
		return addr, nil
	}
	if elf.ST_BIND(s.Info) == elf.STB_WEAK {
		return 0, nil
	}
	l.conf.Machine.Printk(4, "%s: Unknown symbol %s (err %d)", m.name, s.Name, -int(syscall.ENOENT))
	return 0, fmt.Errorf("%s: unknown symbol %s: %w", m.name, s.Name, syscall.ENOENT)
}

// ofModules finds what another module exports, and notes that m uses it.
func (l *Loader) ofModules(m *module, name string) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range l.mods {
		addr, ok := owner.exports[name]
		if !ok || owner.state != Live || owner == m {
			continue
		}
		if !slices.Contains(m.uses, owner) {
			m.uses = append(m.uses, owner)
			owner.users = slices.Insert(owner.users, 0, m)
		}
		return addr, true
	}
	return 0, false
}

// source is the relocated module as tables are read from it: an image.Source.
type source struct {
	m *module
	o *object
}

func (s source) Table(name string) (uint64, []byte, error) {
	for i := range s.o.sections {
		if sec := &s.o.sections[i]; sec.Name == name && sec.area != noArea {
			return sec.addr, s.m.at[sec.area].bytes[sec.off : sec.off+sec.Size], nil
		}
	}
	return 0, nil, nil
}

func (s source) Code(addr, n uint64) []byte { return s.m.code(addr, n) }

func (s source) CString(addr uint64) string {
	for a := range s.m.at {
		p := &s.m.at[a]
		if off := addr - p.start; addr >= p.start && off < p.size {
			text, _, _ := bytes.Cut(p.bytes[off:], []byte{0})
			return string(text)
		}
	}
	return ""
}

// code gives n bytes of the module's text.
func (m *module) code(addr, n uint64) []byte {
	for _, a := range []area{coreText, initText} {
		p := &m.at[a]
		if off := addr - p.start; addr >= p.start && off <= p.size && n <= p.size-off {
			return p.bytes[off : off+n]
		}
	}
	return nil
}

// tables reads the module's own tables. Its fentry sites become nops, whatever
// the compiler left there.
func (m *module) tables(o *object, textOnly bool) error {
	m.sites = &image.Sites{Module: m.name, Text: ranges(m, coreText), InitText: m.span(initText)}
	listed, err := m.sites.Read(source{m, o})
	if err != nil {
		return fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
	}
	for _, site := range m.sites.Mcount {
		copy(m.code(site, uint64(len(abi.Nop5))), abi.Nop5)
	}
	if addr, b, _ := (source{m, o}).Table(".eh_frame"); b != nil {
		m.sites.Frames, _ = image.ReadFrames(addr, b) // not understood: stacks end in the module
	}
	m.takeSymbols(o, textOnly)
	m.sites.Blacklist = blacklist(listed, m.syms)
	for i := range o.sections {
		s := &o.sections[i]
		if s.Name == ".kprobes.text" || s.Name == ".noinstr.text" {
			m.sites.Blacklist = append(m.sites.Blacklist, within(abi.Range{Start: s.addr, End: s.addr + s.Size}, m.syms)...)
		}
	}
	return nil
}

func (m *module) span(a area) abi.Range {
	p := &m.at[a]
	return abi.Range{Start: p.start, End: p.start + p.size}
}

// ranges gives those of the areas that hold something.
func ranges(m *module, list ...area) []abi.Range {
	var all []abi.Range
	for _, a := range list {
		if r := m.span(a); r.Start != r.End {
			all = append(all, r)
		}
	}
	return all
}

func (m *module) coreRanges() []abi.Range { return ranges(m, coreText, coreRodata, coreData) }
func (m *module) initRanges() []abi.Range { return ranges(m, initText, initData) }

// takeSymbols takes the module's symbols as kallsyms has them, sizes not yet
// set, and its exports. With textOnly those of data stay until init is done.
func (m *module) takeSymbols(o *object, textOnly bool) {
	for i := range o.symbols {
		if name, ok := strings.CutPrefix(o.symbols[i].Name, "__ksymtab_"); ok && o.symbols[i].Section != elf.SHN_UNDEF {
			if addr, ok := o.symbol(name); ok {
				m.exports[name] = addr
			}
		}
	}
	for i := range o.symbols {
		s := &o.symbols[i]
		typ := elf.ST_TYPE(s.Info)
		if s.Section == elf.SHN_UNDEF || s.Name == "" || typ == elf.STT_SECTION || typ == elf.STT_FILE || ignored(s.Name) {
			continue
		}
		addr, err := o.define(s)
		if err != nil || addr == 0 || s.Section == elf.SHN_ABS {
			continue
		}
		letter := o.letter(s)
		if _, exported := m.exports[s.Name]; exported {
			letter -= 'a' - 'A'
		}
		sym := abi.Symbol{Addr: addr, Type: letter, Name: s.Name}
		m.syms = append(m.syms, sym)
		if a := o.sections[s.Section].area; a == coreText || !textOnly && (a == coreRodata || a == coreData) {
			m.core = append(m.core, sym)
		}
	}
}

// ignored says whether it is a name that assemblers make.
func ignored(name string) bool {
	for _, p := range []string{".L", "$"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// letter is nm's letter for a symbol, in lower case.
func (o *object) letter(s *elf.Symbol) byte {
	sec := &o.sections[s.Section]
	switch {
	case elf.ST_BIND(s.Info) == elf.STB_WEAK && elf.ST_TYPE(s.Info) == elf.STT_OBJECT:
		return 'v'
	case elf.ST_BIND(s.Info) == elf.STB_WEAK:
		return 'w'
	case sec.Flags&elf.SHF_EXECINSTR != 0:
		return 't'
	case sec.Type == elf.SHT_NOBITS:
		return 'b'
	case sec.Flags&elf.SHF_WRITE != 0:
		return 'd'
	}
	return 'r'
}

// blacklist gives the whole functions that begin at the listed addresses.
func blacklist(listed []uint64, syms []abi.Symbol) []abi.Range {
	var list []abi.Range
	for _, addr := range listed {
		list = append(list, abi.Range{Start: addr, End: next(addr, syms)})
	}
	return list
}

// within gives the functions of a section, one range each.
func within(r abi.Range, syms []abi.Symbol) []abi.Range {
	var list []abi.Range
	for addr := r.Start; addr < r.End; {
		end := min(next(addr, syms), r.End)
		list = append(list, abi.Range{Start: addr, End: end})
		addr = end
	}
	return list
}

// next is the address of the symbol behind addr.
func next(addr uint64, syms []abi.Symbol) uint64 {
	end := addr + abi.PageSize
	for _, s := range syms {
		if s.Addr > addr && s.Addr < end {
			end = s.Addr
		}
	}
	return end
}

// perms is how the areas are mapped.
var perms = [areas]image.Perm{
	coreText: image.Read | image.Exec, coreRodata: image.Read, coreData: image.Read | image.Write,
	initText: image.Read | image.Exec, initData: image.Read | image.Write,
}

// publish maps the module and makes it known.
func (l *Loader) publish(m *module) error {
	for a := range m.at {
		if m.at[a].size == 0 {
			continue
		}
		if err := l.conf.Machine.MapModule(m.at[a].start, m.at[a].bytes, perms[a]); err != nil {
			return err
		}
	}
	if err := l.conf.Tables.AddModule(m.sites); err != nil {
		return err
	}
	l.conf.Sites.Add(m.sites.Mcount)
	l.conf.Symbols.SetModule(m.name, append(m.coreRanges(), m.initRanges()...), m.syms)
	for a := range m.at {
		m.at[a].bytes = nil
	}
	return nil
}

func (l *Loader) notify(m *module, s State) {
	l.mu.Lock()
	m.state = s
	l.mu.Unlock()
	if l.conf.Notify != nil {
		l.conf.Notify(Event{Name: m.name, State: s, Core: m.coreRanges(), Init: m.initRanges()})
	}
}

// run is do_init_module.
func (l *Loader) run(ctx context.Context, m *module) error {
	l.notify(m, Coming)
	if m.init != 0 {
		ret, err := l.conf.Call(ctx, "insmod", l.conf.InitCall, m.init)
		if errors.Is(err, ErrStays) {
			l.died(m)
			return fmt.Errorf("%s: init: %w", m.name, err)
		}
		if e := int32(ret); err == nil && e < 0 {
			err = fmt.Errorf("%s: init: %w", m.name, syscall.Errno(-e))
		} else if err == nil && e > 0 {
			l.conf.Machine.Printk(4, "%s: '%s'->init suspiciously returned %d, it should follow 0/-E convention", "do_init_module", m.name, e)
		}
		if err != nil {
			l.goAway(m)
			return err
		}
	}
	l.notify(m, Live)
	l.freeInit(m)
	return nil
}

// freeInit gives init's memory back.
func (l *Loader) freeInit(m *module) {
	l.conf.Tables.InitDone(m.name)
	l.conf.Symbols.SetModule(m.name, m.coreRanges(), m.core)
	m.syms = nil
	for _, r := range ranges(m, initText) {
		l.conf.Sites.Remove(r)
	}
	l.conf.Machine.SynchronizeRCU()
	l.mu.Lock()
	defer l.mu.Unlock()
	m.refs = 0
	for _, a := range []area{initText, initData} {
		if m.at[a].size > 0 {
			l.conf.Machine.FreeModule(m.at[a].start)
		}
		m.at[a] = placed{}
	}
}

// died leaves a module as it is whose init or exit function has died: nobody can
// say what of it is still in use.
func (l *Loader) died(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.dead = true
}

// Delete is delete_module. ENOENT: no such module; EWOULDBLOCK: another one uses
// it; EBUSY: it is being loaded or unloaded, or was when its init or exit function
// died, or has an init and no exit; ErrStays: its exit function dies, or ctx has
// ended and the function has not.
func (l *Loader) Delete(ctx context.Context, name string) error {
	m, err := l.leave(name)
	if err != nil {
		return err
	}
	return toTheEnd(ctx, func(ctx context.Context) error { return l.delete(ctx, m) })
}

func (l *Loader) delete(ctx context.Context, m *module) error {
	if m.exit != 0 {
		_, err := l.conf.Call(ctx, "rmmod", m.exit)
		switch {
		case errors.Is(err, ErrStays):
			l.died(m)
		case err != nil: // it has not been called
			l.mu.Lock()
			m.state, m.refs = Live, 0
			l.mu.Unlock()
		}
		if err != nil {
			return fmt.Errorf("%s: exit: %w", m.name, err)
		}
	}
	l.goAway(m)
	return nil
}

func (l *Loader) leave(name string) (*module, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.find(name)
	switch {
	case m == nil:
		return nil, fmt.Errorf("no module %s: %w", name, syscall.ENOENT)
	case len(m.users) > 0:
		return nil, fmt.Errorf("%s is used by %s: %w", name, m.users[0].name, syscall.EWOULDBLOCK)
	case m.state != Live:
		return nil, fmt.Errorf("%s is %s: %w", name, m.state, syscall.EBUSY)
	case m.init != 0 && m.exit == 0:
		return nil, fmt.Errorf("%s has no exit function: %w", name, syscall.EBUSY)
	}
	m.state, m.refs = Going, -1
	return m, nil
}

// goAway takes a module whose code runs no more out of everything.
func (l *Loader) goAway(m *module) {
	l.mu.Lock()
	m.refs = min(m.refs, 0)
	l.mu.Unlock()
	l.notify(m, Going)
	l.conf.Symbols.RemoveModule(m.name)
	for _, r := range append(ranges(m, coreText), ranges(m, initText)...) {
		l.conf.Sites.Remove(r)
	}
	l.conf.Tables.RemoveModule(m.name)
	freed := make(chan struct{})
	go func() {
		defer close(freed)
		l.conf.Machine.SynchronizeRCUTasks()
		l.free(m)
	}()
	select {
	case <-freed:
	case <-time.After(freeTime):
	}
	l.unlist(m)
}

// freeTime is how long an unloading waits until the module's memory is given back.
// A task that never sleeps may keep that from happening: then it is done when that
// one has ended.
const freeTime = time.Second

// release frees a module's memory and takes it from the list.
func (l *Loader) release(m *module) {
	l.free(m)
	l.unlist(m)
}

// free gives a module's memory back.
func (l *Loader) free(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range m.at {
		if m.at[a].start != 0 {
			l.conf.Machine.FreeModule(m.at[a].start)
		}
	}
}

// unlist takes a module from the list.
func (l *Loader) unlist(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range m.uses {
		owner.users = slices.DeleteFunc(owner.users, func(u *module) bool { return u == m })
	}
	l.mods = slices.DeleteFunc(l.mods, func(x *module) bool { return x == m })
}
