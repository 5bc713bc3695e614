package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// written writes an image of the test's own program and reads it as docker load does.
func written(t *testing.T, dir string) (args, v1.Image) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := args{exe, "../../../contrib/Containerfile", dir}
	if err := a.write(); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(filepath.Join(dir, loadFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, img
}

// TestImage: both forms are the same image, which has the program, the list of what is in it, and
// nothing else, and is started as the Containerfile says.
func TestImage(t *testing.T) {
	a, img := written(t, t.TempDir())
	l, err := layout.FromPath(filepath.Join(a.dir, layoutDir))
	if err != nil {
		t.Fatal(err)
	}
	index, err := l.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	same, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := img.ConfigName()
	other, err2 := same.ConfigName()
	if one != other || errors.Join(err1, err2) != nil {
		t.Errorf("%v and %v: %v, %v", one, other, err1, err2)
	}
	f, err := same.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := f.Config
	if f.OS != "linux" || f.Architecture != "amd64" || !slices.Equal(c.Entrypoint, []string{"/bin/kprobefs"}) || c.Cmd[0] != "mount" || c.StopSignal != "SIGTERM" || c.User != "65532:65532" || len(c.Volumes) != 1 {
		t.Errorf("%+v", f)
	}
	files := extract(t, same)
	want := []string{"bin", "bin/kprobefs", "kprobefs", "usr", "usr/share", "usr/share/doc", "usr/share/doc/kprobefs", sbomInside}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	program, err := os.ReadFile(a.binary)
	if err != nil || !bytes.Equal(files["bin/kprobefs"], program) {
		t.Errorf("another program: %v", err)
	}
	bill, err := os.ReadFile(filepath.Join(a.dir, sbomFile))
	if err != nil || !bytes.Equal(files[sbomInside], bill) {
		t.Errorf("another bill of materials: %v", err)
	}
}

// extract returns the files of an image.
func extract(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	all := mutate.Extract(img)
	defer func() { _ = all.Close() }()
	files := map[string][]byte{}
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		owner := map[string]int{"kprobefs": 65532}[h.Name]
		if h.Uid != owner || h.Gid != owner || h.Mode&0o7022 != 0 {
			t.Errorf("%s: %o of %d:%d", h.Name, h.Mode, h.Uid, h.Gid)
		}
		if has := h.PAXRecords[capabilityRecord] == mayMount; has != (h.Name == "bin/kprobefs") {
			t.Errorf("%s: may mount: %t", h.Name, has)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReproducible: another run, over what the first has left, writes the same bytes.
func TestReproducible(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	written(t, one)
	written(t, other)
	written(t, other)
	var names []string
	err := filepath.WalkDir(one, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err = filepath.Rel(one, name)
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 7 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		a, err1 := os.ReadFile(filepath.Join(one, name))
		b, err2 := os.ReadFile(filepath.Join(other, name))
		if !bytes.Equal(a, b) || errors.Join(err1, err2) != nil {
			t.Errorf("%s differs: %v, %v", name, err1, err2)
		}
	}
}

// TestBill: the bill of materials names each module of the build with its sum.
func TestBill(t *testing.T) {
	a, _ := written(t, t.TempDir())
	b, err := os.ReadFile(filepath.Join(a.dir, sbomFile))
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(b), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(a.binary)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 2 || len(*bom.Components) != len(info.Deps)+1 || len(*(*bom.Dependencies)[0].Dependencies) != len(info.Deps)+1 {
		t.Fatalf("%d components of %d modules", len(*bom.Components), len(info.Deps))
	}
	for i, m := range info.Deps {
		c := (*bom.Components)[i+1]
		if c.PackageURL != "pkg:golang/"+m.Path+"@"+m.Version || c.Properties == nil || (*c.Properties)[0].Value != m.Sum {
			t.Errorf("%+v for %+v", c, m)
		}
	}
	if bom.Metadata.Component.PackageURL != "pkg:golang/"+info.Main.Path+"@"+info.Main.Version {
		t.Errorf("%+v", bom.Metadata.Component)
	}
}

// TestStage: what a stage from scratch cannot have here is refused.
func TestStage(t *testing.T) {
	for text, want := range map[string]string{
		"FROM golang\nRUN x": "must be FROM scratch",
		"FROM scratch\nCOPY a /b\nENTRYPOINT [\"/b\"]\nRUN x": "RUN is not known",
		"FROM scratch\nCOPY a /b\nENTRYPOINT /b":              "invalid character",
		"FROM scratch\nENTRYPOINT [\"/b\"]":                   "must be FROM scratch, with COPY",
		"":                                                    "must be FROM scratch",
	} {
		if _, err := parseStage([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	s, err := parseStage([]byte("FROM a AS b\nRUN c\nFROM scratch\n# text\nCOPY --from=b /x /bin/x\nUSER 65532\nENTRYPOINT [\"/bin/x\", \"y\"]"))
	if err != nil || s.program() != "/bin/x" || s.config.User != "65532" || len(s.config.Entrypoint) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}
