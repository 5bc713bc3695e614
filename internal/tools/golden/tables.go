package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs/integration/grammar"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// chunk is how many cases one script of a boot plays: init.sh lets no script run
// longer than a minute.
const chunk = 50

// tables records or checks the tables of package grammar, all or those named,
// or plays cases of another seed on Linux and here, where another release will do too.
func (g *golden) tables(ctx context.Context, args []string) error {
	release, out := g.release, g.out
	if release != linux.Default && (len(args) == 0 || args[0] != "explore") {
		return fmt.Errorf("tables of release %s can be explored only", release)
	}
	do := map[string]func(context.Context, string, io.Writer) error{"record": recordTable, "check": nil}
	if len(args) > 1 && args[0] == "explore" {
		seed, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		do["explore"] = func(ctx context.Context, name string, out io.Writer) error {
			return exploreTable(ctx, release, name, seed, out)
		}
		args = args[1:]
		args[0] = "explore"
	}
	if _, known := do[strings.Join(args[:min(1, len(args))], "")]; !known {
		return errors.New("usage: golden tables record|check|explore SEED [NAME]")
	}
	names := args[1:]
	if len(names) == 0 {
		names = slices.DeleteFunc(slices.Clone(grammar.Names[:]), func(name string) bool { return args[0] == "check" && !g.share.Has(name) })
	}
	if err := linux.Check(); err != nil {
		if args[0] == "check" && errors.Is(err, linux.ErrNoTools) {
			fmt.Fprintf(out, "golden tables check skipped: %v\n", err)
			return nil
		}
		return err
	}
	if args[0] == "check" {
		return checkTables(ctx, names, out)
	}
	for _, name := range names {
		if err := do[args[0]](ctx, name, out); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil
}

func tableFile(name string) string {
	return filepath.Join("integration", "testdata", name+".table")
}

// recordTable plays a table in two boots, the second backwards, and writes it
// when both print the same.
func recordTable(ctx context.Context, name string, out io.Writer) error {
	k, err := linux.Newest(ctx, linux.Default)
	if err != nil {
		return err
	}
	start := time.Now()
	first, err := playTable(ctx, k, name, grammar.Seed, false)
	if err != nil {
		return err
	}
	second, err := playTable(ctx, k, name, grammar.Seed, true)
	if err != nil {
		return err
	}
	if n := differ(first, second, out); n > 0 {
		return fmt.Errorf("two boots differ in %d cases", n)
	}
	first.Kernel = k.String()
	f, err := os.Create(tableFile(name))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d cases on %s, two boots, %.0f s\n", name, len(first.Cases), k, time.Since(start).Seconds())
	return errors.Join(first.Write(f), f.Close())
}

// checkTables plays recorded tables on the kernels that they name, and compares.
func checkTables(ctx context.Context, names []string, out io.Writer) error {
	byKernel := map[string][]*grammar.Table{}
	wants := map[*grammar.Table]string{}
	for _, name := range names {
		text, err := os.ReadFile(tableFile(name))
		if err != nil {
			return err
		}
		want, err := grammar.Parse(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		wants[want] = name
		byKernel[want.Kernel] = append(byKernel[want.Kernel], want)
	}
	bad := 0
	for kernel, tables := range byKernel {
		start := time.Now()
		k, err := linux.Fetch(ctx, kernel)
		if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
			fmt.Fprintf(out, "golden tables check: %d tables stay unchecked: %v\n", len(tables), err)
			continue
		}
		if err != nil {
			return err
		}
		var played []string
		for _, want := range tables {
			played = append(played, wants[want])
		}
		got, err := playTables(ctx, k, played)
		if err != nil {
			return err
		}
		for _, want := range tables {
			name := wants[want]
			n := differ(want, got[name], out)
			fmt.Fprintf(out, "golden tables check: %s: %d cases on %s, %d differ\n", name, len(want.Cases), k, n)
			bad += n
		}
		fmt.Fprintf(out, "golden tables check: %d tables, %.0f s\n", len(tables), time.Since(start).Seconds())
	}
	if bad > 0 {
		return fmt.Errorf("%d cases are not what the kernel answers", bad)
	}
	return nil
}

// playTables plays tables in twice as many boots at once as there are processors:
// much of the time Linux waits for grace periods.
func playTables(ctx context.Context, k *linux.Kernel, names []string) (map[string]*grammar.Table, error) {
	var scripts []linux.Script
	for _, name := range names {
		more, err := tableScripts(name, grammar.Seed)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, more...)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	boots := min(2*runtime.NumCPU(), len(scripts))
	results, errs := make([][]linux.Result, boots), make([]error, boots)
	var wg sync.WaitGroup
	for i := range boots {
		var hand []linux.Script
		for j := i; j < len(scripts); j += boots {
			hand = append(hand, scripts[j])
		}
		wg.Go(func() { results[i], errs[i] = k.Run(ctx, "", hand, self) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	byName := map[string]*grammar.Table{}
	for j := range scripts {
		r := results[j%boots][j/boots]
		name, _, _ := strings.Cut(r.Name, "-")
		if byName[name] == nil {
			byName[name] = &grammar.Table{}
		}
		if err := addResult(byName[name], r); err != nil {
			return nil, err
		}
	}
	return byName, nil
}

func differ(want, got *grammar.Table, out io.Writer) (n int) {
	if len(want.Cases) != len(got.Cases) {
		fmt.Fprintf(out, "%d cases, recorded %d\n", len(got.Cases), len(want.Cases))
		return 1
	}
	for i := range want.Cases {
		if a, b := want.Cases[i].String(), got.Cases[i].String(); a != b {
			fmt.Fprintf(out, "case %d:\n%s", i+1, lines(a, b))
			n++
		}
	}
	return n
}

// exploreTable plays the cases of another seed on Linux and, by bin/kprobefs,
// here, and prints those that differ.
func exploreTable(ctx context.Context, release, name string, seed uint64, out io.Writer) error {
	k, err := linux.Newest(ctx, release)
	if err != nil {
		return err
	}
	want, err := playTable(ctx, k, name, seed, false)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "kprobefs"), "exec", "--cpus", "2", "--release", release, "--", self, "play", name, fmt.Sprint(seed), "0", fmt.Sprint(len(want.Cases)))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("bin/kprobefs: %w", err)
	}
	got, err := grammar.Parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	n := differ(want, got, out)
	fmt.Fprintf(out, "%s, seed %d: %d of %d cases differ\n", name, seed, n, len(want.Cases))
	return nil
}

// playTable plays the cases of a table on Linux: this program is put into the
// initrd for it.
func playTable(ctx context.Context, k *linux.Kernel, name string, seed uint64, backwards bool) (*grammar.Table, error) {
	scripts, err := tableScripts(name, seed)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if backwards {
		slices.Reverse(scripts)
	}
	results, err := k.Run(ctx, "", scripts, self)
	if err != nil {
		return nil, err
	}
	if backwards {
		slices.Reverse(results)
	}
	t := &grammar.Table{}
	for _, r := range results {
		if err := addResult(t, r); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// tableScripts are the scripts that play the cases of a table: TABLE-FIRST.
func tableScripts(name string, seed uint64) (scripts []linux.Script, err error) {
	all := grammar.New(name, seed)
	if all == nil {
		return nil, fmt.Errorf("there is no table %q; there are %v", name, grammar.Names)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for first := 0; first < len(all.Cases); first += chunk {
		text := fmt.Sprintf("exec /usr/bin/%s play %s %d %d %d\n", filepath.Base(self), name, seed, first, first+chunk)
		scripts = append(scripts, linux.Script{Name: fmt.Sprintf("%s-%05d", name, first), Text: text})
	}
	return scripts, nil
}

// addResult adds the cases that one of them has played.
func addResult(t *grammar.Table, r linux.Result) error {
	part, err := grammar.Parse(strings.NewReader(r.Output))
	if err != nil || r.Status != 0 || r.Left != "" {
		return fmt.Errorf("cases %s: exit status %d, %w\n%s%s", r.Name, r.Status, err, r.Output, r.Left)
	}
	t.Cases = append(t.Cases, part.Cases...)
	return nil
}

// playPart is what runs on Linux.
func playPart(args []string, out io.Writer) error {
	if len(args) != 4 {
		return errors.New("usage: golden play NAME SEED FIRST LAST")
	}
	seed, err1 := strconv.ParseUint(args[1], 10, 64)
	first, err2 := strconv.Atoi(args[2])
	last, err3 := strconv.Atoi(args[3])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return grammar.Play(out, args[0], seed, first, last)
}
