// Command inlined lists the functions that the compiler has joined with their callers, though
// the guest's sources define them as functions, and the calls of Linux that they stand for.
// What Linux keeps apart must be apart in the guest, too: a probe at a function that is joined
// with its caller is never hit.
//
//	inlined VMLINUX                       writes inlined-RELEASE of a guest with debug info
//	inlined -calls LINUX KALLSYMS GUEST   writes testdata/calls-RELEASE
//
// For -calls, LINUX is the ELF file that a bzImage contains, and KALLSYMS what
// /proc/kallsyms of that kernel shows to root with nokaslr.
package main

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1:
		err = inlined(args[0])
	case len(args) == 4 && args[0] == "-calls":
		err = calls(args[1], args[2], args[3])
	default:
		err = fmt.Errorf("usage: inlined VMLINUX | inlined -calls LINUX KALLSYMS GUEST")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inlined:", err)
		os.Exit(1)
	}
}

// functions are what the debug info of a guest says of its functions.
type functions struct {
	units  map[string][]dwarf.Offset // the source files of those that are not declared inline
	joined map[[2]string]bool        // the caller and the function that the compiler has joined with it
}

// read reads the debug info of an ELF file.
func read(path string) (*functions, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	of := &functions{units: map[string][]dwarf.Offset{}, joined: map[[2]string]bool{}}
	var unit dwarf.Offset
	names := map[dwarf.Offset]string{} // of the functions that are not declared inline
	origins := map[dwarf.Offset]dwarf.Offset{}
	type joint struct {
		callers []dwarf.Offset
		callee  dwarf.Offset
	}
	var joints []joint
	var within []dwarf.Offset // the functions that are open at each depth, 0 for other entries
	r := data.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if e.Tag == 0 {
			within = within[:len(within)-1]
			continue
		}
		var at dwarf.Offset
		switch e.Tag { //nolint:exhaustive // the others say nothing of functions
		case dwarf.TagCompileUnit:
			unit = e.Offset
		case dwarf.TagSubprogram:
			at = e.Offset
			for _, a := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
				if o, ok := e.Val(a).(dwarf.Offset); ok {
					origins[e.Offset] = o
				}
			}
			if name, ok := e.Val(dwarf.AttrName).(string); ok && !declaredInline(e) && e.Val(dwarf.AttrDeclaration) == nil {
				names[e.Offset] = name
				of.units[name] = append(of.units[name], unit)
			}
		case dwarf.TagInlinedSubroutine:
			if o, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
				joints = append(joints, joint{slices.Clone(within), o})
				at = o
			}
		}
		if e.Children {
			within = append(within, at)
		}
	}
	name := func(o dwarf.Offset) string {
		for range 4 {
			if n, ok := names[o]; ok {
				return n
			}
			next, ok := origins[o]
			if !ok {
				break
			}
			o = next
		}
		return ""
	}
	for _, j := range joints {
		callee := name(j.callee)
		for _, o := range j.callers {
			if caller := name(o); caller != "" && callee != "" && caller != callee {
				of.joined[[2]string{caller, callee}] = true
			}
		}
	}
	return of, nil
}

// declaredInline reports whether the source declares a function inline.
func declaredInline(e *dwarf.Entry) bool {
	const declaredNot, declared = 2, 3 // DW_INL_declared_not_inlined, DW_INL_declared_inlined
	how, _ := e.Val(dwarf.AttrInline).(int64)
	return how == declaredNot || how == declared
}

func inlined(path string) error {
	of, err := read(path)
	if err != nil {
		return err
	}
	write(of.joined)
	return nil
}

// write writes pairs, a line for each first name.
func write(pairs map[[2]string]bool) {
	by := map[string][]string{}
	for p := range pairs {
		by[p[0]] = append(by[p[0]], p[1])
	}
	var firsts []string
	for f := range by {
		firsts = append(firsts, f)
	}
	slices.Sort(firsts)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, f := range firsts {
		slices.Sort(by[f])
		fmt.Fprintf(out, "%s: %s\n", f, strings.Join(by[f], " "))
	}
}

// calls writes which functions of Linux call which, as far as the guest has both.
func calls(linux, kallsyms, guest string) error {
	of, err := read(guest)
	if err != nil {
		return err
	}
	starts, names, err := symbols(kallsyms)
	if err != nil {
		return err
	}
	f, err := elf.Open(linux)
	if err != nil {
		return err
	}
	defer f.Close()
	at := func(addr uint64) int {
		return sort.Search(len(starts), func(i int) bool { return starts[i] > addr }) - 1
	}
	pairs := map[[2]string]bool{}
	for _, s := range f.Progs {
		if s.Type != elf.PT_LOAD || s.Flags&elf.PF_X == 0 {
			continue
		}
		text := make([]byte, s.Filesz)
		if _, err := s.ReadAt(text, 0); err != nil {
			return err
		}
		for i := 1; i+4 <= len(text); i++ {
			if jump := i > 1 && text[i-2] == 0x0f && text[i-1]&0xf0 == 0x80; text[i-1] != 0xe8 && text[i-1] != 0xe9 && !jump {
				continue
			}
			to := s.Vaddr + uint64(i) + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(text[i:]))))
			callee, caller := at(to), at(s.Vaddr+uint64(i))
			if callee < 0 || caller < 0 || callee == caller || starts[callee] != to {
				continue
			}
			for _, a := range names[caller] {
				for _, b := range names[callee] {
					if a != b && of.together(a, b) {
						pairs[[2]string{a, b}] = true
					}
				}
			}
		}
	}
	write(pairs)
	return nil
}

// together reports whether the guest defines two functions in one source file, so that the
// compiler could join them.
func (f *functions) together(a, b string) bool {
	units := slices.Concat(f.units[a], f.units[syscallBody(a)])
	return slices.ContainsFunc(f.units[b], func(u dwarf.Offset) bool { return slices.Contains(units, u) })
}

// syscallBody returns the name of the function with the body of a system call.
func syscallBody(name string) string {
	if call, ok := strings.CutPrefix(name, "__x64_sys_"); ok {
		return "__do_sys_" + call
	}
	return name
}

// symbols returns the functions of a kernel, sorted by address, with all their names. A part
// of a function ("getname_flags.part.0") has the function's name.
func symbols(kallsyms string) (starts []uint64, names [][]string, err error) {
	f, err := os.Open(kallsyms)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	by := map[uint64][]string{}
	for in := bufio.NewScanner(f); in.Scan(); {
		w := strings.Fields(in.Text())
		if len(w) != 3 || !strings.Contains("tTwW", w[1]) { // four words are a module's
			continue
		}
		addr, err := strconv.ParseUint(w[0], 16, 64)
		if err != nil {
			return nil, nil, err
		}
		name, _, _ := strings.Cut(w[2], ".")
		by[addr] = append(by[addr], name)
	}
	for a := range by {
		starts = append(starts, a)
	}
	slices.Sort(starts)
	for _, a := range starts {
		names = append(names, by[a])
	}
	return starts, names, nil
}
