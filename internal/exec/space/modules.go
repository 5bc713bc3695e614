package space

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
)

// modulesDir is where Linux has the modules of its kernels, bootDir where distributions have
// their configurations.
const (
	modulesDir = "/lib/modules"
	bootDir    = "/boot"
)

// PlaceHeaders makes /lib/modules/RELEASE/build the directory that modules for the
// release are built in. It returns a function that waits until its files are there. A
// command that builds nothing can do without: what fails is logged only.
func (ns *Namespace) PlaceHeaders(r kprobefs.Release) (wait func()) {
	dir, err := ns.coverModules(r.Uname())
	if err != nil {
		ns.Log.WithField("err", err).Warn("modules cannot be built in " + modulesDir)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.WriteHeaders(filepath.Join(dir, "build")); err != nil {
			ns.Log.WithField("err", err).Warn("modules cannot be built in " + modulesDir)
		}
	}()
	return func() { <-done }
}

// PlaceConfig writes the kernel's configuration to /boot/config-RELEASE, where there is a /boot
// that does not have this file. Nothing else can be made there then: it would be lost.
func (ns *Namespace) PlaceConfig(r kprobefs.Release) {
	file := filepath.Join(bootDir, "config-"+r.Uname())
	if !hostview.Exists(bootDir) || hostview.Exists(file) {
		return
	}
	err := ns.need(bootDir, false, filepath.Base(file))
	if err == nil {
		var text bytes.Buffer
		if err = r.WriteConfig(&text); err == nil {
			err = os.WriteFile(file, text.Bytes(), 0o644)
		}
		if err == nil {
			err = unix.Mount("", bootDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
		}
	}
	if err != nil {
		ns.Log.WithFields(logrus.Fields{"file": file, "err": err}).Warn("the kernel's configuration is not there")
	}
}

// Most kernels of Debian have no /proc/config.gz, but a host's that has it cannot be made to lack it.
// On such a host exec covers it with a file of machine/, which has the emulated kernel's
// configuration.
const (
	configFile = "/proc/config.gz"
	configRow  = "config.gz"
)

// WithConfig adds that file, of a release as it is configured, to those in machine/ if the host has it.
func WithConfig(machine []*seqfile.Row, r kprobefs.Release) []*seqfile.Row {
	if !hostview.Exists(configFile) {
		return machine
	}
	open := seqfile.OpenSingle(func() (string, error) {
		var text bytes.Buffer
		z := gzip.NewWriter(&text)
		err := errors.Join(r.WriteConfig(z), z.Close())
		return text.String(), err
	})
	return append(machine, &seqfile.Row{Name: configRow, Mode: 0o444, Open: open})
}

// coverModules covers /lib/modules/NAME with a tmpfs that has what is there, except the
// links to what the host's modules are built with. It returns the directory.
func (ns *Namespace) coverModules(name string) (string, error) {
	if err := ns.need(filepath.Dir(modulesDir), true, filepath.Base(modulesDir)); err != nil {
		return "", err
	}
	if err := ns.need(modulesDir, true, name); err != nil {
		return "", err
	}
	dir := filepath.Join(modulesDir, name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	cover, err := ns.tmpfs()
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() == "build" || e.Name() == "source" {
			continue
		}
		if err := keepModules(filepath.Join(dir, e.Name()), filepath.Join(cover, e.Name()), e); err != nil {
			ns.Log.WithFields(logrus.Fields{"file": filepath.Join(dir, e.Name()), "err": err}).Debug("left out")
		}
	}
	if err := os.Symlink("build", filepath.Join(cover, "source")); err != nil {
		return "", err
	}
	// depmod reads them.
	for _, list := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		if hostview.Exists(filepath.Join(cover, list)) {
			continue
		}
		if err := makePlace(filepath.Join(cover, list), false); err != nil {
			return "", err
		}
	}
	if err := unix.Mount(cover, dir, "", unix.MS_MOVE, ""); err != nil {
		return "", fmt.Errorf("cover %s: %w", dir, err)
	}
	return dir, nil
}

// keepModules makes a directory of the host visible. Files, which depmod replaces, are
// copied.
func keepModules(from, to string, e os.DirEntry) error {
	if !e.Type().IsRegular() {
		return bindEntry(from, to, e)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
