package bpf

import (
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// target is what a program of type TRACING is for: a function, or a tracepoint.
type target struct {
	id      uint32 // of the type
	name    string // of the function or tracepoint
	addr    uint64 // of the function, or the number of the program that has it
	args    []btf.FuncParam
	returns btf.Type // nil for a tracepoint
}

// How programs of type TRACING are attached (enum bpf_attach_type).
const (
	traceRawTP    = 23
	traceFentry   = 24
	traceFexit    = 25
	modifyReturn  = 26
	traceIter     = 28
	maxFuncArgs   = 12 // MAX_BPF_FUNC_ARGS
	tracepointTag = "btf_trace_"
	modifiable    = "security_" // how functions begin whose result programs may modify
)

// target is bpf_check_attach_target. It fails with EINVAL, and with ENOENT for a function without an address.
func (v *verifier) target(p *Prog, id uint32) (*target, error) {
	if id == 0 {
		return nil, v.refuse(syscall.EINVAL, "Tracing programs must provide btf_id")
	}
	if p.attachProg != nil {
		return v.programTarget(p, id)
	}
	spec := p.sys.types.parsed()
	if spec == nil {
		return nil, v.refuse(syscall.EINVAL, "FENTRY/FEXIT program can only be attached to another program annotated with BTF")
	}
	t, err := spec.TypeByID(btf.TypeID(id))
	if err != nil {
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d is invalid", id)
	}
	if t.TypeName() == "" {
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d doesn't have a name", id)
	}
	switch p.attachType {
	case traceRawTP:
		return v.tracepointTarget(t, id)
	case traceFentry, traceFexit, modifyReturn:
		return v.functionTarget(p, t, id)
	case traceIter:
		return v.iterTarget(t, id)
	}
	return nil, syscall.EINVAL
}

func (v *verifier) tracepointTarget(t btf.Type, id uint32) (*target, error) {
	def, ok := t.(*btf.Typedef)
	if !ok {
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d is not a typedef", id)
	}
	name, ok := strings.CutPrefix(def.Name, tracepointTag)
	if !ok {
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d points to wrong type name %s", id, def.Name)
	}
	args, ok := tracepointParams(def)
	if !ok {
		return nil, syscall.EINVAL
	}
	return &target{id: id, name: name, args: args}, nil
}

// tracepointParams returns the arguments of a tracepoint from its type btf_trace_NAME, which points to a function that
// has one before them.
func tracepointParams(def *btf.Typedef) (args []btf.FuncParam, ok bool) {
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return nil, false
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil, false
	}
	return proto.Params[1:], true
}

// traceable is btf_distill_func_proto: the name and the arguments of a function to which programs can be attached.
func (v *verifier) traceable(t btf.Type, id uint32) (name string, proto *btf.FuncProto, err error) {
	f, ok := t.(*btf.Func)
	if !ok {
		return "", nil, v.refuse(syscall.EINVAL, "attach_btf_id %d is not a function", id)
	}
	proto, ok = f.Type.(*btf.FuncProto)
	if !ok {
		return "", nil, syscall.EINVAL
	}
	if len(proto.Params) > maxFuncArgs {
		return "", nil, v.refuse(syscall.EINVAL, "The function %s has %d arguments. Too many.", f.Name, len(proto.Params))
	}
	for n, a := range proto.Params {
		switch btf.UnderlyingType(a.Type).(type) {
		case *btf.Void, *btf.Float:
			return "", nil, v.refuse(syscall.EINVAL, "The function %s arg%d type %s is unsupported.", f.Name, n, btf.UnderlyingType(a.Type).TypeName())
		}
	}
	return f.Name, proto, nil
}

func (v *verifier) functionTarget(p *Prog, t btf.Type, id uint32) (*target, error) {
	name, proto, err := v.traceable(t, id)
	if err != nil {
		return nil, err
	}
	addr := uint64(0)
	if p.sys.conf.Probes != nil {
		addr = p.sys.conf.Probes.Function(name)
	}
	switch {
	case addr == 0:
		return nil, v.refuse(syscall.ENOENT, "The address of function %s cannot be found", name)
	case p.sleepable:
		return nil, v.refuse(syscall.EINVAL, "%s is not sleepable", name)
	case p.attachType == modifyReturn && !strings.HasPrefix(name, modifiable):
		return nil, v.refuse(syscall.EINVAL, "%s() is not modifiable", name)
	}
	return &target{id: id, name: name, addr: addr, args: proto.Params, returns: proto.Return}, nil
}

// tracepointArgs returns how many arguments a tracepoint has, if the kernel's types tell that.
func (t *kernelTypes) tracepointArgs(name string) (n int, known bool) {
	spec := t.parsed()
	var def *btf.Typedef
	if spec == nil || spec.TypeByName(tracepointTag+name, &def) != nil {
		return 0, false
	}
	args, known := tracepointParams(def)
	return len(args), known
}

// argument is btf_ctx_access: what a program of type TRACING finds at an offset in its first argument.
func (t *target) argument(v *verifier, off, size int) (value, bool) {
	if off%8 != 0 {
		v.log.printf("func '%s' offset %d is not multiple of 8\n", t.name, off)
		return value{}, false
	}
	n := off / 8
	var typ btf.Type
	switch {
	case n < len(t.args):
		typ = t.args[n].Type
	case n == len(t.args) && v.prog.attachType == traceFexit:
		typ = t.returns
	case n == len(t.args) && v.prog.attachType == modifyReturn:
		typ = t.returns
		if _, number := btf.UnderlyingType(typ).(*btf.Int); !number {
			v.log.printf("ret type %s not allowed for fmod_ret\n", kindName(btf.UnderlyingType(typ)))
			return value{}, false
		}
	default:
		v.log.printf("func '%s' doesn't have %d-th argument\n", t.name, t.beyond(v.prog, n)+1)
		return value{}, false
	}
	typ = btf.UnderlyingType(typ)
	points, ok := typ.(*btf.Pointer)
	if !ok {
		_, isVoid := typ.(*btf.Void)
		if isVoid && n < len(t.args) {
			v.log.printf("func '%s' arg%d '' has type UNKNOWN. Only pointer access is allowed\n", t.name, n)
			return value{}, false
		}
		return unknown(), true
	}
	if v.v612 && size != 8 {
		v.log.printf("func '%s' size %d must be 8\n", t.name, size)
		return value{}, false
	}
	to := btf.UnderlyingType(points.Target)
	switch to.(type) {
	case *btf.Void, *btf.Int:
		return unknown(), true
	case *btf.Struct, *btf.Union:
		p := pointer(regStruct)
		p.to = to
		if v.prog.attachType == traceIter && n > 0 { // what is shown: NULL at the end
			p.typ, p.id = regStructOrNull, v.newID()
			return p, true
		}
		if !v.log.off() {
			id, _ := v.prog.sys.types.parsed().TypeID(to)
			v.log.printf("func '%s' arg%d has btf_id %d type %s '%s'\n", t.name, n, id, kindName(to), to.TypeName())
		}
		return p, true
	}
	v.log.printf("func '%s' arg%d type %s is not a struct\n", t.name, n, kindName(to))
	return value{}, false
}

// beyond is get_ctx_arg_idx: which argument Linux takes one to be that there is not.
func (t *target) beyond(p *Prog, n int) int {
	all := len(t.args)
	if p.attachType == traceRawTP {
		all++ // the tracer's own, before the others
	}
	if _, void := t.returns.(*btf.Void); n > all || n == all && (void || t.returns == nil) {
		return all + 1
	}
	return n
}

// kindName is btf_type_str: the kind of a type in the words of the log.
func kindName(t btf.Type) string {
	switch t.(type) {
	case *btf.Struct:
		return "STRUCT"
	case *btf.Union:
		return "UNION"
	case *btf.Pointer:
		return "PTR"
	case *btf.FuncProto:
		return "FUNC_PROTO"
	case *btf.Fwd:
		return "FWD"
	case *btf.Enum:
		return "ENUM"
	case *btf.Array:
		return "ARRAY"
	}
	return "UNKNOWN"
}
