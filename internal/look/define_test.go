package look

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefinitions(t *testing.T) {
	read := func(string) ([]byte, error) {
		return []byte("p:kprobes/mine vfs_read+0x5 n=%dx:u64 s=+0(%si):string\nr4:other/mine vfs_read ret=$retval\np:kprobes/mine2 vfs_write\n\np:\n"), nil
	}
	mine := Definition{"kprobes/mine", "p:kprobes/mine vfs_read+0x5 n=%dx:u64 s=+0(%si):string", []Argument{{"n", "%dx:u64"}, {"s", "+0(%si):string"}}}
	other := Definition{"other/mine", "r4:other/mine vfs_read ret=$retval", []Argument{{"ret", "$retval"}}}
	for name, want := range map[string][]Definition{"mine": {mine, other}, "kprobes/mine": {mine}, "mine3": {}} {
		got, err := Definitions(read, name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v: %s", name, err, diff)
		}
	}
}
