package page

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a page in a browser.
type browser struct {
	t    testing.TB
	site *site
	ctx  context.Context
	base string
	dir  string // the browser's own

	mu    sync.Mutex
	wrong []string // errors on the console, and requests to other places
}

// newBrowser starts Chromium without a window and opens the page with its token.
func newBrowser(t testing.TB, s *site) *browser {
	t.Helper()
	b := openBrowser(t, s.p)
	b.site = s
	return b
}

// openBrowser starts Chromium without a window and opens what a handler serves.
func openBrowser(t testing.TB, h http.Handler, flags ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes some seconds: -short")
	}
	path := os.Getenv("KPROBEFS_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		t.Skip("no Chromium: apt-get install chromium")
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := Serve(l, h)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("no-sandbox", true), chromedp.UserDataDir(dir),
		chromedp.Env("TMPDIR="+t.TempDir())) // where it leaves its sockets
	options = append(options, flags...)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, done := chromedp.NewContext(ctx)
	t.Cleanup(done)
	b := &browser{t: t, ctx: ctx, base: "http://" + l.Addr().String() + "/", dir: dir}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Navigate(URL(l, token)))
	return b
}

// listen keeps what must not happen.
func (b *browser) listen(event any) {
	wrong := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		wrong = fmt.Sprintf("exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			wrong = fmt.Sprintf("console: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		// That the program refuses a definition is no error of the page.
		if (e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning) && !strings.Contains(e.Entry.Text, "422") {
			wrong = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.base) && !strings.HasPrefix(e.Request.URL, "blob:"+b.base) {
			wrong = "a request to " + e.Request.URL
		}
	}
	if wrong != "" {
		b.mu.Lock()
		b.wrong = append(b.wrong, wrong)
		b.mu.Unlock()
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates a JavaScript expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// is reports what a JavaScript expression gives.
func (b *browser) is(expression string) bool {
	b.t.Helper()
	return eval[bool](b, "Boolean("+expression+")")
}

// becomes waits until a JavaScript expression is true, and logs how long that takes.
func (b *browser) becomes(what, expression string) {
	b.t.Helper()
	begin := time.Now()
	for !b.is(expression) {
		if time.Since(begin) > 10*time.Second {
			b.t.Fatalf("not %s: %s\n%s", what, expression, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Logf("%s after %s", what, time.Since(begin).Round(time.Millisecond))
}

// cell is the text of a column of the first probe.
func cell(n int) string {
	return fmt.Sprintf("document.querySelector('.grid .row > :nth-child(%d)')?.textContent", n)
}

// clickSwitch clicks the switch with a text.
func (b *browser) clickSwitch(text string) {
	b.t.Helper()
	b.run(chromedp.Click(fmt.Sprintf("//button[@role='switch'][text()='%s']", text)))
}

// scroll scrolls over the whole list in 60 pictures, and returns how long each took, milliseconds, in
// their order.
func (b *browser) scroll() []float64 {
	b.t.Helper()
	return eval[[]float64](b, `new Promise((done) => {
		const grid = document.querySelector('.grid'), took = [];
		let last = performance.now();
		const step = (now) => {
			took.push(now - last);
			last = now;
			grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * took.length / 60;
			if (took.length < 60) requestAnimationFrame(step); else done(took.sort((a, b) => a - b));
		};
		requestAnimationFrame(step);
	})`)
}

// memory returns how much memory the process has that draws the page, megabytes.
func (b *browser) memory() float64 {
	b.t.Helper()
	most := 0.0
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range all {
		cmdline, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(cmdline), "--type=renderer") || !strings.Contains(string(cmdline), b.dir) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(name), "smaps_rollup"))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(status)) {
			var kb float64
			if _, err := fmt.Sscanf(line, "Pss: %f kB", &kb); err == nil {
				most = max(most, kb/1e3)
			}
		}
	}
	return most
}

// TestBrowserMany: ten thousand probes can be scrolled through while one is hit all the time, with few
// elements and little memory. A picture takes about as long as with an empty list.
func TestBrowserMany(t *testing.T) {
	s := newSite(t, true)
	b := newBrowser(t, s)
	b.becomes("connected", "document.getElementById('state').textContent === 'live'")
	empty := b.scroll()
	n := s.registerMany()
	b.becomes("listed", fmt.Sprintf("document.querySelector('.grid')?.getAttribute('aria-rowcount') === '%d'", n+1))
	still := b.scroll()
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d x=%%di"}`, s.secondInstruction("int_sqrt")))
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	ctx, cancel := context.WithCancel(t.Context())
	rate := make(chan float64)
	go func() {
		n, _ := s.hitFor(ctx, "int_sqrt", time.Minute)
		rate <- n
	}()
	hit := b.scroll()
	cancel()
	took := hit[len(hit)/2]
	t.Logf("%d probes, %.0f hits a second: a picture takes %.1f ms, %.1f without hits, %.1f with an empty list (medians; 90 in 100: %.1f, %.1f, %.1f); %.0f MB",
		n, <-rate, took, still[30], empty[30], hit[54], still[54], empty[54], eval[float64](b, "performance.memory.usedJSHeapSize / 1e6"))
	if rows := eval[int](b, "document.querySelectorAll('.grid .row').length"); rows < 5 || rows > 100 {
		t.Errorf("%d rows of %d probes", rows, n)
	}
	if took > 50 || !b.is("performance.memory.usedJSHeapSize < 200e6") {
		t.Errorf("a picture takes %.0f ms, and the page %.0f MB", took, eval[float64](b, "performance.memory.usedJSHeapSize / 1e6"))
	}
	last := eval[string](b, "[...document.querySelectorAll('.grid .row')].at(-1).firstChild.textContent")
	b.run(chromedp.SendKeys("main input[type=search]", last))
	b.becomes("filtered", "document.querySelectorAll('.grid .row').length === 1")
}

// TestBrowser: a person defines a probe, arms it, sees it hit and optimized, reads its detour and its
// hits, and switches all off; by keyboard where there is text.
func TestBrowser(t *testing.T) {
	s := newSite(t, true)
	b := newBrowser(t, s)
	at := s.secondInstruction("int_sqrt")
	b.becomes("connected", "document.getElementById('state').textContent === 'live'")
	if b.is("location.search !== ''") {
		t.Error("the token stays in the address")
	}
	field := ".define input"
	b.run(chromedp.SendKeys(field, "p:mine int_sqr"))
	b.becomes("completed", "document.querySelector('[role=option]')?.textContent === 'int_sqrt'")
	b.run(chromedp.SendKeys(field, kb.ArrowDown+kb.Enter))
	b.becomes("taken", "document.querySelector('.define input').value === 'p:mine int_sqrt'")
	b.run(chromedp.SendKeys(field, " x=$nosuch"+kb.Enter))
	b.becomes("refused", `document.querySelector('.refused').textContent === 'p:mine int_sqrt x=$nosuch\n'+' '.repeat(18)+'^\nInvalid $-variable specified'`)
	eval[string](b, "document.querySelector('.define input').value = ''")
	b.run(chromedp.SendKeys(field, fmt.Sprintf("p:mine int_sqrt+%d x=%%di%s", at, kb.Enter)))
	b.becomes("defined", fmt.Sprintf("%s === 'int_sqrt+%#x' && %s === 'disabled'", cell(1), at, cell(2)))
	b.clickSwitch("mine")
	b.becomes("armed", cell(2)+" === 'int3' || "+cell(2)+" === 'optimized'")
	b.becomes("optimized", cell(2)+" === 'optimized' && "+cell(7)+".includes('a jump to its detour')")
	s.hit("int_sqrt", 5)
	b.becomes("hit", cell(4)+" === '5'")

	b.run(chromedp.Click(".grid .row a"))
	b.becomes("its text", "document.querySelector('.patch-jump')?.textContent.startsWith('jmp') && document.querySelector('main').textContent.includes('detour: saves the registers')")
	s.post("/api/optimization", `{"on":false}`)
	b.becomes("the int3 in the text", "document.querySelector('.patch-int3')?.textContent === 'int3'")
	b.run(chromedp.Click("//button[contains(., 'Before')]"))
	b.becomes("the step before", "document.querySelector('.patch-jump') && document.querySelector('main').textContent.includes('change 0 of 1')")

	b.run(chromedp.KeyEvent("3"))
	b.becomes("the trace", "document.querySelectorAll('.entries li').length === 5")
	b.run(chromedp.Focus(".entries button"), chromedp.KeyEvent(kb.Enter))
	b.becomes("one hit opened", "document.querySelector('.open')?.textContent.includes('x0x90')")
	b.becomes("where it comes from", "document.querySelector('.open .values').textContent === 'Registersx0x90%di'")
	s.hit("int_sqrt", 1)
	b.becomes("the next hit", "document.querySelectorAll('.entries li').length === 6")
	if err := s.k.WriteFile("tracing/events/kprobes/mine/trigger", "hist:keys=x.hex:vals=hitcount,x"); err != nil {
		t.Fatal(err)
	}
	s.hit("int_sqrt", 7)
	b.run(chromedp.Click(".hist summary"), chromedp.SendKeys(".hist input", "kprobes/mine"+kb.Enter))
	b.becomes("the histogram", "document.querySelector('.hist tbody tr')?.textContent.startsWith('x: 907') && document.querySelector('.hbar rect').getAttribute('width') === '100'")
	s.hit("int_sqrt", 1)
	b.becomes("the histogram grown", "document.querySelector('.hist tbody tr')?.textContent.startsWith('x: 908')")
	b.run(chromedp.Click(".hist summary"))
	if b.is("document.querySelector('.hist').open") {
		t.Error("the histogram stays open")
	}
	eval[string](b, "document.activeElement.blur() ?? ''")
	b.run(chromedp.KeyEvent("4"))
	b.becomes("the machine", "document.querySelector('main').textContent.includes('smp: Brought up') && document.querySelectorAll('.card').length >= 5")
	b.run(chromedp.KeyEvent("5"))
	b.becomes("the timeline", "document.querySelectorAll('.lanes circle').length >= 4 && document.querySelector('main').textContent.includes('the jump is written')")
	b.becomes("the writes", "[...document.querySelectorAll('td')].some((e) => e.textContent === '/sys/kernel/tracing/kprobe_events') && document.querySelector('main').textContent.includes('EINVAL') && document.querySelector('.lanes text').textContent === 'writes to files'")
	b.run(chromedp.KeyEvent("1"))
	b.becomes("the probes again", cell(2)+" === 'int3'")
	b.run(chromedp.Click("//label[contains(., 'registers')]/input"), chromedp.Click("//label[contains(., 'stack')]/input"), chromedp.SendKeys(field, fmt.Sprintf("p:all int_sqrt+%d ax=%%ax%s", at, kb.Enter)))
	b.becomes("defined with registers", "[...document.querySelectorAll('.grid .row a')].some((e) => e.title.includes('all'))")
	if text, err := s.k.ReadFile(eventsFile); err != nil || !strings.Contains(string(text), " ax=%ax ip=%ip:x64 sp=%sp:x64") || !strings.Contains(string(text), " r15=%r15:x64 stack0=$stack0:x64") || !strings.Contains(string(text), " stack7=$stack7:x64\n") {
		t.Errorf("%v: %s", err, text)
	}
	s.post("/api/events/remove", `{"event":"kprobes/all"}`)
	b.clickSwitch("All probes")
	b.becomes("all switched off", cell(2)+" === 'not armed' && "+cell(7)+" === 'all probes are switched off'")
	b.wantUsable()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		t.Error(wrong)
	}
}

// TestRates: the list shows hits and misses a second, of the machine's time.
func TestRates(t *testing.T) {
	first := shownProbes()
	second := delta{probesView: first, Gone: []string{}}
	second.Time += 2
	one := first.Probes[1]
	hits := *one.Hits + 100
	one.Hits, one.Missed = &hits, one.Missed+8
	second.Probes = []probe{one}
	rest := shown(t)
	b := openBrowser(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/live" {
			rest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s := stream{w: w, control: http.NewResponseController(w), patience: sendTime}
		if s.send([]message{{"probes", first}, {"delta", second}}) == nil {
			<-r.Context().Done()
		}
	}))
	b.becomes("the rates", "[...document.querySelectorAll('.grid .row')].some((e) => e.textContent.includes('123,556') && e.children[4].textContent === '50' && e.children[5].textContent === '9, 4.0/s')")
}

// TestTabs: more tabs of one browser than it has connections to a host can all be looked at. Those that
// were not for the longest time pause, and go on when somebody comes back.
func TestTabs(t *testing.T) {
	s := newSite(t, true)
	first := newBrowser(t, s)
	tabs := []*browser{first}
	state := func(want string) string {
		return fmt.Sprintf("document.getElementById('state').textContent === '%s'", want)
	}
	first.becomes("live", state("live"))
	for range 8 {
		ctx, cancel := chromedp.NewContext(first.ctx)
		t.Cleanup(cancel)
		b := &browser{t: t, site: s, ctx: ctx, base: first.base, dir: first.dir}
		b.run(chromedp.Navigate(first.base))
		b.becomes("live", state("live"))
		tabs = append(tabs, b)
	}
	first.becomes("paused", state("paused"))
	if n := s.p.streams.len(); n > 5 {
		t.Errorf("%d tabs hold %d streams", len(tabs), n)
	}
	s.post("/api/events", `{"definition":"p:mine int_sqrt"}`)
	tabs[len(tabs)-1].becomes("seen in the last one", cell(1)+" === 'int_sqrt+0x0'")
	if first.is(cell(1)) {
		t.Error("a tab that is paused shows what is new")
	}
	first.run(chromedp.KeyEvent("Shift"))
	first.becomes("live again", state("live"))
	first.becomes("seen in the first one", cell(1)+" === 'int_sqrt+0x0'")
}

// prefer has the browser ask for light or dark.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
}

// wantUsable looks at all views, on a phone's width too, in light and dark.
func (b *browser) wantUsable() {
	b.t.Helper()
	colors := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, width := range []int64{360, 1280} {
			b.run(chromedp.EmulateViewport(width, 720))
			for _, view := range []string{"probes", "text/int_sqrt", "trace", "machine", "timeline"} {
				eval[string](b, fmt.Sprintf("location.hash = %q", view))
				name, _, _ := strings.Cut(view, "/")
				b.becomes(fmt.Sprintf("%s, %s, %d", view, scheme, width), fmt.Sprintf("document.querySelector('nav [aria-current]').hash === '#%s' && document.querySelector('main').children.length > 1", name))
				if !b.is("document.documentElement.scrollWidth <= innerWidth") {
					b.t.Errorf("%s is wider than %d", view, width)
				}
				if b.is(`[...document.querySelectorAll('button, input, select, [tabindex="0"]')].some((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length))`) {
					b.t.Errorf("%s has a control without a name", view)
				}
				if dir := os.Getenv("KPROBEFS_SCREENSHOTS"); dir != "" {
					b.run(chromedp.Sleep(500 * time.Millisecond))
					picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
					if err != nil {
						b.t.Fatal(err)
					}
					if err := os.WriteFile(fmt.Sprintf("%s/%s-%s-%d.png", dir, name, scheme, width), picture, 0o600); err != nil {
						b.t.Fatal(err)
					}
				}
			}
		}
		colors[eval[string](b, "getComputedStyle(document.body).backgroundColor")] = true
	}
	if len(colors) != 2 {
		b.t.Errorf("light and dark have the colors %v", colors)
	}
}

// axeVar names a file with axe-core, which looks for what keeps people from using a page.
const axeVar = "KPROBEFS_AXE"

// TestAccessible: axe-core finds nothing in the views, in each of their states, in light and dark, on a
// phone's width and on a wide screen.
func TestAccessible(t *testing.T) {
	if os.Getenv(axeVar) == "" {
		t.Skipf("no axe-core: npm install axe-core, %s=node_modules/axe-core/axe.min.js", axeVar)
	}
	axe, err := os.ReadFile(os.Getenv(axeVar))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, true)
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d x=%%di"}`, s.secondInstruction("int_sqrt")))
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	if err := s.k.WriteFile("tracing/events/kprobes/mine/trigger", "hist:keys=x"); err != nil {
		t.Fatal(err)
	}
	s.hit("int_sqrt", 3)
	reader := New(Config{Machine: s.p.conf.Machine, Token: token, Cookie: "kprobefs-test", Program: "kprobefs test"})
	click := func(what string) chromedp.Action[chromedp.Void] { return chromedp.Click(what) }
	none := chromedp.Sleep(0)
	for name, c := range map[string]struct {
		served http.Handler
		states []viewState
	}{
		"as it runs": {s.p, []viewState{
			{"probes", ".grid .row", chromedp.SendKeys(".define input", "p:mine int_sqr"), "[role=option]"},
			{"probes", ".grid .row", chromedp.SendKeys(".define input", "p:mine int_sqrt x=$nosuch"+kb.Enter), ".refused:not([hidden])"},
			{"text", "input", none, ""},
			{"text/nosuch", "input", none, "#message:not([hidden])"},
			{"text/int_sqrt", ".asm .note", none, ""},
			{"trace", ".entries button", click(".entries button"), ".open .values"},
			{"trace/kprobes%2Fmine", ".hist", click(".hist summary"), ".hbar"},
			{"trace/kprobes%2Fnosuch", ".hist", click(".hist summary"), ".hist p"},
			{"machine", ".card", none, ""},
			{"timeline", ".lanes circle", click("//button[text()='Zoom in']"), ""},
		}},
		"as a reader sees it": {reader, []viewState{
			{"probes", ".grid .row", none, ""},
			{"trace", ".entries button", none, ""},
		}},
		"with all that there can be": {shown(t), []viewState{
			{"probes", ".grid .row", none, ""},
			{"text/vfs_read", ".asm .source", none, ".asm .copy"},
			{"trace", ".entries li:nth-child(4) button", click(".entries li:nth-child(4) button"), ".open pre"},
			{"machine", ".card", none, ""},
			{"timeline", ".lanes circle", none, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := openBrowser(t, c.served)
			for _, scheme := range []string{"light", "dark"} {
				b.prefer(scheme)
				for _, width := range []int64{360, 1280} {
					b.run(chromedp.EmulateViewport(width, 720))
					for _, state := range c.states {
						b.wantAccessible(string(axe), state, fmt.Sprintf("%s, %s, %d", state.view, scheme, width))
					}
				}
			}
		})
	}
}

// viewState is a view in one of its states.
type viewState struct {
	view, there string                         // what is in it at first
	do          chromedp.Action[chromedp.Void] // brings it into the state
	then        string                         // what is there in that state, or ""
}

// wantAccessible has axe-core look at a view.
func (b *browser) wantAccessible(axe string, state viewState, name string) {
	b.t.Helper()
	eval[string](b, fmt.Sprintf("location.hash = '#machine'; location.hash = %q", state.view))
	b.becomes(name, fmt.Sprintf("document.querySelector('main %s')", state.there))
	b.run(state.do)
	if state.then != "" {
		b.becomes(name+": "+state.then, fmt.Sprintf("document.querySelector('%s')", state.then))
	}
	b.run(chromedp.Sleep(200 * time.Millisecond)) // colors change slowly
	await := true
	r, err := chromedp.Call(b.ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: axe + "; axe.run().then((r) => r.violations.map((v) => v.help + ': ' + v.nodes.map((n) => n.html).join(' ')).join('\\n'))", AwaitPromise: &await,
	})
	if err != nil || r.ExceptionDetails != nil || r.Result == nil || string(r.Result.Value) != `""` {
		text := ""
		if r.Result != nil {
			text = string(r.Result.Value)
		}
		b.t.Errorf("%s: %v: %s", name, err, text)
	}
}
