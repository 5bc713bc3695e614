package integration

import (
	"errors"
	"testing"
)

// TestSamples builds some of Linux 6.1's samples, unchanged, with Debian's headers and with
// our own, and compares what the scripts of testdata/modules/samples print with what they
// printed on Debian's kernel.
func TestSamples(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	sources, err := Samples()
	if errors.Is(err, ErrNoSamples) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	debian, err := Headers()
	if err != nil {
		t.Skip(err)
	}
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string]string{"debian": debian, "own": unpackHeaders(t, "6.1")} {
		objects, err := BuildSources(headers, sources)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := LoadModuleCases(".", SampleModules, objects)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				playOne(t, c, nil, masks)
			})
		}
	}
}
