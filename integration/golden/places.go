package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kprobefs/kprobefs/integration/linux"
	"github.com/kprobefs/kprobefs/integration/verdicts"
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
	bad := 0
	for _, addr := range want.Addresses() {
		if got := verdicts.Predict(asker, addr); got != want.At[addr] {
			if bad++; bad <= 20 {
				fmt.Fprintf(g.out, "%#x: %s, recorded %s\n", addr, got, want.At[addr])
			}
		}
	}
	fmt.Fprintf(g.out, "golden verdicts check: %d places of %s, %d differ\n", len(want.At), k, bad)
	if bad > 0 {
		return fmt.Errorf("the rules answer otherwise than %s at %d places", k, bad)
	}
	return nil
}
