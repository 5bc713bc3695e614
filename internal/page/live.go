package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/look"
)

const (
	mostLives = 16                     // streams of events at the same time
	tick      = 100 * time.Millisecond // how often a stream looks, if looking is cheap
	silence   = 15 * time.Second       // after which a stream says that it is there
	sendTime  = 10 * time.Second       // in which the reader of a stream must take what is sent
)

// message is a server-sent event.
type message struct {
	event string
	data  any
}

// source is where a stream gets its messages from.
type source struct {
	next func(ctx context.Context) ([]message, error) // returns what has happened since its last call
	end  func()                                       // frees it
	pace time.Duration                                // how often it is asked at most, if that is cheap
}

// machinePace is how often the machine is looked at: its counters change all the time, and nobody
// reads them faster.
const machinePace = 500 * time.Millisecond

// live is a stream of server-sent events about one topic: all at first, then what has changed.
func (p *Page) live(w http.ResponseWriter, r *http.Request) error {
	from, err := p.source(r)
	if err != nil {
		return err
	}
	defer from.end()
	defer p.lives.Add(-1)
	p.lives.Add(1)
	s := stream{w: w, control: http.NewResponseController(w), patience: p.patience}
	_ = s.control.SetReadDeadline(time.Time{}) // the request has been read
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if s.send(nil) != nil { // so that the reader knows that the stream is open
		return nil
	}
	over, leave := p.streams.enter()
	defer leave()
	said := "" // the last problem
	for {
		changed := p.news.wait()
		begin := time.Now()
		messages, err := from.next(r.Context())
		switch {
		case r.Context().Err() != nil:
			return nil
		case err != nil && err.Error() == said:
			messages = nil
		case err != nil:
			said = err.Error()
			messages = []message{{"problem", map[string]string{"error": problemOf(err).text}}}
		default:
			said = ""
		}
		if s.send(messages) != nil {
			return nil // the reader has gone, or does not read
		}
		// All streams together take a share of the time.
		next := time.NewTimer(pause(from.pace, time.Duration(p.lives.Load())*time.Since(begin)))
		select {
		case <-r.Context().Done():
		case <-over:
			_ = s.send([]message{{"over", map[string]string{"error": fmt.Sprintf("%d others have begun to look since, which are as many as there can be: ask again to go on", mostLives)}}})
			return nil
		case <-changed:
		case <-next.C:
		}
		next.Stop()
		if r.Context().Err() != nil {
			return nil
		}
	}
}

// streams are the open ones, the oldest first. Who comes when all places are taken gets the place of the
// oldest: a person's next tab must work, and the tab that was left says that it no longer looks.
type streams struct {
	mu   sync.Mutex
	over []chan struct{} // closed when another one gets the place
}

// enter returns a channel that tells when the stream must end, and a function that gives its place back.
func (s *streams) enter() (over <-chan struct{}, leave func()) {
	own := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.over) >= mostLives {
		close(s.over[0])
		s.over = slices.Delete(s.over, 0, 1)
	}
	s.over = append(s.over, own)
	return own, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = slices.DeleteFunc(s.over, func(c chan struct{}) bool { return c == own })
	}
}

func (s *streams) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.over)
}

// stream writes server-sent events.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	last     time.Time     // when something was sent
	patience time.Duration // in which the reader must take what is sent
}

// send sends messages, or a comment after a long silence. It fails if the reader does not take them
// in time.
func (s *stream) send(messages []message) error {
	var b bytes.Buffer
	for _, m := range messages {
		b.WriteString("event: " + m.event + "\ndata: ")
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(m.data); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		if time.Since(s.last) < silence {
			return nil
		}
		b.WriteString(": nothing new\n\n")
	}
	s.last = time.Now()
	if err := s.control.SetWriteDeadline(s.last.Add(s.patience)); err != nil {
		return err
	}
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}

// news tells streams that a request has changed something.
type news struct {
	mu      sync.Mutex
	changed chan struct{}
}

// wait returns a channel that is closed at the next change.
func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// source returns the source of the topic that a request names.
func (p *Page) source(r *http.Request) (source, error) {
	none := func() {}
	switch topic := r.URL.Query().Get("topic"); topic {
	case "probes":
		return source{(&probesSource{p: p}).next, none, tick}, nil
	case "machine":
		return source{whole(topic, p.machineNow, func(v machineView) any { return v }), none, machinePace}, nil
	case "timeline":
		return source{whole(topic, p.timelineNow, func(v timelineView) any { return []any{v.Changes, v.Writes, v.Stops} }), none, tick}, nil
	case "text":
		if _, err := p.textNow(r); err != nil {
			return source{}, err
		}
		now := func(ctx context.Context) ([]look.Function, error) { return p.textNow(r.WithContext(ctx)) }
		next := whole(topic, now, func(v []look.Function) any { return v })
		return source{func(ctx context.Context) ([]message, error) { // lines are looked for only if there is something to send
			messages, err := next(ctx)
			for _, m := range messages {
				p.addSource(ctx, m.data.([]look.Function))
			}
			return messages, err
		}, none, tick}, nil
	case "trace":
		f, err := filterOf(r)
		s := &traceSource{p: p, filter: f}
		return source{s.next, s.end, tick}, err
	}
	return source{}, problemf(http.StatusBadRequest, "name a topic: probes, text (with function=...), trace, machine or timeline")
}

// whole returns the next of a topic that is sent as a whole when part of it has changed.
func whole[T any](topic string, now func(context.Context) (T, error), part func(T) any) func(context.Context) ([]message, error) {
	var last []byte
	return func(ctx context.Context) ([]message, error) {
		v, err := now(ctx)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(part(v))
		if err != nil || bytes.Equal(b, last) {
			return nil, err
		}
		last = b
		return []message{{topic, v}}, nil
	}
}

// probesSource sends all probes first, then those that have changed.
type probesSource struct {
	p    *Page
	of   Machine
	seed maphash.Seed
	sent map[string]uint64 // hashes of what was sent, by the probes' ids
	head []byte            // the switches that were sent
}

// delta is what has changed in a list of probes.
type delta struct {
	probesView          // with the probes that are new or changed
	Gone       []string `json:"gone"` // ids
}

func (s *probesSource) next(ctx context.Context) ([]message, error) {
	m := s.p.conf.Machine()
	v, err := s.p.probesNow(ctx)
	if err != nil {
		return nil, err
	}
	first := s.sent == nil || s.of != m
	if first {
		s.of, s.seed, s.sent = m, maphash.MakeSeed(), map[string]uint64{}
	}
	d := delta{probesView: v, Gone: []string{}}
	d.Probes = []probe{}
	there := make(map[string]bool, len(v.Probes))
	for _, one := range v.Probes {
		there[one.ID] = true
		b, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if h := maphash.Bytes(s.seed, b); s.sent[one.ID] != h {
			s.sent[one.ID] = h
			d.Probes = append(d.Probes, one)
		}
	}
	for id := range s.sent {
		if !there[id] {
			delete(s.sent, id)
			d.Gone = append(d.Gone, id)
		}
	}
	slices.Sort(d.Gone)
	head, err := json.Marshal([]*bool{v.Enabled, v.Optimization, v.Tracing})
	switch {
	case err != nil:
		return nil, err
	case first:
		s.head = head
		return []message{{"probes", v}}, nil
	case len(d.Probes)+len(d.Gone) == 0 && bytes.Equal(head, s.head):
		return nil, nil
	}
	s.head = head
	return []message{{"delta", d}}, nil
}

// traceSource sends the entries of the trace as they come.
type traceSource struct {
	p      *Page
	filter traceFilter
	of     Machine
	feed   *kprobefs.TraceFeed
}

func (s *traceSource) next(context.Context) ([]message, error) {
	if m := s.p.conf.Machine(); s.of != m {
		s.end()
		s.of, s.feed = m, m.TraceFeed()
	}
	v, err := s.filter.next(s.feed)
	if err != nil || len(v.Entries) == 0 && v.Skipped == 0 {
		return nil, err
	}
	return []message{{"trace", v}}, nil
}

func (s *traceSource) end() {
	if s.feed != nil {
		s.feed.Close()
	}
}
