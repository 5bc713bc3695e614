package look

import (
	"errors"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// histText is what Linux 6.1 and 6.12 print: keys of several parts, a stack, a value that is no number.
const histText = `# event histogram
#
# trigger info: hist:keys=common_pid.execname,n.log2:vals=hitcount,n:sort=hitcount.descending:size=2048 [active]
#

{ common_pid: cat             [     22992], n: ~ 2^17 } hitcount:          4  n:     524288
{ common_pid: a } b: 1        [         7], n: ~ 2^10 } hitcount:          3  n:       2400

Totals:
    Hits: 7
    Entries: 2
    Dropped: 0


# event histogram
#
# trigger info: hist:name=x:keys=stacktrace:vals=hitcount.percent,hitcount.graph:sort=hitcount:size=2048 [paused]
#

{ stacktrace:
         opt_pre_handler+0x5/0x10
         0xffffffffe0000042
} hitcount (%):     100.00  hitcount:  ####################

Totals:
    Hits: 33
    Entries: 1
    Dropped: 0
`

func TestParseHistograms(t *testing.T) {
	want := []Histogram{
		{
			Trigger: "hist:keys=common_pid.execname,n.log2:vals=hitcount,n:sort=hitcount.descending:size=2048", State: "active",
			Rows: []HistogramRow{
				{"common_pid: cat             [     22992], n: ~ 2^17", []HistogramItem{{"hitcount", 4}, {"n", 524288}}},
				{"common_pid: a } b: 1        [         7], n: ~ 2^10", []HistogramItem{{"hitcount", 3}, {"n", 2400}}},
			},
			Totals: []HistogramItem{{"Hits", 7}, {"Entries", 2}, {"Dropped", 0}},
		},
		{
			Trigger: "hist:name=x:keys=stacktrace:vals=hitcount.percent,hitcount.graph:sort=hitcount:size=2048", State: "paused",
			Rows: []HistogramRow{
				{"stacktrace:\n         opt_pre_handler+0x5/0x10\n         0xffffffffe0000042", []HistogramItem{{"(%)", 100}}},
			},
			Totals: []HistogramItem{{"Hits", 33}, {"Entries", 1}, {"Dropped", 0}},
		},
	}
	if diff := cmp.Diff(want, ParseHistograms(histText)); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"", "{ x } y: 1\n", "# trigger info: hist:keys=a\n{ b", "# trigger info:  [\n} \n{ x } y\nTotals:\n:"} {
		for _, h := range ParseHistograms(text) {
			if len(h.Rows) != 0 {
				t.Errorf("%q: %+v", text, h)
			}
		}
	}
	if _, err := Histograms(func(string) ([]byte, error) { return nil, syscall.ENOENT }, "a/b"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
}
