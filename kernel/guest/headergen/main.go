// Command headergen packs what kernel modules are built with, the guest's headers and
// the Makefiles in kbuild, into the archive that package guest embeds. The same files
// make the same bytes.
//
//	headergen >headers.tar.gz
package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := pack(os.Stdout, "."); err != nil {
		log.Fatal("headergen: ", err)
	}
}

// pack writes the archive of the files below guest, the folder kernel/guest: include as
// include, and what is in kbuild at the top.
func pack(w io.Writer, guest string) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	for _, root := range []struct{ from, to string }{{"include", "include"}, {"kbuild", ""}} {
		if err := add(out, filepath.Join(guest, root.from), root.to); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// add adds the files below from, in the order of their names.
func add(out *tar.Writer, from, to string) error {
	var names []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, path := range names {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if strings.HasPrefix(string(b), "#!") {
			mode = 0o755
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(filepath.Join(to, rel)), Mode: mode, Size: int64(len(b)), Format: tar.FormatUSTAR}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}
