package page

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAdmit: who may ask for what.
func TestAdmit(t *testing.T) {
	s := newSite(t, true)
	reads := newSite(t, false)
	const other = "ffffffffffffffffffffffffffffffff"
	set := func(header, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(header, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	none := func(r *http.Request) { r.Header.Del("Authorization") }
	cookie := func(value string) func(*http.Request) {
		return func(r *http.Request) { none(r); r.AddCookie(&http.Cookie{Name: "kprobefs-test", Value: value}) }
	}
	query := func(value string) func(*http.Request) {
		return func(r *http.Request) { none(r); r.URL.RawQuery = "token=" + value }
	}
	for _, c := range []struct {
		name   string
		site   *site
		method string
		target string
		change []func(*http.Request)
		status int
	}{
		{"a program", s, "GET", "/api/about", nil, 200},
		{"a browser by its cookie", s, "GET", "/api/about", []func(*http.Request){cookie(sessionOf(token)), set("Sec-Fetch-Site", "same-origin")}, 200},
		{"the token in the URL", s, "GET", "/api/about", []func(*http.Request){query(token)}, 200},
		{"as Jupyter's clients", s, "GET", "/api/about", []func(*http.Request){set("Authorization", "token "+token)}, 200},
		{"no token", s, "GET", "/api/about", []func(*http.Request){none}, 401},
		{"another token", s, "GET", "/api/about", []func(*http.Request){set("Authorization", "Bearer "+other)}, 401},
		{"an empty token", s, "GET", "/api/about", []func(*http.Request){set("Authorization", "Bearer ")}, 401},
		{"the token's beginning", s, "GET", "/api/about", []func(*http.Request){query(token[:31])}, 401},
		{"an empty token in the URL", s, "GET", "/api/about", []func(*http.Request){query("")}, 401},
		{"the token as the cookie", s, "GET", "/api/about", []func(*http.Request){cookie(token)}, 401},
		{"an empty cookie", s, "GET", "/api/about", []func(*http.Request){cookie("")}, 401},
		{"the page without a token", s, "GET", "/", []func(*http.Request){none}, 401},
		{"a script without a token", s, "GET", "/app.js", []func(*http.Request){none}, 401},
		{"metrics without a token", s, "GET", "/metrics", []func(*http.Request){none}, 401},
		{"what is not there, without a token", s, "GET", "/nosuch", []func(*http.Request){none}, 401},
		{"what is not there", s, "GET", "/nosuch", nil, 404},
		{"a path upwards", s, "GET", "/../page.go", nil, 404},
		{"health without a token", s, "GET", "/healthz", []func(*http.Request){none}, 200},
		{"readiness without a token", s, "GET", "/readyz", []func(*http.Request){none}, 200},
		{"DNS rebinding", s, "GET", "/api/about", []func(*http.Request){host("evil.example:8080")}, 403},
		{"DNS rebinding of what is open", s, "GET", "/healthz", []func(*http.Request){host("evil.example")}, 403},
		{"a name that begins as ours", s, "GET", "/healthz", []func(*http.Request){host("127.0.0.1.evil.example")}, 403},
		{"another address", s, "GET", "/healthz", []func(*http.Request){host("192.0.2.1:8080")}, 403},
		{"no host", s, "GET", "/healthz", []func(*http.Request){host("")}, 403},
		{"localhost through a tunnel", s, "GET", "/healthz", []func(*http.Request){host("localhost:9999")}, 200},
		{"IPv6", s, "GET", "/healthz", []func(*http.Request){host("[::1]:8080")}, 200},
		{"another page's script", s, "GET", "/api/about", []func(*http.Request){set("Origin", "http://evil.example")}, 403},
		{"another port's script", s, "GET", "/api/about", []func(*http.Request){set("Origin", "http://127.0.0.1:3000")}, 403},
		{"a sandboxed frame", s, "GET", "/api/about", []func(*http.Request){set("Origin", "null")}, 403},
		{"another page's image", s, "GET", "/metrics", []func(*http.Request){set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "no-cors")}, 403},
		{"another port's frame", s, "GET", "/", []func(*http.Request){set("Sec-Fetch-Site", "same-site"), set("Sec-Fetch-Mode", "navigate"), set("Sec-Fetch-Dest", "iframe")}, 403},
		{"a link elsewhere", s, "GET", "/", []func(*http.Request){set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "navigate"), set("Sec-Fetch-Dest", "document")}, 200},
		{"a form elsewhere", s, "POST", "/api/enabled", []func(*http.Request){set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "navigate"), set("Sec-Fetch-Dest", "document")}, 403},
		{"a change by another origin", s, "POST", "/api/enabled", []func(*http.Request){cookie(sessionOf(token)), set("Origin", "http://evil.example")}, 403},
		{"a change by the page", s, "POST", "/api/enabled", []func(*http.Request){cookie(sessionOf(token)), set("Origin", "http://127.0.0.1:8080"), set("Sec-Fetch-Site", "same-origin")}, 200},
		{"a change that is no JSON", s, "POST", "/api/enabled", []func(*http.Request){set("Content-Type", "text/plain")}, 415},
		{"a change without a token", s, "POST", "/api/enabled", []func(*http.Request){none}, 401},
		{"a change of what is read-only", reads, "POST", "/api/enabled", nil, 403},
		{"reading what is read-only", reads, "GET", "/api/probes", nil, 200},
		{"a change by GET", s, "GET", "/api/enabled", nil, 405},
		{"another method", s, "DELETE", "/api/probes", nil, 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.method, c.target, `{"on":true}`)
			for _, f := range c.change {
				f(r)
			}
			w := c.site.do(r)
			if w.Code != c.status {
				t.Errorf("%d, not %d: %s", w.Code, c.status, w.Body)
			}
			if w.Code >= 400 && (len(w.Body.String()) < 20 || strings.Contains(w.Body.String(), token)) {
				t.Errorf("the answer says %q", w.Body)
			}
			if closes := w.Header().Get("Connection") == "close"; closes != (w.Code == 401 || w.Code == 403 || strings.HasSuffix(c.name, "without a token")) {
				t.Errorf("the connection is closed: %t", closes)
			}
			if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// TestCookie: the first request gets a cookie that scripts cannot read and other sites cannot use, and
// that does not tell the token.
func TestCookie(t *testing.T) {
	s := newSite(t, false)
	r := request(http.MethodGet, "/?token="+token, "")
	r.Header.Del("Authorization")
	w := s.do(r)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<!doctype html>") {
		t.Fatalf("%d, %v", w.Code, cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, token) {
		t.Errorf("%+v", c)
	}
	r = request(http.MethodGet, "/api/about", "")
	r.Header.Del("Authorization")
	r.AddCookie(c)
	if w := s.do(r); w.Code != http.StatusOK {
		t.Errorf("with the cookie: %d", w.Code)
	}
	if without := New(Config{Machine: func() Machine { return s.k }}); without.knows(request(http.MethodGet, "/?token=", "")) {
		t.Error("a page without a token lets people in")
	}
}

// TestBodies: malformed requests change nothing.
func TestBodies(t *testing.T) {
	s := newSite(t, true)
	for _, c := range []struct {
		body   string
		status int
	}{
		{"", 400},
		{"{", 400},
		{"null", 400},
		{`{"on":"false"}`, 400},
		{`{"on":false} {}`, 400},
		{`{"on":false,"more":1}`, 400},
		{`[false]`, 400},
		{strings.Repeat("[", 4000), 400},
		{strings.Repeat(" ", maxBody+1), 413},
	} {
		if w := s.do(request(http.MethodPost, "/api/enabled", c.body)); w.Code != c.status {
			t.Errorf("%.30q: %d, not %d: %s", c.body, w.Code, c.status, w.Body)
		}
	}
	if v := get[probesView](s, "/api/probes"); !*v.Enabled {
		t.Error("probes are switched off")
	}
}

// TestListen: what is wrong with an address is said.
func TestListen(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if u := URL(l, "secret"); u != "http://"+l.Addr().String()+"/?token=secret" {
		t.Error(u)
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	u, err := Listen("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, c := range []struct {
		addr string
		want error
		says string
	}{
		{l.Addr().String(), syscall.EADDRINUSE, "name another one"},
		{"0.0.0.0:0", syscall.EINVAL, "can be reached from elsewhere"},
		{":8080", syscall.EINVAL, "can be reached from elsewhere"},
		{"[::]:8080", syscall.EINVAL, "can be reached from elsewhere"},
		{"192.0.2.1:80", syscall.EINVAL, "can be reached from elsewhere"},
		{"example.org:80", syscall.EINVAL, "can be reached from elsewhere"},
		{"8080", syscall.EINVAL, "write 127.0.0.1:PORT"},
		{"unix:", syscall.EINVAL, "needs a path"},
		{"unix:" + plain, syscall.EEXIST, "is no socket"},
		{"unix:" + socket, syscall.EADDRINUSE, "another program listens"},
		{"unix:" + filepath.Join(dir, "no/such"), syscall.ENOENT, "make it, or name another path"},
	} {
		got, err := Listen(c.addr)
		if err == nil {
			_ = got.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
	// A program that was killed leaves its socket.
	u.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = u.Close()
	again, err := Listen("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// mostHeld is what all clients together may hold in Go's heap: mostConns requests of maxHeader bytes
// and answers that are being made, and the test's own side of the connections.
const mostHeld = 32 << 20

// heap returns how much of Go's heap is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// dialAll opens connections and sends the same on all.
func dialAll(t *testing.T, addr, text string, n int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, text) // it may be closed already
	}
}

// TestNeverRead: a thousand clients that send nothing, do not end their request, or do not read what
// they have asked for hold a bounded number of places and little memory for a bounded time, and others
// get in again while they are there.
func TestNeverRead(t *testing.T) {
	s := newSite(t, false)
	for range 400 { // entries to send
		if err := s.k.WriteFile("tracing/trace_marker", strings.Repeat("x", 900)+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	l := listenTo(t, s, 300*time.Millisecond)
	addr := l.Addr().String()
	head := "GET /api/trace HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n"
	before := runtime.NumGoroutine()
	for name, text := range map[string]string{
		"nothing":      "",
		"half a line":  "GET /api",
		"half a head":  head,
		"half a body":  "POST /api/enabled HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nAuthorization: Bearer " + token + "\r\n\r\n{",
		"never reads":  strings.Repeat(head+"\r\n", 4),
		"a stream":     strings.Replace(head, "trace", "live?topic=trace", 1) + "\r\n",
		"no HTTP":      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a long head":  "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n",
		"a long line":  "GET /" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"many headers": "GET / HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n",
	} {
		clients := 1000
		if len(text) > 10_000 {
			clients = 200 // sending takes this test long
		}
		if testing.Short() && name != "nothing" && name != "never reads" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			held := heap()
			dialAll(t, addr, text, clients)
			if n := runtime.NumGoroutine(); n > before+3*mostConns+50 {
				t.Errorf("%d goroutines, %d before", n, before)
			}
			if now := heap(); now > held+mostHeld {
				t.Errorf("%d clients hold %d bytes", clients, now-held)
			}
			within(t, 30*time.Second, "served again", func() bool {
				c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := c.Get("http://" + addr + "/healthz")
				if err != nil {
					return false
				}
				_ = r.Body.Close()
				return r.StatusCode == http.StatusOK
			})
		})
	}
	within(t, 30*time.Second, "all gone", func() bool { return runtime.NumGoroutine() <= before+10 })
}

// listenTo serves a site until the test ends, with one patience for all that a client does.
func listenTo(t *testing.T, s *site, patience time.Duration) net.Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve(l, s.p, patience, patience, patience)
	t.Cleanup(server.Close)
	return l
}

// TestFlood: while a thousand connections that send nothing stay open, somebody who looks is served as
// before, and so is somebody who comes.
func TestFlood(t *testing.T) {
	s := newSite(t, false)
	l := listenTo(t, s, time.Hour)
	old := openStream(t, "http://"+l.Addr().String()+"/api/live?topic=trace")
	for i, text := range []string{"", "GET /api/trace HTTP/1.1\r\nHost: localhost\r\n"} {
		dialAll(t, l.Addr().String(), text, 1000)
		c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		served := func() bool {
			r := request(http.MethodGet, "/api/about", "")
			r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", l.Addr().String()
			answer, err := c.Do(r)
			if err != nil {
				return false
			}
			_ = answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		}
		within(t, 5*time.Second, "a new one is served", served) // connections that come after it may take its place
		if err := s.k.WriteFile("tracing/trace_marker", fmt.Sprintf("mark %d\n", i)); err != nil {
			t.Fatal(err)
		}
		if name, data := old.next(); name != "trace" || !strings.Contains(data, fmt.Sprintf("mark %d", i)) {
			t.Errorf("the stream that was there: %s: %s", name, data)
		}
	}
}

// TestIdleConns: connections of those who know the token and ask for nothing keep nobody out.
func TestIdleConns(t *testing.T) {
	s := newSite(t, false)
	l := listenTo(t, s, time.Hour)
	old := openStream(t, "http://"+l.Addr().String()+"/api/live?topic=trace")
	for i := range mostConns + 20 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "GET /api/about HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusOK || answer.Close {
			t.Fatalf("connection %d: %s, to be closed: %t", i, answer.Status, answer.Close)
		}
	}
	if err := s.k.WriteFile("tracing/trace_marker", "mark\n"); err != nil {
		t.Fatal(err)
	}
	if name, data := old.next(); name != "trace" || !strings.Contains(data, "mark") {
		t.Errorf("the stream that was there: %s: %s", name, data)
	}
}

// TestSlowStream: a stream whose reader does not read ends, and Close ends one that is open.
func TestSlowStream(t *testing.T) {
	s := newSite(t, true)
	s.p.patience = 300 * time.Millisecond
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := Serve(l, s.p)
	defer server.Close()
	open := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "GET /api/live?topic=trace HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		return c
	}
	_ = open().(*net.TCPConn).SetReadBuffer(4096)
	text := strings.Repeat("x", 900) + "\n"
	within(t, 60*time.Second, "the stream has ended", func() bool {
		for range 10 { // more are skipped
			if err := s.k.WriteFile("tracing/trace_marker", text); err != nil {
				t.Fatal(err)
			}
		}
		return s.p.lives.Load() == 0
	})
	open()
	server.Close()
	within(t, 5*time.Second, "the stream has ended with the server", func() bool { return s.p.lives.Load() == 0 })
}

// TestHeld: while the page is read all the time, the machine goes on.
func TestHeld(t *testing.T) {
	s := newSite(t, false)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, target := range []string{"/api/probes", "/api/machine", "/api/text?function=vfs_read", "/api/trace", "/metrics"} {
				s.p.ServeHTTP(httptest.NewRecorder(), request(http.MethodGet, target, ""))
			}
		}
	}()
	s.hit("int_sqrt", 200)
	cancel()
	<-done
}

// FuzzRequest: no request ends the page, none without the token learns or changes anything, and what
// is answered has a sentence or JSON.
func FuzzRequest(f *testing.F) {
	k, err := bootForFuzz()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = k.Close() })
	p := New(Config{Machine: func() Machine { return k }, Token: token, Cookie: "kprobefs-test", Write: true})
	known := "Authorization: Bearer " + token + "\r\n"
	f.Add("GET /api/probes HTTP/1.1\r\nHost: localhost\r\n" + known + "\r\n")
	f.Add("GET /api/text?function=vfs_read HTTP/1.1\r\nHost: localhost\r\n" + known + "\r\n")
	f.Add("GET /api/trace?event=[a-&comm=* HTTP/1.1\r\nHost: [::1]:80\r\n" + known + "\r\n")
	for path, body := range map[string]string{
		"events": `{"definition":"p:mine vfs_read x=+0(%di):string"}`, "events/enable": `{"event":"kprobes/mine","on":true}`, "events/remove": `{"event":"kprobes/mine"}`,
		"enabled": `{"on":false}`, "optimization": `{"on":true}`, "tracing": `{"on":null}`, "trace/clear": `{}`,
	} {
		f.Add(fmt.Sprintf("POST /api/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), known, body))
	}
	f.Add("GET /?token=x HTTP/1.1\r\nHost: evil\r\nOrigin: null\r\nCookie: kprobefs-test=a\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || r.URL.Path == "/api/live" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		changes := p.changes.Load()
		p.ServeHTTP(w, r.WithContext(ctx))
		open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if !strings.Contains(text, token) && (w.Code < 400 && !open || p.changes.Load() != changes) {
			t.Errorf("without the token: %d: %s", w.Code, w.Body)
		}
		if r.Method != http.MethodPost && p.changes.Load() != changes {
			t.Errorf("%s changes something", r.Method)
		}
		if w.Code < 200 || w.Code == 500 || w.Code >= 400 && w.Body.Len() == 0 {
			t.Errorf("%d: %q", w.Code, w.Body)
		}
		if ctx.Err() != nil {
			t.Error("it takes too long")
		}
	})
}
