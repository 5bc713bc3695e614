package look

import (
	"strconv"
	"strings"
)

// Histogram is one of an event's file hist.
type Histogram struct {
	Trigger string          `json:"trigger"` // hist:keys=...
	State   string          `json:"state"`   // active or paused
	Rows    []HistogramRow  `json:"rows"`
	Totals  []HistogramItem `json:"totals"`
}

// HistogramRow is a key and what was counted of it.
type HistogramRow struct {
	Key    string          `json:"key"`
	Values []HistogramItem `json:"values"`
}

// HistogramItem is a named number.
type HistogramItem struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Histograms reads the histograms of an event, GROUP/EVENT.
func Histograms(read ReadFile, event string) ([]Histogram, error) {
	b, err := read("tracing/events/" + event + "/hist")
	if err != nil {
		return nil, err
	}
	return ParseHistograms(string(b)), nil
}

const triggerInfo = "# trigger info: "

// ParseHistograms parses the text of a file hist.
func ParseHistograms(text string) []Histogram {
	all := []Histogram{}
	key, totals := "", false
	for _, line := range strings.Split(text, "\n") {
		if info, ok := strings.CutPrefix(line, triggerInfo); ok {
			all = append(all, newHistogram(info))
			key, totals = "", false
			continue
		}
		if len(all) == 0 {
			continue
		}
		h := &all[len(all)-1]
		switch {
		case totals:
			h.Totals = append(h.Totals, items(line)...)
		case key == "" && line == "Totals:":
			totals = true
		case key != "" || strings.HasPrefix(line, "{"):
			// A key that is a stack has several lines.
			if key != "" {
				key += "\n"
			}
			key += line
			if row, ok := parseRow(key); ok {
				h.Rows, key = append(h.Rows, row), ""
			}
		}
	}
	return all
}

func newHistogram(info string) Histogram {
	h := Histogram{Trigger: info, Rows: []HistogramRow{}, Totals: []HistogramItem{}}
	if i := strings.LastIndex(info, " ["); i >= 0 {
		h.Trigger, h.State = info[:i], strings.Trim(info[i:], " []")
	}
	return h
}

// parseRow parses a row that is complete: what is behind its last brace are numbers.
func parseRow(text string) (row HistogramRow, ok bool) {
	i := strings.LastIndex(text, "} ")
	if i < 0 {
		return row, false
	}
	row.Key, row.Values = strings.TrimSpace(strings.TrimPrefix(text[:i], "{")), items(text[i+2:])
	return row, len(row.Values) > 0
}

// items reads NAME: NUMBER, of which a line has several. What is no number (.graph) is left out.
func items(line string) []HistogramItem {
	all := []HistogramItem{}
	fields := strings.Fields(line)
	for i := 1; i < len(fields); i++ {
		name, ok := strings.CutSuffix(fields[i-1], ":")
		v, err := strconv.ParseFloat(fields[i], 64)
		if hex, herr := strconv.ParseUint(fields[i], 0, 64); err != nil && herr == nil { // a value of type .hex
			v, err = float64(hex), nil
		}
		if ok && err == nil {
			all = append(all, HistogramItem{name, v})
		}
	}
	return all
}
