package page

import "net/http"

// Health returns a handler of /healthz and /readyz alone, for who watches the program from another
// host and has no token. It tells nothing else, and changes nothing, so it asks for nothing.
func Health(machine func() Machine) http.Handler {
	p := &Page{conf: Config{Machine: machine}, routes: map[string]map[string]*route{}}
	for i := range routes {
		if r := &routes[i]; r.open {
			p.routes[r.path] = map[string]*route{r.method: r}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		rt, err := p.find(r)
		switch {
		case err == nil:
			err = rt.do(p, w, r)
		case problemOf(err).status == http.StatusNotFound:
			err = problemf(http.StatusNotFound, "only /healthz and /readyz are here: kprobefs mount --http serves a page")
		}
		if err != nil {
			p.fail(w, r, err)
		}
	})
}
