package headers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archiveOf returns an archive with these files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for name, text := range files {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "build")
	k := Kernel{
		Release: "5.10.0-x", Version: [3]int{5, 10, 2}, Vermagic: "5.10.0-x SMP", Image: "5.10", BranchTracking: true, Layout: 0xbeef,
		Macros: []string{"OLD"}, Config: []string{"CONFIG_X86", "CONFIG_HZ=250"}, Exports: []string{"b", "a", "b"},
	}
	archive := archiveOf(t, map[string]string{"Makefile": "all:\n", "include/linux/x.h": "x\n"})
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the first
		if err := k.Write(dir, archive); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"Makefile":                      "all:\n",
			"include/linux/x.h":             "x\n",
			"include/config/kernel.release": "5.10.0-x\n",
			"include/config/auto.conf":      "CONFIG_X86=y\nCONFIG_HZ=250\nCONFIG_CF_PROTECTION=branch\n",
			"include/generated/autoconf.h":  "#define CONFIG_X86 1\n#define CONFIG_HZ 250\n#define KERNEL_5_10\n#define OLD\n#define GUEST_LINUX 510\n",
			"include/generated/vermagic.h":  "#define VERMAGIC_STRING \"5.10.0-x SMP \"\n",
			"Module.symvers":                "0x0000beef\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n0x00000000\ta\tvmlinux\tEXPORT_SYMBOL\t\n0x00000000\tb\tvmlinux\tEXPORT_SYMBOL\t\n",
		} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
				t.Errorf("%s: %v\n%s\nwant\n%s", name, err, b, want)
			}
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "include/generated/version.h")); !strings.Contains(string(b), "LINUX_VERSION_CODE 330242\n") {
			t.Errorf("version.h: %s", b)
		}
		// A file that is a link is replaced, not what it leads to.
		if err := os.Remove(filepath.Join(dir, "Makefile")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(dir, "Makefile")); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(other); string(b) != "mine" {
		t.Errorf("a file outside has now %q", b)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := (Kernel{}).Write(filepath.Join(dir, "a"), archiveOf(t, map[string]string{"../out": "x"})); err == nil {
		t.Error("a file outside of the directory is written")
	}
	if err := (Kernel{}).Write(filepath.Join(dir, "b"), []byte("no archive")); err == nil {
		t.Error("no archive is not refused")
	}
	if err := (Kernel{}).Write("/proc/nowhere", archiveOf(t, map[string]string{"x": "x"})); err == nil {
		t.Error("a directory that cannot be created is not refused")
	}
}
