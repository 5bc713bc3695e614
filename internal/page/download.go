package page

import (
	"io"
	"net/http"
	"time"

	"github.com/kprobefs/kprobefs/internal/tracedat"
)

// traceDat answers with the trace as a file of trace-cmd. Nothing is taken out of the buffer.
func (p *Page) traceDat(w http.ResponseWriter, r *http.Request) error {
	if !p.copying.TryLock() {
		return problemf(http.StatusServiceUnavailable, "the trace is being downloaded already: try again when that has ended")
	}
	defer p.copying.Unlock()
	m := p.conf.Machine()
	s, err := m.Status()
	if err != nil {
		return err
	}
	read := p.reader(r.Context())
	file := io.Writer(&patient{w, http.NewResponseController(w), p.patience})
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="trace.dat"`)
	err = tracedat.Write(file, tracedat.Source{
		Read: read, Pages: m.TracePages, CPUs: len(s.CPUs), Uname: "Linux kprobefs " + s.Release + " x86_64",
	})
	if err != nil {
		w.Header().Del("Content-Disposition") // has no effect if something was sent
	}
	return err
}

// patient writes an answer that may take longer than others, as long as its reader reads.
type patient struct {
	w       io.Writer
	control *http.ResponseController
	time    time.Duration
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time)) // a test's recorder has none
	return p.w.Write(b)
}
