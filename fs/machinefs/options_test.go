package machinefs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/module"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		err              error
	}{
		{name: "one", text: "options a x=1 y\n", want: "options a x=1 y\n"},
		{name: "no newline", text: "options a x=1", want: "options a x=1\n"},
		{name: "two, a comment, an empty line", text: "# c\n\noptions a x\n  options  b  y=\"1 2\" \n", want: "options a x\noptions b y=\"1 2\"\n"},
		{name: "set again", text: "options a x\noptions b y\noptions a z\n", want: "options b y\noptions a z\n"},
		{name: "taken back", text: "options a x\noptions b y\noptions a\n", want: "options b y\n"},
		{name: "hyphens", text: "options a-b.ko x\n", want: "options a_b x\n"},
		{name: "another word", text: "options a x\nalias b a\n", err: syscall.EINVAL},
		{name: "no name", text: "options\n", err: syscall.EINVAL},
		{name: "too much", text: "options a " + strings.Repeat("x", maxOptions) + "\n", err: syscall.ENOSPC},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := options(nil).set(tt.text)
			if got.text() != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v", got.text(), err)
			}
		})
	}
}

// loads is a loader that notes the arguments of loads.
type loads struct{ args []string }

func (l *loads) Insert(_ context.Context, ko []byte, o module.Options) (string, error) {
	if string(ko) == "bad" {
		return "", syscall.ENOEXEC
	}
	l.args = append(l.args, o.Args)
	return "a_b", nil
}
func (*loads) Remove(context.Context, string, bool) error { return nil }
func (*loads) Loaded(string) bool                         { return false }

// TestOptionsAtLoad: a module gets the options of its file's name.
func TestOptionsAtLoad(t *testing.T) {
	ctx := context.Background()
	var l loads
	d := NewModuleDir(&l, nil)
	rows := d.Files()
	conf, err := rows[1].Open(ctx, &seqfile.OpenInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.Write(ctx, []byte("options a_b x=1 y\noptions other z\n"), 0); err != nil {
		t.Fatal(err)
	}
	copied, err := d.Create(ctx, &seqfile.OpenInfo{}, "a-b.ko")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copied.Write(ctx, []byte("ELF"), 0); err != nil {
		t.Fatal(err)
	}
	if err := copied.(*moduleCopy).Flush(ctx); err != nil || !slices.Equal(l.args, []string{"x=1 y"}) {
		t.Errorf("%q, %v", l.args, err)
	}
}

// TestInsmodFile: what is written to the file insmod is arguments and an object, whose
// module is then listed until it is removed under its name.
func TestInsmodFile(t *testing.T) {
	ctx := context.Background()
	var l loads
	d := NewModuleDir(&l, nil)
	insmod := d.Files()[2]
	for _, tt := range []struct {
		text string
		err  error
	}{{"\nbad", syscall.ENOEXEC}, {"x=1 y\nELF", nil}, {"\nELF", nil}} {
		f, err := insmod.Open(ctx, &seqfile.OpenInfo{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range tt.text { // in as many parts as there can be
			if _, err := f.Write(ctx, []byte(tt.text[i:i+1]), int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.(seqfile.Flusher).Flush(ctx); !errors.Is(err, tt.err) {
			t.Errorf("%q: %v", tt.text, err)
		}
		f.Release()
	}
	if !slices.Equal(l.args, []string{"x=1 y", ""}) {
		t.Errorf("arguments %q", l.args)
	}
	if rows := d.Rows(); len(rows) != 1 || rows[0].Name != "a_b.ko" {
		t.Errorf("rows %v", rows)
	} else if f, err := rows[0].Open(ctx, &seqfile.OpenInfo{}); err != nil || read(t, f) != "ELF" {
		t.Errorf("the object: %v", err)
	}
	if err := d.Remove(ctx, "a_b", false); err != nil || len(d.Rows()) != 0 {
		t.Errorf("%v, %v", err, d.Rows())
	}
}
