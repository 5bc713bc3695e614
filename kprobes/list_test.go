package kprobes_test

import (
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// BenchmarkList makes the text of kprobes/list for 10,000 probes; an operation is a
// line.
func BenchmarkList(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m := &machine{Kernel: s}
	m.everywhere(10_000)
	s.Kprobes.WaitOptimizer()
	var text []byte
	var records []kprobes.Record
	b.ReportAllocs()
	b.ResetTimer()
	for lines := 0; lines < b.N; {
		for i := range kprobes.Buckets {
			records = s.Kprobes.Bucket(records[:0], i)
			text = text[:0]
			for j := range records {
				text = records[j].Append(text, false)
			}
			lines += len(records)
		}
	}
}
