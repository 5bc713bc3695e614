package linux

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []Result
		err      string
	}{
		{
			"two scripts, one leaves something",
			"=script a 0 3\nhi\n=script b 7 0\n=left b 1 5\n-x+y\n=end\n",
			[]Result{{Name: "a", Output: "hi\n"}, {Name: "b", Status: 7, Left: "-x+y\n"}},
			"",
		},
		{"output that looks like a frame", "=script a 0 5\n=end\n=end\n", []Result{{Name: "a", Output: "=end\n"}}, ""},
		{"no end", "=script a 0 3\nhi\n", []Result{{Name: "a", Output: "hi\n"}}, "died after 1"},
		{"cut off", "=script a 0 30\nhi\n", nil, "died after 0"},
		{"no frame", "panic\n", nil, "sent"},
		{"size beyond what came", "=script a 0 999999999999\nhi\n", nil, "died after 0"},
		{"nothing", "", nil, "died after 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse([]byte(tt.in))
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestCpio(t *testing.T) {
	tr := tree{}
	tr.add("/usr/bin/cat", execMode, []byte("12345"))
	tr.add("bin/sh", linkMode, []byte("busybox"))
	b, err := tr.cpio()
	if err != nil {
		t.Fatal(err)
	}
	if len(b)%4 != 0 {
		t.Errorf("%d bytes: not a multiple of 4", len(b))
	}
	var names []string
	for at := 0; at < len(b); {
		head := b[at : at+110]
		if !bytes.HasPrefix(head, []byte("070701")) {
			t.Fatalf("at %d: magic %q", at, head[:6])
		}
		var mode, size, name int
		field := func(i int, v *int) {
			if _, err := fmt.Sscanf(string(head[6+8*i:14+8*i]), "%x", v); err != nil {
				t.Fatal(err)
			}
		}
		field(1, &mode)
		field(6, &size)
		field(11, &name)
		n := string(b[at+110 : at+110+name-1])
		at = (at + 110 + name + 3) &^ 3
		names = append(names, fmt.Sprintf("%s %o %s", n, mode, b[at:at+size]))
		at = (at + size + 3) &^ 3
	}
	want := "bin 40755 |bin/sh 120777 busybox|usr 40755 |usr/bin 40755 |usr/bin/cat 100755 12345|TRAILER!!! 0 "
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
