package page

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kprobefs/kprobefs/internal/look"
)

// collector reads the metrics when they are asked for.
type collector struct{ p *Page }

var _ prometheus.Collector = collector{}

// The metrics.
var (
	metricProbes       = prometheus.NewDesc("kprobefs_probes", "Probes, by state: optimized, ftrace, armed (a breakpoint), disabled, or gone.", []string{"state"}, nil)
	metricHits         = prometheus.NewDesc("kprobefs_event_hits_total", "Hits of an event of kprobe_events.", []string{"event"}, nil)
	metricMissed       = prometheus.NewDesc("kprobefs_event_missed_total", "Hits of an event of kprobe_events that were not handled.", []string{"event"}, nil)
	metricProbeMissed  = prometheus.NewDesc("kprobefs_missed_total", "Hits that were not handled, of all probes that are registered now.", nil, nil)
	metricMemory       = prometheus.NewDesc("kprobefs_guest_memory_bytes", "RAM of the emulated kernel.", nil, nil)
	metricInstructions = prometheus.NewDesc("kprobefs_instructions_total", "Instructions that a vCPU has executed.", []string{"cpu"}, nil)
	metricSlots        = prometheus.NewDesc("kprobefs_slots", "Slots of copied instructions in use.", nil, nil)
	metricTasks        = prometheus.NewDesc("kprobefs_tasks", "Tasks that make calls for threads of the host.", nil, nil)
	metricUp           = prometheus.NewDesc("kprobefs_up", "1 while the emulated kernel works, 0 after a panic.", nil, nil)
)

// probeStates are the values of the label state.
var probeStates = []string{"optimized", "ftrace", "armed", "disabled", "gone"}

// Describe implements prometheus.Collector.
func (c collector) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricProbes, metricHits, metricMissed, metricProbeMissed, metricMemory, metricInstructions, metricSlots, metricTasks, metricUp} {
		all <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is an error of the whole: a sum that
// lacks a part would be taken for one that has become less.
func (c collector) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	m := c.p.conf.Machine()
	s, err := m.Status()
	if err != nil {
		all <- prometheus.NewInvalidMetric(metricUp, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	up := 1.0
	if s.Panic != "" {
		up = 0
	}
	gauge(metricUp, up)
	gauge(metricMemory, float64(s.Memory))
	gauge(metricSlots, float64(s.Slots))
	gauge(metricTasks, float64(len(s.Tasks)))
	for i, cpu := range s.CPUs {
		counter(metricInstructions, float64(cpu.Instructions), strconv.Itoa(i))
	}
	v, err := c.p.probesNow(ctx)
	if err != nil {
		all <- prometheus.NewInvalidMetric(metricProbes, err)
		return
	}
	states, missed := map[string]int{}, uint64(0)
	events := map[string]look.ProbeEvent{}
	for _, p := range v.Probes {
		states[stateOf(p.Probe)]++
		missed += p.Missed
		for _, e := range p.Events {
			events[e.Name] = e
		}
	}
	for _, state := range probeStates {
		gauge(metricProbes, float64(states[state]), state)
	}
	counter(metricProbeMissed, float64(missed))
	for _, e := range events {
		counter(metricHits, float64(e.Hits), e.Name)
		counter(metricMissed, float64(e.Missed), e.Name)
	}
}

// stateOf returns the state of a probe, one of probeStates.
func stateOf(p look.Probe) string {
	for _, state := range []string{"gone", "disabled", "ftrace", "optimized"} {
		if slices.Contains(p.Flags, state) {
			return state
		}
	}
	if p.Armed {
		return "armed"
	}
	return "disabled" // with all others, by kprobes/enabled
}

// newMetrics returns the handler of /metrics.
func (p *Page) newMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{p})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 2 * readTime})
}

func (p *Page) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	p.metrics.ServeHTTP(w, r)
	return nil
}
