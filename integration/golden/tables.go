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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kprobefs/kprobefs/integration/grammar"
	"github.com/kprobefs/kprobefs/integration/linux"
)

// chunk is how many cases one script of a boot plays: init.sh lets no script run
// longer than a minute.
const chunk = 50

// tables records or checks the tables of package grammar, all or those named,
// or plays cases of another seed on Linux and here.
func tables(ctx context.Context, args []string, out io.Writer) error {
	do := map[string]func(context.Context, string, io.Writer) error{"record": recordTable, "check": checkTable}
	if len(args) > 1 && args[0] == "explore" {
		seed, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		do["explore"] = func(ctx context.Context, name string, out io.Writer) error { return exploreTable(ctx, name, seed, out) }
		args = args[1:]
		args[0] = "explore"
	}
	if len(args) == 0 || do[args[0]] == nil {
		return errors.New("usage: golden tables record|check|explore SEED [NAME]")
	}
	names := args[1:]
	if len(names) == 0 {
		names = grammar.Names[:]
	}
	if err := linux.Check(); err != nil {
		if args[0] == "check" && errors.Is(err, linux.ErrNoTools) {
			fmt.Fprintf(out, "golden tables check skipped: %v\n", err)
			return nil
		}
		return err
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

// checkTable plays a recorded table on the kernel that it names, and compares.
func checkTable(ctx context.Context, name string, out io.Writer) error {
	f, err := os.Open(tableFile(name))
	if err != nil {
		return err
	}
	defer f.Close()
	want, err := grammar.Parse(f)
	if err != nil {
		return err
	}
	k, err := linux.Fetch(ctx, want.Kernel)
	if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
		fmt.Fprintf(out, "golden tables check: %s stays unchecked: %v\n", name, err)
		return nil
	}
	if err != nil {
		return err
	}
	got, err := playTable(ctx, k, name, grammar.Seed, false)
	if err != nil {
		return err
	}
	if n := differ(want, got, out); n > 0 {
		return fmt.Errorf("%d cases are not what the kernel answers", n)
	}
	fmt.Fprintf(out, "golden tables check: %s: %d cases on %s\n", name, len(got.Cases), k)
	return nil
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
func exploreTable(ctx context.Context, name string, seed uint64, out io.Writer) error {
	k, err := linux.Newest(ctx, linux.Default)
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
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "kprobefs"), "exec", "--cpus", "2", "--", self, "play", name, fmt.Sprint(seed), "0", fmt.Sprint(len(want.Cases)))
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
	all := grammar.New(name, seed)
	if all == nil {
		return nil, fmt.Errorf("there is none; there are %v", grammar.Names)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var scripts []linux.Script
	for first := 0; first < len(all.Cases); first += chunk {
		text := fmt.Sprintf("exec /usr/bin/%s play %s %d %d %d\n", filepath.Base(self), name, seed, first, first+chunk)
		scripts = append(scripts, linux.Script{Name: fmt.Sprintf("%05d", first), Text: text})
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
		part, err := grammar.Parse(strings.NewReader(r.Output))
		if err != nil || r.Status != 0 || r.Left != "" {
			return nil, fmt.Errorf("cases from %s: exit status %d, %w\n%s%s", r.Name, r.Status, err, r.Output, r.Left)
		}
		t.Cases = append(t.Cases, part.Cases...)
	}
	return t, nil
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
