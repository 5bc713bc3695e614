package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"

	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/internal/look/looktest"
)

var update = flag.Bool("update", false, "write testdata/looks instead of comparing with it")

// shrunk is how many pixels of a screen are one of a kept picture, in each direction.
const shrunk = 4

// What of a picture may differ: a browser of another version draws the edges of letters otherwise.
const (
	otherColor  = 40    // by which a color of a pixel is another one
	otherPixels = 0.002 // the part of a picture that may be others
)

// ownFonts has the page use the fonts of this test, whatever fonts are installed.
const ownFonts = `
@font-face { font-family: Own; src: url(/own.ttf); }
@font-face { font-family: Own; font-weight: bold; src: url(/bold.ttf); }
@font-face { font-family: OwnMono; src: url(/mono.ttf); }
* { font-family: Own !important; caret-color: transparent !important; }
code, pre, .mono, .mono *, .entries *, input.mono { font-family: OwnMono !important; }
`

// fontconfig knows no other fonts, and says how letters are drawn, which a distribution decides otherwise.
const fontconfig = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>%[1]s</dir><cachedir>%[1]s/cache</cachedir>
<match target="font">
<edit name="antialias" mode="assign"><bool>true</bool></edit><edit name="hinting" mode="assign"><bool>false</bool></edit>
<edit name="hintstyle" mode="assign"><const>hintnone</const></edit><edit name="rgba" mode="assign"><const>none</const></edit>
</match>
</fontconfig>
`

// onlyFonts returns an environment in which a browser has the fonts of this test only.
func onlyFonts(t *testing.T) chromedp.ExecAllocatorOption {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "fonts.conf")
	for name, b := range map[string][]byte{file: fmt.Appendf(nil, fontconfig, dir), filepath.Join(dir, "own.ttf"): goregular.TTF, filepath.Join(dir, "mono.ttf"): gomono.TTF} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chromedp.Env("FONTCONFIG_FILE=" + file)
}

// shownText is a function with an int3, a jump and a call in it.
func shownText() []look.Function {
	f, _ := look.ParseFunctions(looktest.PatchedText, looktest.PatchedCopies)
	f[0].Instructions[1].Source = &look.Source{File: "fs/read_write.c", Line: 154, Text: "if (!(file->f_mode & FMODE_READ))"}
	return f
}

func shownProbes() probesView {
	yes, hits := true, uint64(123456)
	v := probesView{Time: 12, Enabled: &yes, Optimization: &yes, Tracing: &yes}
	for i, p := range []struct {
		place string
		flags []string
		why   string
	}{
		{"vfs_read+0x5", []string{"optimized"}, "optimized: a jump to its detour stands in the text"},
		{"vfs_read+0x0", []string{"ftrace"}, "it is on ftrace's place at the function's start and is called from there, which needs no jump"},
		{"vfs_write+0x11", []string{}, "it has a post_handler"},
		{"do_sys_openat2+0x9", []string{"disabled"}, "it is not armed, so there is nothing to optimize"},
		{"helper:helper_open+0x0", []string{"gone"}, "its code is gone with its module"},
	} {
		one := look.Probe{Place: p.place, Kind: "k", Armed: i < 3, Flags: p.flags, Missed: uint64(i), Events: []look.ProbeEvent{}}
		if i < 4 {
			one.Hits, one.Events = &hits, []look.ProbeEvent{{Name: fmt.Sprintf("kprobes/e%d", i), Hits: hits}}
		}
		v.Probes = append(v.Probes, probe{ID: fmt.Sprint(i), Probe: one, Why: p.why})
	}
	return v
}

func shownTrace() (v traceView) {
	for i := range 12 {
		line := fmt.Sprintf("             cat-%d     [00%d] d..31    %d.%06d: e%d: (vfs_read+0x5/0x110) count=0x%x name=\"a file\"\n", 900+i, i%2, 10+i, 1000*i, i%3, 4096*i)
		v.Entries = append(v.Entries, look.ParseRecord(line))
	}
	v.Entries[3].More = []string{" => vfs_read", " => ksys_read", " => do_syscall_64"}
	return v
}

func shownMachine() machineView {
	return machineView{
		Time: 12.5, Release: "6.1.0-56-amd64", Instructions: 123456789, Memory: 256 << 20, Slots: 3,
		CPUs: []cpuView{
			{PID: 17, Comm: "cat", Instructions: 123456000, Runnable: 2, Waiting: []queued{{PID: 18, Comm: "sh"}}, Timers: []timerView{{Function: "tick_sched_timer", Due: 12.504}, {Function: "process_timeout", Due: 20, Wheel: true}}},
			{Idle: true, Comm: "swapper/1", Instructions: 789, Waiting: []queued{}, Timers: []timerView{}},
		},
		Tasks:     []taskView{{PID: 17, Comm: "cat", State: "running", InCall: true}, {PID: 18, Comm: "sh", State: "runnable"}},
		Modules:   []look.Module{{Name: "helper", Size: 16384, Users: []string{}, State: "Live"}},
		Optimizer: &look.Queues{On: true, Scheduled: true, ToJump: []string{"vfs_write+0x11"}, ToInt3: []string{}},
		Log:       []recordView{{Seq: 0, Time: 0, Level: 5, Text: "Linux version 6.1.0-56-amd64"}, {Seq: 1, Time: .5, Level: 6, Text: "smp: Brought up 1 node, 2 CPUs"}},
	}
}

func shownTimeline() timelineView {
	at := func(s float64, what string) look.Change { return look.Change{At: s, What: what} }
	return timelineView{
		Time: 12.5,
		Changes: []changeView{
			{at(1, "registered"), "vfs_read+0x5"},
			{at(2, "armed: the int3 is written"), "vfs_read+0x5"},
			{at(3, "optimized: the jump is written"), "vfs_read+0x5"},
			{at(4, "registered"), "vfs_write+0x11"},
			{at(11, "removed"), "vfs_write+0x11"},
		},
		Stops: []stopView{{8, "the machine stops at a breakpoint, cpu 0 at vfs_read+0x5"}, {9, "the machine goes on"}},
		Writes: []look.Write{
			{At: 1, PID: 900, Result: "22", File: "/sys/kernel/tracing/kprobe_events", Comm: "sh", Text: "p:e0 vfs_read+5\n"},
			{At: 5, PID: 901, UID: 1000, Result: "EINVAL", File: "/sys/kernel/tracing/kprobe_events", Comm: "sh", Text: "p:bad $x\n"},
		},
	}
}

// shown serves the page with what it always shows.
func shown(t *testing.T) http.Handler {
	t.Helper()
	served := http.NewServeMux()
	files, err := fs.Sub(static, "static")
	if err != nil {
		t.Fatal(err)
	}
	served.Handle("/", http.FileServerFS(files))
	for name, b := range map[string][]byte{"own.ttf": goregular.TTF, "bold.ttf": gobold.TTF, "mono.ttf": gomono.TTF} {
		served.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) })
	}
	served.HandleFunc("/style.css", func(w http.ResponseWriter, _ *http.Request) {
		b, _ := static.ReadFile("static/style.css")
		w.Header().Set("Content-Type", "text/css")
		_, _ = w.Write(append(b, ownFonts...))
	})
	for where, v := range map[string]any{
		"about": aboutView{Program: "kprobefs test", Release: "6.1.0-56-amd64", Write: true}, "text": shownText(), "functions": []string{},
		"events": []look.Definition{{Name: "kprobes/e0", Arguments: []look.Argument{{Name: "count", Fetched: "%dx"}, {Name: "name", Fetched: "+0(%si):string"}}}},
	} {
		served.HandleFunc("/api/"+where, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, v) })
	}
	topics := map[string]any{"probes": shownProbes(), "text": shownText(), "trace": shownTrace(), "machine": shownMachine(), "timeline": shownTimeline()}
	served.HandleFunc("/api/live", func(w http.ResponseWriter, r *http.Request) {
		topic := r.URL.Query().Get("topic")
		b, err := json.Marshal(topics[topic])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", topic, b)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	return served
}

// TestLooks: each view looks as it did, in light and dark, and on a phone. The pictures are kept at a
// quarter of their size.
func TestLooks(t *testing.T) {
	b := openBrowser(t, shown(t), onlyFonts(t), chromedp.Flag("disable-lcd-text", true), chromedp.Flag("force-device-scale-factor", "1"))
	for _, c := range []struct {
		name, scheme  string
		width, height int64
	}{{"light", "light", 1280, 720}, {"dark", "dark", 1280, 720}, {"phone", "light", 360, 720}} {
		b.prefer(c.scheme)
		b.run(chromedp.EmulateViewport(c.width, c.height))
		for _, v := range []struct{ view, there string }{
			{"probes", ".grid .row"}, {"text/vfs_read", ".asm .copy"}, {"trace", ".entries button"}, {"machine", ".log:not(:empty)"}, {"timeline", ".lanes circle"},
		} {
			// The view is made anew: what was scrolled or opened is not kept.
			eval[string](b, "location.hash = '#none'")
			b.becomes("left", "!document.querySelector('nav [aria-current]') || document.querySelector('nav [aria-current]').hash === '#probes'")
			eval[string](b, fmt.Sprintf("location.hash = %q", v.view))
			b.becomes(v.view, fmt.Sprintf("document.querySelector('main %s') && document.fonts.status === 'loaded'", v.there))
			if v.view == "trace" {
				b.run(chromedp.Click(".entries li:nth-child(4) button"))
				b.becomes("opened", "document.querySelectorAll('.values').length === 2")
				eval[string](b, "document.activeElement.blur() ?? ''")
			}
			view := filepath.Base(filepath.Dir("/" + v.view + "/x"))
			if view == "vfs_read" {
				view = "text"
			}
			b.looks(view + "-" + c.name)
		}
	}
}

// looks compares what is seen with the kept picture of a name.
func (b *browser) looks(name string) {
	b.t.Helper()
	eval[bool](b, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 50))))")
	screen, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(screen))
	if err != nil {
		b.t.Fatal(err)
	}
	got, file := shrink(whole), filepath.Join("testdata/looks", name+".png")
	if *update {
		b.keep(file, got)
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	want, err := png.Decode(bytes.NewReader(kept))
	if err != nil {
		b.t.Fatal(err)
	}
	part, err := differ(got, want)
	b.t.Logf("%s: %.2f %% differ", name, 100*part)
	if err != nil || part > otherPixels {
		b.t.Errorf("%s looks otherwise (%v); look at it with %s=DIR, and keep it with -update", name, err, looksVar)
		if dir := os.Getenv(looksVar); dir != "" {
			b.keep(filepath.Join(dir, name+".png"), got)
			b.keep(filepath.Join(dir, name+"-whole.png"), whole)
		}
	}
}

// looksVar names a directory for the pictures that are others.
const looksVar = "KPROBEFS_SCREENSHOTS"

func (b *browser) keep(file string, m image.Image) {
	b.t.Helper()
	var to bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&to, m)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, to.Bytes(), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// shrink returns a picture of means of shrunk times shrunk pixels.
func shrink(m image.Image) *image.RGBA {
	size := m.Bounds().Size().Div(shrunk)
	small := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			var r, g, b uint32
			for i := range shrunk * shrunk {
				pr, pg, pb, _ := m.At(x*shrunk+i%shrunk, y*shrunk+i/shrunk).RGBA()
				r, g, b = r+pr>>8, g+pg>>8, b+pb>>8
			}
			const n = shrunk * shrunk
			small.SetRGBA(x, y, color.RGBA{uint8(r / n), uint8(g / n), uint8(b / n), 255})
		}
	}
	return small
}

// differ returns which part of two pictures is not the same.
func differ(a, b image.Image) (part float64, err error) {
	if a.Bounds().Size() != b.Bounds().Size() {
		return 1, fmt.Errorf("one is %v, the other %v", a.Bounds().Size(), b.Bounds().Size())
	}
	size, others := a.Bounds().Size(), 0
	apart := func(x, y uint32) bool { return max(x, y)-min(x, y) > otherColor<<8 }
	for y := range size.Y {
		for x := range size.X {
			ar, ag, ab, _ := a.At(x, y).RGBA()
			br, bg, bb, _ := b.At(x, y).RGBA()
			if apart(ar, br) || apart(ag, bg) || apart(ab, bb) {
				others++
			}
		}
	}
	return float64(others) / float64(size.X*size.Y), nil
}
