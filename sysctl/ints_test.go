package sysctl

import (
	"errors"
	"slices"
	"syscall"
	"testing"
)

// TestInts: a row of several ints (kernel.printk) as Linux's proc_dointvec reads and
// writes it.
func TestInts(t *testing.T) {
	k := newKnobs()
	row, ok := k.Row("kernel/printk")
	if !ok {
		t.Fatal("no row")
	}
	for _, tc := range []struct {
		data string
		n    int
		want string
		err  error
	}{
		{"5\n", 2, "5\t4\t1\t7\n", nil},
		{"3\t2", 3, "3\t2\t1\t7\n", nil},
		{"1 2 3 4\n", 8, "1\t2\t3\t4\n", nil},
		{"1 x", 0, "1\t4\t1\t7\n", syscall.EINVAL},
		{"x", 0, "7\t4\t1\t7\n", syscall.EINVAL},
		{"", 0, "7\t4\t1\t7\n", nil},
	} {
		k.levels = []int{7, 4, 1, 7}
		n, err := row.Proc.Write(Caller{}, []byte(tc.data), 0)
		if n != tc.n || !errors.Is(err, tc.err) || string(row.Proc.Read(64, 0)) != tc.want {
			t.Errorf("%q: %d, %v, %s; want %d, %v, %q", tc.data, n, err, row.Proc.Read(64, 0), tc.n, tc.err, tc.want)
		}
	}
	if b := row.Proc.Read(3, 0); !slices.Equal(b, []byte("7\t4")) {
		t.Errorf("a short read is %q", b)
	}
}
