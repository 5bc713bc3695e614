package machinefs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Modules loads objects into the kernel: *module.Loader.
type Modules interface {
	Load(ctx context.Context, ko []byte) (name string, err error)
	Delete(ctx context.Context, name string) error
}

// maxModule is the most bytes that an object may have.
const maxModule = 16 << 20

// modules is the directory machine/modules: copying an object there is insmod,
// and close(2) of the copy fails with insmod's errno; removing it is rmmod.
type modules struct {
	loader Modules

	mu    sync.Mutex // guards all below and what is below moduleFile; not held while modules come and go
	files []*moduleFile
	gen   uint64
}

// moduleFile is an object in the directory.
type moduleFile struct {
	dir  *modules
	name string // of the file
	gen  uint64
	data []byte

	loading sync.Mutex // one attempt at a time
	tried   int        // bytes that the last attempt had; guarded by loading
	module  string     // what was loaded; "": nothing yet
}

// ModulesDir is the row modules.
func ModulesDir(l Modules) *seqfile.Row {
	return &seqfile.Row{Name: "modules", Mode: 0o700, Dir: &modules{loader: l}}
}

// Rows lists the objects.
func (d *modules) Rows() []*seqfile.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows []*seqfile.Row
	for _, f := range d.files {
		rows = append(rows, &seqfile.Row{Name: f.name, Mode: 0o400, Gen: f.gen, Open: f.open})
	}
	return rows
}

// Create begins a copy. EINVAL: its name does not end in ".ko".
func (d *modules) Create(_ context.Context, _ *seqfile.OpenInfo, name string) (seqfile.File, error) {
	if !strings.HasSuffix(name, ".ko") {
		return nil, fmt.Errorf("%s: a module's file ends in .ko: %w", name, syscall.EINVAL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.find(name) != nil {
		return nil, fmt.Errorf("%s is there: %w", name, syscall.EEXIST)
	}
	d.gen++
	f := &moduleFile{dir: d, name: name, gen: d.gen}
	d.files = append(d.files, f)
	return &moduleCopy{f}, nil
}

func (d *modules) find(name string) *moduleFile {
	if i := slices.IndexFunc(d.files, func(f *moduleFile) bool { return f.name == name }); i >= 0 {
		return d.files[i]
	}
	return nil
}

func (d *modules) drop(f *moduleFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = slices.DeleteFunc(d.files, func(x *moduleFile) bool { return x == f })
}

// Unlink unloads the module. The errnos are the loader's; EBUSY: it is not
// loaded yet.
func (d *modules) Unlink(ctx context.Context, name string) error {
	d.mu.Lock()
	f := d.find(name)
	d.mu.Unlock()
	if f == nil {
		return fmt.Errorf("no module %s: %w", name, syscall.ENOENT)
	}
	f.loading.Lock()
	defer f.loading.Unlock()
	if f.module == "" {
		return fmt.Errorf("%s is being copied: %w", name, syscall.EBUSY)
	}
	if err := d.loader.Delete(ctx, f.module); err != nil {
		return err
	}
	d.drop(f)
	return nil
}

// open reads an object that is there; it cannot be written again.
func (f *moduleFile) open(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
	if o.Writes() {
		return nil, fmt.Errorf("%s is loaded: %w", f.name, syscall.ETXTBSY)
	}
	return seqfile.Value{Get: func(context.Context) (string, error) {
		f.dir.mu.Lock()
		defer f.dir.mu.Unlock()
		return string(f.data), nil
	}}, nil
}

// moduleCopy is the descriptor that a copy is written through.
type moduleCopy struct{ f *moduleFile }

func (c *moduleCopy) Read(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("%s is being copied: %w", c.f.name, syscall.EBADF)
}

// Write takes a part of the object. EFBIG: it is larger than an object may be.
func (c *moduleCopy) Write(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > maxModule || int64(len(p)) > maxModule-off {
		return 0, fmt.Errorf("a module of more than %d bytes: %w", maxModule, syscall.EFBIG)
	}
	d := c.f.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if need := int(off) + len(p); need > len(c.f.data) {
		c.f.data = append(c.f.data, make([]byte, need-len(c.f.data))...)
	}
	return copy(c.f.data[off:], p), nil
}

// Flush is close(2) of a descriptor: it loads what is there. A descriptor may
// be closed before all was written (by a child that had it too), so one that was
// refused is tried again when there is more.
func (c *moduleCopy) Flush(ctx context.Context) error {
	f := c.f
	f.loading.Lock()
	defer f.loading.Unlock()
	f.dir.mu.Lock()
	data := slices.Clone(f.data)
	f.dir.mu.Unlock()
	if f.module != "" || len(data) == f.tried {
		return nil
	}
	f.tried = len(data)
	name, err := f.dir.loader.Load(ctx, data)
	if err == nil {
		f.module = name
	}
	return err
}

// Release forgets a copy that was not loaded.
func (c *moduleCopy) Release() {
	c.f.loading.Lock()
	loaded := c.f.module != ""
	c.f.loading.Unlock()
	if !loaded {
		c.f.dir.drop(c.f)
	}
}
