package journal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"reflect"
	"testing"
)

// sample is a journal with an entry of each kind.
func sample(t testing.TB) (h Header, entries []Entry, file []byte) {
	t.Helper()
	h = Header{Program: "kprobefs", Image: "ab", Release: "6.1", Config: []string{"NR_CPUS=2"}, CPUs: 2, Seed: 1, Wall: 5, Modules: []Module{{"a=1", []byte{1, 2}}}}
	entries = []Entry{
		{Kind: Request, Position: 1000, Unique: 2, Data: []byte("request"), Caller: Caller{TID: 1000, PID: 1000, Comm: "cat", Caps: 1 << 40, Visible: true, Inside: true, Groups: []uint32{0, 7}}},
		{Kind: Interrupt, Position: 1001, Unique: 2},
		{Kind: Answer, Position: 1500, Unique: 2, Hash: 99},
		{Kind: Request, Position: 1500, Unique: 4, Data: []byte{}, Caller: Caller{}},
		{Kind: End, Position: 2000, State: "hash"},
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return h, entries, b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	h, entries, file := sample(t)
	gh, got, cut, err := ReadAll(bytes.NewReader(file))
	if err != nil || cut {
		t.Fatal(cut, err)
	}
	if !reflect.DeepEqual(gh, h) || !reflect.DeepEqual(got, entries) {
		t.Errorf("got %+v %+v, want %+v %+v", gh, got, h, entries)
	}
}

// TestCompressed reads a journal that gzip has compressed, and such ones that are damaged or cut.
func TestCompressed(t *testing.T) {
	_, entries, file := sample(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got, cut, err := ReadAll(bytes.NewReader(b.Bytes())); err != nil || cut || !reflect.DeepEqual(got, entries) {
		t.Errorf("%v, %v: %+v", cut, err, got)
	}
	for n := range b.Len() {
		if _, _, _, err := ReadAll(bytes.NewReader(b.Bytes()[:n])); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
		bad := bytes.Clone(b.Bytes())
		bad[n] ^= 0x41
		if _, _, _, err := ReadAll(bytes.NewReader(bad)); err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) {
			t.Errorf("a changed byte %d gives %v", n, err)
		}
	}
}

// TestDamaged changes each byte of a journal, and cuts it everywhere.
func TestDamaged(t *testing.T) {
	_, entries, file := sample(t)
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x41
		_, _, cut, err := ReadAll(bytes.NewReader(bad))
		if err == nil && !cut { // a length that is too large looks like a cut
			t.Errorf("a changed byte %d is not noticed", i)
		}
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) {
			t.Errorf("a changed byte %d gives %v", i, err)
		}
	}
	whole := 0
	for n := range file {
		_, got, cut, err := ReadAll(bytes.NewReader(file[:n]))
		switch {
		case err == nil && !cut:
			whole++
		case err != nil && !errors.Is(err, ErrFormat):
			t.Errorf("%d bytes give %v", n, err)
		}
		if len(got) >= len(entries) {
			t.Errorf("%d bytes give %d entries", n, len(got))
		}
	}
	if whole != len(entries) { // at the end of the header, and of each entry but the last
		t.Errorf("%d cuts are not noticed, want %d", whole, len(entries))
	}
}

func TestOtherVersion(t *testing.T) {
	_, _, _, err := ReadAll(bytes.NewReader([]byte("kprobefs journal 999\nxxxx")))
	if !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
}

// FuzzRead reads anything. What is accepted is written again as it was.
func FuzzRead(f *testing.F) {
	_, _, file := sample(f)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte("kprobefs journal 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, entries, _, err := ReadAll(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		w, err := NewWriter(&again, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := w.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		_, got, cut, err := ReadAll(&again)
		if err != nil || cut || !reflect.DeepEqual(got, entries) {
			t.Errorf("written again: %v %v, %+v, want %+v", cut, err, got, entries)
		}
	})
}
