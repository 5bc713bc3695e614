// Command golden records what Linux prints for the scripts of
// integration/testdata, and checks the recordings.
//
//	golden record [NAME]...   run the scripts on Debian's newest kernel, twice, and write want
//	golden check [NAME]...    run them on the kernels that the recordings name, and compare
//	golden print SCRIPT       run one shell script and print what it printed
//	golden formats [GROUP:NAME]...   write kprobes/tracing/formats-RELEASE.txt anew, with these events, too
//	golden tables record|check [NAME]...     the same for the tables of package grammar
//	golden verdicts record|check   whether probes are taken at the functions of the guest: integration/verdicts
//	golden tables explore SEED [NAME]...     cases of another seed, on Linux and by bin/kprobefs
//
// With -release 5.10 or 6.12 before the subcommand, the kernel is Debian 11's
// or 13. Its recordings are in a subdirectory, unless they are the same as 6.1's.
// Scripts that cannot be recorded there are skipped. A file there that has a script
// is for that release only. Tables can only be explored on other releases. There is
// one more subcommand:
//
//	golden -release R fold    keep those recordings only that are not what 6.1 prints
//
// With -differing as well, check leaves out the scripts for which that kernel prints what
// 6.1 prints.
//
// With -modules, record and check use the scripts of testdata/modules/debian, which
// load modules built with the headers of Debian's kernel (linux-headers-amd64).
//
// record runs all scripts in one boot, and again in the opposite order in another
// one. A script with a line "# alone: REASON" has a boot of its own each time. If a script's output differs, it depends on other scripts or on chance, and is
// not written. check never writes. If the archive no longer has the kernel that a
// recording names, check says so and skips the recording. It fails if Linux does not
// print a recorded text in either of two runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/integration/verdicts"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
	"github.com/kprobefs/kprobefs/internal/tools/share"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

// golden is a run of the command.
type golden struct {
	release  string
	modules  bool // the scripts that load modules
	skipSame bool // only recordings that are not as 6.1's
	share    share.Share
	out      io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) error {
	g := golden{out: out}
	flags := flag.NewFlagSet("golden", flag.ContinueOnError)
	flags.StringVar(&g.release, "release", linux.Default, "the kernel's release")
	flags.BoolVar(&g.modules, "modules", false, "record or check the scripts that load modules")
	flags.BoolVar(&g.skipSame, "differing", false, "check only the recordings that are not the same as 6.1's")
	flags.Var(&g.share, "share", "with `TEXT/N`, check one of N recordings; TEXT, such as a commit, says which")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 {
		return errors.New("usage: golden [-release R] record|check [NAME], golden [-release R] print SCRIPT, golden [-release R] formats [GROUP:NAME], golden tables record|check [NAME], golden releases")
	}
	switch args[0] {
	case "record":
		return g.record(ctx, args[1:])
	case "check":
		return g.check(ctx, args[1:])
	case "fold":
		return g.fold()
	case "print":
		return g.print(ctx, args[1:])
	case "formats":
		return g.formats(ctx, args[1:])
	case "tables":
		return g.tables(ctx, args[1:])
	case "releases":
		_, err := fmt.Fprintln(out, strings.Join(verdicts.Releases, " "))
		return err
	case "verdicts":
		return g.verdicts(ctx, args[1:])
	case "insmod": // run on Linux by record and check
		return insmod(args[1:])
	case "play": // run on Linux by tables
		return playPart(args[1:], out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// load returns the cases of testdata, or those named.
func (g *golden) load(names []string) ([]*integration.Case, []integration.Mask, error) {
	masks, err := integration.Masks()
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join("integration", "testdata")
	var cases []*integration.Case
	switch {
	case g.modules:
		cases, err = loadModules()
	case g.release != linux.Default:
		cases, err = integration.LoadRelease(dir, g.release)
	default:
		cases, err = integration.Load(dir)
	}
	if g.skipSame {
		cases = slices.DeleteFunc(cases, (*integration.Case).AsDefault)
	}
	cases = slices.DeleteFunc(cases, func(c *integration.Case) bool { return !g.share.Has(c.Name) })
	if err != nil || len(names) == 0 {
		return cases, masks, err
	}
	var chosen []*integration.Case
	for _, name := range names {
		i := slices.IndexFunc(cases, func(c *integration.Case) bool { return c.Name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("no case %q", name)
		}
		chosen = append(chosen, cases[i])
	}
	return chosen, masks, nil
}

// loadModules returns the cases of testdata/modules/debian and, where Linux's samples
// are, of testdata/modules/samples.
func loadModules() ([]*integration.Case, error) {
	objects, err := integration.BuildModules(filepath.Join("integration", integration.DebianModules))
	if err != nil {
		return nil, err
	}
	cases, err := integration.LoadModuleCases("integration", integration.DebianModules, objects)
	if err != nil {
		return nil, err
	}
	samples, err := integration.Samples()
	if errors.Is(err, integration.ErrNoSamples) {
		return cases, nil
	}
	if err == nil {
		objects, err = integration.BuildSamples(samples)
	}
	if err != nil {
		return nil, err
	}
	more, err := integration.LoadModuleCases("integration", integration.SampleModules, objects)
	return append(cases, more...), err
}

// insmod loads a module file with arguments.
func insmod(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: golden insmod FILE [ARG]... (on Linux)")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), strings.Join(args[1:], " "), 0); err != nil {
		return fmt.Errorf("%s: %s", args[0], strerror(err))
	}
	return nil
}

// strerror returns the text of the C library's strerror, which shell tools print.
func strerror(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// play runs the cases in one boot and returns the masked results by name. Each case that
// is Alone has a boot of its own, and leaves behind what it likes.
func play(ctx context.Context, k *linux.Kernel, cases []*integration.Case, masks []integration.Mask) (map[string]linux.Result, error) {
	all := map[string]linux.Result{}
	if others := slices.DeleteFunc(slices.Clone(cases), (*integration.Case).Alone); len(others) > 0 {
		results, err := boot(ctx, k, others, masks)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, results)
	}
	for _, c := range cases {
		if !c.Alone() {
			continue
		}
		results, err := boot(ctx, k, []*integration.Case{c}, masks)
		if err != nil {
			return nil, err
		}
		r := results[c.Name]
		r.Left = ""
		all[c.Name] = r
	}
	return all, nil
}

// boot runs the cases in one boot and returns the masked results by name.
func boot(ctx context.Context, k *linux.Kernel, cases []*integration.Case, masks []integration.Mask) (map[string]linux.Result, error) {
	var scripts []linux.Script
	for _, c := range cases {
		if err := c.BuildProgram(); err != nil {
			return nil, err
		}
		scripts = append(scripts, linux.Script{Name: c.Name, Text: c.Script, Files: c.Files, Disk: c.Disk()})
	}
	self, err := os.Executable() // its insmod
	if err != nil {
		return nil, err
	}
	results, err := k.Run(ctx, integration.Lib(), scripts, self)
	if err != nil {
		return nil, err
	}
	byName := map[string]linux.Result{}
	for _, r := range results {
		r.Output = integration.Apply(masks, r.Output)
		byName[r.Name] = r
	}
	return byName, nil
}

// playApart is play with the cases distributed over as many parallel boots as there
// are processors, since QEMU uses one processor.
func playApart(ctx context.Context, k *linux.Kernel, cases []*integration.Case, masks []integration.Mask) (map[string]linux.Result, error) {
	boots := min(runtime.NumCPU(), len(cases))
	hands := make([][]*integration.Case, boots)
	for i, c := range cases {
		hands[i%boots] = append(hands[i%boots], c)
	}
	var wg sync.WaitGroup
	results, errs := make([]map[string]linux.Result, boots), make([]error, boots)
	for i := range boots {
		wg.Go(func() { results[i], errs[i] = play(ctx, k, hands[i], masks) })
	}
	wg.Wait()
	all := map[string]linux.Result{}
	for _, r := range results {
		maps.Copy(all, r)
	}
	return all, errors.Join(errs...)
}

func (g *golden) record(ctx context.Context, names []string) error {
	if err := linux.Check(); err != nil {
		return err
	}
	cases, masks, err := g.load(names)
	if err != nil {
		return err
	}
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	start := time.Now()
	first, err := play(ctx, k, cases, masks)
	if err != nil {
		return err
	}
	backwards := slices.Clone(cases)
	slices.Reverse(backwards)
	second, err := play(ctx, k, backwards, masks)
	if err != nil {
		return err
	}
	bad := 0
	for _, c := range cases {
		if why := unfit(first[c.Name], second[c.Name]); why != "" {
			fmt.Fprintf(g.out, "%s: not recorded: %s\n", c.Name, why)
			bad++
			continue
		}
		state := "as before"
		if c.Want != first[c.Name].Output {
			state = "recorded"
		}
		c.Want, c.Status, c.Kernel = first[c.Name].Output, first[c.Name].Status, k.String()
		if err := c.Save(); err != nil {
			return err
		}
		fmt.Fprintf(g.out, "%s: %s\n", c.Name, state)
	}
	fmt.Fprintf(g.out, "%d scripts on %s, two boots, %.0f s\n", len(cases), k, time.Since(start).Seconds())
	if bad > 0 && g.release == linux.Default {
		return fmt.Errorf("%d scripts not recorded", bad)
	}
	return nil
}

// fold saves the recordings of another release again, since 6.1's may have changed.
func (g *golden) fold() error {
	cases, _, err := g.load(nil)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if err := c.Save(); err != nil {
			return err
		}
	}
	return nil
}

// unfit returns why two results of a script cannot be recorded, or "".
func unfit(a, b linux.Result) string {
	switch {
	case a.Left+b.Left != "":
		return "it leaves the files changed:\n" + a.Left + b.Left
	case a.Status != b.Status:
		return fmt.Sprintf("exit status %d, then %d", a.Status, b.Status)
	case a.Output != b.Output:
		return "two runs differ:\n" + lines(a.Output, b.Output)
	}
	return ""
}

func (g *golden) check(ctx context.Context, names []string) error {
	cases, masks, err := g.load(names)
	if errors.Is(err, integration.ErrNoHeaders) && os.Getenv("CI") != "true" {
		fmt.Fprintf(g.out, "golden-check of the modules skipped: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := linux.Check(); err != nil {
		fmt.Fprintf(g.out, "golden-check skipped: %v\n", err)
		return nil
	}
	byKernel := map[string][]*integration.Case{}
	var kernels []string
	for _, c := range cases {
		if byKernel[c.Kernel] == nil {
			kernels = append(kernels, c.Kernel)
		}
		byKernel[c.Kernel] = append(byKernel[c.Kernel], c)
	}
	var failed []string
	for _, kernel := range kernels {
		if kernel == "" && g.release != linux.Default {
			continue
		}
		if kernel == "" {
			return fmt.Errorf("%s has no recording; run make golden", byKernel[kernel][0].Name)
		}
		bad, err := g.checkOn(ctx, kernel, byKernel[kernel], masks)
		if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
			fmt.Fprintf(g.out, "golden-check: %d recordings stay unchecked: %v\n", len(byKernel[kernel]), err)
			continue
		}
		if err != nil {
			return err
		}
		failed = append(failed, bad...)
	}
	if len(failed) > 0 {
		return fmt.Errorf("recorded, but not what the kernel prints: %s", strings.Join(failed, ", "))
	}
	return nil
}

// differing runs the cases and returns those whose output is not as recorded.
func (g *golden) differing(ctx context.Context, k *linux.Kernel, cases []*integration.Case, masks []integration.Mask) ([]*integration.Case, error) {
	results, err := playApart(ctx, k, cases, masks)
	if err != nil {
		return nil, err
	}
	var differ []*integration.Case
	for _, c := range cases {
		r := results[c.Name]
		if r.Output != c.Want || r.Status != c.Status {
			fmt.Fprintf(g.out, "%s: exit status %d, recorded %d\n%s", c.Name, r.Status, c.Status, lines(c.Want, r.Output))
			differ = append(differ, c)
		}
	}
	return differ, nil
}

// checkOn runs the cases that name this kernel, and returns the names of those that
// differ.
func (g *golden) checkOn(ctx context.Context, kernel string, cases []*integration.Case, masks []integration.Mask) ([]string, error) {
	k, err := linux.Fetch(ctx, kernel)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	differ, err := g.differing(ctx, k, cases, masks)
	if err != nil {
		return nil, err
	}
	if len(differ) > 0 { // once more: on Linux, too, a task's name may not be saved in time, say
		if differ, err = g.differing(ctx, k, differ, masks); err != nil {
			return nil, err
		}
	}
	var failed []string
	for _, c := range differ {
		failed = append(failed, c.Name)
	}
	fmt.Fprintf(g.out, "golden-check: %d scripts on %s, %d differ, %.0f s\n", len(cases), k, len(failed), time.Since(start).Seconds())
	return failed, nil
}

func lines(a, b string) string {
	return cmp.Diff(strings.Split(a, "\n"), strings.Split(b, "\n"))
}

func (g *golden) print(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: golden print SCRIPT")
	}
	if err := linux.Check(); err != nil {
		return err
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	results, err := k.Run(ctx, integration.Lib(), []linux.Script{{Name: "script", Text: string(text)}})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%s[exit status %d]\n%s", results[0].Output, results[0].Status, results[0].Left)
	return nil
}
