package verdicts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

// ModulePlace is a place in a module's text: where Linux loads the module is another matter.
type ModulePlace struct {
	Module, Section string
	Offset          uint64 // in the section, in bytes
}

// String returns the place as a recording has it.
func (m ModulePlace) String() string { return fmt.Sprintf("%s %s+%x", m.Module, m.Section, m.Offset) }

func compareModulePlaces(a, b ModulePlace) int {
	return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Section, b.Section), cmp.Compare(a.Offset, b.Offset))
}

func parseModulePlace(module, place string) (ModulePlace, error) {
	section, off, ok := strings.Cut(place, "+")
	n, err := strconv.ParseUint(off, 16, 32)
	if !ok || err != nil || module == "" || strings.ContainsAny(section, "/") {
		return ModulePlace{}, fmt.Errorf("%q is no place of a module", module+" "+place)
	}
	return ModulePlace{module, section, n}, nil
}

// ModulePlaces is a recording: the answers of a kernel for places in modules.
type ModulePlaces struct {
	Kernel string // "PACKAGE VERSION"
	At     map[ModulePlace]Place
}

// Places returns the places, sorted.
func (p *ModulePlaces) Places() []ModulePlace {
	return slices.SortedFunc(maps.Keys(p.At), compareModulePlaces)
}

// ReadModulePlaces returns the recording of a release.
func ReadModulePlaces(release string) (*ModulePlaces, error) {
	b, err := fs.ReadFile(placeFiles, ModulePlacesFile(release))
	if err != nil {
		return nil, err
	}
	return parseModulePlaces(bytes.NewReader(b))
}

// ModulePlacesFile is the name of a release's recording in this directory.
func ModulePlacesFile(release string) string { return "places-modules-" + release + ".txt" }

func parseModulePlaces(r io.Reader) (*ModulePlaces, error) {
	p := &ModulePlaces{At: map[ModulePlace]Place{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if kernel, ok := strings.CutPrefix(line, kernelLine); ok {
			p.Kernel = kernel
		}
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("line %q has not three words", line)
		}
		at, err := parseModulePlace(words[0], words[1])
		place, perr := parsePlace(words[2])
		if err := errors.Join(err, perr); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		p.At[at] = place
	}
	return p, lines.Err()
}

// Write writes the recording.
func (p *ModulePlaces) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# What register_kprobe answers at places in modules: MODULE SECTION+OFFSET, and the answer as in places-*.txt.\n%s%s\n", kernelLine, p.Kernel)
	for _, at := range p.Places() {
		fmt.Fprintln(b, at, p.At[at])
	}
	return b.Flush()
}

// textSections are the sections of a module's text that stay after its init function.
var textSections = []string{".text", ".text.unlikely", ".exit.text"}

// ModuleAsker returns what answers for a kernel of Debian with some of its modules.
func ModuleAsker(ctx context.Context, k *linux.Kernel) (*why.Asker, *vmlinux.Kernel, map[string][]byte, error) {
	objects, err := k.PlaceModules(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	asker, file, err := Asker(k)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if _, err := file.AddModule(objects[name]); err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return asker, file, objects, nil
}

// ChooseModulePlaces returns n places of each module, always the same: nine of ten begin an instruction.
func ChooseModulePlaces(k *vmlinux.Kernel, modules []string, n int) []ModulePlace {
	var all []ModulePlace
	for _, module := range slices.Sorted(slices.Values(modules)) {
		r := rand.New(rand.NewPCG(2, uint64(n)))
		total := uint64(0)
		for _, section := range textSections {
			_, size := k.ModuleSection(module, section)
			total += size
		}
		chosen := map[ModulePlace]bool{}
		for range 20 * n { // a small module may have fewer
			if len(chosen) == n || total == 0 {
				break
			}
			if at, ok := modulePlace(k, module, r.Uint64N(total), r.IntN(10) > 0); ok {
				chosen[at] = true
			}
		}
		all = slices.AppendSeq(all, maps.Keys(chosen))
	}
	slices.SortFunc(all, compareModulePlaces)
	return all
}

// pageSize is a page's size in bytes. The last function of a module's text seems to extend to the end of the page.
// Linux decodes it up to there when a probe in it could become a jump, and an instruction that ends
// beyond the page makes 6.12 oops (ovl_exit of overlay), so it is not asked about it.
const pageSize = 4096

// modulePlace returns the place at an offset in a module's sections together, or the first instruction
// from there on.
func modulePlace(k *vmlinux.Kernel, module string, off uint64, atBoundary bool) (ModulePlace, bool) {
	for _, section := range textSections {
		start, size := k.ModuleSection(module, section)
		if off >= size {
			off -= size
			continue
		}
		addr := start + off
		sym, in, ok := k.Lookup(addr)
		if !ok || (addr-in+sym.Size)%pageSize == 0 {
			return ModulePlace{}, false
		}
		if atBoundary {
			addr = boundary(k, addr-in, addr)
		}
		return ModulePlace{module, section, addr - start}, addr < start+size
	}
	return ModulePlace{}, false
}

// PredictModule returns what the rules of kprobefs answer.
func PredictModule(a *why.Asker, k *vmlinux.Kernel, at ModulePlace) Place {
	start, _ := k.ModuleSection(at.Module, at.Section)
	return Predict(a, start+at.Offset)
}

// AskModulePlaces loads modules into a kernel of Debian and asks it about places in them. program is as
// for Ask.
func AskModulePlaces(ctx context.Context, k *linux.Kernel, objects map[string][]byte, places []ModulePlace, program string) (*ModulePlaces, error) {
	object, err := build(ctx, k)
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	for _, at := range places {
		fmt.Fprintln(&list, at)
	}
	files := map[string][]byte{"ask.ko": object, "places": list.Bytes()}
	script := "insmod ./ask.ko &&"
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		files[name+".ko"] = objects[name]
		script += " insmod ./" + name + ".ko &&"
	}
	results, err := k.Run(ctx, "", []linux.Script{{
		Name: "modules", Limit: limit, Text: script + " exec /usr/bin/" + filepath.Base(program) + " verdicts module-places places\n", Files: files,
	}}, program)
	if err != nil {
		return nil, err
	}
	if results[0].Status != 0 {
		return nil, fmt.Errorf("asking %s: exit status %d: %s", k, results[0].Status, results[0].Output)
	}
	p, err := parseModulePlaces(strings.NewReader(results[0].Output))
	if err != nil {
		return nil, err
	}
	p.Kernel = k.String()
	return p, nil
}

// AnswerModulePlaces runs on Linux, where ask.c and the modules are loaded: it writes the answers on the
// places that a file lists.
func AnswerModulePlaces(file string, w io.Writer) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	starts := map[string]uint64{} // of sections, by their files
	var places []ModulePlace
	var addrs []byte
	for line := range strings.Lines(string(b)) {
		module, place, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := parseModulePlace(module, place)
		if err != nil {
			return err
		}
		section := filepath.Join("/sys/module", at.Module, "sections", at.Section)
		if starts[section] == 0 {
			text, err := os.ReadFile(section)
			if err != nil {
				return err
			}
			if starts[section], err = strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64); err != nil {
				return err
			}
		}
		places = append(places, at)
		addrs = binary.LittleEndian.AppendUint64(addrs, starts[section]+at.Offset)
	}
	answers, err := askAddresses(addrs)
	if err != nil {
		return err
	}
	p := &ModulePlaces{At: map[ModulePlace]Place{}}
	for i, at := range places {
		p.At[at] = answers[i]
	}
	return p.Write(w)
}
