package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

const longWhy = `Says whether Linux takes a probe, how it carries it out, whether the breakpoint
becomes a jump, and the rule that decides each: for the emulated kernel, or for any
x86-64 kernel whose image is at hand, before anything is loaded there.

A PROBE is FUNCTION[+OFFSET], an address (0x...), or a line of kprobe_events
("p:mine vfs_read+5", "r:kernel_clone"); - reads one from each line of the standard
input. With p or r, what kprobe_events refuses is refused; without, what a module's
register_kprobe refuses.

--kernel FILE is a bzImage (/boot/vmlinuz-...), an ELF vmlinux, or a Debian package
linux-image-....deb. The symbols are the kernel's own, or those of --symbols. Its text
is looked at as it is after boot on QEMU's default processor with retpolines: what a
processor's alternatives change can decide otherwise at single addresses. Rules are
known of Linux 5.10, 6.1 and 6.12; another version has those of the newest of these
that is not newer. Several --kernel give a table.

The exit status is 1 when a probe is refused, and 2 when a question cannot be
answered.`

type whyFlags struct {
	release string
	kernels []string
	symbols string
	json    bool
	tsv     bool
}

func whyCommand() *cobra.Command {
	f := &whyFlags{}
	c := &cobra.Command{
		Use:   "why PROBE...",
		Short: "Say whether a kernel takes a probe, and why not",
		Long:  longWhy,
		Example: `  kprobefs why vfs_read vfs_read+5
  kprobefs why --kernel /boot/vmlinuz-6.1.0-50-amd64 'p:mine do_sys_openat2+9 dfd=%di'
  kprobefs why --kernel a/vmlinuz --kernel b/vmlinuz - <probes.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			refused, err := f.run(c.InOrStdin(), c.OutOrStdout(), args)
			switch {
			case err != nil:
				return &exitError{err: err, status: exitStatus(usageStatus)}
			case refused > 0:
				return &exitError{err: errRefused, said: true, status: exitStatus(1)}
			}
			return nil
		},
	}
	choose(c.Flags(), &f.release, "release", kprobefs.DefaultRelease, kprobefs.ReleaseNames(), "the emulated kernel that is asked, when there is no --kernel")
	c.Flags().StringArrayVar(&f.kernels, "kernel", nil, "a kernel's `FILE`; several give a table")
	c.Flags().StringVar(&f.symbols, "symbols", "", "a System.map or a copy of /proc/kallsyms, for a kernel without its own")
	c.Flags().BoolVar(&f.json, "json", false, "print a JSON object for each probe and kernel, one a line")
	c.Flags().BoolVar(&f.tsv, "tsv", false, "print a row for each probe and kernel, with tabs between the columns")
	c.MarkFlagsMutuallyExclusive("json", "tsv")
	_ = c.MarkFlagFilename("kernel")
	_ = c.MarkFlagFilename("symbols")
	return c
}

// errRefused is the reason of the exit status; the answers have said more.
var errRefused = errors.New("a probe is refused")

// exitStatus is the status of a process that has ended with a number.
func exitStatus(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }

// asked is a kernel that is asked.
type asked struct {
	name string
	*why.Asker
}

// run answers, and returns how many probes are refused.
func (f *whyFlags) run(in io.Reader, out io.Writer, args []string) (refused int, err error) {
	kernels, end, err := f.open()
	if err != nil {
		return 0, err
	}
	defer end()
	b := bufio.NewWriter(out)
	defer b.Flush()
	w := whyWriter{whyFlags: f, kernels: kernels, out: b}
	if f.tsv {
		fmt.Fprintln(b, why.TSVHead)
	}
	for _, arg := range args {
		if arg != "-" {
			err = errors.Join(err, w.ask(arg))
			continue
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" && text[0] != '#' {
				err = errors.Join(err, w.ask(text))
			}
		}
		err = errors.Join(err, lines.Err())
	}
	w.table()
	return w.refused, err
}

// whyWriter asks and prints.
type whyWriter struct {
	*whyFlags
	kernels []asked
	out     *bufio.Writer
	refused int
	rows    [][]string // of the table
}

func (w *whyWriter) ask(text string) error {
	probe, err := why.ParseProbe(text)
	if err != nil {
		return err
	}
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
		if err := answer.Write(w.out); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, row)
	return nil
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
func (f *whyFlags) open() (kernels []asked, end func(), err error) {
	if len(f.kernels) == 0 {
		if f.symbols != "" {
			return nil, nil, errors.New("--symbols belongs to a --kernel")
		}
		return f.guest()
	}
	var symbols []byte
	if f.symbols != "" {
		if symbols, err = os.ReadFile(f.symbols); err != nil {
			return nil, nil, err
		}
	}
	for _, file := range f.kernels {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		k, err := vmlinux.Load(b, vmlinux.Options{Symbols: symbols})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		kernels = append(kernels, asked{k.Release, why.New(why.Config{Kernel: k, Linux: k.Linux, Preempt: k.Preempt})})
	}
	return kernels, func() {}, nil
}

// guest boots the emulated kernel.
func (f *whyFlags) guest() (kernels []asked, end func(), err error) {
	r, err := kprobefs.ParseRelease(f.release)
	if err != nil {
		return nil, nil, err
	}
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 1, Release: r, Config: r.Config})
	if err != nil {
		return nil, nil, err
	}
	guest := guestText{k.Machine.Tables(), k.Machine.Symbols(), k.Machine}
	asker := why.New(why.Config{Kernel: guest, Linux: r.Linux, Preempt: !r.Config.NoPreempt})
	return []asked{{r.Uname(), asker}}, func() { _ = k.Close() }, nil
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

// Names returns the names of all symbols.
func (g guestText) Names() (names []string) {
	for _, s := range g.symbols.All() {
		names = append(names, s.Name)
	}
	return names
}
