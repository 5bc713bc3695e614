// Command pkgmap compares the imports of the project's packages with layers.txt, which says what may import what,
// and draws them as an SVG, in layers. Imports that follow from others (a imports b, b imports
// c, a imports c) are left out.
//
//	pkgmap write FILE    draw
//	pkgmap check FILE    fail if FILE differs from the drawing
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pkgmap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || args[0] != "write" && args[0] != "check" {
		return errors.New("usage: pkgmap write|check FILE")
	}
	own, foreign, err := load()
	if err != nil {
		return err
	}
	l, err := parseLayers(layersText)
	if err != nil {
		return err
	}
	if wrong := l.wrong(own, foreign); len(wrong) > 0 {
		return fmt.Errorf("layers.txt: %s", strings.Join(wrong, "; "))
	}
	imports := own.shown()
	svg := draw(imports)
	if args[0] == "write" {
		return os.WriteFile(args[1], svg, 0o644)
	}
	old, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	if !bytes.Equal(old, svg) {
		return fmt.Errorf("%s does not show the current imports: run make map", args[1])
	}
	return nil
}

// graph maps each package to its imports, by path below the module. The module's root
// package is ".".
type graph map[string][]string

// load gets the imports from the go command: of the project's packages among themselves, and of other modules.
func load() (own, foreign graph, err error) {
	const format = `{{.Module.Path}} {{.ImportPath}} {{join .Imports " "}}`
	own, foreign = graph{}, graph{}
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "list", "-e", "-f", format, "github.com/kprobefs/kprobefs/...")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			name, _ := below(f[0], f[1])
			if _, known := own[name]; !known {
				own[name] = nil
			}
			for _, imported := range f[2:] {
				to, ours := below(f[0], imported)
				first, _, _ := strings.Cut(imported, "/")
				switch {
				case ours && !slices.Contains(own[name], to):
					own[name] = append(own[name], to)
				case !ours && strings.Contains(first, ".") && !slices.Contains(foreign[name], imported):
					foreign[name] = append(foreign[name], imported)
				}
			}
		}
	}
	return own, foreign, nil
}

// shown leaves out what the drawing does not show: tests, tools, and what only those import.
func (g graph) shown() graph {
	s := maps.Clone(g)
	maps.DeleteFunc(s, func(name string, _ []string) bool {
		hidden := []string{"docs", "kernel/guest/btfgen", "kprobes/kprobetest", "internal/exec/exectest", "kprobes/tracing/tracingtest", "kprobes/tracing/tracertest"}
		return tool(name) || strings.HasPrefix(name, "kernel/cpu/record") || slices.Contains(hidden, name)
	})
	return s
}

// below returns a package's path below the module, and false if it is in another
// module.
func below(module, path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// height returns the length of the longest chain of imports within the project from a
// package.
func (g graph) height(name string, known map[string]int) int {
	if h, ok := known[name]; ok {
		return h
	}
	h := 0
	for _, to := range g[name] {
		h = max(h, g.height(to, known)+1)
	}
	known[name] = h
	return h
}

// reaches reports whether from imports to, directly or indirectly.
func (g graph) reaches(from, to string) bool {
	for _, next := range g[from] {
		if next == to || g.reaches(next, to) {
			return true
		}
	}
	return false
}

// direct returns the imports of a package that do not follow from others.
func (g graph) direct(name string) (found []string) {
	for _, to := range g[name] {
		follows := slices.ContainsFunc(g[name], func(other string) bool { return g.reaches(other, to) })
		if !follows {
			found = append(found, to)
		}
	}
	return found
}

// Sizes in the picture's units.
const (
	boxHeight = 26
	rowHeight = 74
	charWidth = 7.2
	gap       = 18
	margin    = 30
	bandSpace = 24 // between a row's boxes and the upper edge of its band
)

type box struct{ x, y, w float64 }

// bands are how the drawing shows the project's layers, from below.
var bands = []struct {
	title, color string
	roots        []string
}{
	{"the machine runs", "#fff1d6", []string{"kernel"}},
	{"probes decide", "#e6f7e0", []string{"kprobes", "optimizer"}},
	{"files show", "#e3f0ff", []string{"fs", "sysctl"}},
	{"library and command", "#f1e6f7", []string{".", "internal", "cmd"}},
}

// band returns the index of a package's layer.
func band(name string) int {
	root, _, _ := strings.Cut(name, "/")
	for i, b := range bands {
		if slices.Contains(b.roots, root) {
			return i
		}
	}
	return len(bands) - 1
}

// rows returns the packages in rows from below: by band, then by height in the band,
// sorted by name. first[i] is the lowest row of band i.
func (g graph) rows() (rows [][]string, first []int) {
	for i := range bands {
		within := graph{}
		for name, imports := range g {
			if band(name) == i {
				within[name] = slices.DeleteFunc(slices.Clone(imports), func(to string) bool { return band(to) != i })
			}
		}
		first = append(first, len(rows))
		known := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(within)) {
			h := first[i] + within.height(name, known)
			for len(rows) <= h {
				rows = append(rows, nil)
			}
			rows[h] = append(rows[h], name)
		}
	}
	return rows, first
}

// draw draws the packages in rows, on the bands.
func draw(g graph) []byte {
	rows, first := g.rows()
	boxes := map[string]box{}
	widest := 0.0
	widths := make([]float64, len(rows))
	for h, names := range rows {
		w := -float64(gap)
		for _, name := range names {
			w += boxWidth(name) + gap
		}
		widths[h] = w
		widest = max(widest, w)
	}
	top := len(rows) - 1
	for h, names := range rows {
		x := margin + (widest-widths[h])/2
		for _, name := range names {
			w := boxWidth(name)
			boxes[name] = box{x, float64(margin + (top-h)*rowHeight), w}
			x += w + gap
		}
	}
	width := widest + 2*margin
	var areas strings.Builder
	for i, b := range bands {
		end := len(rows)
		if i+1 < len(bands) {
			end = first[i+1]
		}
		y, height := margin+(len(rows)-end)*rowHeight-bandSpace, (end-first[i])*rowHeight
		fmt.Fprintf(&areas, `<rect x="0" y="%d" width="%.0f" height="%d" fill="%s"/><text x="6" y="%d" fill="#557">%s</text>`+"\n", y, width, height, b.color, y+14, b.title)
	}
	return render(g, boxes, areas.String(), width, float64(2*margin+len(rows)*rowHeight-bandSpace))
}

func boxWidth(name string) float64 { return float64(len(label(name)))*charWidth + 16 }

// label returns a package's name in the picture.
func label(name string) string {
	if name == "." {
		return "kprobefs"
	}
	return name
}

func render(g graph, boxes map[string]box, areas string, width, height float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="monospace" font-size="12">`+"\n", width, height)
	b.WriteString(`<title>Packages of kprobefs: each imports only what stands below it</title>` + "\n")
	b.WriteString(`<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0L8,4L0,8z" fill="#557"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	b.WriteString(areas)
	names := slices.Sorted(maps.Keys(boxes))
	for _, from := range names {
		for _, to := range slices.Sorted(slices.Values(g.direct(from))) {
			f, t := boxes[from], boxes[to]
			x1, y1, x2, y2 := f.x+f.w/2, f.y+boxHeight, t.x+t.w/2, t.y
			fmt.Fprintf(&b, `<path d="M%.1f,%.1fC%.1f,%.1f %.1f,%.1f %.1f,%.1f" fill="none" stroke="#99b" marker-end="url(#a)"><title>%s imports %s</title></path>`+"\n",
				x1, y1, x1, (y1+y2)/2, x2, (y1+y2)/2, x2, y2, label(from), label(to))
		}
	}
	for _, name := range names {
		p := boxes[name]
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="4" fill="#fff" stroke="#557"/>`, p.x, p.y, p.w, boxHeight)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", p.x+p.w/2, p.y+17, label(name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
