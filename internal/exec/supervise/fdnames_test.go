package supervise

import (
	"os"
	"strconv"
	"testing"
)

func TestAnonName(t *testing.T) {
	for name, want := range map[string]string{
		"/7.bpf-map": "anon_inode:bpf-map", "/12.bpf_link": "anon_inode:bpf_link", "/12.bpf-btf": "anon_inode:btf",
		"/3.[perf_event]": "anon_inode:[perf_event]",
		"/x.bpf-map":      "", "/home/7.bpf-map": "", "/7.txt": "", "": "", "pipe:[12]": "", "/7": "",
	} {
		if got := anonName(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDescriptorOf(t *testing.T) {
	self := os.Getpid()
	own := strconv.Itoa(self)
	for _, tt := range []struct {
		at      string
		tid, fd int
		ok      bool
	}{
		{"/proc/self/fd/3", self, 3, true},
		{"/proc/thread-self/fd/0", self, 0, true},
		{"/proc/" + own + "/fd/5", self, 5, true},
		{"/proc/self/task/" + own + "/fd/5", self, 5, true},
		{"/proc/self/fdinfo/3", 0, 0, false},
		{"/proc/self/fd/x", 0, 0, false},
		{"/proc/self/fd", 0, 0, false},
		{"/home/self/fd/3", 0, 0, false},
		{"/proc/self/net/x/fd/3", 0, 0, false},
	} {
		tid, fd, ok := descriptorOf(self, tt.at, "fd")
		if ok != tt.ok || ok && (tid != tt.tid || fd != tt.fd) {
			t.Errorf("%s: %d %d %v, want %d %d %v", tt.at, tid, fd, ok, tt.tid, tt.fd, tt.ok)
		}
	}
}
