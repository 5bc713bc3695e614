// Command passed prints what of a run of tests need not be run again: a pattern for go test's
// -skip, which matches the tests that have passed with all their subtests.
//
//	go test -short -json PACKAGE >FILE
//	go test -skip "$(go run ./internal/tools/passed FILE)" PACKAGE
//
// A test that was skipped, or of which a subtest was, is run by the second command: so the two
// together run each test, and each subtest, once. The package must not have tests that do less with
// -short without a subtest that says so by being skipped.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: passed FILE")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err == nil {
		var p string
		if p, err = pattern(f); err == nil {
			fmt.Fprintln(os.Stdout, p)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "passed:", err)
		os.Exit(1)
	}
}

// result is a test's end, and its subtests'.
type result struct {
	action string // "pass", "fail" or "skip"; "" if it is only a part of names that have slashes
	below  map[string]*result
}

// at returns the result at a path of names, which is made if it is not there.
func (r *result) at(names []string) *result {
	for _, name := range names {
		if r.below == nil {
			r.below = map[string]*result{}
		}
		if r.below[name] == nil {
			r.below[name] = &result{}
		}
		r = r.below[name]
	}
	return r
}

// done reports whether a test and all its subtests have passed.
func (r *result) done() bool {
	for _, sub := range r.below {
		if !sub.done() {
			return false
		}
	}
	return r.action == "pass" || r.action == "" && len(r.below) > 0
}

// read returns the results in the events that go test -json prints.
func read(from io.Reader) (*result, error) {
	root := &result{}
	for d := json.NewDecoder(from); ; {
		var e struct{ Action, Test string }
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return root, nil
		}
		if err != nil {
			return nil, err
		}
		if ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"; ended && e.Test != "" {
			root.at(strings.Split(e.Test, "/")).action = e.Action
		}
	}
}

// nothing is a pattern that no test's name matches.
const nothing = "^$"

// pattern returns the pattern of the tests that have passed whole.
func pattern(from io.Reader) (string, error) {
	root, err := read(from)
	if err != nil {
		return "", err
	}
	if p := root.patterns(""); len(p) > 0 {
		return strings.Join(p, "|"), nil
	}
	return nothing, nil
}

// patterns returns the patterns of what is done below a test, whose own begins with prefix.
func (r *result) patterns(prefix string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(r.below)) {
		sub, p := r.below[name], prefix+"^"+regexp.QuoteMeta(name)+"$"
		// A part of names may belong to further tests, too, which were not run.
		if sub.done() && sub.action != "" {
			all = append(all, p)
		} else {
			all = append(all, sub.patterns(p+"/")...)
		}
	}
	return all
}
