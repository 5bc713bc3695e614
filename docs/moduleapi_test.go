package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// TestModuleAPI: module-api.md lists, once each, what the kernel exports.
func TestModuleAPI(t *testing.T) {
	text, err := os.ReadFile("module-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lists, found := strings.Cut(string(text), "\n## ")
	if !found {
		t.Fatal("no lists")
	}
	var listed []string
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(lists, -1) {
		listed = append(listed, m[1])
	}
	img, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range img.Exports {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is exported, and not listed", name)
		}
	}
	for i, name := range listed {
		if !slices.Contains(img.Exports, name) {
			t.Errorf("%s is listed, and not exported", name)
		}
		if slices.Contains(listed[:i], name) {
			t.Errorf("%s is listed twice", name)
		}
	}
}

// TestNotExported: what differences.md says is not there is not exported.
func TestNotExported(t *testing.T) {
	page, err := os.ReadFile("reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "Not there are, among others, ")
	line, _, _ := strings.Cut(after, "\n")
	names := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(line, -1)
	if !found || len(names) == 0 {
		t.Fatal("differences.md names no function that is not there")
	}
	img, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range names {
		if slices.Contains(img.Exports, m[1]) {
			t.Errorf("%s is exported: differences.md says that it is not", m[1])
		}
	}
}
