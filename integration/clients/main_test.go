package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
)

// TestFormat: the table is written as it was read.
func TestFormat(t *testing.T) {
	head, all, err := parse(commands)
	if err != nil {
		t.Fatal(err)
	}
	if got := format(head, all); got != commands {
		t.Errorf("commands.txt would be written as\n%s", got)
	}
	for _, bad := range []string{"$ x\n", "[a] b\n y\n", "[a] b\n$ x\n? y\n"} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestClients plays the table.
func TestClients(t *testing.T) {
	for _, need := range []string{"go", "fusermount3", "busybox", "trace-cmd"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("takes seconds, and wants root")
	}
	var out writer
	if err := command(context.Background(), []string{"run"}, io.Writer(&out)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }
