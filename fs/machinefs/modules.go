package machinefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// Modules loads objects into the kernel: *module.Loader.
type Modules interface {
	Insert(ctx context.Context, ko []byte, o module.Options) (name string, err error)
	Remove(ctx context.Context, name string, force bool) error
	Loaded(name string) bool
}

// maxModule is the maximum size of an object in bytes.
const maxModule = 16 << 20

// ModuleDir is the directory machine/modules with the objects of the modules that are
// loaded. Copying an object there is insmod: the close(2) of the copy fails with insmod's
// errno. Removing it is rmmod.
type ModuleDir struct {
	loader Modules
	limit  *memcg.Limit // limit for the copies

	mu    sync.Mutex    // guards all below and the fields of moduleFile; not held while modules are loaded or unloaded
	files []*moduleFile // without those of which nothing is loaded yet, if they have a header
	gen   uint64
	opts  options
}

// options holds the arguments of modules by name, in the order in which they were set.
// The text has the form of a file in modprobe.d.
type options []moduleOptions

type moduleOptions struct{ name, args string }

// maxOptions bounds the text of all options in bytes.
const maxOptions = 64 << 10

// set returns o with the lines of text: "options NAME ARG...", or without arguments
// to remove them. Empty lines and comments (#) are ignored. It fails with EINVAL for
// other lines, and with ENOSPC if the text is too long.
func (o options) set(text string) (options, error) {
	o = slices.Clone(o)
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, args, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
			continue
		case word != "options" || name == "":
			return nil, fmt.Errorf("%q is not options NAME ARG...: %w", line, syscall.EINVAL)
		}
		name = moduleName(name)
		o = slices.DeleteFunc(o, func(m moduleOptions) bool { return m.name == name })
		if args = strings.TrimSpace(args); args != "" {
			o = append(o, moduleOptions{name, args})
		}
	}
	if len(o.text()) > maxOptions {
		return nil, fmt.Errorf("more than %d bytes of options: %w", maxOptions, syscall.ENOSPC)
	}
	return o, nil
}

func (o options) text() string {
	var b strings.Builder
	for _, m := range o {
		fmt.Fprintf(&b, "options %s %s\n", m.name, m.args)
	}
	return b.String()
}

// of returns the arguments of a module.
func (o options) of(name string) string {
	if i := slices.IndexFunc(o, func(m moduleOptions) bool { return m.name == name }); i >= 0 {
		return o[i].args
	}
	return ""
}

// moduleName is a module's name for the name of its file or in its options.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file, ".ko"), "-", "_")
}

// moduleFile is an object in the directory.
type moduleFile struct {
	dir  *ModuleDir
	name string // name of the file
	gen  uint64
	data []byte

	loading sync.Mutex // one attempt at a time
	tried   int        // size of the object at the last attempt; guarded by loading
	module  string     // name of the loaded module, "" before that; changed with dir.mu held, too
	header  bool       // before the object is a line with its arguments
}

// NewModuleDir returns the directory of a loader's modules. limit bounds the memory of the
// objects together with its other users; nil means no limit.
func NewModuleDir(l Modules, limit *memcg.Limit) *ModuleDir {
	return &ModuleDir{loader: l, limit: limit}
}

// Files are the rows modules; modprobe.conf, which has the arguments of modules; and
// insmod, which takes arguments and an object.
func (d *ModuleDir) Files() []*seqfile.Row {
	return []*seqfile.Row{
		{Name: "modules", Mode: 0o700, Dir: d},
		{Name: "modprobe.conf", Mode: 0o600, Open: seqfile.Opens(d.conf())},
		{Name: "insmod", Mode: 0o200, Open: d.openInsmod},
	}
}

// openInsmod opens the file insmod: a line with arguments, which may be empty, and the
// object are written to it. close(2) fails with insmod's errno.
func (d *ModuleDir) openInsmod(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return &moduleCopy{&moduleFile{dir: d, name: "insmod", header: true}}, nil
}

// Insert loads a module and lists its object. Its errors are module.Loader's, and
// ENOMEM. It keeps ko.
func (d *ModuleDir) Insert(ctx context.Context, ko []byte, o module.Options) error {
	data, err := d.clone(ko)
	if err != nil {
		return err
	}
	name, err := d.loader.Insert(ctx, data, o)
	if err == nil || errors.Is(err, module.ErrStays) {
		d.list(&moduleFile{dir: d, data: ko}, name)
	}
	return err
}

// list adds the object of a module that was loaded under the module's name, unless there
// is a file of that name.
func (d *ModuleDir) list(f *moduleFile, module string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.name, f.module = module+".ko", module
	if d.find(f.name) == nil {
		d.gen++
		f.gen = d.gen
		d.files = append(d.files, f)
	}
}

// Remove unloads a module and removes its object. Its errors are module.Loader's.
func (d *ModuleDir) Remove(ctx context.Context, name string, force bool) error {
	if err := d.loader.Remove(ctx, name, force); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = slices.DeleteFunc(d.files, func(f *moduleFile) bool { return f.module == name })
	d.limit.Freed()
	return nil
}

// conf is the file modprobe.conf. A write sets the options of the modules that it names.
func (d *ModuleDir) conf() seqfile.File {
	return seqfile.Value{
		Get: func(context.Context) (string, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.opts.text(), nil
		},
		Set: func(_ context.Context, p []byte) (int, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			o, err := d.opts.set(string(p))
			if err != nil {
				return 0, err
			}
			d.opts = o
			return len(p), nil
		},
	}
}

// Rows lists the objects.
func (d *ModuleDir) Rows() []*seqfile.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows []*seqfile.Row
	for _, f := range d.files {
		rows = append(rows, f.row(f.name))
	}
	return rows
}

// Find returns the row of an object by the name of its file, or by its module's.
func (d *ModuleDir) Find(name string) *seqfile.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.named(name); f != nil {
		return f.row(name)
	}
	return nil
}

func (f *moduleFile) row(name string) *seqfile.Row {
	return &seqfile.Row{Name: name, Mode: 0o400, Gen: f.gen, Open: f.open}
}

// named returns the object whose file has a name, or whose module has the name of such a
// file; mu is held.
func (d *ModuleDir) named(name string) *moduleFile {
	if f := d.find(name); f != nil || !strings.HasSuffix(name, ".ko") {
		return f
	}
	module := moduleName(name)
	if i := slices.IndexFunc(d.files, func(f *moduleFile) bool { return f.module == module }); i >= 0 {
		return d.files[i]
	}
	return nil
}

// Create starts a copy. It fails with EINVAL if the name does not end in ".ko".
func (d *ModuleDir) Create(_ context.Context, _ *seqfile.OpenInfo, name string) (seqfile.File, error) {
	if !strings.HasSuffix(name, ".ko") {
		return nil, fmt.Errorf("%s: a module's file ends in .ko: %w", name, syscall.EINVAL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.find(name) != nil {
		return nil, fmt.Errorf("%s exists: %w", name, syscall.EEXIST)
	}
	d.gen++
	f := &moduleFile{dir: d, name: name, gen: d.gen}
	d.files = append(d.files, f)
	return &moduleCopy{f}, nil
}

func (d *ModuleDir) find(name string) *moduleFile {
	if i := slices.IndexFunc(d.files, func(f *moduleFile) bool { return f.name == name }); i >= 0 {
		return d.files[i]
	}
	return nil
}

func (d *ModuleDir) drop(f *moduleFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = slices.DeleteFunc(d.files, func(x *moduleFile) bool { return x == f })
	f.data = nil // the host's kernel may keep the file in its cache for a long time
	d.limit.Freed()
}

// unloadTime is how long Unlink waits for an exit function: the host's kernel locks the
// directory until the removal is over.
const unloadTime = 5 * time.Second

// Unlink unloads the module. It fails with the loader's errnos, and with EBUSY if the
// module is not loaded yet or its exit function is still running; it is then removed
// after that.
func (d *ModuleDir) Unlink(ctx context.Context, name string) error {
	d.mu.Lock()
	f := d.named(name)
	d.mu.Unlock()
	if f == nil {
		return fmt.Errorf("no module %s: %w", name, syscall.ENOENT)
	}
	if !f.loading.TryLock() { // its init function may never end
		return fmt.Errorf("%s is being loaded: %w", name, syscall.EBUSY)
	}
	defer f.loading.Unlock()
	if f.module == "" {
		return fmt.Errorf("%s is being copied: %w", name, syscall.EBUSY)
	}
	ctx, cancel := context.WithTimeout(ctx, unloadTime)
	defer cancel()
	err := d.loader.Remove(ctx, f.module, false)
	if errors.Is(err, module.ErrStays) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s has not ended after %v: %w", name, unloadTime, syscall.EBUSY)
	}
	// ENOENT: it was unloaded after another rm had stopped waiting, or hides.
	if err != nil && (!errors.Is(err, syscall.ENOENT) || d.loader.Loaded(f.module)) {
		return err
	}
	d.drop(f)
	return nil
}

// open opens an existing object for reading; it cannot be written again.
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

// moduleCopy is the open file of a copy being written.
type moduleCopy struct{ f *moduleFile }

func (c *moduleCopy) Read(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("%s is being copied: %w", c.f.name, syscall.EBADF)
}

// Write adds a part of the object. It fails with EFBIG if the object is too large, and
// with ENOMEM.
func (c *moduleCopy) Write(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > maxModule || int64(len(p)) > maxModule-off {
		return 0, fmt.Errorf("a module of more than %d bytes: %w", maxModule, syscall.EFBIG)
	}
	d := c.f.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if need := int(off) + len(p); need > len(c.f.data) {
		if need > cap(c.f.data) { // the old array also exists until it is copied
			if err := d.limit.Room(need + need/4); err != nil {
				return 0, err
			}
		}
		c.f.data = append(c.f.data, make([]byte, need-len(c.f.data))...)
	}
	return copy(c.f.data[off:], p), nil
}

// clone returns a copy to load from; the loader may modify it. It fails with ENOMEM.
func (d *ModuleDir) clone(data []byte) ([]byte, error) {
	if err := d.limit.Room(len(data)); err != nil {
		return nil, err
	}
	return slices.Clone(data), nil
}

// Flush is close(2) of a descriptor: it loads the object. A descriptor may be closed
// before all was written (by a child that inherited it), so after a failure it tries
// again when there is more data.
func (c *moduleCopy) Flush(ctx context.Context) error {
	f := c.f
	f.loading.Lock()
	defer f.loading.Unlock()
	f.dir.mu.Lock()
	data, err := f.dir.clone(f.data)
	args := f.dir.opts.of(moduleName(f.name))
	f.dir.mu.Unlock()
	if err != nil {
		return err
	}
	if f.module != "" || len(data) == f.tried {
		return nil
	}
	f.tried = len(data)
	if f.header {
		line, object, _ := bytes.Cut(data, []byte("\n"))
		args, data = string(line), object
	}
	name, err := f.dir.loader.Insert(ctx, data, module.Options{Args: args})
	if err == nil || errors.Is(err, module.ErrStays) {
		f.loaded(name)
	}
	return err
}

// loaded notes the module of an object.
func (f *moduleFile) loaded(name string) {
	if f.header {
		f.dir.mu.Lock()
		_, f.data, _ = bytes.Cut(f.data, []byte("\n"))
		f.dir.mu.Unlock()
		f.dir.list(f, name)
		return
	}
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	f.module = name
}

// Release drops a copy that was not loaded.
func (c *moduleCopy) Release() {
	c.f.loading.Lock()
	loaded := c.f.module != ""
	c.f.loading.Unlock()
	if !loaded {
		c.f.dir.drop(c.f)
	}
}
