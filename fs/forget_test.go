package fs

import (
	"os"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// TestForget: threads that live keep their numbers, and those that have ended do not stay for ever.
func TestForget(t *testing.T) {
	q := &Sequence{numbers: map[thread]uint32{}, last: firstNumber}
	self := os.Getpid()
	if n := q.number(self); n != firstNumber {
		t.Fatalf("the first number is %d", n)
	}
	stat, err := proc.ReadStat(self)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * leastThreads {
		if len(q.numbers) >= max(q.most, leastThreads) {
			q.forget()
		}
		q.numbers[thread{tid: self, start: stat.Start + 1 + uint64(i)}] = q.last // had this one's tid before
		q.last++
	}
	if len(q.numbers) > leastThreads {
		t.Errorf("%d threads have numbers, and one lives", len(q.numbers))
	}
	if n := q.number(self); n != firstNumber {
		t.Errorf("the living thread has the number %d now", n)
	}
}
