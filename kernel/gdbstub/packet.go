package gdbstub

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxPacket is how many bytes a packet has at most, in each direction, after escapes have been removed.
const maxPacket = 16 << 10

// event is what a client sends: a packet, or the byte that asks to stop the machine.
type event struct {
	packet    []byte
	interrupt bool
	err       error // the connection has ended
}

// errLong reports a packet that is longer than maxPacket.
var errLong = errors.New("the packet is too long")

// errSum reports a packet whose check sum does not fit its bytes.
var errSum = errors.New("the check sum is wrong")

// readEvent reads up to the next packet or interrupt. It skips acknowledgements and what is between
// packets. Its error is errLong or errSum for a packet that must not be used, and otherwise r's.
func readEvent(r *bufio.Reader) (event, error) {
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return event{}, err
		case b == 3:
			return event{interrupt: true}, nil
		case b == '$':
			p, err := readPacket(r)
			return event{packet: p}, err
		}
	}
}

// readPacket reads the packet after its '$'. Another '$' begins it anew.
func readPacket(r *bufio.Reader) ([]byte, error) {
	p := []byte{}
	var sum byte
	long, escaped := false, false
	for {
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		switch {
		case b == '$':
			p, sum, long, escaped = p[:0], 0, false, false
			continue
		case b == '#':
			return finish(r, p, sum, long)
		}
		sum += b
		switch {
		case b == '}' && !escaped:
			escaped = true
			continue
		case escaped:
			b, escaped = b^0x20, false
		}
		if len(p) == maxPacket {
			long = true
			continue
		}
		p = append(p, b)
	}
}

// finish reads the check sum of p.
func finish(r *bufio.Reader, p []byte, sum byte, long bool) ([]byte, error) {
	var digits [2]byte
	if _, err := io.ReadFull(r, digits[:]); err != nil {
		return nil, err
	}
	got, err := strconv.ParseUint(string(digits[:]), 16, 8)
	switch {
	case err != nil || byte(got) != sum:
		return nil, errSum
	case long:
		return nil, errLong
	}
	return p, nil
}

// frame makes a packet of p.
func frame(p []byte) []byte {
	var b bytes.Buffer
	b.WriteByte('$')
	var sum byte
	for _, c := range p {
		if c == '$' || c == '#' || c == '}' || c == '*' {
			b.WriteByte('}')
			sum += '}'
			c ^= 0x20
		}
		b.WriteByte(c)
		sum += c
	}
	fmt.Fprintf(&b, "#%02x", sum)
	return b.Bytes()
}
