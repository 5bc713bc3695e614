// Package page is the page that a mounted kernel serves to a browser (kprobefs mount --http): files
// that are part of the program, a JSON form of what the tree's files say, server-sent events, and
// metrics for Prometheus.
//
// Three ideas carry it. What is shown is what the files say, read as root reads them and parsed by
// package look. Nothing is read while nobody looks; what several look at is read once for all of
// them, and reading takes a twentieth of the time at most. And each request is checked at one place
// (guard.go) against what routes says about its path, before a handler sees it.
//
// It does not open sockets to others, and has no users: who has the token may read what the tree's
// owner may read, and write it with --http-write.
package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/kernel"
)

// Machine is what the page shows: a *kprobefs.Kernel.
type Machine interface {
	ReadFileContext(ctx context.Context, name string) ([]byte, error)
	WriteFile(name, text string) error
	AppendFile(name, text string) error
	Status() (kprobefs.Status, error)
	Functions(prefix string, most int) []string
	TraceFeed() *kprobefs.TraceFeed
	TracePages(cpu int, f func(page []byte) error) error
	Log(from uint64, most int) []kernel.Record
	Died() <-chan struct{}
}

var _ Machine = (*kprobefs.Kernel)(nil)

// Config describes a page.
type Config struct {
	// Machine returns the machine that is served now: after a panic it may be another one.
	Machine func() Machine
	// Token is what a request must know. Without one, nobody gets in.
	Token string
	// Cookie is the name of the cookie that stands for the token. Browsers send cookies to all ports
	// of a host, so pages on two ports need two names.
	Cookie string
	// Write allows requests that change something.
	Write bool
	// Source adds the lines of C to functions, where it needs files of the tree by read; nil means that
	// there are none.
	Source func(read look.ReadFile, functions []look.Function)
	// Program is the program's name and version.
	Program string
}

// Page is the handler of all requests.
type Page struct {
	conf    Config
	key     [32]byte // stands for the token in comparisons
	session string   // the cookie's value
	routes  map[string]map[string]*route
	metrics http.Handler

	probes   cached[probesView]
	timeline cached[timelineView]
	machine  cached[machineView]
	changes  atomic.Uint64 // requests that have changed something: what was read before is old
	news     news          // tells streams of them
	lives    atomic.Int64  // streams of events that have not ended
	streams  streams       // those that have a place
	copying  sync.Mutex    // held while the trace is downloaded, of which there is a copy meanwhile
	patience time.Duration // in which the reader of a stream must take what is sent
}

// route is what a path does for a method.
type route struct {
	method, path string
	open         bool // needs no token
	writes       bool // changes something, so --http-write is needed
	do           func(*Page, http.ResponseWriter, *http.Request) error
}

// routes is the table of all paths. static/openapi.json describes those below /api.
var routes = []route{
	{method: http.MethodGet, path: "/healthz", open: true, do: (*Page).health},
	{method: http.MethodGet, path: "/readyz", open: true, do: (*Page).ready},
	{method: http.MethodGet, path: "/metrics", do: (*Page).serveMetrics},

	{method: http.MethodGet, path: "/api/openapi.json", do: file("openapi.json")},
	{method: http.MethodGet, path: "/api/about", do: answer((*Page).about)},
	{method: http.MethodGet, path: "/api/probes", do: answer((*Page).listProbes)},
	{method: http.MethodGet, path: "/api/text", do: answer((*Page).text)},
	{method: http.MethodGet, path: "/api/functions", do: answer((*Page).functions)},
	{method: http.MethodGet, path: "/api/trace", do: answer((*Page).trace)},
	{method: http.MethodGet, path: "/api/trace.dat", do: (*Page).traceDat},
	{method: http.MethodGet, path: "/api/histograms", do: answer((*Page).histograms)},
	{method: http.MethodGet, path: "/api/events", do: answer((*Page).events)},
	{method: http.MethodGet, path: "/api/machine", do: answer((*Page).showMachine)},
	{method: http.MethodGet, path: "/api/timeline", do: answer((*Page).showTimeline)},
	{method: http.MethodGet, path: "/api/live", do: (*Page).live},

	{method: http.MethodPost, path: "/api/enabled", writes: true, do: change((*Page).setEnabled)},
	{method: http.MethodPost, path: "/api/optimization", writes: true, do: change((*Page).setOptimization)},
	{method: http.MethodPost, path: "/api/tracing", writes: true, do: change((*Page).setTracing)},
	{method: http.MethodPost, path: "/api/trace/clear", writes: true, do: change((*Page).clearTrace)},
	{method: http.MethodPost, path: "/api/events", writes: true, do: change((*Page).define)},
	{method: http.MethodPost, path: "/api/events/enable", writes: true, do: change((*Page).enableEvent)},
	{method: http.MethodPost, path: "/api/events/remove", writes: true, do: change((*Page).removeEvent)},

	{method: http.MethodGet, path: "/", do: (*Page).index},
	{method: http.MethodGet, path: "/style.css", do: file("style.css")},
	{method: http.MethodGet, path: "/icon.svg", do: file("icon.svg")},
	{method: http.MethodGet, path: "/app.js", do: file("app.js")},
	{method: http.MethodGet, path: "/dom.js", do: file("dom.js")},
	{method: http.MethodGet, path: "/probes.js", do: file("probes.js")},
	{method: http.MethodGet, path: "/define.js", do: file("define.js")},
	{method: http.MethodGet, path: "/text.js", do: file("text.js")},
	{method: http.MethodGet, path: "/trace.js", do: file("trace.js")},
	{method: http.MethodGet, path: "/histogram.js", do: file("histogram.js")},
	{method: http.MethodGet, path: "/machine.js", do: file("machine.js")},
	{method: http.MethodGet, path: "/timeline.js", do: file("timeline.js")},
}

//go:embed static
var static embed.FS

// New returns a page.
func New(c Config) *Page {
	p := &Page{conf: c, key: digest(c.Token), session: sessionOf(c.Token), routes: map[string]map[string]*route{}, patience: sendTime}
	for i := range routes {
		r := &routes[i]
		if p.routes[r.path] == nil {
			p.routes[r.path] = map[string]*route{}
		}
		p.routes[r.path][r.method] = r
	}
	p.metrics = p.newMetrics()
	return p
}

// problem is an error that has an HTTP status. Its text is for the reader of the page and says what
// to do.
type problem struct {
	status int
	text   string
	more   map[string]any // further members of its JSON form
}

func (p *problem) Error() string { return p.text }

func problemf(status int, format string, args ...any) error {
	return &problem{status: status, text: fmt.Sprintf(format, args...)}
}

// ServeHTTP checks a request and answers it.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	rt, err := p.admit(w, r)
	known := p.knows(r)
	if known {
		showed(r.Context())
	}
	if !known || err != nil && problemOf(err).status == http.StatusForbidden {
		w.Header().Set("Connection", "close") // it keeps no place that others could have
	}
	if err == nil {
		err = rt.do(p, w, r)
	}
	if err != nil {
		p.fail(w, r, err)
	}
}

// find returns the route of a request.
func (p *Page) find(r *http.Request) (*route, error) {
	methods := p.routes[r.URL.Path]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch rt := methods[method]; {
	case methods == nil:
		return nil, problemf(http.StatusNotFound, "there is nothing at %q: the page is at /, and /api/openapi.json describes what programs can ask for", shorten(r.URL.Path))
	case rt == nil:
		return nil, problemf(http.StatusMethodNotAllowed, "%q takes the method %s, not %q", r.URL.Path, strings.Join(sortedKeys(methods), " or "), shorten(r.Method))
	default:
		return rt, nil
	}
}

// shorten bounds what of a request is repeated in an answer.
func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// fail answers with an error: as JSON below /api, else as text.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	pr := problemOf(err)
	if pr.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", strings.Join(sortedKeys(p.routes[r.URL.Path]), ", "))
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(pr.status)
		fmt.Fprintln(w, "kprobefs: "+pr.text)
		return
	}
	body := map[string]any{"error": pr.text}
	for name, v := range pr.more {
		body[name] = v
	}
	writeJSON(w, pr.status, body)
}

// problemOf gives an error its status: one of the machine's files, whose errno says it.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return &problem{status: statusOf(err), text: err.Error()}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // who does not read the answer gets none
}

// answer makes a handler of a function whose result is written as JSON.
func answer[T any](f func(*Page, *http.Request) (T, error)) func(*Page, http.ResponseWriter, *http.Request) error {
	return func(p *Page, w http.ResponseWriter, r *http.Request) error {
		v, err := f(p, r)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, v)
		return nil
	}
}

// file is the handler of a file that is part of the program.
func file(name string) func(*Page, http.ResponseWriter, *http.Request) error {
	return func(_ *Page, w http.ResponseWriter, r *http.Request) error {
		http.ServeFileFS(w, r, static, "static/"+name)
		return nil
	}
}

// index is the page itself. The first request has the token in its URL and gets the cookie.
func (p *Page) index(w http.ResponseWriter, r *http.Request) error {
	b, err := static.ReadFile("static/index.html")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b)
	return nil
}

// health tells whether the program and its machine work. Who restarts the program when this fails
// gets a machine that works.
func (p *Page) health(w http.ResponseWriter, r *http.Request) error {
	if m := p.conf.Machine(); m == nil || hasDied(m) {
		return problemf(http.StatusServiceUnavailable, "the emulated kernel has panicked: its log says why; start kprobefs again, or use --panic=reboot")
	}
	fmt.Fprintln(w, "ok")
	return nil
}

// ready tells whether the files can be used: one of them is read.
func (p *Page) ready(w http.ResponseWriter, r *http.Request) error {
	if err := p.health(discard{}, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	if _, err := p.conf.Machine().ReadFileContext(ctx, "proc/version"); err != nil {
		return problemf(http.StatusServiceUnavailable, "the files cannot be read: %v", err)
	}
	fmt.Fprintln(w, "ok")
	return nil
}

// discard is a response that nobody gets.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func hasDied(m Machine) bool {
	select {
	case <-m.Died():
		return true
	default:
		return false
	}
}

// readTime bounds the time in which a file must answer.
const readTime = 5 * time.Second

// reader returns how files are read for a request.
func (p *Page) reader(ctx context.Context) look.ReadFile {
	m := p.conf.Machine()
	return func(name string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		return m.ReadFileContext(ctx, name)
	}
}
