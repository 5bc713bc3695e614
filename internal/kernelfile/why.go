package kernelfile

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/btf/rawbtf"
	guestimage "github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

const longWhy = `Says whether Linux takes a probe, how it carries it out, whether the breakpoint
becomes a jump, and the rule that decides each: for the emulated kernel, or for any
x86-64 kernel whose image is at hand, before anything is loaded there.

A PROBE is FUNCTION[+OFFSET], MODULE:FUNCTION[+OFFSET], an address (0x...), or a
line of kprobe_events ("p:mine vfs_read+5", "r:kernel_clone"); - reads one from each
line of the standard input. With p or r, what kprobe_events refuses is refused, with
the text of error_log; without, what register_kprobe of a module refuses.

Of a line with arguments ("p:mine do_sys_openat2 dfd=$arg1 name=+0($arg2):string"),
where the kernel has types (BTF) or --btf gives them, it says which register has
which parameter at the function's entry and which member of which structure an offset
reads, and warns of offsets that are no member's and of arguments that the function
does not have.

--kernel FILE is a bzImage (/boot/vmlinuz-...), an ELF vmlinux, or a Debian or RPM
package (linux-image-....deb, kernel-core-....rpm). The symbols are the kernel's own, or from --symbols. Its text
is looked at as it is after boot on the processor that --cpu names, QEMU's default
one with retpolines if it names none: what the kernel writes for a processor can
decide otherwise at single addresses. Features are named as in /proc/cpuinfo, or as
Linux's X86_FEATURE_ (bug_... for X86_BUG_) in lower case: those are known by which
Debian's 5.10, 6.1 and 6.12 choose code. Rules are known of Linux 5.10, 6.1 and 6.12; another version has those of the newest of these
that is not newer. Several --kernel give a table.

Below an answer are the instructions around the probe: > marks the probed one, | the
others that the jump replaces, ! the one because of which there is no jump.

The exit status is 1 when a probe is refused, and 2 when a question cannot be
answered.`

type whyFlags struct {
	release string
	kernels []string
	symbols string
	modules []string
	btf     []string
	cpu     string
	color   string
	json    bool
	tsv     bool
	all     bool
	noCache bool
	at      cli.TreeFlag
}

// Why returns the command why.
func Why() *cobra.Command {
	f := &whyFlags{}
	c := &cobra.Command{
		Use:   "why PROBE...",
		Short: "Say whether a kernel takes a probe, and why not",
		Long:  longWhy,
		Example: `  kprobefs why vfs_read vfs_read+5
  kprobefs why --kernel /boot/vmlinuz-6.1.0-50-amd64 'p:mine do_sys_openat2+9 dfd=%di'
  kprobefs why --kernel a/vmlinuz --kernel b/vmlinuz - <probes.txt`,
		Args: func(c *cobra.Command, args []string) error {
			if all, _ := c.Flags().GetBool("all"); all {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			refused, err := f.run(c.InOrStdin(), c.OutOrStdout(), args)
			switch {
			case err != nil:
				return &cli.ExitError{Err: err, Status: cli.Exited(cli.UsageStatus)}
			case refused > 0:
				return &cli.ExitError{Err: errRefused, Said: true, Status: cli.Exited(1)}
			}
			return nil
		},
	}
	cli.Choose(c.Flags(), &f.release, "release", kprobefs.DefaultRelease, kprobefs.ReleaseNames(), "the emulated kernel that is asked, when there is no --kernel")
	c.Flags().StringVar(&f.at.Dir, "at", "", "the directory of a mounted tree, whose kernel is asked, without its modules; what is probed there is shown")
	_ = c.MarkFlagDirname("at")
	c.Flags().StringArrayVar(&f.kernels, "kernel", nil, "a kernel's `FILE`; several give a table")
	c.Flags().StringVar(&f.symbols, "symbols", "", "a System.map or a copy of /proc/kallsyms, for a kernel without its own")
	c.Flags().StringArrayVar(&f.modules, "modules", nil, "a `DIR` with the kernel's modules (.ko, .ko.xz, .ko.zst, .ko.gz), for probes in MODULE:FUNCTION; the first belongs to the first --kernel, and so on")
	_ = c.MarkFlagDirname("modules")
	c.Flags().StringArrayVar(&f.btf, "btf", nil, "a `FILE` with the types of the kernel's functions, for one without its own: BTF, as /sys/kernel/btf/vmlinux is, or ELF with a section .BTF; the first belongs to the first --kernel, and so on")
	_ = c.MarkFlagFilename("btf")
	chooseCPU(c.Flags(), &f.cpu)
	cli.Choose(c.Flags(), &f.color, "color", "auto", []string{"auto", "always", "never"}, "colours in the text: auto is on a terminal, unless NO_COLOR is set")
	c.Flags().BoolVar(&f.json, "json", false, "print a JSON object for each probe and kernel, one a line")
	c.Flags().BoolVar(&f.tsv, "tsv", false, "print a row for each probe and kernel, with tabs between the columns")
	c.Flags().BoolVar(&f.all, "all", false, "with --tsv: ask about each instruction of each function, instead of PROBE")
	c.Flags().BoolVar(&f.noCache, "no-cache", false, "do not keep unpacked images in the user's cache directory, 70 MB each")
	_ = c.MarkFlagFilename("kernel")
	_ = c.MarkFlagFilename("symbols")
	return c
}

// errRefused is the reason of the exit status; the answers have said more.
var errRefused = errors.New("a probe is refused")

// asked is a kernel that is asked.
type asked struct {
	name   string
	config why.Config
	*why.Asker
}

func newAsked(name string, c why.Config) asked { return asked{name, c, why.New(c)} }

// run answers, and returns how many probes are refused.
func (f *whyFlags) run(in io.Reader, out io.Writer, args []string) (refused int, err error) {
	if f.at.Dir != "" && len(f.kernels) > 0 {
		return 0, errTwoKernels
	}
	if f.json && f.tsv || f.all && !f.tsv {
		return 0, errors.New("--json and --tsv are two forms, and --all needs --tsv")
	}
	probes, err := readProbes(in, args)
	if err != nil {
		return 0, err
	}
	kernels, end, err := f.open(probes)
	if err != nil {
		return 0, err
	}
	defer end()
	b := bufio.NewWriter(out)
	defer b.Flush()
	w := whyWriter{whyFlags: f, kernels: kernels, out: b, screen: cli.NewScreen(out)}
	if f.color != "auto" {
		w.screen.Colors = f.color == "always"
	}
	if f.tsv {
		fmt.Fprintln(b, why.TSVHead)
	}
	if f.all {
		for _, k := range kernels {
			if err := why.All(b, k.config); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	for _, probe := range probes {
		if err := w.ask(probe); err != nil {
			return 0, err
		}
	}
	w.table()
	return w.refused, nil
}

// readProbes parses the arguments, and for - the lines of the standard input that are not empty and
// no comments.
func readProbes(in io.Reader, args []string) (probes []why.Probe, err error) {
	add := func(text string) {
		probe, bad := why.ParseProbe(text)
		err = errors.Join(err, bad)
		probes = append(probes, probe)
	}
	for _, arg := range args {
		if arg != "-" {
			add(arg)
			continue
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" && text[0] != '#' {
				add(text)
			}
		}
		err = errors.Join(err, lines.Err())
	}
	return probes, err
}

// whyWriter asks and prints.
type whyWriter struct {
	*whyFlags
	kernels []asked
	out     *bufio.Writer
	screen  cli.Screen
	refused int
	rows    [][]string // of the table
}

func (w *whyWriter) ask(probe why.Probe) error {
	row := []string{probe.Text}
	for _, k := range w.kernels {
		v := k.Ask(probe)
		if v.Err != nil {
			w.refused++
		}
		if w.tsv {
			fmt.Fprintln(w.out, k.TSV(v))
			continue
		}
		if len(w.kernels) > 1 && !w.json {
			row = append(row, why.Cell(v))
			continue
		}
		answer := k.Explain(k.name, probe, v)
		if w.json {
			b, err := json.Marshal(answer)
			if err != nil {
				return err
			}
			fmt.Fprintf(w.out, "%s\n", b)
			continue
		}
		if err := answer.Write(w.out, w.paint); err != nil {
			return err
		}
		w.probed(answer.Place)
	}
	w.rows = append(w.rows, row)
	return nil
}

// styleColors are the colours of the parts of an answer.
var styleColors = map[why.Style]cli.Color{
	why.Good: cli.Green, why.Middling: cli.Yellow, why.Bad: cli.Red, why.Probed: cli.Bold, why.Replaced: cli.Cyan,
}

func (w *whyWriter) paint(style why.Style, text string) string {
	return w.screen.Paint(styleColors[style], text)
}

// probed prints what a mounted tree says about a place that is probed there.
func (w *whyWriter) probed(place string) {
	if w.at.Dir == "" || place == "" || strings.Contains(place, "/") {
		return
	}
	b, err := os.ReadFile(filepath.Join(w.at.Dir, "machine", "probes", place))
	if err != nil {
		return // nothing is probed there
	}
	fmt.Fprintf(w.out, "  probed       in %s:\n", w.at.Dir)
	for line := range strings.Lines(string(b)) {
		fmt.Fprintf(w.out, "               %s", line)
	}
}

// table prints the table of several kernels.
func (w *whyWriter) table() {
	if len(w.kernels) < 2 || w.json || w.tsv {
		return
	}
	t := tabwriter.NewWriter(w.out, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "PROBE")
	for _, k := range w.kernels {
		fmt.Fprint(t, "\t", k.name)
	}
	fmt.Fprintln(t)
	for _, row := range w.rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
}

// open opens the kernels that are asked. end closes them.
func (f *whyFlags) open(probes []why.Probe) (kernels []asked, end func(), err error) {
	if len(f.kernels) == 0 {
		if f.symbols != "" || len(f.modules) > 0 || len(f.btf) > 0 || f.cpu != DefaultCPU {
			return nil, nil, errors.New("--symbols, --modules, --btf and --cpu belong to a --kernel")
		}
		return f.guest()
	}
	cpu, err := vmlinux.ParseCPU(f.cpu, os.DirFS("/"))
	if err != nil {
		return nil, nil, fmt.Errorf("--cpu: %w", err)
	}
	if max(len(f.modules), len(f.btf)) > len(f.kernels) {
		return nil, nil, errors.New("there are more --modules or --btf than --kernel: the first belongs to the first, and so on")
	}
	for i, file := range f.kernels {
		k, err := readKernel(file, f.symbols, cpu, f.noCache)
		if err != nil {
			return nil, nil, err
		}
		dir := ""
		if i < len(f.modules) {
			dir = f.modules[i]
		}
		if err := addModules(k, dir, probes); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		c := why.Config{Kernel: k, Linux: k.Linux, Preempt: k.Preempt, NoTypes: "; --btf FILE gives them"}
		if slices.ContainsFunc(probes, func(p why.Probe) bool { return p.Event }) {
			own := ""
			if i < len(f.btf) {
				own = f.btf[i]
			}
			if c.Types, err = typesOf(k, file, own); err != nil {
				return nil, nil, err
			}
		}
		kernels = append(kernels, newAsked(k.Release, c))
	}
	return kernels, func() {}, nil
}

// typesOf returns the types of a kernel's functions and of its modules', from the image or from
// a file of their own.
func typesOf(k *vmlinux.Kernel, image, own string) (func(module string) *btf.Types, error) {
	raw, from := k.BTF, image
	if own != "" {
		var err error
		if raw, err = os.ReadFile(own); err != nil {
			return nil, err
		}
		from = own
	}
	if raw == nil {
		return nil, nil
	}
	spec, err := rawbtf.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	types := map[string]*btf.Types{"": btf.From(spec)}
	for name, b := range k.ModuleBTF {
		module, err := spec.Module(b)
		if err != nil {
			return nil, fmt.Errorf("the module %s: %w", name, err)
		}
		types[name] = btf.From(module)
	}
	return func(module string) *btf.Types { return types[module] }, nil
}

// addModules adds the modules that probes name to a kernel, from the files in dir or below it.
func addModules(k *vmlinux.Kernel, dir string, probes []why.Probe) error {
	wanted := map[string]string{} // by the module's name: the file
	for _, p := range probes {
		if name, _, ok := strings.Cut(p.Symbol, ":"); ok {
			wanted[name] = ""
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	if dir == "" {
		return fmt.Errorf("--modules DIR says where its modules are: %s", strings.Join(slices.Sorted(maps.Keys(wanted)), ", "))
	}
	err := filepath.WalkDir(dir, func(path string, _ iofs.DirEntry, err error) error {
		base, _, ok := strings.Cut(filepath.Base(path), ".ko")
		if name := strings.ReplaceAll(base, "-", "_"); ok && err == nil {
			if found, want := wanted[name]; want && found == "" {
				wanted[name] = path
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] == "" {
			return fmt.Errorf("there is no module %s below %s", name, dir)
		}
		ko, err := os.ReadFile(wanted[name])
		if err != nil {
			return err
		}
		if _, err := k.AddModule(ko); err != nil {
			return fmt.Errorf("%s: %w", wanted[name], err)
		}
	}
	return nil
}

// unpacked returns the ELF image in a kernel's file. It keeps the image in the user's cache, because
// unpacking takes most of a second. It returns the file itself when that is ELF already, when it cannot
// be unpacked, and when its symbols lie beside the image: vmlinux.Load deals with these.
func unpacked(b []byte) []byte {
	cache, err := os.UserCacheDir()
	if err != nil || bytes.HasPrefix(b, []byte("\x7fELF")) {
		return b
	}
	sum := sha256.Sum256(b)
	dir := filepath.Join(cache, "kprobefs", "vmlinux")
	file := filepath.Join(dir, hex.EncodeToString(sum[:]))
	if image, err := os.ReadFile(file); err == nil && bytes.HasPrefix(image, []byte("\x7fELF")) {
		return image
	}
	files, err := vmlinux.Unpack(b)
	if err != nil || files.Map != nil && !vmlinux.HasSymbols(files.ELF) {
		return b
	}
	keepImage(dir, file, files.ELF)
	return files.ELF
}

// keptImages is how many unpacked images stay in the cache. Each has some 70 MB.
const keptImages = 3

// keepImage writes an image into the cache, from which the oldest go. A cache that cannot be written
// to is none.
func keepImage(dir, file string, image []byte) {
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	t, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return
	}
	defer os.Remove(t.Name())
	_, err = t.Write(image)
	if errors.Join(err, t.Close()) != nil || os.Rename(t.Name(), file) != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	age := func(e os.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(age(b), age(a)) })
	for _, e := range entries[min(len(entries), keptImages):] {
		_ = os.Remove(filepath.Join(dir, e.Name()))
	}
}

// guest boots the emulated kernel.
func (f *whyFlags) guest() (kernels []asked, end func(), err error) {
	r, err := f.guestRelease()
	if err != nil {
		return nil, nil, err
	}
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 1, Release: r, Config: r.Config})
	if err != nil {
		return nil, nil, err
	}
	guest := guestText{k.Machine.Tables(), k.Machine.Symbols(), k.Machine}
	c := why.Config{Kernel: guest, Linux: r.Linux, Preempt: !r.Config.NoPreempt}
	if text := guestimage.BTF(r.Image); text != nil {
		types, err := btf.Parse(text)
		if err != nil {
			return nil, nil, errors.Join(err, k.Close())
		}
		c.Types = func(string) *btf.Types { return types }
	}
	return []asked{newAsked(r.Uname(), c)}, func() { _ = k.Close() }, nil
}

// guestRelease returns the release of the tree that is asked, or the one of --release.
func (f *whyFlags) guestRelease() (kprobefs.Release, error) {
	if f.at.Dir == "" {
		return kprobefs.ParseRelease(f.release)
	}
	var err error
	if f.at.Dir, err = f.at.Find(); err != nil {
		return kprobefs.Release{}, err
	}
	b, err := os.ReadFile(filepath.Join(f.at.Dir, "machine", "kernel"))
	if err != nil {
		return kprobefs.Release{}, err
	}
	if strings.Contains(string(b), "\ntext file\n") {
		return kprobefs.Release{}, fmt.Errorf("%s shows the kernel of a file: --kernel FILE asks it", f.at.Dir)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	for _, name := range kprobefs.ReleaseNames() {
		if r, err := kprobefs.ParseRelease(name); err == nil && first == "release "+r.Uname() {
			return r, nil
		}
	}
	return kprobefs.Release{}, fmt.Errorf("%s: this program does not know its kernel, %q", f.at.Dir, first)
}

// guestText is the guest as package why asks it.
type guestText struct {
	*image.Tables
	symbols *kallsyms.Table
	machine *kernel.Machine
}

func (g guestText) Read(addr uint64, p []byte) error { return g.machine.Read(addr, p) }

func (g guestText) LookupName(name string) []abi.Symbol { return g.symbols.LookupName(name) }

func (g guestText) Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool) {
	return g.symbols.Lookup(addr)
}

// All returns all symbols.
func (g guestText) All() []abi.Symbol { return g.symbols.All() }
