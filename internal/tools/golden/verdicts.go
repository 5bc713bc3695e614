package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kprobefs/kprobefs/integration/verdicts"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// verdicts records or checks the verdicts on the functions of a release's guest.
func (g *golden) verdicts(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "answer": // on Linux
		return verdicts.Answer(args[1], g.out)
	case len(args) == 2 && args[0] == "places": // on Linux
		return verdicts.AnswerPlaces(args[1], g.out)
	case len(args) == 2 && args[0] == "module-places": // on Linux
		return verdicts.AnswerModulePlaces(args[1], g.out)
	case len(args) != 1 || args[0] != "record" && args[0] != "check":
		return errors.New("usage: golden [-release R] verdicts record|check")
	}
	if err := linux.Check(); err != nil {
		if args[0] == "check" {
			fmt.Fprintf(g.out, "golden verdicts check skipped: %v\n", err)
			return nil
		}
		return err
	}
	if args[0] == "check" {
		return errors.Join(g.checkVerdicts(ctx), g.checkPlaces(ctx), g.checkModulePlaces(ctx))
	}
	return errors.Join(g.recordVerdicts(ctx), g.recordPlaces(ctx), g.recordModulePlaces(ctx))
}

// recordVerdicts asks Debian's newest kernel. What it was asked before it is not asked again.
func (g *golden) recordVerdicts(ctx context.Context) error {
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	names, err := guestFunctions(g.release)
	if err != nil {
		return err
	}
	known, err := verdicts.Read(g.release)
	if err != nil {
		return err
	}
	if known.Kernel != k.String() {
		known = &verdicts.Table{}
	}
	fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, asked := known.Functions[name]
		return asked
	})
	start := time.Now()
	t := &verdicts.Table{Kernel: k.String(), Functions: map[string]*verdicts.Verdict{}}
	if len(fresh) > 0 {
		if t, err = askVerdicts(ctx, k, fresh); err != nil {
			return err
		}
	}
	for _, name := range names {
		if v, asked := known.Functions[name]; asked {
			t.Functions[name] = v
		}
	}
	f, err := os.Create(filepath.Join("integration", "verdicts", g.release+".txt"))
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%d functions, %d of them new, on %s, %.0f s\n", len(names), len(fresh), k, time.Since(start).Seconds())
	return errors.Join(t.Write(f), f.Close())
}

// guestFunctions returns the functions of a release's guest.
func guestFunctions(release string) ([]string, error) {
	guest, err := verdicts.Boot(release)
	if err != nil {
		return nil, err
	}
	names, err := verdicts.Functions(guest)
	return names, errors.Join(err, guest.Close())
}

func askVerdicts(ctx context.Context, k *linux.Kernel, names []string) (*verdicts.Table, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return verdicts.Ask(ctx, k, names, self)
}

// checkVerdicts asks the kernel that a recording names again, on the names that g.share chooses,
// and fails if the guest has functions on which it was not asked.
func (g *golden) checkVerdicts(ctx context.Context) error {
	want, err := verdicts.Read(g.release)
	if err != nil {
		return err
	}
	functions, err := guestFunctions(g.release)
	if err != nil {
		return err
	}
	for _, name := range functions {
		if _, asked := want.Functions[name]; !asked {
			return fmt.Errorf("%s: Linux has not been asked: make verdicts", name)
		}
	}
	names := slices.DeleteFunc(want.Names(), func(name string) bool { return !g.share.Has(name) })
	start := time.Now()
	k, err := linux.Fetch(ctx, want.Kernel)
	var got *verdicts.Table
	if err == nil {
		got, err = askVerdicts(ctx, k, names)
	}
	if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
		fmt.Fprintf(g.out, "golden verdicts check: verdicts of %s stay unchecked: %v\n", g.release, err)
		return nil
	}
	if err != nil {
		return err
	}
	bad := 0
	for _, name := range names {
		if a, b := text(want.Functions[name]), text(got.Functions[name]); a != b {
			fmt.Fprintf(g.out, "%s: %s, recorded %s\n", name, b, a)
			bad++
		}
	}
	fmt.Fprintf(g.out, "golden verdicts check: %d functions on %s, %d differ, %.0f s\n", len(names), k, bad, time.Since(start).Seconds())
	if bad > 0 {
		return fmt.Errorf("%d verdicts are not what %s answers", bad, k)
	}
	return nil
}

// text returns a verdict for a message.
func text(v *verdicts.Verdict) string {
	if v == nil {
		return "no such function"
	}
	return "[" + v.String() + "]"
}
