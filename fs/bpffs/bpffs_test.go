package bpffs

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// counted counts the references to objects.
type counted map[any]int

func (c counted) fs() *FS {
	return New(Config{Ref: func(o any) { c[o]++ }, Release: func(o any) { c[o]-- }})
}

func TestFiles(t *testing.T) {
	refs := counted{}
	root := refs.fs().Row().Dir.(*Dir)
	who := &seqfile.Caller{UID: 7, GID: 8}
	ctx := seqfile.WithCaller(context.Background(), who)
	pin := func(d *Dir, name string) func() error {
		return func() error { return d.Pin(who, name, 0o200, name) }
	}
	sub := func(name string) *Dir { return root.Find(name).Dir.(*Dir) }
	for _, step := range []struct {
		name string
		do   func() error
		want error
	}{
		{"pin", pin(root, "m"), nil},
		{"pin again", pin(root, "m"), syscall.EEXIST},
		{"mkdir", func() error { return root.Make(ctx, "d", 0o750, "") }, nil},
		{"mkdir of a name that is there", func() error { return root.Mkdir(ctx, "m") }, syscall.EEXIST},
		{"link", func() error { return root.Make(ctx, "l", 0, "d") }, nil},
		{"pin in a directory", func() error { return pin(sub("d"), "x")() }, nil},
		{"rmdir of a full directory", func() error { return root.Rmdir(ctx, "d") }, syscall.ENOTEMPTY},
		{"rmdir of a file", func() error { return root.Rmdir(ctx, "m") }, syscall.ENOTDIR},
		{"unlink of a directory", func() error { return root.Unlink(ctx, "d") }, syscall.EISDIR},
		{"unlink of nothing", func() error { return root.Unlink(ctx, "no") }, syscall.ENOENT},
		{"file over a directory", func() error { return root.Rename(ctx, "m", root, "d", 0) }, syscall.EISDIR},
		{"directory over a file", func() error { return root.Rename(ctx, "d", root, "m", 0) }, syscall.ENOTDIR},
		{"over a file with NOREPLACE", func() error { return root.Rename(ctx, "l", root, "m", 1) }, syscall.EEXIST},
		{"exchange", func() error { return root.Rename(ctx, "l", root, "m", 2) }, syscall.EINVAL},
		{"into itself", func() error { return root.Rename(ctx, "d", sub("d"), "d", 0) }, syscall.EINVAL},
		{"into another file system", func() error { return root.Rename(ctx, "m", seqfile.Table{}, "m", 0) }, syscall.EXDEV},
		{"rename over a file", func() error { return root.Rename(ctx, "m", sub("d"), "x", 0) }, nil},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if refs["m"] != 1 || refs["x"] != 0 {
		t.Errorf("references %v, want one to m", refs)
	}
	row := sub("d").Find("x")
	if row.Mode != 0o400 || row.UID != 7 || row.GID != 8 {
		t.Errorf("mode %o of %d:%d, want 400 of 7:8", row.Mode, row.UID, row.GID)
	}
	row.Keep(0o640, 1, 2)
	if now := sub("d").Find("x"); now.Mode != 0o640 || now.UID != 1 || now.Gen != row.Gen {
		t.Errorf("mode %o of %d after a change, want 640 of 1", now.Mode, now.UID)
	}
	if o := sub("d").Object("x"); o != "m" || refs["m"] != 2 {
		t.Errorf("object %v with %d references, want m with 2", o, refs["m"])
	}
	if root.Object("l") != nil || root.Object("no") != nil {
		t.Error("a link keeps an object")
	}
	d := sub("d")
	if err := errors.Join(d.Unlink(ctx, "x"), root.Rmdir(ctx, "d")); err != nil {
		t.Fatal(err)
	}
	if err := d.Pin(who, "late", 0, "late"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("pin in a directory that has gone: %v, want ENOENT", err)
	}
	if refs["m"] != 1 || len(root.Rows()) != 1 || root.Dirs() != 0 {
		t.Errorf("%d references, %d files; want the one of Object, and a link", refs["m"], len(root.Rows()))
	}
}
