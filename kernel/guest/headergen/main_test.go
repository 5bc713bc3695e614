package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/guest"
)

// TestPacked: the archive that is embedded has the headers as they are.
func TestPacked(t *testing.T) {
	var b bytes.Buffer
	if err := pack(&b, ".."); err != nil {
		t.Fatal(err)
	}
	got, want := files(t, guest.Headers()), files(t, b.Bytes())
	if len(want) < 100 {
		t.Fatalf("%d files", len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is not as in kernel/guest: make guest", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not in kernel/guest: make guest", name)
	}
}

// files returns the files of an archive, with their modes.
func files(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = h.FileInfo().Mode().String() + "\n" + string(text)
	}
}
