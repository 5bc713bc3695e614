package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoGuide: the test shown in guide/go.md compiles and passes when added to this
// directory.
func TestGoGuide(t *testing.T) {
	page, err := os.ReadFile("guide/go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(page), "```go\n")
	code, _, end := strings.Cut(code, "```\n")
	if !ok || !end {
		t.Fatal("guide/go.md has no block of Go")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shown_test.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, "docs", "shown_test.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	for name, text := range map[string]string{file: strings.Replace(code, "package probes_test", "package docs_test", 1), list: string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-overlay", list, "-run", "TestArgument", "-v", "./docs")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestArgument") {
		t.Errorf("%v\n%s", err, out)
	}
}
