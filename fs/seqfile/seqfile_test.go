package seqfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// records returns a ShowFunc for the strings of a slice that may change between
// reads.
func records(list *[]string) ShowFunc {
	return func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i >= int64(len(*list)) {
			return b, false, nil
		}
		return append(b, (*list)[i]...), true, nil
	}
}

func readAll(t *testing.T, f File, size int) (text string, sizes []int) {
	t.Helper()
	var b bytes.Buffer
	p := make([]byte, size)
	for off := int64(0); ; {
		n, err := f.Read(context.Background(), p, off)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return b.String(), sizes
		}
		b.Write(p[:n])
		sizes = append(sizes, n)
		off += int64(n)
	}
}

func TestSeqReadSizes(t *testing.T) {
	var list []string
	for i := range 100 {
		list = append(list, strings.Repeat(string(rune('a'+i%26)), 99)+"\n")
	}
	want := strings.Join(list, "")
	for _, c := range []struct {
		size  int
		first []int
	}{
		{65536, []int{4000, 4000, 2000}},
		{4096, []int{4000, 4000}},
		{64, []int{64, 64}},
		{150, []int{150, 150}},
		{1, []int{1, 1}},
	} {
		got, sizes := readAll(t, &Seq{Show: records(&list)}, c.size)
		if got != want {
			t.Errorf("size %d: text differs", c.size)
		}
		for i, n := range c.first {
			if sizes[i] != n {
				t.Errorf("size %d: read %d gave %d bytes, want %d", c.size, i, sizes[i], n)
			}
		}
	}
}

func TestSeqLargeRecord(t *testing.T) {
	list := []string{strings.Repeat("x", 10000), "", "end\n"}
	got, sizes := readAll(t, &Seq{Show: records(&list)}, 65536)
	if got != strings.Join(list, "") {
		t.Error("text differs")
	}
	if sizes[0] != 10004 {
		t.Errorf("first read gave %d bytes, want the record and what its buffer of 16384 still holds", sizes[0])
	}
}

// TestSeqOverflowAtSize: a record that exactly fills the buffer counts as overflow,
// as in seq_has_overflowed.
func TestSeqOverflowAtSize(t *testing.T) {
	list := []string{strings.Repeat("a", 4000), strings.Repeat("b", 96), "c"}
	_, sizes := readAll(t, &Seq{Show: records(&list)}, 65536)
	if fmt.Sprint(sizes) != "[4000 97]" {
		t.Errorf("reads gave %v, want [4000 97]", sizes)
	}
}

func TestSeqPosition(t *testing.T) {
	list := []string{"first\n", "second\n", "third\n"}
	for _, c := range []struct {
		off  int64
		want string
		err  error
	}{
		{0, "first\nsecond\nthird\n", nil},
		{3, "st\n", nil}, // the rest of the traversed buffer comes first ...
		{6, "second\nthird\n", nil},
		{19, "", nil},
		{1 << 40, "", nil},
		{-1, "", syscall.EINVAL},
	} {
		p := make([]byte, 100)
		n, err := (&Seq{Show: records(&list)}).Read(context.Background(), p, c.off)
		if !errors.Is(err, c.err) {
			t.Errorf("offset %d: error %v, want %v", c.off, err, c.err)
		}
		if got := string(p[:n]); !strings.HasPrefix(got, c.want) || (c.want == "" && got != "") {
			t.Errorf("offset %d: %q, want %q first", c.off, got, c.want)
		}
	}
}

// TestSeqChangesWhileRead: when records are added or removed between two reads, no
// record is repeated or cut.
func TestSeqChangesWhileRead(t *testing.T) {
	list := []string{"a1\n", "b1\n", "c1\n"}
	s := &Seq{Show: records(&list)}
	p := make([]byte, 3)
	n, _ := s.Read(context.Background(), p, 0)
	if string(p[:n]) != "a1\n" {
		t.Fatalf("got %q", p[:n])
	}
	list[0] = "a1 and more\n"
	list[1] = "b2\n"
	if n, _ = s.Read(context.Background(), p, 3); string(p[:n]) != "b2\n" {
		t.Errorf("got %q, want the second record as it is now", p[:n])
	}
	if n, _ = s.Read(context.Background(), p, 0); string(p[:n]) != "a1 " {
		t.Errorf("got %q, want the start again", p[:n])
	}
}

// TestSeqReadAhead: a reader of single bytes already has the next record when it acts
// on this one; sh_delete_while_reading shows the same on Linux.
func TestSeqReadAhead(t *testing.T) {
	list := []string{"1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8\n"}
	s := &Seq{Show: records(&list)}
	p, off := make([]byte, 1), int64(0)
	got := ""
	for {
		n, err := s.Read(context.Background(), p, off)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		off++
		if p[0] == '\n' {
			i := slices.Index(list, got[len(got)-1:]+"\n")
			list = slices.Delete(list, i, i+1)
			continue
		}
		got += string(p[:n])
	}
	if want := "12468"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSeqErrors(t *testing.T) {
	fail := func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i == 1 {
			return b, false, fmt.Errorf("record 1: %w", syscall.ENOMEM)
		}
		return append(b, "x\n"...), true, nil
	}
	s := &Seq{Show: fail}
	p := make([]byte, 10)
	if n, err := s.Read(context.Background(), p, 0); n != 2 || err != nil {
		t.Errorf("first read: %d, %v; want the 2 bytes before the error", n, err)
	}
	if _, err := s.Read(context.Background(), p, 2); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("second read: %v, want ENOMEM", err)
	}
	if _, err := s.Write(context.Background(), p, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("write: %v, want EINVAL", err)
	}
	if _, err := s.Seek(0, SeekEnd); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SEEK_END: %v, want EINVAL", err)
	}
}

func TestValueSamplesAtEachRead(t *testing.T) {
	on := true
	b := Bool(func() bool { return on }, nil)
	p := make([]byte, 1)
	n, _ := b.Read(context.Background(), p, 0)
	on = false
	if got := string(p[:n]); got != "1" {
		t.Errorf("first byte %q, want 1", got)
	}
	if n, _ = b.Read(context.Background(), p, 0); string(p[:n]) != "0" {
		t.Errorf("after the change %q, want 0", p[:n])
	}
	if n, _ = b.Read(context.Background(), p, 1); string(p[:n]) != "\n" {
		t.Errorf("offset 1 gives %q, want a newline", p[:n])
	}
	if n, err := b.Read(context.Background(), p, 2); n != 0 || err != nil {
		t.Errorf("offset 2 gives %d, %v; want the end", n, err)
	}
	if _, err := b.Read(context.Background(), p, -1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("offset -1 gives %v, want EINVAL", err)
	}
	if _, err := b.Write(context.Background(), p, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("write gives %v, want EINVAL", err)
	}
}

func TestFind(t *testing.T) {
	d := Table{{Name: "list"}, {Name: "enabled"}}
	if r := Find(d, "enabled"); r == nil || r != d[1] {
		t.Errorf("got %v", r)
	}
	if r := Find(d, "gone"); r != nil {
		t.Errorf("got %v, want none", r)
	}
}
