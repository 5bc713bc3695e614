// Package release is the table of what changed from one Linux release to another.
//
// A row of Changes is a Feature: something that a kernel does or has from a version on.
// A Value is a name, a number or a text that has been another in older kernels. Code
// asks for the feature or the value that it depends on and does not compare versions.
//
// The package knows the versions that kprobefs emulates; it imports nothing of the
// project.
package release

import "fmt"

// Version is a version of Linux, encoded as LINUX_VERSION_CODE: newer ones are greater.
// The zero Version stands for Default.
type Version uint32

// The releases that kprobefs emulates. 5.10, 6.1 and 6.12 were recorded on Debian's
// kernels; the older ones follow their documents.
const (
	Linux2_6_25 Version = 2<<16 | 6<<8 | 25
	Linux2_6_32 Version = 2<<16 | 6<<8 | 32
	Linux4_15   Version = 4<<16 | 15<<8
	Linux5_10   Version = 5<<16 | 10<<8
	Linux6_1    Version = 6<<16 | 1<<8
	Linux6_12   Version = 6<<16 | 12<<8

	// Default is the release that the scripts of integration/testdata were recorded on.
	Default = Linux6_1
)

// Versions are the releases, the oldest first.
var Versions = []Version{Linux2_6_25, Linux2_6_32, Linux4_15, Linux5_10, Linux6_1, Linux6_12}

// Debian is a kernel of Debian on which what Linux does was recorded, and can be asked again.
type Debian struct {
	Version   Version
	Suite     string // of Debian, which has the kernel: "bookworm"
	Types     bool   // it has types in BTF (/sys/kernel/btf/vmlinux), and so has the guest
	Selftests bool   // the kernel's own tests of tracing were run on it
}

// Recorded are these kernels, the oldest first. The tools of internal/tools, the tests and the Makefile
// ("go run ./internal/tools/golden releases") have the releases from here.
var Recorded = []Debian{
	{Version: Linux5_10, Suite: "bullseye"},
	{Version: Linux6_1, Suite: "bookworm", Types: true, Selftests: true},
	{Version: Linux6_12, Suite: "trixie", Types: true, Selftests: true},
}

// RecordedNames returns the names of the releases in Recorded for which of returns true: "6.1".
func RecordedNames(of func(Debian) bool) (names []string) {
	for _, d := range Recorded {
		if of(d) {
			names = append(names, d.Version.String())
		}
	}
	return names
}

// String returns the version as uname -r begins: "2.6.32", "6.1".
func (v Version) String() string {
	v = v.known()
	if patch := v & 0xff; patch != 0 {
		return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, patch)
	}
	return fmt.Sprintf("%d.%d", v>>16, v>>8&0xff)
}

func (v Version) known() Version {
	if v == 0 {
		return Default
	}
	return v
}

// Change is a row of Changes.
type Change struct {
	Subject string  // what it is about: a group of rows in docs/reference/releases.md
	What    string  // what a kernel does from Since on, and what an older one does instead
	Since   Version // the first of Versions that does it
	Linux   Version // the version of Linux in which that began, if it is known for certain
	// Source says how that is known: the subject of Linux's commit, the document, the
	// recording below integration/testdata that differs from 6.1's, the test.
	Source string
	// Documented means that releases older than 5.10 do as 5.10 does. They do as 6.1
	// does where their documents do not say otherwise. It has no meaning for changes
	// before 5.10.
	Documented bool
}

// Has reports whether this version does what a feature says.
func (v Version) Has(f Feature) bool {
	c := &Changes[f]
	if v = v.known(); v < Recorded[0].Version && c.Since > Recorded[0].Version && !c.Documented {
		v = Default
	}
	return v >= c.Since
}

// Set tells for each Feature whether a version has it. It is an array, so that code
// that runs at each hit reads one byte.
type Set [features]bool

// Set returns the features of this version.
func (v Version) Set() (s Set) {
	for f := range s {
		s[f] = v.Has(Feature(f))
	}
	return s
}

// Value is something that has been another in older kernels.
type Value[T any] struct {
	Subject, What, Source string  // as in Change
	By                    []At[T] // by version, the oldest first
}

// At is a value and the version from which on it holds.
type At[T any] struct {
	Since Version // the first of Versions that has it
	Value T
	Linux Version // as in Change
}

// Of returns the value of a version. Versions older than the oldest row have
// Default's.
func (x *Value[T]) Of(v Version) T {
	if v = v.known(); v < x.By[0].Since {
		v = Default
	}
	of := x.By[0].Value
	for _, at := range x.By {
		if at.Since <= v {
			of = at.Value
		}
	}
	return of
}

// ValueRow is a Value as a table shows it.
type ValueRow struct {
	Subject, What, Source string
	By                    []At[string]
}

// Row returns the value as a table shows it.
func (x *Value[T]) Row() ValueRow {
	row := ValueRow{x.Subject, x.What, x.Source, nil}
	for _, at := range x.By {
		row.By = append(row.By, At[string]{at.Since, fmt.Sprint(at.Value), at.Linux})
	}
	return row
}
