// Package module loads relocatable objects (.ko) into the running guest kernel and
// takes them out again, as load_module and delete_module do: sections go to the core
// and init areas of the module, symbols are resolved against what the kernel and
// other modules export, relocations are applied, the module's own fentry sites, bugs
// and blacklist join the kernel's, its symbols join kallsyms, and a guest task runs
// its init and exit functions.
//
// An object file is untrusted input: it is checked, and loading one that is refused
// has no effect. From the call of its init function on, a module is kernel code.
//
// There are two kinds of objects. The ones of kernel/guest/modules are built with the
// guest's own headers and have no struct module. Those built with Debian's headers for
// 6.1 have one (debian.go): the guest lists it, parses the module's arguments and counts
// its references.
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
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// Machine is what a Loader needs of the virtual machine.
type Machine interface {
	// AllocModule allocates pieces of so many pages, one after the other, and returns the
	// address of the first.
	AllocModule(pages ...uint64) (uint64, error)
	MapModule(addr uint64, p []byte, perm image.Perm) error
	FreeModule(addr uint64)
	SynchronizeRCU()
	SynchronizeRCUTasks()
	Printk(level int, format string, args ...any)
	Taint(letter byte)
	// AddSites patches a module's branches and static calls as their keys say.
	AddSites(s *image.Sites) error
}

// Symbols is the part of kallsyms that a Loader changes.
type Symbols interface {
	Keep(module string, addrs []uint64)
	SetModule(name string, areas []abi.Range, syms []abi.Symbol)
	RemoveModule(name string)
}

// Tables are the kernel's tables about text: fentry sites, bugs, the blacklist.
type Tables interface {
	AddModule(s *image.Sites) error
	InitDone(module string)
	RemoveModule(name string)
}

// Sites is the set of fentry sites that can be armed.
type Sites interface {
	Add(addrs []uint64)
	Remove(r abi.Range)
	Used() bool // there are listeners or kprobes
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
	Core  []abi.Range // its memory, without the init areas
	Init  []abi.Range // the init areas, freed once init is done
}

// Memory is the guest's memory.
type Memory interface {
	abi.Memory
	// Add32 adds to an aligned word atomically and returns the sum.
	Add32(addr uint64, d uint32) (uint32, error)
}

// Config holds what a Loader needs.
type Config struct {
	Machine Machine
	Memory  Memory
	Symbols Symbols
	Tables  Tables
	Sites   Sites
	// Export returns the address of a symbol that the core kernel exports.
	Export func(name string) (addr uint64, ok bool)
	// Call runs a function on a new guest task named comm and returns the function's
	// result. The error is ErrStays if the task died in it.
	Call func(ctx context.Context, comm string, addr uint64, args ...uint64) (uint64, error)
	// Func returns the address of a function of the core kernel, 0 if there is none.
	Func func(name string) uint64
	// Notify is called when a module enters a state: Coming before init runs, Live
	// after it, Going before the module's memory is freed. It may sleep.
	Notify func(Event)
	// Armed learns when a module begins or ceases to be one of List.
	Armed *armed.Changes
	// TextSymbols drops all symbols but text's once init is done, as with
	// CONFIG_KALLSYMS_ALL=n.
	TextSymbols bool
	// Vermagic is the kernel's vermagic.
	Vermagic string
	// Own are the vermagics of modules that are built with the guest's own headers.
	Own []string
	// Struct is the guest's struct module.
	Struct Struct
	// ABI accepts modules that were built with the headers of a distribution's
	// kernel. It is nil if there are none for this release.
	ABI *ABI
}

// ErrStays means that an init or exit function has not returned. The module stays
// loaded until it does; if the function died, forever.
var ErrStays = errors.New("the module stays")

// Options say how a module is loaded.
type Options struct {
	Args string // NAME or NAME=VALUE, separated by blanks
	// The flags of finit_module(2): to load although vermagic or CRCs do not fit. The
	// kernel and the module are then tainted.
	IgnoreVermagic, IgnoreModversions bool
}

// Loader is the list of modules.
type Loader struct {
	conf Config

	mu         sync.Mutex // guards the fields below; not held while guest code runs
	mods       []*module  // oldest first
	tainted    bool       // the message about out-of-tree modules has been logged
	distrusted bool       // the message that lock debugging is off has been logged
	unsigned   bool       // the message about missing signatures has been logged
	forced     bool       // the message about a module whose versions were not checked has been logged
	last       string     // the module that was unloaded last, with its taints as Linked shows them
	lastID     uint64
}

// module is one loaded module.
type module struct {
	name    string
	state   State
	formed  bool  // build has ended; guarded by Loader.mu. Before that, only build looks at what it sets
	told    State // the last one that Notify was called for
	at      [areas]placed
	sites   *image.Sites
	exports map[string]uint64
	uses    []*module
	users   []*module // newest first
	desc    uint64    // address of its struct module; 0 if it has none
	percpu  uint64    // offset of its per-CPU variables; 0 if it has none
	listed  bool      // load_module has been called with desc
	init    uint64    // addresses of init_module and cleanup_module; 0 if there is none
	exit    uint64
	syms    []abi.Symbol // all symbols; nil once init is freed
	core    []abi.Symbol // the symbols that stay
	taints  string
	forced  bool // its versions were not checked

	id                  uint64 // see Info
	version, srcversion string
	sections            []Section
	loadInfo            []byte // struct load_info, until it is passed to the guest
	infoAt              uint64 // its address

	refs int  // not counting users: 1 until init is done, -1 while the module is being deleted
	dead bool // its init or exit function has died
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
	// Permanent modules have an init function and no exit function.
	Permanent bool
	Hidden    bool // it has taken itself off the kernel's list, which /proc/modules shows

	ID         uint64    // differs between a module and a later one with its name
	Core       uint64    // the part of Size that stays when init is done
	Letters    string    // Taints without the sign of the state
	Version    string    // MODULE_VERSION, or ""
	Srcversion string    // or ""
	Sections   []Section // in the order of the object
}

// Section is a section of a loaded module.
type Section struct {
	Name string
	Addr uint64
	Note []byte // contents of a note, else nil
}

// New returns a Loader with no modules.
func New(c Config) *Loader { return &Loader{conf: c} }

// List returns the modules, newest first. As m_show, it leaves out those that are being laid
// out and relocated (MODULE_STATE_UNFORMED).
func (l *Loader) List() []Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Info
	for _, m := range slices.Backward(l.mods) {
		if !m.formed {
			continue
		}
		i := Info{
			Name: m.name, Refs: l.refs(m), State: m.state, Addr: m.base(), Taints: m.taints, Hidden: l.hidden(m),
			Permanent: m.init != 0 && m.exit == 0, ID: m.id, Letters: m.taints, Version: m.version, Srcversion: m.srcversion,
			Sections: m.sections,
		}
		for a := range m.at {
			i.Size += m.at[a].pages() * abi.PageSize
			if !area(a).isInit() {
				i.Core += m.at[a].pages() * abi.PageSize
			}
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

// Linked returns what print_modules lists: the modules, newest first, each with its taints
// and state, and the one that was unloaded last. Each part begins with a space.
func (l *Loader) Linked() string {
	var b strings.Builder
	for _, i := range l.List() {
		b.WriteString(" " + i.Name + parenthesized(i.Taints))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != "" {
		b.WriteString(" [last unloaded: " + l.last + "]")
	}
	return b.String()
}

func parenthesized(taints string) string {
	if taints == "" {
		return ""
	}
	return "(" + taints + ")"
}

// Loaded reports whether a module of that name is loaded and not being unloaded.
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

// Load is init_module: it loads the object and runs its init function. It returns the
// name that the object gives itself. Errors: ENOEXEC if it is not a module or was
// built for another kernel; ENOENT if a symbol is exported nowhere; EEXIST if it is
// loaded; EBUSY if it is being unloaded or its init function has died; ENOMEM if
// there is no room; ErrStays if its init function dies, or still runs when ctx ends.
// Any other error is what the init function returned; the module is unloaded again.
//
// args are the module's arguments, each NAME or NAME=VALUE.
func (l *Loader) Load(ctx context.Context, ko []byte, args ...string) (name string, err error) {
	return l.Insert(ctx, ko, Options{Args: strings.Join(args, " ")})
}

// Insert is Load with options: finit_module(2).
func (l *Loader) Insert(ctx context.Context, ko []byte, opts Options) (name string, err error) {
	o, err := parse(ko)
	if err != nil {
		if len(ko) >= elfHeader && !bytes.HasPrefix(ko, []byte(elf.ELFMAG)) {
			l.conf.Machine.Printk(3, "Invalid ELF header magic: != %s", elf.ELFMAG)
		}
		return "", err
	}
	o.args = opts.Args
	m := &module{name: o.name(), state: Coming, refs: 1, exports: map[string]uint64{}}
	if m.name == "" || len(m.name) > maxName || strings.ContainsAny(m.name, "/ \n") {
		return "", fmt.Errorf("the module has no valid name: %w", syscall.ENOEXEC)
	}
	if err := l.admit(m, o, opts); err != nil {
		return m.name, err
	}
	if err := l.build(ctx, m, o); err != nil {
		l.freePercpu(context.WithoutCancel(ctx), m)
		l.release(m)
		return m.name, err
	}
	return m.name, runDetached(ctx, func(ctx context.Context) error { return l.run(ctx, m) })
}

// elfHeader is the size of an ELF header in bytes.
const elfHeader = 64

// runDetached runs f to its end even if ctx ends before: code may still run in the
// module's memory, so the caller's death must not free it. In that case the error is
// both ErrStays and EINTR.
func runDetached(ctx context.Context, f func(context.Context) error) error {
	if wait.Of(ctx) != nil { // it is the caller's turn, and f's
		return f(context.WithoutCancel(ctx))
	}
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

// name returns the module's name from .modinfo, or else from struct module, where it
// is at offset 24.
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

// admit checks the module's versions and name and puts it on the list.
func (l *Loader) admit(m *module, o *object, opts Options) error {
	if opts.IgnoreModversions {
		o.crcs = nil
	}
	if !l.agrees(m, o, "module_layout") {
		return fmt.Errorf("%s is for a kernel with another struct module: %w", m.name, syscall.ENOEXEC)
	}
	if err := l.checkVermagic(m, o, opts); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.find(m.name); old != nil {
		if old.dead || old.state == Going {
			return fmt.Errorf("%s is %s: %w", m.name, old.state, syscall.EBUSY)
		}
		return fmt.Errorf("%s is loaded: %w", m.name, syscall.EEXIST)
	}
	l.lastID++
	m.id, m.version, m.srcversion = l.lastID, o.info["version"], o.info["srcversion"]
	l.mods = append(l.mods, m)
	l.taint(m, o.info)
	return nil
}

// taint sets the module's taint letters and logs Debian's message for each; those
// about out-of-tree and unsigned modules once only.
func (l *Loader) taint(m *module, info map[string]string) {
	if m.forced {
		m.addTaint('F')
	}
	if lic := info["license"]; lic == "" || !gplCompatible(lic) {
		if lic == "" {
			lic = "unspecified"
		}
		l.conf.Machine.Printk(4, "%s: module license '%s' taints kernel.", m.name, lic)
		m.addTaint('P')
		l.distrustLocks()
	}
	if info["intree"] == "" {
		if !l.tainted {
			l.conf.Machine.Printk(4, "%s: loading out-of-tree module taints kernel.", m.name)
		}
		l.tainted = true
		m.addTaint('O')
	}
	if !l.unsigned {
		l.conf.Machine.Printk(5, "%s: module verification failed: signature and/or required key missing - tainting kernel", m.name)
	}
	l.unsigned = true
	m.addTaint('E')
	for i := range m.taints {
		l.conf.Machine.Taint(m.taints[i])
	}
}

// taintOrder are the letters of a module's taints in the order of /proc/modules.
const taintOrder = "PFCOEKXT"

func (m *module) addTaint(letter byte) {
	at := strings.IndexFunc(m.taints, func(r rune) bool {
		return strings.IndexByte(taintOrder, byte(r)) > strings.IndexByte(taintOrder, letter)
	})
	if at < 0 {
		at = len(m.taints)
	}
	m.taints = m.taints[:at] + string(letter) + m.taints[at:]
}

func gplCompatible(license string) bool {
	return slices.Contains([]string{"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}, license)
}

// build lays out, relocates and maps the module, and adds it to the kernel's tables.
func (l *Loader) build(ctx context.Context, m *module, o *object) error {
	if err := o.layout(&m.at, l.conf.Struct.Pieces, l.conf.TextSymbols); err != nil {
		return err
	}
	base, err := l.alloc(m)
	if err != nil {
		return err
	}
	if err := l.allocPercpu(ctx, m, o); err != nil {
		return err
	}
	o.place(&m.at, base)
	l.mu.Lock()
	m.sections = o.listed()
	l.mu.Unlock()
	values, err := l.resolve(m, o)
	if err != nil {
		return err
	}
	o.values = values
	if err := o.relocate(&m.at, values); err != nil {
		return err
	}
	m.init, _ = o.symbol("init_module")
	m.exit, _ = o.symbol("cleanup_module")
	if err := m.patch(o); err != nil {
		return fmt.Errorf("%s: %w: %w", m.name, syscall.ENOEXEC, err)
	}
	o.fillSymbols(&m.at)
	if err := m.describe(o, l.conf.Struct); err != nil {
		return fmt.Errorf("%s: %w: %w", m.name, syscall.ENOEXEC, err)
	}
	for _, f := range []*uint64{&m.init, &m.exit} {
		if *f != 0 && m.code(*f, 1) == nil {
			return fmt.Errorf("%s: its init or exit function is not in text: %w", m.name, syscall.ENOEXEC)
		}
	}
	if err := m.tables(o, l.conf.TextSymbols, l.conf.Func); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	if err := l.inform(m, o); err != nil {
		return err
	}
	if err := l.publish(m); err != nil {
		return err
	}
	if err := l.fillPercpu(m, o); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.formed = true
	l.conf.Armed.Note()
	return nil
}

// alloc allocates memory for each area that is not empty: core's one after the
// other, and init's, or each where there is room.
func (l *Loader) alloc(m *module) (base [areas]uint64, err error) {
	for first := coreText; first < areas; {
		end := first + 1
		for !l.conf.Struct.Pieces && end < areas && end.isInit() == first.isInit() {
			end++
		}
		var pages []uint64
		for a := first; a < end; a++ {
			if m.at[a].size > 0 {
				pages = append(pages, m.at[a].pages())
			}
		}
		if len(pages) > 0 {
			at, err := l.conf.Machine.AllocModule(pages...)
			if err != nil {
				return base, err
			}
			for a := first; a < end; a++ {
				if m.at[a].size > 0 {
					base[a], m.at[a].start = at, at
					at += m.at[a].pages() * abi.PageSize
				}
			}
		}
		first = end
	}
	return base, nil
}

// base returns the address of the module's memory (module_layout.base, or mem[MOD_TEXT].base).
func (m *module) base() uint64 {
	for a := range m.at {
		if m.at[a].start != 0 && !area(a).isInit() {
			return m.at[a].start
		}
	}
	return 0
}

// inform makes what the guest is told about a module with a struct module.
func (l *Loader) inform(m *module, o *object) error {
	if m.desc == 0 {
		return nil
	}
	uses := l.usesOf(m)
	size := uint64(len(m.info(o, uses, 0)))
	at, err := l.conf.Machine.AllocModule((size + abi.PageSize - 1) / abi.PageSize)
	if err != nil {
		return err
	}
	m.infoAt, m.loadInfo = at, m.info(o, uses, at)
	return l.conf.Machine.MapModule(at, m.loadInfo, image.Read)
}

// forgetInfo frees what inform has made.
func (l *Loader) forgetInfo(m *module) {
	if m.infoAt != 0 {
		l.conf.Machine.FreeModule(m.infoAt)
		m.infoAt, m.loadInfo = 0, nil
	}
}

// resolve returns the values of the symbols by their ELF index. It logs each symbol that
// is not exported.
func (l *Loader) resolve(m *module, o *object) (values []uint64, err error) {
	values = make([]uint64, len(o.symbols)+1)
	for i := range o.symbols {
		s := &o.symbols[i]
		if s.Section != elf.SHN_UNDEF {
			v, bad := o.define(s)
			if bad != nil {
				return nil, fmt.Errorf("%w: %w", syscall.ENOEXEC, bad)
			}
			values[i+1] = v
			continue
		}
		errno := syscall.ENOENT
		addr, found := l.export(m, s.Name)
		if found && !l.agrees(m, o, s.Name) {
			found, errno = false, syscall.EINVAL
		}
		if !found && (errno == syscall.EINVAL || elf.ST_BIND(s.Info) != elf.STB_WEAK) {
			l.conf.Machine.Printk(4, "%s: Unknown symbol %s (err %d)", m.name, s.Name, -int(errno))
			err = fmt.Errorf("%s: unknown symbol %s: %w", m.name, s.Name, errno)
		}
		values[i+1] = addr
	}
	return values, err
}

// export returns the address of a symbol that the kernel or a module exports.
func (l *Loader) export(m *module, name string) (uint64, bool) {
	if addr, ok := l.conf.Export(name); ok {
		return addr, true
	}
	return l.ofModules(m, name)
}

// ofModules looks name up in the exports of other modules, and notes that m uses its
// owner.
func (l *Loader) ofModules(m *module, name string) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range l.mods {
		if owner.state != Live { // it may be unformed
			continue
		}
		addr, ok := owner.exports[name]
		if !ok {
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

// source implements image.Source on a relocated module.
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

// code returns n bytes of the module's text at addr, or nil.
func (m *module) code(addr, n uint64) []byte {
	for _, a := range []area{coreText, initText} {
		p := &m.at[a]
		if off := addr - p.start; addr >= p.start && off <= p.size && n <= p.size-off {
			return p.bytes[off : off+n]
		}
	}
	return nil
}

// tables reads the module's own tables, and replaces the instructions at its fentry
// sites by nops.
func (m *module) tables(o *object, textOnly bool, key func(string) uint64) error {
	m.sites = &image.Sites{Module: m.name, Text: ranges(m, coreText), InitText: m.span(initText)}
	listed, err := m.sites.Read(source{m, o})
	if err != nil {
		return fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
	}
	for _, site := range m.sites.Mcount {
		copy(m.code(site, uint64(len(abi.Nop5))), abi.Nop5)
	}
	if addr, b, _ := (source{m, o}).Table(".eh_frame"); b != nil {
		m.sites.Frames, _ = image.ReadFrames(addr, b) // if it cannot be read, stack traces end in the module
	} else if addr, b, _ := (source{m, o}).Table(".orc_unwind_ip"); b != nil {
		_, orc, _ := (source{m, o}).Table(".orc_unwind")
		m.sites.Frames, _ = image.ReadORC(addr, b, orc) // as above
	}
	m.findKeys(o, key)
	m.takeSymbols(o, textOnly)
	m.sites.Blacklist = blacklist(listed, m.syms)
	for _, name := range []string{".kprobes.text", ".noinstr.text"} {
		if s := o.section(name); s != nil {
			m.sites.Blacklist = append(m.sites.Blacklist, within(abi.Range{Start: s.addr, End: s.addr + s.Size}, m.syms)...)
		}
	}
	return nil
}

// findKeys finds the keys of static calls that the module may make but not change: their
// sites have the trampoline in the key's place. key returns the address of a symbol, 0
// if there is none; without a key, the site goes on to call the trampoline.
func (m *module) findKeys(o *object, key func(string) uint64) {
	keys := map[uint64]uint64{}
	for i := range o.symbols {
		if name, ok := strings.CutPrefix(o.symbols[i].Name, "__SCT__"); ok && o.symbols[i].Section == elf.SHN_UNDEF {
			keys[o.values[i+1]] = key("__SCK__" + name)
		}
	}
	m.sites.StaticCalls = slices.DeleteFunc(m.sites.StaticCalls, func(c image.StaticCall) bool {
		found, tramp := keys[c.Key]
		return tramp && found == 0
	})
	for i := range m.sites.StaticCalls {
		if found, ok := keys[m.sites.StaticCalls[i].Key]; ok {
			m.sites.StaticCalls[i].Key = found
		}
	}
}

// span returns the pages of an area. Its last symbol ends where they end.
func (m *module) span(a area) abi.Range {
	p := &m.at[a]
	return abi.Range{Start: p.start, End: p.start + p.pages()*abi.PageSize}
}

// ranges returns the ranges of the areas that are not empty.
func ranges(m *module, list ...area) []abi.Range {
	var all []abi.Range
	for _, a := range list {
		if r := m.span(a); r.Start != r.End {
			all = append(all, r)
		}
	}
	return all
}

func (m *module) coreRanges() []abi.Range {
	return ranges(m, coreText, coreRodata, coreAfterInit, coreData)
}

func (m *module) initRanges() []abi.Range {
	return ranges(m, initText, initRodata, initAfterInit, initData)
}

// takeSymbols collects the module's exports and its symbols as kallsyms has them,
// without sizes. With textOnly, symbols of data are kept only until init is done.
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
		if err != nil || addr == 0 || s.Section == elf.SHN_ABS || o.sections[s.Section].area == noArea {
			continue
		}
		letter := o.letter(s)
		if _, exported := m.exports[s.Name]; exported {
			letter -= 'a' - 'A'
		}
		sym := abi.Symbol{Addr: addr, Type: letter, Name: s.Name}
		m.syms = append(m.syms, sym)
		if a := o.sections[s.Section].area; !a.isInit() && (a == coreText || !textOnly) {
			m.core = append(m.core, sym)
		}
	}
}

// ignored reports whether name was generated by the assembler.
func ignored(name string) bool {
	for _, p := range []string{".L", "$"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// letter returns nm's letter for a symbol, in lower case.
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

// blacklist returns the ranges of the functions that begin at the listed addresses.
func blacklist(listed []uint64, syms []abi.Symbol) []abi.Range {
	var list []abi.Range
	for _, addr := range listed {
		list = append(list, abi.Range{Start: addr, End: next(addr, syms)})
	}
	return list
}

// within returns the ranges of the functions in r, a section.
func within(r abi.Range, syms []abi.Symbol) []abi.Range {
	var list []abi.Range
	for addr := r.Start; addr < r.End; {
		end := min(next(addr, syms), r.End)
		list = append(list, abi.Range{Start: addr, End: end})
		addr = end
	}
	return list
}

// next returns the address of the first symbol after addr, at most a page further on.
func next(addr uint64, syms []abi.Symbol) uint64 {
	end := addr + abi.PageSize
	for _, s := range syms {
		if s.Addr > addr && s.Addr < end {
			end = s.Addr
		}
	}
	return end
}

// perms are the permissions that the areas are mapped with.
var perms = [areas]image.Perm{
	coreText: image.Read | image.Exec, coreRodata: image.Read, coreAfterInit: image.Read | image.Write,
	coreData: image.Read | image.Write, coreSymbols: image.Read | image.Write,
	initText: image.Read | image.Exec, initRodata: image.Read, initAfterInit: image.Read | image.Write,
	initData: image.Read | image.Write, initSymbols: image.Read | image.Write,
}

// publish maps the module and adds it to kallsyms and the kernel's tables.
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
	if err := l.conf.Machine.AddSites(m.sites); err != nil {
		l.conf.Tables.RemoveModule(m.name)
		return fmt.Errorf("%s: a static key: %w: %w", m.name, syscall.ENOEXEC, err)
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
	l.setState(m, s)
	if m.desc == 0 || s == Coming {
		l.tell(m, s)
	}
}

// tell calls Notify, once for each state. The guest's notifiers of a module with a struct
// module say when it is their turn (Entered); tell is called after them in any case.
func (l *Loader) tell(m *module, s State) {
	l.mu.Lock()
	told := m.told == s
	m.told = s
	l.mu.Unlock()
	if l.conf.Notify != nil && !told {
		l.conf.Notify(Event{Name: m.name, State: s, Core: m.coreRanges(), Init: m.initRanges()})
	}
}

// Entered is called by the guest's notifiers: the module whose struct module is at desc
// has entered a state, a value of enum module_state.
func (l *Loader) Entered(desc, state uint64) {
	l.mu.Lock()
	i := slices.IndexFunc(l.mods, func(m *module) bool { return m.formed && m.desc == desc })
	var m *module
	if i >= 0 {
		m = l.mods[i]
	}
	l.mu.Unlock()
	for s, n := range states {
		if m != nil && uint64(n) == state && (s == Live || s == Going) {
			l.tell(m, s)
		}
	}
}

// run is do_init_module.
func (l *Loader) run(ctx context.Context, m *module) error {
	l.notify(m, Coming)
	ret, err := l.callInit(ctx, m)
	if errors.Is(err, ErrStays) {
		l.died(m)
		return fmt.Errorf("%s: init: %w", m.name, err)
	}
	if ret < 0 && err == nil {
		err = fmt.Errorf("%s: init: %w", m.name, syscall.Errno(-ret))
	}
	if err != nil {
		l.unload(ctx, m)
		return err
	}
	l.notify(m, Live)
	l.tell(m, Live)
	l.freeInit(m)
	return nil
}

// callInit calls the init function and returns its result. If the module has a struct
// module, the guest parses its arguments first.
func (l *Loader) callInit(ctx context.Context, m *module) (ret int32, err error) {
	var v uint64
	switch {
	case m.desc != 0:
		l.mu.Lock()
		m.listed = true
		l.mu.Unlock()
		v, err = l.conf.Call(ctx, "insmod", l.conf.Func("load_module"), m.infoAt)
	case m.init != 0:
		v, err = l.conf.Call(ctx, "insmod", l.conf.Func("do_one_initcall"), m.init)
		if e := int32(v); err == nil && e > 0 {
			l.conf.Machine.Printk(4, "%s: '%s'->init suspiciously returned %d, it should follow 0/-E convention", "do_init_module", m.name, e)
		}
	}
	return int32(v), err
}

// freeInit frees the init areas.
func (l *Loader) freeInit(m *module) {
	l.conf.Tables.InitDone(m.name)
	if l.conf.Sites.Used() {
		init := m.span(initText)
		l.conf.Symbols.Keep(m.name, slices.DeleteFunc(slices.Clone(m.sites.Mcount), func(a uint64) bool { return !init.Contains(a) }))
	}
	l.conf.Symbols.SetModule(m.name, m.coreRanges(), m.core)
	m.syms = nil
	for _, r := range ranges(m, initText) {
		l.conf.Sites.Remove(r)
	}
	if p := &m.at[coreAfterInit]; p.size > 0 { // frob_ro_after_init
		if err := l.conf.Machine.MapModule(p.start, nil, image.Read); err != nil {
			l.conf.Machine.Printk(4, "%s: %v", m.name, err) // our bug: the area is the module's
		}
	}
	l.forgetInfo(m)
	l.conf.Machine.SynchronizeRCU()
	l.mu.Lock()
	defer l.mu.Unlock()
	m.refs = 0
	for a := initText; a < areas; a++ {
		if m.at[a].size > 0 {
			l.conf.Machine.FreeModule(m.at[a].start)
		}
		m.at[a] = placed{}
	}
}

// died marks a module whose init or exit function has died. It stays loaded, since it
// cannot be known what of it is still in use.
func (l *Loader) died(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.dead = true
}

// Going reports whether a module is being unloaded.
func (l *Loader) Going(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.find(name)
	return m != nil && m.state == Going
}

// Delete is delete_module. Errors: ENOENT if there is no such module; EWOULDBLOCK if
// another module uses it or holds a reference; EBUSY if it is being loaded or unloaded, if its init or
// exit function has died, or if it has an init function and no exit function;
// ErrStays if its exit function dies, or still runs when ctx ends.
func (l *Loader) Delete(ctx context.Context, name string) error {
	return l.Remove(ctx, name, false)
}

// Remove is Delete. With force it also unloads, and taints the kernel, what is in use but
// by no module, or what has no exit function (O_TRUNC).
func (l *Loader) Remove(ctx context.Context, name string, force bool) error {
	m, err := l.leave(name, force)
	if err != nil {
		return err
	}
	return runDetached(ctx, func(ctx context.Context) error { return l.delete(ctx, m) })
}

func (l *Loader) delete(ctx context.Context, m *module) error {
	if m.exit != 0 {
		_, err := l.conf.Call(ctx, "rmmod", m.exit)
		switch {
		case errors.Is(err, ErrStays):
			l.died(m)
		case err != nil: // the exit function was not called
			l.mu.Lock()
			m.state, m.refs = Live, 0
			l.mu.Unlock()
			l.unstop(m)
		}
		if err != nil {
			return fmt.Errorf("%s: exit: %w", m.name, err)
		}
	}
	l.mu.Lock()
	l.last = m.name + parenthesized(m.taints)
	l.mu.Unlock()
	l.unload(ctx, m)
	return nil
}

func (l *Loader) leave(name string, force bool) (*module, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.find(name)
	switch {
	case m == nil, l.hidden(m):
		return nil, fmt.Errorf("no module %s: %w", name, syscall.ENOENT)
	case len(m.users) > 0:
		return nil, fmt.Errorf("%s is used by %s: %w", name, m.users[0].name, syscall.EWOULDBLOCK)
	case m.state != Live:
		return nil, fmt.Errorf("%s is %s: %w", name, m.state, syscall.EBUSY)
	case m.init != 0 && m.exit == 0 && !l.forceUnload(force):
		return nil, fmt.Errorf("%s has no exit function: %w", name, syscall.EBUSY)
	case !l.stop(m) && !l.forceUnload(force):
		return nil, fmt.Errorf("%s is in use: %w", name, syscall.EWOULDBLOCK)
	}
	m.state, m.refs = Going, -1
	l.setState(m, Going)
	return m, nil
}

// forceUnload is try_force_unload, as with Debian's CONFIG_MODULE_FORCE_UNLOAD=y. The
// caller holds mu.
func (l *Loader) forceUnload(force bool) bool {
	if force {
		l.conf.Machine.Taint('R')
		l.distrustLocks()
	}
	return force
}

// distrustLocks is add_taint's LOCKDEP_NOW_UNRELIABLE. The caller holds mu.
func (l *Loader) distrustLocks() {
	if !l.distrusted {
		l.conf.Machine.Printk(4, "Disabling lock debugging due to kernel taint")
	}
	l.distrusted = true
}

// unload removes a module whose code does not run any more from the kernel's tables
// and from the list, and frees its memory.
func (l *Loader) unload(ctx context.Context, m *module) {
	l.mu.Lock()
	m.refs = min(m.refs, 0)
	l.mu.Unlock()
	l.notify(m, Going)
	l.dismiss(ctx, m)
	l.tell(m, Going)
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

// freeTime is how long unload waits for the module's memory to be freed. A task that
// never sleeps may delay the RCU grace period; the memory is then freed once that
// task has ended.
const freeTime = time.Second

// release frees a module's memory and removes it from the list.
func (l *Loader) release(m *module) {
	l.free(m)
	l.unlist(m)
}

// free frees a module's memory.
func (l *Loader) free(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetInfo(m)
	for a := range m.at {
		if m.at[a].start != 0 {
			l.conf.Machine.FreeModule(m.at[a].start)
		}
	}
}

// unlist removes a module from the list.
func (l *Loader) unlist(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range m.uses {
		owner.users = slices.DeleteFunc(owner.users, func(u *module) bool { return u == m })
	}
	l.mods = slices.DeleteFunc(l.mods, func(x *module) bool { return x == m })
	l.conf.Armed.Note()
}
