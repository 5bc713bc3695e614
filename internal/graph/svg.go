// Package graph draws pictures of what package look has read, as SVG for documents and lessons: the
// states of a probe over time, and the text of a function with the code outside of it that executes
// its probed instructions.
//
// A picture is a function of what it is made from: the same probe gives the same bytes. It is a file
// without scripts, fonts or references, is readable in light and dark, and says in title and desc
// what it shows.
package graph

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// charWidth and lineHeight are the monospaced text's, in the picture's units. A font may be
// somewhat narrower.
const (
	charWidth  = 7.3
	lineHeight = 18
	margin     = 20
)

// css has the colours of the classes, in light and dark.
const css = `
  .graph { background: #ffffff; color: #1c2128; font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; --faint: #6a737d; --line: #c8ced5; --box: #f6f8fa; --int3: #c1121f; --jump: #8250df; --ftrace: #0a7a85; --region: #f3e8ff; }
  @media (prefers-color-scheme: dark) {
    .graph { background: #14181d; color: #e3e8ed; --faint: #98a2ad; --line: #3d4651; --box: #1d232a; --int3: #ff7b72; --jump: #c297ff; --ftrace: #56d4dd; --region: #2c2140; }
  }
  text { fill: currentColor; white-space: pre; }
  .title { font-size: 15px; font-weight: bold; }
  .head { font-weight: bold; }
  .faint { fill: var(--faint); }
  .was { fill: var(--faint); }
  .int3 { fill: var(--int3); }
  .jump { fill: var(--jump); }
  .call, .ftrace { fill: var(--ftrace); }
  .box { fill: var(--box); stroke: var(--line); }
  .unused { opacity: 0.65; }
  .region { fill: var(--region); stroke: none; }
  .lane { stroke: var(--line); stroke-dasharray: 2 4; }
  .way { fill: none; stroke: currentColor; stroke-width: 1.5; }
  .way.int3 { stroke: var(--int3); fill: none; }
  .way.jump { stroke: var(--jump); fill: none; }
  .way.ftrace { stroke: var(--ftrace); fill: none; }
  .back { stroke-dasharray: 5 4; }
  .dot { fill: currentColor; }
`

// picture is an SVG that is being drawn.
type picture struct {
	body          strings.Builder
	width, height float64
}

// escape makes text of any bytes into text of XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes everything
	return b.String()
}

// reach makes the picture large enough for a point.
func (p *picture) reach(x, y float64) {
	p.width, p.height = max(p.width, x), max(p.height, y)
}

// text writes a line, with its baseline at y.
func (p *picture) text(x, y float64, class, text string) {
	p.reach(x+charWidth*float64(len([]rune(text))), y)
	if text == "" {
		return
	}
	fmt.Fprintf(&p.body, "<text x=%q y=%q%s>%s</text>\n", number(x), number(y), attribute(class), escape(text))
}

func (p *picture) rect(x, y, width, height float64, class string) {
	p.reach(x+width, y+height)
	fmt.Fprintf(&p.body, "<rect x=%q y=%q width=%q height=%q rx=\"4\"%s/>\n", number(x), number(y), number(width), number(height), attribute(class))
}

// path draws a way. With an arrow, its end has a head.
func (p *picture) path(d, class string, arrow bool) {
	end := ""
	if arrow {
		end = ` marker-end="url(#arrow)"`
	}
	fmt.Fprintf(&p.body, "<path d=%q%s%s/>\n", d, attribute(class), end)
}

func attribute(class string) string {
	if class == "" {
		return ""
	}
	return fmt.Sprintf(" class=%q", class)
}

// number writes a coordinate with at most one digit after the point.
func number(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

// writeTo writes the whole picture.
func (p *picture) writeTo(w io.Writer, title, desc string) error {
	width, height := number(p.width+margin), number(p.height+margin)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" aria-labelledby="title desc" viewBox="0 0 %s %s" width="%s" height="%s">
<title id="title">%s</title>
<desc id="desc">%s</desc>
<style>%s</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="context-stroke"/></marker></defs>
%s</svg>
`, width, height, width, height, escape(title), escape(desc), css, p.body.String())
	return err
}
