package ring

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
)

// The ring buffer's binary format, which trace_pipe_raw passes to tools unchanged;
// events/header_page and events/header_event describe it.
const (
	// PageSize is the usual size of a page, bytes; buffer_subbuf_size_kb makes pages larger.
	PageSize = 4096
	// PageHeader is the size of a page's header, bytes: u64 time stamp of the first event,
	// u64 commit.
	PageHeader = 16
	pageData   = PageSize - PageHeader // BUF_PAGE_SIZE

	eventHeader = 4 // u32: type_len in the low 5 bits, time_delta in the upper 27

	typeLenMax   = 28 // up to this, type_len is the data's length in words
	typePadding  = 29
	typeExtend   = 30 // time_delta has 27 bits more in array[0]
	typeStamp    = 31 // an absolute time
	smallDataMax = typeLenMax * 4

	// MaxData is how many bytes the data of one event may have, also on larger pages.
	MaxData = pageData - eventHeader - 4

	deltaBits = 27
	deltaMax  = 1<<deltaBits - 1
)

// bufferPage is a page as header_page describes it. Its commit field is only filled in
// when a reader gets a copy. The bytes of an event are written before filled is, so a
// reader that sees an event in filled also sees its bytes.
type bufferPage struct {
	filled atomic.Uint64 // bytes of events; from bit entersShift up, the number of events
	data   []byte
}

// room returns how many bytes of events fit on a page.
func (p *bufferPage) room() int { return len(p.data) - PageHeader }

const entersShift = 32

// used returns how many bytes of events the page has.
func (p *bufferPage) used() int { return int(uint32(p.filled.Load())) }

// entered returns how many events the page has.
func (p *bufferPage) entered() uint64 { return p.filled.Load() >> entersShift }

// stamp returns the time of the first event, or 0.
func (p *bufferPage) stamp() int64 {
	if p.used() == 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p.data))
}

func newPages(n, size int) []*bufferPage {
	pages := make([]*bufferPage, max(n, 0))
	for i := range pages {
		pages[i] = &bufferPage{data: make([]byte, size)}
	}
	return pages
}

// pad is rb_reset_tail: it fills the rest of a page with a padding event if that fits.
func (p *bufferPage) pad(used int) {
	room := p.room() - used
	if room < eventHeader+4 {
		return
	}
	at := PageHeader + used
	binary.LittleEndian.PutUint32(p.data[at:], typePadding|1<<5)
	binary.LittleEndian.PutUint32(p.data[at+4:], uint32(room-eventHeader))
	clear(p.data[at+8:])
	p.filled.Add(uint64(room))
}

// eventSize returns the size in a page of an event with n bytes of data, without a time
// extension: rb_calculate_event_length.
func eventSize(n int) int {
	if n > smallDataMax {
		n += 4
	}
	return eventHeader + (max(n, 1)+3)&^3
}

// putEvent writes an event's header and data at page[at:] and returns where the
// next one begins.
func putEvent(page []byte, at int, delta uint32, data []byte) int {
	words := (max(len(data), 1) + 3) / 4
	if words <= typeLenMax {
		binary.LittleEndian.PutUint32(page[at:], uint32(words)|delta<<5)
		at += eventHeader
	} else {
		binary.LittleEndian.PutUint32(page[at:], delta<<5)
		binary.LittleEndian.PutUint32(page[at+4:], uint32(words*4+4))
		at += eventHeader + 4
	}
	n := copy(page[at:], data)
	clear(page[at+n : at+words*4])
	return at + words*4
}

// Bits of a page's commit field: events were lost before the page, and their number
// follows the last event.
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
)

// Record is one event as it is stored in a page.
type Record struct {
	CPU  int
	Time int64
	Data []byte // padded to whole words; a slice of the page that it was read from

	Missed bool // set by an Iterator if events right before it were overwritten during the iteration
}

// pageReader walks the events of one page.
type pageReader struct {
	data []byte // the committed events that are not read yet
	time int64
}

// newPageReader starts at the page's first event. It fails with EINVAL if the page
// claims to hold more than it can.
func newPageReader(page []byte) (pageReader, error) {
	if len(page) < PageHeader {
		return pageReader{}, fmt.Errorf("a page of %d bytes: %w", len(page), syscall.EINVAL)
	}
	commit := binary.LittleEndian.Uint64(page[8:]) & (1<<30 - 1)
	if commit > uint64(len(page)-PageHeader) {
		return pageReader{}, fmt.Errorf("a commit of %d bytes: %w", commit, syscall.EINVAL)
	}
	return pageReader{data: page[PageHeader : PageHeader+commit], time: int64(binary.LittleEndian.Uint64(page))}, nil
}

// next returns the page's next data event. ok is false at the end of the page and if
// the page is malformed.
func (r *pageReader) next() (data []byte, time int64, ok bool) {
	for len(r.data) >= eventHeader {
		head := binary.LittleEndian.Uint32(r.data)
		typ, delta := head&31, int64(head>>5)
		size, skip := r.extent(typ)
		if size == 0 {
			break
		}
		event := r.data[:size]
		r.data = r.data[size:]
		switch typ {
		case typeExtend:
			r.time += delta | int64(binary.LittleEndian.Uint32(event[4:]))<<deltaBits
		case typeStamp:
			r.time = delta | int64(binary.LittleEndian.Uint32(event[4:]))<<deltaBits
		case typePadding:
			r.time += delta
		default:
			r.time += delta
			return event[skip:], r.time, true
		}
	}
	r.data = nil
	return nil, 0, false
}

// extent returns the size of the current event with its header, and the offset of its
// data. size is 0 if the event exceeds the page.
func (r *pageReader) extent(typ uint32) (size, skip int) {
	size, skip = eventHeader+int(typ)*4, eventHeader
	switch {
	case typ == typeExtend || typ == typeStamp:
		size = 8
	case typ == 0 || typ == typePadding:
		if len(r.data) < 8 {
			return 0, 0
		}
		n := binary.LittleEndian.Uint32(r.data[4:])
		if n < 4 || uint64(n) > uint64(len(r.data)) {
			return 0, 0
		}
		size, skip = eventHeader+int(n), eventHeader+4
	}
	if size > len(r.data) {
		return 0, 0
	}
	return size, skip
}

// HeaderEvent returns the text of events/header_event: the layout of an event's header
// in a page.
func HeaderEvent() string {
	return strings.Join([]string{
		"# compressed entry header",
		"\ttype_len    :    5 bits",
		"\ttime_delta  :   27 bits",
		"\tarray       :   32 bits",
		"",
		fmt.Sprintf("\tpadding     : type == %d", typePadding),
		fmt.Sprintf("\ttime_extend : type == %d", typeExtend),
		fmt.Sprintf("\ttime_stamp : type == %d", typeStamp),
		fmt.Sprintf("\tdata max type_len  == %d", typeLenMax),
		"",
	}, "\n")
}
