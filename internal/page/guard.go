package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// NewToken returns a random token.
func NewToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func digest(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// sessionOf returns the value of the cookie: it stands for the token, but does not tell it.
func sessionOf(token string) string {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte("kprobefs session"))
	return hex.EncodeToString(h.Sum(nil))
}

// setHeaders forbids browsers all that the page does not need: scripts and connections of and to
// other places, frames, guesses about types, and that the URL, which may have the token, is told to
// others or kept.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// admit returns the route of a request that may be answered.
func (p *Page) admit(w http.ResponseWriter, r *http.Request) (*route, error) {
	if err := checkHost(r); err != nil {
		return nil, err
	}
	rt, err := p.find(r)
	if err != nil {
		if !p.knows(r) {
			return nil, errNoToken // who has no token does not learn what is here
		}
		return nil, err
	}
	if err := checkOrigin(r); err != nil {
		return nil, err
	}
	switch {
	case rt.open:
		return rt, nil
	case !p.knows(r):
		return nil, errNoToken
	case rt.writes && !p.conf.Write:
		return nil, problemf(http.StatusForbidden, "the page is read-only: start kprobefs mount with --http-write to change something here")
	}
	if r.URL.Query().Has("token") {
		http.SetCookie(w, &http.Cookie{Name: p.conf.Cookie, Value: p.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	return rt, nil
}

var errNoToken = problemf(http.StatusUnauthorized, "the token is missing or wrong: open the URL that kprobefs mount has printed at its start, which ends with ?token=...; programs send the header \"Authorization: Bearer TOKEN\"")

// knows reports whether a request has the token: in its URL, in a header, or as the cookie. The time
// that it takes does not tell how much of a guess is right.
func (p *Page) knows(r *http.Request) bool {
	if p.conf.Token == "" {
		return false
	}
	same := func(given string, want [32]byte) bool {
		got := digest(given)
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
	if query := r.URL.Query(); query.Has("token") {
		return same(query.Get("token"), p.key)
	}
	if how, given, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && (strings.EqualFold(how, "Bearer") || strings.EqualFold(how, "token")) {
		return same(given, p.key)
	}
	cookie, err := r.Cookie(p.conf.Cookie)
	return err == nil && same(cookie.Value, digest(p.session))
}

// checkHost refuses a request to another name than this host's own: a page elsewhere whose name is
// made to stand for 127.0.0.1 (DNS rebinding) still asks for its own name. The port may be another
// one, as with a tunnel such as kubectl port-forward.
func checkHost(r *http.Request) error {
	if isLoopback(hostOf(r.Host)) {
		return nil
	}
	return problemf(http.StatusForbidden, "the page answers to localhost, 127.0.0.1 and [::1] only, not to the name %q", shorten(r.Host))
}

// hostOf returns a Host without the port and the brackets.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// isLoopback reports whether a name is localhost or an address of the loopback interface.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
}

// checkOrigin refuses what a page elsewhere has a browser ask for. A page that this program has sent
// has the same origin as the request; other programs than browsers send none of these headers.
func checkOrigin(r *http.Request) error {
	elsewhere := problemf(http.StatusForbidden, "another page has had your browser ask for this: only the page itself may")
	if origin := r.Header.Values("Origin"); len(origin) > 0 {
		u, err := url.Parse(origin[0])
		if err != nil || len(origin) > 1 || u.Scheme != "http" && u.Scheme != "https" || u.Host != r.Host {
			return elsewhere
		}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	opens := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.Method == http.MethodGet
	switch site {
	case "", "same-origin", "none": // no browser, the page itself, or a person who has typed it in
	default:
		if !opens { // following a link is all that another page may cause
			return elsewhere
		}
	}
	return nil
}

// statusOf returns the status of an error of the machine's files.
func statusOf(err error) int {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	case errors.Is(err, syscall.EIO):
		return http.StatusServiceUnavailable
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
