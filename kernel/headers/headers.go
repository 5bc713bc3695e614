// Package headers writes the directory that kernel modules are built in, what
// /lib/modules/RELEASE/build is on Linux: the guest's headers, Makefiles that understand
// the Makefiles of modules, and files that say which kernel it is.
package headers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel describes the kernel that modules are built for.
type Kernel struct {
	Release  string   // uname -r: "6.1.0-56-amd64"
	Version  [3]int   // 6, 1, 0
	Vermagic string   // "6.1.0-56-amd64 SMP mod_unload"
	Layout   uint32   // the version of struct module (module_layout)
	Image    string   // which of the guest's images it boots: "6.1"; KERNEL_6_1 is defined
	Macros   []string // further macros of the guest's headers
	Config   []string // options that are set: "CONFIG_SMP", "CONFIG_HZ=250"
	Exports  []string // symbols that modules may use
	// BranchTracking is CONFIG_X86_KERNEL_IBT: targets of indirect calls begin with
	// endbr64.
	BranchTracking bool
}

// Write unpacks archive, package guest's, into dir, which it creates, and adds what
// is the kernel's own. It replaces the files that are there. An interrupted call may leave
// part of them.
func (k Kernel) Write(dir string, archive []byte) error {
	if err := unpack(dir, archive); err != nil {
		return err
	}
	for name, text := range k.files() {
		if err := write(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files returns the text of the files that are not the same for each kernel.
func (k Kernel) files() map[string]string {
	v := k.Version
	return map[string]string{
		"include/config/kernel.release": k.Release + "\n",
		"include/config/auto.conf":      k.makeConfig(),
		".config":                       k.makeConfig(),
		"include/generated/autoconf.h":  k.cConfig(),
		"include/generated/version.h": fmt.Sprintf("#define LINUX_VERSION_CODE %d\n", v[0]<<16|v[1]<<8|v[2]) +
			"#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))\n" +
			fmt.Sprintf("#define LINUX_VERSION_MAJOR %d\n#define LINUX_VERSION_PATCHLEVEL %d\n#define LINUX_VERSION_SUBLEVEL %d\n", v[0], v[1], v[2]),
		"include/generated/utsrelease.h": fmt.Sprintf("#define UTS_RELEASE %q\n", k.Release),
		"include/generated/vermagic.h":   fmt.Sprintf("#define VERMAGIC_STRING %q\n", k.Vermagic+" "),
		"Module.symvers":                 k.symvers(),
	}
}

// makeConfig returns the configuration for make.
func (k Kernel) makeConfig() string {
	text := k.options("%s=%s\n", "y")
	protection := "none"
	if k.BranchTracking {
		protection = "branch"
	}
	return text + "CONFIG_CF_PROTECTION=" + protection + "\n"
}

// options returns a line for each option, in a format with its name and its value; set is
// the value of an option that is only set.
func (k Kernel) options(format, set string) string {
	var b strings.Builder
	for _, c := range k.Config {
		name, value, given := strings.Cut(c, "=")
		if !given {
			value = set
		}
		fmt.Fprintf(&b, format, name, value)
	}
	return b.String()
}

// cConfig returns the configuration for the compiler, with the macros by which the
// guest's headers know the kernel.
func (k Kernel) cConfig() string {
	var b strings.Builder
	b.WriteString(k.options("#define %s %s\n", "1"))
	for _, m := range append([]string{"KERNEL_" + strings.ReplaceAll(k.Image, ".", "_")}, k.Macros...) {
		fmt.Fprintf(&b, "#define %s\n", m)
	}
	fmt.Fprintf(&b, "#define GUEST_LINUX %d\n", guestLinux(k.Image))
	return b.String()
}

// guestLinux is the version that the guest's C asks for, as kernel/guest/Makefile says it: 510, 601, 612.
// The images of older releases are 6.1's, with macros of their own.
func guestLinux(image string) int {
	major, minor := 6, 1
	if a, b, ok := strings.Cut(image, "."); ok {
		x, err1 := strconv.Atoi(a)
		y, err2 := strconv.Atoi(b)
		if err1 == nil && err2 == nil && (x > 5 || x == 5 && y >= 10) {
			major, minor = x, y
		}
	}
	return 100*major + minor
}

// symvers returns the table of exported symbols as Linux's Module.symvers has it, without
// CRCs but module_layout's.
func (k Kernel) symvers() string {
	names := slices.Clone(k.Exports)
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "0x%08x\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n", k.Layout)
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&b, "0x00000000\t%s\tvmlinux\tEXPORT_SYMBOL\t\n", name)
	}
	return b.String()
}

// unpack writes the files of a compressed tar archive below dir.
func unpack(dir string, archive []byte) error {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	var text bytes.Buffer
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("headers: the archive has a file %q", h.Name)
		}
		text.Reset()
		if _, err := text.ReadFrom(in); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		if err := write(filepath.Join(dir, h.Name), text.Bytes(), os.FileMode(h.Mode)&0o777); err != nil {
			return err
		}
	}
}

// write creates a file and the directories that it is in. A file that is there is
// replaced, not written to: it may be a link.
func write(path string, text []byte, mode os.FileMode) error {
	err := create(path, text, mode)
	switch {
	case errors.Is(err, os.ErrExist):
		err = os.Remove(path)
	case errors.Is(err, os.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	default:
		return err
	}
	if err != nil {
		return err
	}
	return create(path, text, mode)
}

// create creates a file with three system calls: "kprobefs exec" makes hundreds of files at
// each start, and os.OpenFile would make five more for each, to see whether it can be polled.
func create(path string, text []byte, mode os.FileMode) error {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	for len(text) > 0 && err == nil {
		err = retry(func() error {
			n, err := unix.Write(fd, text)
			text = text[max(n, 0):]
			return err
		})
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// retry makes a system call again while it is interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
