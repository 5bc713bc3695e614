package host

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// BuildID is the build id of a file, or the beginning of it.
type BuildID [20]byte

// UserFiles returns what finds the build id of the file that the thread for which a task stands has mapped at an address, and the
// address's offset in the file. It is false where there is no file, or where that has no build id in its first page, or that is not mapped
// and in RAM. It is called in handler context.
func (h *Host) UserFiles(task uint64) func(ip uint64) (id [20]byte, offset uint64, ok bool) {
	f := userFiles{ids: map[fileKey]*BuildID{}}
	if t := h.taskOf(task); t != nil {
		f.read(t.tid)
	}
	return f.find
}

// userFiles are the mappings of a process.
type userFiles struct {
	tid int
	all []proc.Mapping
	ids map[fileKey]*BuildID // nil for those that have none
}

type fileKey struct {
	dev string
	ino uint64
}

func (f *userFiles) read(tid int) {
	text, err := proc.Read(tid, "maps")
	if err != nil {
		return
	}
	f.tid = tid
	for line := range strings.Lines(text) {
		if m, ok := proc.ParseMapping(line); ok {
			f.all = append(f.all, m)
		}
	}
}

// UserMappings returns what finds the path of a file that a process has mapped at an address, and where the mapping begins: the first one that
// ends above the address, as on Linux. The path is empty where there is none, and if the process has ended.
func (h *Host) UserMappings(pid int32) func(ip uint64) (path string, start uint64) {
	var f userFiles
	if pid > 0 && h.driver == nil { // else processes have numbers of the machine's own
		f.read(int(pid))
	}
	return func(ip uint64) (string, uint64) {
		if m := f.at(ip); m != nil && m.Ino != 0 {
			return m.Path, m.Start
		}
		return "", 0
	}
}

// at is find_vma: the first mapping that ends above an address, which may begin above it, too.
func (f *userFiles) at(ip uint64) *proc.Mapping {
	i := slices.IndexFunc(f.all, func(m proc.Mapping) bool { return ip < m.End })
	if i < 0 {
		return nil
	}
	return &f.all[i]
}

func (f *userFiles) find(ip uint64) (id [20]byte, offset uint64, ok bool) {
	m := f.at(ip)
	if m == nil {
		return id, 0, false
	}
	found := f.id(m)
	if found == nil {
		return id, 0, false
	}
	return *found, m.Offset + ip - m.Start, true
}

// id returns the build id of a mapping's file, which is read where the file's first page is mapped.
func (f *userFiles) id(of *proc.Mapping) *BuildID {
	key := fileKey{of.Dev, of.Ino}
	if id, known := f.ids[key]; known {
		return id
	}
	if of.Ino == 0 {
		return nil
	}
	var found *BuildID
	for i := range f.all {
		if m := &f.all[i]; m.Offset == 0 && m.Dev == of.Dev && m.Ino == of.Ino && m.Perms[0] == 'r' {
			if id, ok := buildIDAt(f.tid, m.Start); ok {
				found = &id
				break
			}
		}
	}
	f.ids[key] = found
	return found
}

func buildIDAt(tid int, addr uint64) (id BuildID, ok bool) {
	m, err := proc.OpenMemory(tid)
	if err != nil {
		return id, false
	}
	defer m.Close()
	return buildID(m.Read(addr, make([]byte, abi.PageSize)))
}

// buildID finds the build id in the first page of an ELF file: its program headers and the note have to be there.
func buildID(page []byte) (id BuildID, ok bool) {
	const (
		header, phoff, phnum, entry = 64, 32, 56, 56
		offset, size                = 8, 32 // of a program header
		wordSize                    = 4
		noteHeader                  = 3 * wordSize // the sizes of the name and of the contents, and the type
		typeBuildID                 = 3
		name                        = "GNU\x00"
	)
	le := binary.LittleEndian
	if len(page) < header || string(page[:4]) != elf.ELFMAG || elf.Class(page[4]) != elf.ELFCLASS64 {
		return id, false
	}
	at := le.Uint64(page[phoff:])
	for range le.Uint16(page[phnum:]) {
		if at > uint64(len(page)-entry) {
			return id, false
		}
		p := page[at:]
		at += entry
		if elf.ProgType(le.Uint32(p)) != elf.PT_NOTE {
			continue
		}
		from, n := le.Uint64(p[offset:]), le.Uint64(p[size:])
		if from >= uint64(len(page)) || n > uint64(len(page))-from {
			continue
		}
		for notes := page[from : from+n]; len(notes) >= noteHeader; {
			names, contents := int(le.Uint32(notes)), int(le.Uint32(notes[wordSize:]))
			to := noteHeader + (names+3)&^3
			if to > len(notes) || contents > len(notes)-to {
				break
			}
			if le.Uint32(notes[2*wordSize:]) == typeBuildID && string(notes[noteHeader:noteHeader+names]) == name && contents > 0 && contents <= len(id) {
				copy(id[:], notes[to:to+contents])
				return id, true
			}
			notes = notes[min(to+(contents+3)&^3, len(notes)):]
		}
	}
	return id, false
}
