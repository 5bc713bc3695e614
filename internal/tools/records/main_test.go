package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestHeaders: the headers are those that the recorded formats make.
func TestHeaders(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, release := range releases {
		want, err := header(root, release)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path(root, release)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the formats make, %v: run go run ./internal/tools/records, and make guest", path(root, release), err)
		}
	}
}
