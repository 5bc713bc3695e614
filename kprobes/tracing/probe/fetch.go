package probe

// Source is where the value of an argument comes from.
type Source byte

// The sources that a function's types say something about, and all others.
const (
	FromOther    Source = iota // the stack, a number, a symbol, the task's name
	FromRegister               // %NAME
	FromArg                    // $argN, or a parameter's name
	FromReturn                 // $retval
)

// Access is the last step by which the value of an argument is fetched.
type Access byte

// The kinds of accesses.
const (
	NoAccess     Access = iota // the value is a register's
	ReadsNumber                // a number is read from memory
	ReadsString                // a string is read from memory
	ReadsAddress               // the address is shown as a symbol
)

// Fetch says what an argument fetches: the value of a source, as an address to which the first of Loads
// is added and from which the next address is loaded, and so on; then, with Access, what lies At bytes
// after the last address.
type Fetch struct {
	Name, Text string // NAME=FETCHARG[:TYPE]; Text is without the name
	Source     Source
	Register   string // of FromRegister
	Arg        int    // of FromArg: counted from 0
	Loads      []int64
	Access     Access
	At         int64
	Type       string // u8, s32, x64, string, ...
	Size       int    // of one element, in bytes; of a string, of its location
	Count      int    // of the elements of an array; 0 if it is no array
	Bits       bool   // a part of the number's bits is taken
}

// Fetches returns what the arguments of a parsed definition fetch.
func (d *Definition) Fetches() []Fetch {
	var all []Fetch
	for i := range d.Args {
		all = append(all, d.Args[i].fetch(d))
	}
	return all
}

func (a *Arg) fetch(d *Definition) Fetch {
	c := &a.code
	f := Fetch{Name: a.name, Text: a.text, Type: a.typ.name, Size: c.size, Count: c.count, Bits: c.bitfield}
	switch c.source {
	case fetchReg:
		f.Source, f.Register = FromRegister, registerNames[c.value]
	case fetchArg:
		f.Source, f.Arg = FromArg, int(c.value)
	case fetchEntryArg:
		f.Source, f.Arg = FromArg, d.EntryArgs[c.value]
	case fetchRetval:
		f.Source = FromReturn
	default:
		f.Source = FromOther
	}
	for _, l := range c.derefs {
		f.Loads = append(f.Loads, int64(l.by))
	}
	switch c.store {
	case storeMemory, storeUserMemory:
		f.Access, f.At = ReadsNumber, int64(c.storeAt)
	case storeString, storeUserString:
		f.Access, f.At = ReadsString, int64(c.storeAt)
	case storeSymbol:
		f.Access = ReadsAddress
	case storeRaw:
		f.Access = NoAccess
	}
	return f
}
