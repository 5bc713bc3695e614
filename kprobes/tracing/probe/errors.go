package probe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Reason is one of the reasons in trace_probe.c for which a definition is
// refused: what error_log says, and the errno of the write.
type Reason struct {
	Text  string
	Errno syscall.Errno
}

var (
	errNoGroupName    = Reason{"Group name is not specified", syscall.EINVAL}
	errGroupTooLong   = Reason{"Group name is too long", syscall.EINVAL}
	errBadGroupName   = Reason{"Group name must follow the same rules as C identifiers", syscall.EINVAL}
	errNoEventName    = Reason{"Event name is not specified", syscall.EINVAL}
	errEventTooLong   = Reason{"Event name is too long", syscall.EINVAL}
	errBadEventName   = Reason{"Event name must follow the same rules as C identifiers", syscall.EINVAL}
	errArgNameTooLong = Reason{"Argument name is too long", syscall.EINVAL}
	errNoArgName      = Reason{"Argument name is not specified", syscall.EINVAL}
	errBadArgName     = Reason{"Argument name must follow the same rules as C identifiers", syscall.EINVAL}
	errUsedArgName    = Reason{"This argument name is already used", syscall.EINVAL}
	errArgTooLong     = Reason{"Argument expression is too long", syscall.EINVAL}
	errNoArgBody      = Reason{"No argument expression", syscall.EINVAL}
	errArrayNoClose   = Reason{"Array is not closed", syscall.EINVAL}
	errEventTooBig    = Reason{"Event too big (too many fields?)", syscall.E2BIG}
	errBadArraySuffix = Reason{"Array has wrong suffix", syscall.EINVAL}
	errBadArrayNum    = Reason{"Invalid array size", syscall.EINVAL}
	errArrayTooBig    = Reason{"Array number is too big", syscall.EINVAL}
	errBadType        = Reason{"Unknown type is specified", syscall.EINVAL}
	errBadString      = Reason{"String accepts only memory argument", syscall.EINVAL}
	errStringType     = Reason{"$comm and immediate-string only accepts string type", syscall.EINVAL}
	errBadSymString   = Reason{"Symbol String doesn't accept data/userdata", syscall.EINVAL}
	errBadBitfield    = Reason{"Invalid bitfield", syscall.EINVAL}
	errTooManyOps     = Reason{"Dereference is too much nested", syscall.EINVAL}
	errBadRegName     = Reason{"Invalid register name", syscall.EINVAL}
	errBadVar         = Reason{"Invalid $-variable specified", syscall.EINVAL} // "valiable" until 6.1.176
	errRetvalOnProbe  = Reason{"$retval is not available on probe", syscall.EINVAL}
	errBadStackNum    = Reason{"Invalid stack number", syscall.EINVAL}
	errBadArgNum      = Reason{"Invalid argument number", syscall.EINVAL}
	errBadMemAddr     = Reason{"Invalid memory address", syscall.EINVAL}
	errBadFileOffs    = Reason{"Invalid file offset value", syscall.EINVAL}
	errSymOnUprobe    = Reason{"Symbol is not available with uprobe", syscall.EINVAL}
	errBadAttachArg   = Reason{"Attached event does not have this field", syscall.ENOENT}
	errFileOnKprobe   = Reason{"File offset is not available with kprobe", syscall.EINVAL}
	errDerefNeedBrace = Reason{"Dereference needs a brace", syscall.EINVAL}
	errBadDerefOffs   = Reason{"Invalid dereference offset", syscall.EINVAL}
	errDerefOpenBrace = Reason{"Dereference brace is not closed", syscall.EINVAL}
	errCommCantDeref  = Reason{"$comm can not be dereferenced", syscall.EINVAL}
	errImmStrNoClose  = Reason{"String is not closed with '\"'", syscall.EINVAL}
	errBadImm         = Reason{"Invalid immediate value", syscall.EINVAL}
	errNotAtEntry     = Reason{"$arg* can be used only on function entry or exit", syscall.EINVAL}
	errDoubleArgs     = Reason{"$arg* can be used only once in the parameters", syscall.EINVAL}
	errNoSupBTFArg    = Reason{"BTF is not available or not supported", syscall.EINVAL}
	errNoBTFArg       = Reason{"This variable is not found at this probe point", syscall.ENOENT}
	errNoBTFEntry     = Reason{"No BTF entry for this probe point", syscall.ENOENT}
	errBadVarENOENT   = Reason{"Invalid $-variable specified", syscall.ENOENT}
	errBadHyphen      = Reason{"Failed to parse single hyphen. Forgot '>'?", syscall.EINVAL}
	errNoBTFField     = Reason{"This field is not found.", syscall.ENOENT}
	errBadBTFType     = Reason{"Failed to get BTF type info.", syscall.EINVAL}
	errBadTypeString  = Reason{"This type does not fit for string.", syscall.EINVAL}
	errNoPtrStruct    = Reason{"This is not a pointer to union/structure.", syscall.EINVAL}
	errNoSupDot       = Reason{"Non pointer structure/union argument is not supported.", syscall.EOPNOTSUPP}
	errNoRetval       = Reason{"This function returns 'void' type", syscall.ENOENT}
	errBadFetchArg    = Reason{"Invalid fetch argument", syscall.EINVAL}
)

// Because returns the reason with the errno of err, or EINVAL if that has none.
func (e Reason) Because(err error) Reason {
	if !errors.As(err, &e.Errno) {
		e.Errno = syscall.EINVAL
	}
	return e
}

// Error says where the error is in a command: the index of the word in argv
// and the offset in that word. The index after the last word means that something is
// missing.
type Error struct {
	Reason
	index, offset int
}

// NewError returns the error at an offset (bytes) in the word of that index.
func NewError(reason Reason, index, offset int) *Error {
	return &Error{reason, index, offset}
}

// Error returns the reason with its place and its errno.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (word %d, offset %d): %v", e.Text, e.index, e.offset, e.Errno)
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Word returns the index of the word in the command that the error is about.
func (e *Error) Word() int { return e.index }

// Caret returns the command as error_log shows it, with one blank between its words,
// and the column of the error.
func (e *Error) Caret(argv []string) (command string, column int) {
	command = strings.Join(argv, " ")
	if e.index >= len(argv) {
		return command, len(command) + 1
	}
	for _, word := range argv[:e.index] {
		column += len(word) + 1
	}
	return command, column + e.offset
}

// InWord returns the error at the same offset in another word.
func (e *Error) InWord(index int) *Error {
	return &Error{e.Reason, index, e.offset}
}

// Preceding returns the entry of error_log that precedes the one about an argument, or
// nil.
func (d *Definition) Preceding(derr *Error) *Error {
	if derr == nil || d.first == nil {
		return nil
	}
	return &Error{*d.first, derr.index, derr.offset}
}

// ReleaseReason returns the reason that an argument is refused as the release gives it.
func (c *Rules) ReleaseReason(e Reason) Reason {
	switch {
	case c.has[release.LongArgE2BIG] && e == errArgTooLong:
		e.Errno = syscall.E2BIG
	case e == errBadVar:
		e.Text = release.BadVariable.Of(c.linux)
	}
	return e
}

// argError says what is wrong in an argument, and where in its word.
type argError struct {
	Reason
	offset int
}

func failArg(e Reason, offset int) *argError { return &argError{e, offset} }

// because replaces the errno by err's, the error of parsing a number.
func (e *argError) because(err error) *argError {
	e.Reason = e.Reason.Because(err)
	return e
}

// errQuietArg is an error that error_log does not report.
var errQuietArg = &argError{Reason: Reason{Errno: syscall.EINVAL}}
