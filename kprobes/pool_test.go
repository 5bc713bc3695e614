package kprobes

import "testing"

// TestPool: each CPU can have all instances of a pool, its own first, and each once.
func TestPool(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 64, 200, 777} {
		for _, cpus := range []int{1, 2, 3, 8} {
			pool := newPool(nil, n, 0, cpus)
			for cpu := range cpus {
				taken := make([]*Instance, 0, n)
				seen := map[int]bool{}
				for ri := pool.get(cpu); ri != nil; ri = pool.get(cpu) {
					taken = append(taken, ri)
					seen[ri.Index] = true
				}
				if len(taken) != n || len(seen) != n {
					t.Fatalf("CPU %d of %d has had %d instances, %d different ones, of %d", cpu, cpus, len(taken), len(seen), n)
				}
				if own := pool.parts[cpu].all; len(own) > 0 && taken[0] != &own[0] {
					t.Errorf("CPU %d of %d has got instance %d first, not its own", cpu, cpus, taken[0].Index)
				}
				for _, ri := range taken {
					pool.put(ri)
				}
			}
		}
	}
}
