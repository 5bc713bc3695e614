package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kprobefs/kprobefs/integration/verdicts"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// placesAsked is at how many addresses of its text each kernel is asked.
const placesAsked = 20000

// recordPlaces asks Debian's newest kernel of a release about addresses of its own text.
func (g *golden) recordPlaces(ctx context.Context) error {
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	_, file, err := verdicts.Asker(k)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	start := time.Now()
	p, err := verdicts.AskPlaces(ctx, k, verdicts.ChoosePlaces(file, placesAsked), self)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join("integration", "verdicts", "places-"+g.release+".txt"))
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%d places on %s, %.0f s\n", len(p.At), k, time.Since(start).Seconds())
	return errors.Join(p.Write(f), f.Close())
}

// checkPlaces holds the rules of kprobefs, on the text of the kernel that a recording names, against
// what that kernel has answered.
func (g *golden) checkPlaces(ctx context.Context) error {
	want, err := verdicts.ReadPlaces(g.release)
	if err != nil {
		return err
	}
	k, err := linux.Fetch(ctx, want.Kernel)
	if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
		fmt.Fprintf(g.out, "golden verdicts check: the places of %s stay unchecked: %v\n", g.release, err)
		return nil
	}
	if err != nil {
		return err
	}
	asker, _, err := verdicts.Asker(k)
	if err != nil {
		return err
	}
	return comparePlaces(g, k, "places", "%#x", want.At, want.Addresses(), func(addr uint64) verdicts.Place { return verdicts.Predict(asker, addr) })
}

// comparePlaces holds what the rules answer at places against what a kernel has answered; what says what places
// they are, and format how one is written.
func comparePlaces[At comparable](g *golden, k *linux.Kernel, what, format string, recorded map[At]verdicts.Place, at []At, predict func(At) verdicts.Place) error {
	bad := 0
	for _, place := range at {
		if got := predict(place); got != recorded[place] {
			if bad++; bad <= 20 {
				fmt.Fprintf(g.out, format+": %s, recorded %s\n", place, got, recorded[place])
			}
		}
	}
	fmt.Fprintf(g.out, "golden verdicts check: %d %s of %s, %d differ\n", len(recorded), what, k, bad)
	if bad > 0 {
		return fmt.Errorf("the rules answer otherwise than %s at %d %s", k, bad, what)
	}
	return nil
}

// modulePlacesAsked is at how many places of each module a kernel is asked.
const modulePlacesAsked = 2000

// recordModulePlaces asks Debian's newest kernel of a release about places in some of its modules.
func (g *golden) recordModulePlaces(ctx context.Context) error {
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	_, file, objects, err := verdicts.ModuleAsker(ctx, k)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	start := time.Now()
	places := verdicts.ChooseModulePlaces(file, slices.Collect(maps.Keys(objects)), modulePlacesAsked)
	p, err := verdicts.AskModulePlaces(ctx, k, objects, places, self)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join("integration", "verdicts", verdicts.ModulePlacesFile(g.release)))
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%d places in modules of %s, %.0f s\n", len(p.At), k, time.Since(start).Seconds())
	return errors.Join(p.Write(f), f.Close())
}

// checkModulePlaces is checkPlaces for modules.
func (g *golden) checkModulePlaces(ctx context.Context) error {
	want, err := verdicts.ReadModulePlaces(g.release)
	if err != nil {
		return err
	}
	k, err := linux.Fetch(ctx, want.Kernel)
	if err == nil {
		_, err = k.PlaceModules(ctx)
	}
	if errors.Is(err, linux.ErrNoKernel) || errors.Is(err, linux.ErrNoTools) {
		fmt.Fprintf(g.out, "golden verdicts check: the places in modules of %s stay unchecked: %v\n", g.release, err)
		return nil
	}
	if err != nil {
		return err
	}
	asker, file, _, err := verdicts.ModuleAsker(ctx, k)
	if err != nil {
		return err
	}
	return comparePlaces(g, k, "places in modules", "%s", want.At, want.Places(), func(at verdicts.ModulePlace) verdicts.Place { return verdicts.PredictModule(asker, file, at) })
}
