package linux

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
)

// gnuTools are put into the initrd with their libraries, so that scripts call the
// same programs there and here.
var gnuTools = []string{
	"/usr/bin/cat", "/usr/bin/cp", "/usr/bin/dd", "/usr/bin/stat", "/usr/bin/find", "/usr/bin/tar",
	"/usr/bin/touch", "/usr/bin/mkdir", "/usr/bin/rm", "/usr/bin/ls", "/usr/bin/wc", "/usr/bin/head",
	"/usr/bin/tail", "/usr/bin/chmod", "/usr/bin/truncate", "/usr/bin/mv", "/usr/bin/ln", "/usr/bin/sort",
	"/usr/bin/grep", "/usr/bin/setpriv", "/usr/sbin/sysctl",
}

// libDirs are the directories in which Debian's dynamic loader finds libraries.
var libDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib"}

// tree is the initrd's content, by path without the leading slash.
type tree map[string]node

type node struct {
	mode uint32 // S_IFMT and permissions
	data []byte
}

const (
	dirMode  = 0o040755
	fileMode = 0o100644
	execMode = 0o100755
	linkMode = 0o120777
)

// add adds a node and its parent directories.
func (t tree) add(path string, mode uint32, data []byte) {
	path = strings.TrimPrefix(path, "/")
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		t[dir] = node{mode: dirMode}
	}
	t[path] = node{mode, data}
}

// addHost adds a file of this machine, or all files of a folder, in the same places.
// Links are followed.
func (t tree) addHost(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		for _, e := range entries {
			err = errors.Join(err, t.addHost(filepath.Join(path, e.Name())))
		}
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return t.addFile(path, data, fileMode&^uint32(fs.ModePerm)|uint32(info.Mode().Perm()))
}

// addFile adds a file, and, if it is a program or a library, its loader and libraries.
func (t tree) addFile(at string, data []byte, mode uint32) error {
	t.add(at, mode, data)
	if len(data) <= elf.EI_NIDENT || !bytes.HasPrefix(data, []byte(elf.ELFMAG)) || elf.Type(data[elf.EI_NIDENT]) == elf.ET_REL {
		return nil
	}
	return t.addLibraries(data)
}

func (t tree) addLibraries(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	if s := f.Section(".interp"); s != nil {
		interp, err := s.Data()
		if err != nil {
			return err
		}
		libs = append(libs, strings.TrimRight(string(interp), "\x00"))
	}
	for _, lib := range libs {
		if err := t.addLibrary(lib); err != nil {
			return err
		}
	}
	return nil
}

func (t tree) addLibrary(name string) error {
	path := name
	for _, dir := range libDirs {
		if filepath.IsAbs(path) {
			break
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			path = filepath.Join(dir, name)
		}
	}
	if _, have := t[strings.TrimPrefix(path, "/")]; have {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("library %s: %w", name, err)
	}
	return t.addFile(path, data, execMode)
}

// addBusybox adds /bin/busybox, and its applets as links.
func (t tree) addBusybox() error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	for _, applet := range strings.Fields(string(applets)) {
		t.add("bin/"+applet, linkMode, []byte("busybox"))
	}
	t.add("bin/busybox", execMode, data)
	t.add("sbin", linkMode, []byte("bin"))
	return nil
}

// cpio returns the tree in the newc format, which the kernel unpacks into its root.
func (t tree) cpio() ([]byte, error) {
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for i, path := range slices.Sorted(maps.Keys(t)) { // directories come before their contents
		n := t[path]
		h := &cpio.Header{Name: path, Mode: cpio.FileMode(n.mode), Size: int64(len(n.data)), Inode: int64(i + 1), Links: 1, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if _, err := w.Write(n.data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
