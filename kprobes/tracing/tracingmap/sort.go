package tracingmap

// Sort sorts like Linux's sort(): siftDown goes all the way down first and then up
// again, so that elements that compare as equal end in the same order as on Linux.
func Sort[T any](a []T, compare func(x, y *T) int) {
	for i := len(a)/2 - 1; i >= 0; i-- {
		siftDown(a, i, compare, false)
	}
	for n := len(a) - 1; n > 0; n-- {
		a[0], a[n] = a[n], a[0]
		siftDown(a[:n], 0, compare, false)
	}
}

// SortTwo is Sort as 6.12 does it: it removes the two largest elements at a
// time, the second of which is a child of the root.
func SortTwo[T any](a []T, compare func(x, y *T) int) {
	for i := len(a)/2 - 1; i >= 0; i-- {
		siftDown(a, i, compare, true)
	}
	n := len(a)
	for n > 3 {
		next := 1
		if compare(&a[1], &a[2]) <= 0 {
			next = 2
		}
		a[0], a[n-1] = a[n-1], a[0]
		a[next], a[n-2] = a[n-2], a[next]
		n -= 2
		if next < n {
			siftDown(a[:n], next, compare, true)
		}
		siftDown(a[:n], 0, compare, true)
	}
	if n > 1 {
		a[0], a[n-1] = a[n-1], a[0]
	}
	if n == 3 && compare(&a[0], &a[1]) > 0 {
		a[0], a[1] = a[1], a[0]
	}
}

// siftDown moves a[root] to its place in the heap below it. It follows the larger child
// down to the last level (of equal children the left one, or the right one if right is
// set) and then climbs back to the first element that is larger than a[root].
func siftDown[T any](a []T, root int, compare func(x, y *T) int, right bool) {
	leaf := root
	for 2*leaf+2 < len(a) {
		child := 2*leaf + 1
		if c := compare(&a[child], &a[child+1]); c < 0 || c == 0 && right {
			child++
		}
		leaf = child
	}
	if 2*leaf+1 < len(a) {
		leaf = 2*leaf + 1 // an only child
	}
	for leaf != root && compare(&a[root], &a[leaf]) >= 0 {
		leaf = (leaf - 1) / 2
	}
	for value := a[root]; ; leaf = (leaf - 1) / 2 {
		a[leaf], value = value, a[leaf]
		if leaf == root {
			return
		}
	}
}
