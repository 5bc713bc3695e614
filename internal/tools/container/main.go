// Command container writes a container image of kprobefs without a container engine: an OCI layout,
// the same image as "docker load" and "podman load" take it, and a list of what the program is made
// of (an SBOM, in CycloneDX's form). The binary and the Containerfile's last stage decide all: the
// same two files give the same bytes.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	var a args
	flag.StringVar(&a.binary, "binary", "dist/kprobefs-linux-amd64", "the program, a static binary")
	flag.StringVar(&a.file, "file", "contrib/Containerfile", "its last stage says how the program is started")
	flag.StringVar(&a.dir, "dir", "dist", "where the image is written")
	flag.Parse()
	if err := a.write(); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

// args are the command's flags.
type args struct{ binary, file, dir string }

// What is written.
const (
	layoutDir  = "image"              // an OCI layout
	loadFile   = "kprobefs-image.tar" // for docker load
	sbomFile   = "kprobefs.cdx.json"  // CycloneDX
	reference  = "localhost/kprobefs" // the image's name, as contrib/kubernetes.yaml has it
	sbomInside = "usr/share/doc/kprobefs/" + sbomFile
)

func (a args) write() error {
	program, err := os.ReadFile(a.binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(a.binary)
	if err != nil {
		return err
	}
	stage, err := os.ReadFile(a.file)
	if err != nil {
		return err
	}
	bill, err := billOf(info, program)
	if err != nil {
		return err
	}
	img, err := makeImage(info, stage, program, bill)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, sbomFile), bill, 0o644); err != nil {
		return err
	}
	return a.writeImage(img)
}

// writeImage writes the image in both forms.
func (a args) writeImage(img v1.Image) error {
	dir := filepath.Join(a.dir, layoutDir)
	if err := os.RemoveAll(filepath.Join(dir, "blobs")); err != nil { // of an older build
		return err
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(reference + ":latest")
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag.TagStr()})
	if err := l.ReplaceImage(img, match.Name(tag.TagStr()), named); err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(a.dir, loadFile), tag, img)
}
