// The program makes calls while other threads change the calls' arguments, or closes
// descriptors that other processes get. It prints what was not as it must be.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	switch os.Args[1] {
	case "changed":
		changed()
	case "passed":
		passed()
	case "held":
		held()
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// changed opens the file a, whose name is changed to b, which exists, and to c, which does not;
// it writes a vector whose places and lengths change, and reads into a buffer that is unmapped.
func changed() {
	must(os.WriteFile("a", []byte("aaaa"), 0o644))
	must(os.WriteFile("b", []byte("bbbb"), 0o644))
	out, err := os.Create("written")
	must(err)
	name := []byte("a\x00")
	texts := [2][]byte{[]byte("1111"), []byte("22222222")}
	vector := &syscall.Iovec{Base: &texts[0][0], Len: 4}
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	must(err)
	var stop atomic.Bool
	var others sync.WaitGroup
	others.Add(2)
	go func() {
		defer others.Done()
		for i := 0; !stop.Load(); i++ {
			name[0] = "abc"[i%3]
			vector.Base, vector.Len = &texts[i%2][0], uint64(4+4*(i%2))
		}
	}()
	go func() {
		defer others.Done()
		for !stop.Load() {
			_ = syscall.Mprotect(page, syscall.PROT_NONE)
			_ = syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_WRITE)
		}
	}()
	total := uintptr(0)
	for range 400 {
		fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0, 0)
		switch {
		case errno == syscall.ENOENT:
		case errno != 0:
			fmt.Println("open:", errno)
		default:
			var b [8]byte
			if n, err := syscall.Read(int(fd), b[:]); n != 4 || string(b[:4]) != "aaaa" && string(b[:4]) != "bbbb" {
				fmt.Printf("read: %q %v\n", b[:max(n, 0)], err)
			}
			n, _, errno := syscall.Syscall6(syscall.SYS_PREAD64, fd, uintptr(unsafe.Pointer(&page[0])), 4, 0, 0, 0)
			if errno != syscall.EFAULT && (errno != 0 || n != 4) {
				fmt.Println("pread64:", n, errno)
			}
			must(syscall.Close(int(fd)))
		}
		n, _, errno := syscall.Syscall(syscall.SYS_WRITEV, out.Fd(), uintptr(unsafe.Pointer(vector)), 1)
		if errno != 0 || n != 4 && n != 8 {
			fmt.Println("writev:", n, errno)
		}
		total += n
	}
	stop.Store(true)
	others.Wait()
	if st, err := out.Stat(); err != nil || st.Size() != int64(total) {
		fmt.Println("written:", st.Size(), "of", total, err)
	}
	fmt.Println("done")
}

// passed sends ends of pipes to another thread by SCM_RIGHTS and closes them at once. The
// receiver writes into what it gets, and closes that.
func passed() {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(err)
	const rounds = 200
	go func() {
		runtime.LockOSThread()
		for i := range rounds {
			oob := make([]byte, syscall.CmsgSpace(4))
			_, n, _, _, err := syscall.Recvmsg(pair[1], make([]byte, 1), oob, 0)
			must(err)
			messages, err := syscall.ParseSocketControlMessage(oob[:n])
			must(err)
			fds, err := syscall.ParseUnixRights(&messages[0])
			must(err)
			_, err = syscall.Write(fds[0], []byte{byte(i)})
			must(err)
			must(syscall.Close(fds[0]))
		}
	}()
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(err)
		return len(names)
	}
	before := count()
	for i := range rounds {
		var p [2]int
		must(syscall.Pipe(p[:]))
		must(syscall.Sendmsg(pair[0], []byte("x"), syscall.UnixRights(p[1]), nil, 0))
		must(syscall.Close(p[1]))
		b := make([]byte, 2)
		if n, err := syscall.Read(p[0], b); n != 1 || b[0] != byte(i) {
			fmt.Println("read:", n, err, b)
		}
		if n, err := syscall.Read(p[0], b); n != 0 || err != nil { // the last writer has gone
			fmt.Println("end:", n, err)
		}
		must(syscall.Close(p[0]))
	}
	for range 100 {
		if count() == before {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := count(); n != before {
		fmt.Println("descriptors:", before, n)
	}
	fmt.Println("done")
}

// held opens a file whose name is in a page that the program does not supply (userfaultfd(2))
// until another thread has opened files.
func held() {
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	must(err)
	const (
		userfaultfd = 323
		uffdAPI     = 0xc018aa3f
		register    = 0xc020aa00
		zeroPage    = 0xc020aa04
	)
	fd, _, errno := syscall.Syscall(userfaultfd, syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		fmt.Println("userfaultfd:", errno)
		return
	}
	ioctl := func(command uintptr, args ...uint64) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, command, uintptr(unsafe.Pointer(&args[0]))); errno != 0 {
			must(errno)
		}
	}
	at := uint64(uintptr(unsafe.Pointer(&page[0])))
	ioctl(uffdAPI, 0xaa, 0, 0)
	ioctl(register, at, 4096, 1, 0)
	var over atomic.Bool
	opened := make(chan syscall.Errno)
	go func() {
		_, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, ^uintptr(99), uintptr(at), 0, 0, 0, 0)
		over.Store(true)
		opened <- errno
	}()
	var fault [32]byte // struct uffd_msg
	_, err = syscall.Read(int(fd), fault[:])
	must(err)
	for range 200 {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
		must(err)
		must(syscall.Close(fd))
	}
	if over.Load() {
		fmt.Println("the open is over")
	}
	ioctl(zeroPage, at, 4096, 0, 0)
	if errno := <-opened; errno != syscall.ENOENT {
		fmt.Println("open:", errno)
	}
	fmt.Println("done")
}
