package integration

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestDebianModules builds the modules of testdata/modules/debian with the headers of
// Debian's kernel, loads them as they are, and compares what the scripts print with what
// they printed on that kernel.
func TestDebianModules(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := builtModules()
	missing := errors.Is(err, ErrNoHeaders)
	if err != nil && (!missing || os.Getenv("CI") == "true") {
		t.Fatal(err)
	}
	for name, object := range objects {
		if bytes.Contains(object, []byte("\x00.BTF\x00")) { // a section's name
			t.Errorf("%s has types, which bpf(2) and /sys/kernel/btf do not know: differences.md says that there are none", name)
		}
	}
	cases, err := LoadModuleCases(".", DebianModules, objects)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 34 {
		t.Fatalf("%d scripts, want at least 34", len(cases))
	}
	for _, c := range sample(t, 6, cases) {
		t.Run(c.Name, func(t *testing.T) {
			if missing {
				t.Skip(ErrNoHeaders)
			}
			t.Parallel()
			playOne(t, c, nil, masks)
		})
	}
}

// TestDebianModulesRecorded: each source has a script, and each script a recording.
func TestDebianModulesRecorded(t *testing.T) {
	sources, err := SourcesIn(DebianModules)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]byte{}
	for _, s := range sources {
		if _, twice := objects[s.Object()]; twice {
			t.Errorf("there are two sources of %s", s.Name)
		}
		objects[s.Object()] = nil
	}
	cases, err := LoadModuleCases(".", DebianModules, objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Kernel == "" || c.Comment == "" {
			t.Errorf("%s is not recorded (golden -modules record), or does not say what it shows", c.Name)
		}
		for name := range c.Files {
			delete(objects, name)
		}
	}
	for name := range objects {
		t.Errorf("no script loads %s", name)
	}
}
