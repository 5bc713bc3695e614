package look

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrites(t *testing.T) {
	text := `# 3 writes, 1 older ones are not kept
# seconds pid uid result file comm text
0.000001 12 0 15 "/sys/kernel/tracing/kprobe_events" "sh" "p:mine vfs_read\n"
12.345678 13 1000 EINVAL "/a b" "my \"sh" "x"
1 2 3 4 "no comm"
x 2 3 4 "a" "b" "c"
1 2 3 4 "a" "b" "c" d
`
	got, err := Writes(func(string) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{0.000001, 12, 0, "15", "/sys/kernel/tracing/kprobe_events", "sh", "p:mine vfs_read\n"},
		{12.345678, 13, 1000, "EINVAL", "/a b", `my "sh`, "x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
