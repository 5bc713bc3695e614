package docs

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
)

const moduleAPIPage = "module-api.md"

// updateModuleAPI is what "make module-api" sets.
var updateModuleAPI = flag.Bool("update-module-api", false, "write the lists of "+moduleAPIPage+" instead of comparing them")

var (
	symbolList = regexp.MustCompile("(?m)^`\\w+`(?:, `\\w+`)*$") // a line of the page that lists symbols
	symbolName = regexp.MustCompile("`(\\w+)`")
	exportLine = regexp.MustCompile(`(?m)^\s*EXPORT_SYMBOL\w*\((\w+)`)
)

// symbols returns the names of a list.
func symbols(list string) (names []string) {
	for _, m := range symbolName.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}

// exporters returns the files of the guest's source that export symbols by name.
func exporters(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("../kernel/guest", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".c" {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range exportLine.FindAllSubmatch(b, -1) {
			files[string(m[1])] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// listExports returns the page with lists of what is exported: without what is not, and with what is new in the list
// that has the most symbols of the file that exports it.
func listExports(t *testing.T, page string, exports []string) string {
	t.Helper()
	lists := symbolList.FindAllString(page, -1)
	by := make([][]string, len(lists))
	listOf, inFile := map[string]int{}, map[string]map[int]int{}
	files := exporters(t)
	for i, list := range lists {
		for _, name := range symbols(list) {
			if _, twice := listOf[name]; twice || !slices.Contains(exports, name) {
				continue
			}
			listOf[name], by[i] = i, append(by[i], name)
			if of := files[name]; inFile[of] == nil {
				inFile[of] = map[int]int{}
			}
			inFile[files[name]][i]++
		}
	}
	for _, name := range exports {
		if _, listed := listOf[name]; listed {
			continue
		}
		file, most := files[name], -1
		for i := range lists {
			if n := inFile[file][i]; file != "" && n > 0 && (most < 0 || n > inFile[file][most]) {
				most = i
			}
		}
		if most < 0 {
			t.Errorf("%s: the page lists no other symbol of %q; list this one by hand", name, file)
			continue
		}
		by[most] = append(by[most], name)
	}
	i := -1
	return symbolList.ReplaceAllStringFunc(page, func(string) string {
		i++
		slices.Sort(by[i])
		return "`" + strings.Join(by[i], "`, `") + "`"
	})
}

// TestModuleAPI: module-api.md lists, once each, what the kernel exports.
func TestModuleAPI(t *testing.T) {
	text, err := os.ReadFile(moduleAPIPage)
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	want := listExports(t, string(text), img.Exports)
	if *updateModuleAPI && !t.Failed() {
		if err := os.WriteFile(moduleAPIPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	listed := symbols(strings.Join(symbolList.FindAllString(string(text), -1), " "))
	for _, name := range img.Exports {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is exported, and not listed", name)
		}
	}
	if want != string(text) {
		t.Errorf("%s is not what the kernel exports; make module-api writes it:\n%s", moduleAPIPage, cmp.Diff(want, string(text)))
	}
}

// TestListExports: what is no longer exported goes, and what is new comes to the other symbols of its file.
func TestListExports(t *testing.T) {
	page := "## One\n\n`gone`, `strcat`, `strlen`\n\n## Two\n\n`kfree`\n\nText about `kfree`.\n"
	got := listExports(t, page, []string{"kfree", "strcat", "strchr", "strlen", "ksize"})
	want := "## One\n\n`strcat`, `strchr`, `strlen`\n\n## Two\n\n`kfree`, `ksize`\n\nText about `kfree`.\n"
	if got != want {
		t.Error(cmp.Diff(want, got))
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
