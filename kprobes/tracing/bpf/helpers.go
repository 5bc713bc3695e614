package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// argType says what a helper takes as an argument (enum bpf_arg_type), for the verifier.
type argType uint8

const (
	argNone argType = iota
	argAnything
	argMap          // a map
	argKey          // memory for a key of the map
	argValue        // memory with a value of the map
	argUninitValue  // memory for a value of the map, which the helper writes
	argMem          // memory of as many bytes as the next argument says
	argMemOrNull    // the same, or NULL
	argUninitMem    // memory that the helper writes
	argSize         // how many bytes, at least 1
	argSizeOrZero   // how many bytes
	argCtx          // the program's own first argument
	argConstString  // a string in a map that is frozen and read-only
	argFunc         // a function of the program
	argStackOrNull  // the stack, or NULL
	argRecord       // a record of a ring buffer, which the helper takes back
	argUninitLong   // memory for 8 bytes, which the helper writes
	argConstantSize // a constant number of bytes
	argConstSizeOrZero
	argValueOrNull   // memory with a value of the map, or NULL
	argTask          // a struct task_struct
	argSeqFile       // a struct seq_file
	argPath          // a struct path
	argNewDynptr     // room on the stack for a dynptr, which the helper makes of memory
	argNewRingDynptr // the same, of a record of a ring buffer
	argRingDynptr    // such a one, which the helper takes back
	argPercpu        // a variable of each CPU
	argKptr          // a pointer in a value of a map
	argStructOrNull  // what it is exchanged with
	argDynptr        // a dynptr
	argSpinLock      // a spin lock in a value of a map
	argTimer         // a timer there
)

// retType says what a helper returns.
type retType uint8

const (
	retInteger retType = iota
	retVoid
	retMapValueOrNull
	retRecordOrNull
	retMemOrNull // as many bytes of a dynptr as the third argument says
	retRegs      // a struct pt_regs, the same
	retTask      // a struct task_struct, whose fields may be read
)

// helper is struct bpf_func_proto: a function that programs may call.
type helper struct {
	name string
	do   func(r *run, a *[numArgs]uint64) uint64
	ret  retType
	args [numArgs]argType
	gpl  bool
}

// Numbers of helpers that the verifier treats specially.
const (
	helperTailCall         = 12
	helperProcessorID      = 8
	helperReadString       = 45
	helperGetStackID       = 27
	helperGetStack         = 67
	helperReadUserString   = 114
	helperReadKernelString = 115
	helperDPath            = 147
	helperUnderCgroup      = 37
	helperCoarseTime       = 160
	helperForEachElem      = 164
	helperGetFuncIP        = 173
	helperAttachCookie     = 174
	helperFuncArg          = 183
	helperFuncRet          = 184
	helperFuncArgCnt       = 185
	helperMapPeek          = 89
	helperLoop             = 181
	helperRingDrain        = 209
	helperSpinLock         = 93
	helperSpinUnlock       = 94
	helperSetCallback      = 170
	helperCopyFromUser     = 148
	helperSysBPF           = 166
	helperSeqPrintf        = 126
	helperSeqWrite         = 127
	helperSeqPrintfBTF     = 150
	helperKallsymsName     = 179
	helperBranchRecords    = 119
	helperTaskStack        = 141
	helperTaskRegs         = 175
	helperPercpuPtr        = 153
	helperFindByName       = 167
	helperSysClose         = 168
	helperFindVMA          = 180
	helperCopyFromTask     = 191
	helperKptrXchg         = 194
	helperLookupPercpu     = 195
	helperDynptrFromMem    = 197
	helperReserveDynptr    = 198
	helperDynptrData       = 203
)

// helpers has the functions that tracing programs may call, by number (enum bpf_func_id).
var helpers map[int32]*helper

func init() { helpers = helperTable() } // it refers to itself by callbacks

func helperTable() map[int32]*helper {
	const (
		any_ = argAnything
		none = argNone
	)
	return map[int32]*helper{
		1:                   {"bpf_map_lookup_elem", (*run).mapLookup, retMapValueOrNull, [5]argType{argMap, argKey}, false},
		2:                   {"bpf_map_update_elem", (*run).mapUpdate, retInteger, [5]argType{argMap, argKey, argValue, any_}, false},
		3:                   {"bpf_map_delete_elem", (*run).mapDelete, retInteger, [5]argType{argMap, argKey}, false},
		4:                   {"bpf_probe_read", (*run).probeRead, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		5:                   {"bpf_ktime_get_ns", clock(clockMonotonic), retInteger, [5]argType{}, false},
		6:                   {"bpf_trace_printk", (*run).tracePrintk, retInteger, [5]argType{argMem, argSize}, true},
		7:                   {"bpf_get_prandom_u32", func(*run, *[5]uint64) uint64 { return uint64(rand.Uint32()) }, retInteger, [5]argType{}, false},
		helperProcessorID:   {"bpf_get_smp_processor_id", func(r *run, _ *[5]uint64) uint64 { return uint64(r.cpu()) }, retInteger, [5]argType{}, false},
		12:                  {"bpf_tail_call", nil, retVoid, [5]argType{argCtx, argMap, any_}, false},
		14:                  {"bpf_get_current_pid_tgid", func(r *run, _ *[5]uint64) uint64 { return uint64(uint32(r.hit.PID))<<32 | uint64(uint32(r.hit.TID)) }, retInteger, [5]argType{}, false},
		15:                  {"bpf_get_current_uid_gid", func(r *run, _ *[5]uint64) uint64 { return r.hit.UID }, retInteger, [5]argType{}, false},
		16:                  {"bpf_get_current_comm", (*run).currentComm, retInteger, [5]argType{argUninitMem, argSize}, false},
		25:                  {"bpf_perf_event_output", (*run).perfOutput, retInteger, [5]argType{argCtx, argMap, any_, argMem, argSizeOrZero}, true},
		helperGetStackID:    {"bpf_get_stackid", (*run).stackID, retInteger, [5]argType{argCtx, argMap, any_}, true},
		35:                  {"bpf_get_current_task", func(r *run, _ *[5]uint64) uint64 { return r.hit.Trap.Task }, retInteger, [5]argType{}, true},
		37:                  {"bpf_current_task_under_cgroup", (*run).underCgroup, retInteger, [5]argType{argMap, any_}, false},
		42:                  {"bpf_get_numa_node_id", func(*run, *[5]uint64) uint64 { return 0 }, retInteger, [5]argType{}, false},
		45:                  {"bpf_probe_read_str", (*run).probeReadString, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		helperGetStack:      {"bpf_get_stack", (*run).getStack, retInteger, [5]argType{argCtx, argUninitMem, argSizeOrZero, any_}, true},
		80:                  {"bpf_get_current_cgroup_id", func(*run, *[5]uint64) uint64 { return 1 }, retInteger, [5]argType{}, false},
		87:                  {"bpf_map_push_elem", (*run).mapPush, retInteger, [5]argType{argMap, argValue, any_}, false},
		88:                  {"bpf_map_pop_elem", (*run).mapPop, retInteger, [5]argType{argMap, argUninitValue}, false},
		helperMapPeek:       {"bpf_map_peek_elem", (*run).mapPeek, retInteger, [5]argType{argMap, argUninitValue}, false},
		helperSpinLock:      {"bpf_spin_lock", (*run).spinLock, retVoid, [5]argType{argSpinLock}, false},
		helperSpinUnlock:    {"bpf_spin_unlock", (*run).spinLock, retVoid, [5]argType{argSpinLock}, false},
		109:                 {"bpf_send_signal", sendSignal(false), retInteger, [5]argType{any_}, false},
		117:                 {"bpf_send_signal_thread", sendSignal(true), retInteger, [5]argType{any_}, false},
		112:                 {"bpf_probe_read_user", (*run).probeReadUser, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		113:                 {"bpf_probe_read_kernel", (*run).probeReadKernel, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		114:                 {"bpf_probe_read_user_str", (*run).probeReadUserString, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		115:                 {"bpf_probe_read_kernel_str", (*run).probeReadKernelString, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		118:                 {"bpf_jiffies64", func(r *run, _ *[5]uint64) uint64 { return jiffies(r.hit.Trap.Now()) }, retInteger, [5]argType{}, false},
		120:                 {"bpf_get_ns_current_pid_tgid", (*run).nsPID, retInteger, [5]argType{any_, any_, argUninitMem, argSize}, false},
		125:                 {"bpf_ktime_get_boot_ns", clock(clockBoottime), retInteger, [5]argType{}, false},
		helperDPath:         {"bpf_d_path", (*run).dPath, retInteger, [5]argType{argPath, argMem, argSizeOrZero}, false},
		helperSeqPrintf:     {"bpf_seq_printf", (*run).seqPrintf, retInteger, [5]argType{argSeqFile, argMem, argSize, argMemOrNull, argSizeOrZero}, true},
		helperSeqWrite:      {"bpf_seq_write", (*run).seqWrite, retInteger, [5]argType{argSeqFile, argMem, argSizeOrZero}, true},
		149:                 {"bpf_snprintf_btf", (*run).snprintfBTF, retInteger, [5]argType{argMem, argSize, argMem, argSize, any_}, true},
		helperSeqPrintfBTF:  {"bpf_seq_printf_btf", (*run).seqPrintfBTF, retInteger, [5]argType{argSeqFile, argMem, argSizeOrZero, any_}, true},
		130:                 {"bpf_ringbuf_output", (*run).ringOutput, retInteger, [5]argType{argMap, argMem, argSizeOrZero, any_}, false},
		131:                 {"bpf_ringbuf_reserve", (*run).ringReserve, retRecordOrNull, [5]argType{argMap, argConstantSize, any_}, false},
		132:                 {"bpf_ringbuf_submit", (*run).ringSubmit, retVoid, [5]argType{argRecord, any_}, false},
		133:                 {"bpf_ringbuf_discard", (*run).ringDiscard, retVoid, [5]argType{argRecord, any_}, false},
		134:                 {"bpf_ringbuf_query", (*run).ringQuery, retInteger, [5]argType{argMap, any_}, false},
		158:                 {"bpf_get_current_task_btf", func(r *run, _ *[5]uint64) uint64 { return r.hit.Trap.Task }, retTask, [5]argType{}, true},
		helperCopyFromUser:  {"bpf_copy_from_user", (*run).copyFromUser, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, false},
		156:                 {"bpf_task_storage_get", (*run).storageGet, retMapValueOrNull, [5]argType{argMap, argTask, argValueOrNull, any_}, false},
		157:                 {"bpf_task_storage_delete", (*run).storageDelete, retInteger, [5]argType{argMap, argTask}, false},
		160:                 {"bpf_ktime_get_coarse_ns", clock(clockMonotonic), retInteger, [5]argType{}, false},
		164:                 {"bpf_for_each_map_elem", (*run).forEach, retInteger, [5]argType{argMap, argFunc, argStackOrNull, any_}, false},
		165:                 {"bpf_snprintf", (*run).snprintf, retInteger, [5]argType{argMemOrNull, argSizeOrZero, argConstString, argMemOrNull, argSizeOrZero}, true},
		helperFindByName:    {"bpf_btf_find_by_name_kind", (*run).findByName, retInteger, [5]argType{argMem, argSizeOrZero, any_, any_}, false},
		helperSysClose:      {"bpf_sys_close", (*run).sysClose, retInteger, [5]argType{any_}, false},
		helperSysBPF:        {"bpf_sys_bpf", (*run).sysBPF, retInteger, [5]argType{any_, argMem, argSize}, false},
		169:                 {"bpf_timer_init", (*run).timerInit, retInteger, [5]argType{argTimer, argMap, any_}, true},
		helperSetCallback:   {"bpf_timer_set_callback", (*run).timerSetCallback, retInteger, [5]argType{argTimer, argFunc}, true},
		171:                 {"bpf_timer_start", (*run).timerStart, retInteger, [5]argType{argTimer, any_, any_}, true},
		172:                 {"bpf_timer_cancel", (*run).timerCancel, retInteger, [5]argType{argTimer}, true},
		173:                 {"bpf_get_func_ip", func(r *run, _ *[5]uint64) uint64 { return r.hit.Func }, retInteger, [5]argType{argCtx}, true},
		174:                 {"bpf_get_attach_cookie", func(r *run, _ *[5]uint64) uint64 { return r.cookie }, retInteger, [5]argType{argCtx}, false},
		177:                 {"bpf_trace_vprintk", (*run).traceVprintk, retInteger, [5]argType{argMem, argSize, argMemOrNull, argSizeOrZero}, true},
		helperKallsymsName:  {"bpf_kallsyms_lookup_name", (*run).kallsymsLookup, retInteger, [5]argType{argMem, argSizeOrZero, any_, argUninitLong}, false},
		helperLoop:          {"bpf_loop", (*run).loop, retInteger, [5]argType{any_, argFunc, argStackOrNull, any_}, false},
		182:                 {"bpf_strncmp", (*run).strncmp, retInteger, [5]argType{argMem, argSize, argConstString}, false},
		183:                 {"bpf_get_func_arg", (*run).funcArg, retInteger, [5]argType{argCtx, any_, argUninitLong}, false},
		184:                 {"bpf_get_func_ret", (*run).funcRet, retInteger, [5]argType{argCtx, argUninitLong}, false},
		176:                 {"bpf_get_branch_snapshot", (*run).branchSnapshot, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_}, true},
		185:                 {"bpf_get_func_arg_cnt", func(r *run, _ *[5]uint64) uint64 { return uint64(len(r.prog.target.args)) }, retInteger, [5]argType{argCtx}, false},
		22:                  {"bpf_perf_event_read", (*run).perfRead, retInteger, [5]argType{argMap, any_}, true},
		55:                  {"bpf_perf_event_read_value", (*run).perfReadValue, retInteger, [5]argType{argMap, any_, argUninitMem, argSize}, true},
		helperTaskStack:     {"bpf_get_task_stack", (*run).taskStack, retInteger, [5]argType{argTask, argUninitMem, argSizeOrZero, any_}, false},
		36:                  {"bpf_probe_write_user", (*run).probeWriteUser, retInteger, [5]argType{any_, argMem, argSize}, true},
		105:                 {"bpf_strtol", strto(true), retInteger, [5]argType{argMem, argSize, any_, argUninitLong}, false},
		106:                 {"bpf_strtoul", strto(false), retInteger, [5]argType{argMem, argSize, any_, argUninitLong}, false},
		123:                 {"bpf_get_current_ancestor_cgroup_id", ancestorCgroup, retInteger, [5]argType{any_}, false},
		helperBranchRecords: {"bpf_read_branch_records", branchRecords, retInteger, [5]argType{argCtx, argMemOrNull, argSizeOrZero, any_}, true},
		helperPercpuPtr:     {"bpf_per_cpu_ptr", (*run).unreachable, retMemOrNull, [5]argType{argPercpu, any_}, false},
		154:                 {"bpf_this_cpu_ptr", (*run).unreachable, retMemOrNull, [5]argType{argPercpu}, false},
		helperTaskRegs:      {"bpf_task_pt_regs", (*run).taskRegs, retRegs, [5]argType{argTask}, true},
		helperFindVMA:       {"bpf_find_vma", (*run).findVMA, retInteger, [5]argType{argTask, any_, argFunc, argStackOrNull, any_}, false},
		helperCopyFromTask:  {"bpf_copy_from_user_task", (*run).copyFromTask, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_, argTask, any_}, true},
		helperKptrXchg:      {"bpf_kptr_xchg", (*run).unreachable, retMemOrNull, [5]argType{argKptr, argStructOrNull}, false},
		helperLookupPercpu:  {"bpf_map_lookup_percpu_elem", (*run).lookupPercpu, retMapValueOrNull, [5]argType{argMap, argKey, any_}, false},
		helperDynptrFromMem: {"bpf_dynptr_from_mem", (*run).dynptrFromMem, retInteger, [5]argType{argUninitMem, argSizeOrZero, any_, argNewDynptr}, false},
		helperReserveDynptr: {"bpf_ringbuf_reserve_dynptr", (*run).reserveDynptr, retInteger, [5]argType{argMap, any_, any_, argNewRingDynptr}, false},
		199:                 {"bpf_ringbuf_submit_dynptr", endDynptr(false), retVoid, [5]argType{argRingDynptr, any_}, false},
		200:                 {"bpf_ringbuf_discard_dynptr", endDynptr(true), retVoid, [5]argType{argRingDynptr, any_}, false},
		201:                 {"bpf_dynptr_read", (*run).dynptrRead, retInteger, [5]argType{argUninitMem, argSizeOrZero, argDynptr, any_, any_}, false},
		202:                 {"bpf_dynptr_write", (*run).dynptrWrite, retInteger, [5]argType{argDynptr, any_, argMem, argSizeOrZero, any_}, false},
		203:                 {"bpf_dynptr_data", (*run).dynptrData, retMemOrNull, [5]argType{argDynptr, any_, argConstSizeOrZero}, false},
		helperRingDrain:     {"bpf_user_ringbuf_drain", (*run).ringDrain, retInteger, [5]argType{argMap, argFunc, argStackOrNull, any_}, false},
		208:                 {"bpf_ktime_get_tai_ns", clock(clockTAI), retInteger, [5]argType{none}, false},
	}
}

// prints reports whether the instruction calls a helper that writes into the trace.
func (i insn) prints() bool {
	return i.code == classJMP|jmpCALL && i.src == 0 && (i.imm == 6 || i.imm == 177)
}

// looks reports whether the program calls a helper that looks at the stack or the registers of user space.
func (p *Prog) looks() bool {
	return slices.ContainsFunc(p.insns, func(i insn) bool {
		if i.code != classJMP|jmpCALL || i.src != 0 {
			return false
		}
		switch i.imm {
		case helperGetStackID, helperGetStack, helperTaskStack, helperTaskRegs:
			return true
		}
		return false
	})
}

// funcArg is bpf_get_func_arg: it stores an argument of the traced function.
func (r *run) funcArg(a *[numArgs]uint64) uint64 {
	if a[1] >= uint64(len(r.prog.target.args)) {
		return errno(syscall.EINVAL)
	}
	r.store(a[2], r.load(ctxBase+8*a[1], 8), 8)
	return 0
}

// funcRet is bpf_get_func_ret: it stores what the traced function returns. At its entry that is EOPNOTSUPP.
func (r *run) funcRet(a *[numArgs]uint64) uint64 {
	if r.prog.attachType != traceFexit && r.prog.attachType != modifyReturn {
		return errno(syscall.EOPNOTSUPP)
	}
	r.store(a[1], r.load(ctxBase+8*uint64(len(r.prog.target.args)), 8), 8)
	return 0
}

// spinLock is bpf_spin_lock and bpf_spin_unlock. Programs run one at a time, and nobody else writes a value meanwhile.
func (r *run) spinLock(*[numArgs]uint64) uint64 { return 0 }

// underCgroup is bpf_current_task_under_cgroup. No element refers to a cgroup, since no descriptor here is of one.
func (r *run) underCgroup(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	if m == nil || uint32(a[1]) >= uint32(m.entries) {
		return errno(syscall.EINVAL)
	}
	return errno(syscall.EAGAIN)
}

// errno returns an error as a helper returns it.
func errno(err error) uint64 {
	if err == nil {
		return 0
	}
	e := syscall.EINVAL
	_ = errors.As(err, &e)
	return -uint64(e)
}

// Clocks of user space, by their numbers there.
const (
	clockMonotonic = 1
	clockBoottime  = 7
	clockTAI       = 11
)

// clock returns the helper that reads a clock of user space.
func clock(id int) func(r *run, _ *[numArgs]uint64) uint64 {
	return func(r *run, _ *[numArgs]uint64) uint64 { return uint64(r.hit.Trap.Now() + r.sys.offsets[id]) }
}

// jiffies returns the clock ticks (HZ is 250) of a time since boot, which begin five minutes before 2^32.
func jiffies(ns int64) uint64 { return 1<<32 - 300*250 + uint64(ns)/4e6 }

// cpu returns the number of the hit's CPU, as user space knows it.
func (r *run) cpu() int { return r.sys.cpu(r.hit.Trap.CPU) }

// tailCall is bpf_tail_call: it continues with another program, unless there is none.
func (r *run) tailCall() bool {
	m, i := r.mapAt(r.reg[2]), uint32(r.reg[3])
	r.reg[r0] = 0
	if m == nil || m.kind != mapProgArray || uint64(i) >= uint64(len(m.held)) || r.tails >= maxTails {
		return false
	}
	p, ok := m.held[i].(*Prog)
	if !ok {
		return false
	}
	r.tails++
	r.prog = p
	return true
}

// mapAt returns the map that a pointer refers to, or nil.
func (r *run) mapAt(addr uint64) *Map {
	if addr-objBase >= objEnd-objBase {
		return nil
	}
	return r.sys.byIndex[(addr-objBase)>>objShift]
}

// fetch returns n bytes of what a helper gets a pointer to. The verifier has seen to it that they are
// there; if not, the program ends.
func (r *run) fetch(addr uint64, n int) []byte {
	b := r.bytes(addr, n)
	if b == nil {
		r.end("a helper's argument points to nothing")
	}
	return b
}

func (r *run) key(m *Map, addr uint64) []byte {
	if m == nil {
		r.end("a helper without a map")
		return nil
	}
	return r.fetch(addr, m.key)
}

func (r *run) mapLookup(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	key := r.key(m, a[1])
	if key == nil || m.stride == 0 || m.kind == mapStackTrace || m.kind == mapProgArray || m.kind == mapPerfEventArray {
		return 0
	}
	n := m.find(key)
	if n < 0 {
		return 0
	}
	if m.kind.holds() {
		if inner, ok := m.held[n].(*Map); ok {
			return inner.pointer()
		}
		return 0
	}
	if m.cpus > 1 {
		n = n*m.cpus + r.cpu()
	}
	return m.address(n)
}

func (r *run) mapUpdate(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	key := r.key(m, a[1])
	if key == nil {
		return 0
	}
	value := r.fetch(a[2], m.value)
	if value == nil {
		return 0
	}
	return errno(m.update(key, value, a[3], r.cpu()))
}

func (r *run) mapDelete(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	key := r.key(m, a[1])
	if key == nil {
		return 0
	}
	return errno(m.delete(key))
}

func (r *run) mapPush(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	if m == nil || m.kind != mapQueue && m.kind != mapStack && m.kind != mapBloomFilter {
		return errno(syscall.EINVAL)
	}
	value := r.fetch(a[1], m.value)
	if value == nil {
		return 0
	}
	return errno(m.push(value, a[2]))
}

func (r *run) mapPop(a *[numArgs]uint64) uint64  { return r.popped(a, false) }
func (r *run) mapPeek(a *[numArgs]uint64) uint64 { return r.popped(a, true) }

func (r *run) popped(a *[numArgs]uint64, peek bool) uint64 {
	m := r.mapAt(a[0])
	if m == nil || m.kind != mapQueue && m.kind != mapStack && m.kind != mapBloomFilter {
		return errno(syscall.EINVAL)
	}
	to := r.fetch(a[1], m.value)
	switch {
	case to == nil:
		return 0
	case m.bloom != nil && m.bloom.has(to):
		return 0
	case m.bloom != nil:
		return errno(syscall.ENOENT)
	}
	value, err := m.pop(peek)
	clear(to)
	copy(to, value)
	return errno(err)
}

// Which memory a read may be of.
type space uint8

const (
	kernelSpace space = iota
	userSpace
	eitherSpace
)

func (s space) allows(addr, n uint64) bool {
	user := addr+n >= addr && addr+n <= abi.TaskSizeMax
	switch s {
	case kernelSpace:
		return addr >= abi.TaskSizeMax && addr+n >= addr
	case userSpace:
		return user
	default:
	}
	return user || addr >= abi.TaskSizeMax && addr+n >= addr
}

// read fills b with memory at an address. User space's is what the call has as arguments, and otherwise the memory of the program that makes
// the call. It fails with ERANGE for what is not the kernel's where only that may be read: copy_from_kernel_nofault_allowed.
func (r *run) read(addr uint64, b []byte, from space) syscall.Errno {
	const canonical = 0xffff800000000000
	switch {
	case addr < canonical && (from == kernelSpace || from == eitherSpace && addr >= abi.TaskSizeMax):
		return syscall.ERANGE
	case !from.allows(addr, uint64(len(b))):
	case r.hit.Trap.Mem.ReadAt(addr, b) == nil:
		return 0
	case addr < abi.TaskSizeMax && r.userMemory(r.hit.Trap.Task, addr, b):
		return 0
	}
	return syscall.EFAULT
}

// userMemory reads memory of the process for one of whose threads a task stands.
func (r *run) userMemory(task, addr uint64, b []byte) bool {
	return r.sys.conf.UserMemory != nil && r.sys.conf.UserMemory(task, addr, b)
}

// copyIn is bpf_probe_read and its kin: what cannot be read is zero.
func (r *run) copyIn(a *[numArgs]uint64, from space) uint64 {
	n, addr := int(uint32(a[1])), a[2]
	to := r.fetch(a[0], n)
	switch {
	case to == nil:
		return 0
	case r.bytes(addr, n) != nil && from != userSpace:
		copy(to, r.bytes(addr, n))
		return 0
	}
	err := r.read(addr, to, from)
	if err == 0 {
		return 0
	}
	clear(to)
	return errno(err)
}

func (r *run) probeRead(a *[numArgs]uint64) uint64       { return r.copyIn(a, eitherSpace) }
func (r *run) probeReadKernel(a *[numArgs]uint64) uint64 { return r.copyIn(a, kernelSpace) }
func (r *run) probeReadUser(a *[numArgs]uint64) uint64   { return r.copyIn(a, userSpace) }

// copyString is bpf_probe_read_str and its kin. It returns the length with the NUL.
func (r *run) copyString(a *[numArgs]uint64, from space) uint64 {
	n, addr := int(uint32(a[1])), a[2]
	to := r.fetch(a[0], n)
	if to == nil || n == 0 {
		return 0
	}
	for done := 0; done < n; {
		part := to[done:min(n, done+int(pageSize-addr%pageSize), done+64)]
		if b := r.own(addr, len(part)); b != nil && from != userSpace {
			part = part[:copy(part, b)]
		} else if err := r.read(addr, part, from); err != 0 {
			clear(to)
			return errno(err)
		}
		if end := bytes.IndexByte(part, 0); end >= 0 {
			return uint64(done + end + 1)
		}
		done += len(part)
		addr += uint64(len(part))
	}
	to[n-1] = 0
	return uint64(n)
}

// own returns up to n bytes of the program's own memory at an address, or nil if there are none.
func (r *run) own(addr uint64, n int) []byte {
	if addr-stackBase >= mapEnd-stackBase {
		return nil
	}
	for ; n > 0; n-- {
		if b := r.bytes(addr, n); b != nil {
			return b
		}
	}
	return nil
}

func (r *run) probeReadString(a *[numArgs]uint64) uint64 { return r.copyString(a, eitherSpace) }

func (r *run) probeReadKernelString(a *[numArgs]uint64) uint64 { return r.copyString(a, kernelSpace) }
func (r *run) probeReadUserString(a *[numArgs]uint64) uint64   { return r.copyString(a, userSpace) }

func (r *run) currentComm(a *[numArgs]uint64) uint64 {
	to := r.fetch(a[0], int(uint32(a[1])))
	if len(to) == 0 {
		return errno(syscall.EINVAL)
	}
	clear(to)
	copy(to[:len(to)-1], r.hit.Comm[:])
	return 0
}

// nsPID is bpf_get_ns_current_pid_tgid: there is one namespace of processes, whose device and inode
// user space has to know. It fails with EINVAL, as with another one's.
func (r *run) nsPID(a *[numArgs]uint64) uint64 {
	if to := r.fetch(a[2], int(uint32(a[3]))); to != nil {
		clear(to)
	}
	return errno(syscall.EINVAL)
}

// branchSnapshot is bpf_get_branch_snapshot of a processor that records no branches.
func (r *run) branchSnapshot(a *[numArgs]uint64) uint64 {
	if a[2] != 0 {
		return errno(syscall.EINVAL)
	}
	return errno(syscall.ENOENT)
}

// perfOutput is bpf_perf_event_output.
func (r *run) perfOutput(a *[numArgs]uint64) uint64 {
	const currentCPU = 1<<32 - 1
	m, i := r.mapAt(a[1]), a[2]&currentCPU
	if m == nil || m.kind != mapPerfEventArray || a[2]&^currentCPU != 0 {
		return errno(syscall.EINVAL)
	}
	if i == currentCPU {
		i = uint64(r.cpu())
	}
	if i >= uint64(len(m.held)) {
		return errno(syscall.E2BIG)
	}
	e, ok := m.held[i].(*perf.Event)
	if !ok {
		return errno(syscall.ENOENT)
	}
	data := []byte{}
	if n := int(uint32(a[4])); n > 0 {
		if data = r.fetch(a[3], n); data == nil {
			return 0
		}
	}
	h := r.hit
	r.sample.Entry = data
	r.out = perf.Hit{VCPU: h.Trap.CPU, PID: h.PID, TID: h.TID, Time: h.Trap.Now(), IP: h.Trap.Regs.IP, Subject: &r.sample}
	return errno(e.Output(&r.out))
}

// perfCounter is get_map_perf_counter: the event of an element of an array of events.
func (r *run) perfCounter(a *[numArgs]uint64) (count, enabled, running uint64, err error) {
	const currentCPU = 1<<32 - 1
	m, i := r.mapAt(a[0]), a[1]&currentCPU
	if m == nil || m.kind != mapPerfEventArray || a[1]&^currentCPU != 0 {
		return 0, 0, 0, syscall.EINVAL
	}
	if i == currentCPU {
		i = uint64(r.cpu())
	}
	if i >= uint64(len(m.held)) {
		return 0, 0, 0, syscall.E2BIG
	}
	e, ok := m.held[i].(*perf.Event)
	if !ok {
		return 0, 0, 0, syscall.ENOENT
	}
	return e.Local(r.hit.TID, r.cpu(), r.hit.Trap.Now())
}

// perfRead is bpf_perf_event_read.
func (r *run) perfRead(a *[numArgs]uint64) uint64 {
	count, _, _, err := r.perfCounter(a)
	if err != nil {
		return errno(err)
	}
	return count
}

// perfReadValue is bpf_perf_event_read_value. If it fails it clears the values.
func (r *run) perfReadValue(a *[numArgs]uint64) uint64 {
	const size = 24 // of struct bpf_perf_event_value
	to := r.fetch(a[2], int(uint32(a[3])))
	if to == nil {
		return 0
	}
	clear(to)
	if len(to) != size {
		return errno(syscall.EINVAL)
	}
	count, enabled, running, err := r.perfCounter(a)
	if err == nil {
		binary.LittleEndian.PutUint64(to, count)
		binary.LittleEndian.PutUint64(to[8:], enabled)
		binary.LittleEndian.PutUint64(to[16:], running)
	}
	return errno(err)
}

func (r *run) ringOf(addr uint64) (*Map, bool) {
	m := r.mapAt(addr)
	return m, m != nil && m.ring != nil
}

func (r *run) ringReserve(a *[numArgs]uint64) uint64 {
	m, ok := r.ringOf(a[0])
	if !ok || a[2] != 0 {
		return 0
	}
	at, ok := m.ring.reserve(a[1])
	if !ok {
		return 0
	}
	return mapBase + uint64(m.index)<<mapShift + uint64(at)
}

func (r *run) ringSubmit(a *[numArgs]uint64) uint64  { return r.ringEnd(a, false) }
func (r *run) ringDiscard(a *[numArgs]uint64) uint64 { return r.ringEnd(a, true) }

func (r *run) ringEnd(a *[numArgs]uint64, discard bool) uint64 {
	if a[0]-mapBase >= mapEnd-mapBase {
		r.end("no record of a ring buffer")
		return 0
	}
	m := r.sys.byIndex[(a[0]-mapBase)>>mapShift]
	at := int(a[0] & (1<<mapShift - 1))
	if m == nil || m.ring == nil || at < ringHeader || at%8 != 0 || m.ring.record(at, 0) == nil {
		r.end("no record of a ring buffer")
		return 0
	}
	m.ring.commit(at, a[1], discard)
	return 0
}

func (r *run) ringOutput(a *[numArgs]uint64) uint64 {
	m, ok := r.ringOf(a[0])
	if !ok || a[3]&^uint64(ringNoWakeup|ringForceWakeup) != 0 {
		return errno(syscall.EINVAL)
	}
	n := int(uint32(a[2]))
	data := r.fetch(a[1], n)
	if data == nil && n > 0 {
		return 0
	}
	at, ok := m.ring.reserve(uint64(n))
	if !ok {
		return errno(syscall.EAGAIN)
	}
	copy(m.ring.record(at, n), data)
	m.ring.commit(at, a[3], false)
	return 0
}

func (r *run) ringQuery(a *[numArgs]uint64) uint64 {
	m, ok := r.ringOf(a[0])
	if !ok {
		return 0
	}
	return m.ring.query(a[1])
}

// maxLoops is BPF_MAX_LOOPS.
const maxLoops = 8 << 20

func (r *run) loop(a *[numArgs]uint64) uint64 {
	if a[3] != 0 {
		return errno(syscall.EINVAL)
	}
	n := uint64(uint32(a[0]))
	if n > maxLoops {
		return errno(syscall.E2BIG)
	}
	for i := range n {
		if ret := r.callback(int(a[1]-funcBase), i, a[2]); r.fault != "" || ret != 0 {
			return i + 1
		}
	}
	return n
}

// funcBase is what a pointer to a function of the program is counted from, in instructions.
const funcBase = 0xfffff90000000000

func (r *run) forEach(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	if r.nested >= maxNested || m == nil || a[3] != 0 || m.kind.holds() || !m.kind.hash() && m.kind != mapArray && m.kind != mapPerCPUArray {
		return errno(syscall.EINVAL)
	}
	var key []byte
	var done uint64
	keep := r.nested // callbacks of callbacks have keys of their own
	for {
		next, err := m.after(key)
		if err != nil {
			return done
		}
		key = next
		n := m.find(key)
		if m.cpus > 1 {
			n = n*m.cpus + r.cpu()
		}
		r.keys[keep] = key
		done++
		if ret := r.callback(int(a[1]-funcBase), a[0], keyBase+uint64(keep)<<keyShift, m.address(n), a[2]); r.fault != "" || ret != 0 {
			return done
		}
	}
}

func (r *run) strncmp(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[1]))
	s := r.fetch(a[0], n)
	if s == nil {
		return 0
	}
	for i := range n {
		c := byte(r.load(a[2]+uint64(i), 1))
		switch {
		case r.fault != "":
			return 0
		case s[i] != c && s[i] < c:
			return ^uint64(0)
		case s[i] != c:
			return 1
		case c == 0:
			return 0
		}
	}
	return 0
}

// constString reads a string in the program's memory.
func (r *run) constString(addr uint64) string {
	var b []byte
	for r.fault == "" && len(b) < pageSize {
		c := byte(r.load(addr+uint64(len(b)), 1))
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}

func (r *run) tracePrintk(a *[numArgs]uint64) uint64 {
	text := r.fetch(a[0], int(uint32(a[1])))
	if text == nil {
		return 0
	}
	return r.print(text, a[2:])
}

func (r *run) traceVprintk(a *[numArgs]uint64) uint64 {
	text := r.fetch(a[0], int(uint32(a[1])))
	if text == nil {
		return 0
	}
	args, ok := r.words(a[2], a[3])
	if !ok {
		return errno(syscall.EINVAL)
	}
	return r.print(text, args)
}

// words reads n bytes of numbers of 8 bytes. It returns false for another multiple, or more than 12.
func (r *run) words(addr, n uint64) (args []uint64, ok bool) {
	const most = 12 // MAX_BPRINTF_VARARGS
	if n = uint64(uint32(n)); n%8 != 0 || n > 8*most {
		return nil, false
	}
	for i := range n / 8 {
		args = append(args, r.load(addr+8*i, 8))
	}
	return args, r.fault == ""
}

// print writes into the trace: the event bpf_trace:bpf_trace_printk.
func (r *run) print(format []byte, args []uint64) uint64 {
	text, _, ended := bytes.Cut(format, []byte{0})
	if !ended {
		return errno(syscall.EINVAL)
	}
	out, err := r.format(string(text), args)
	if err != nil {
		return errno(err)
	}
	const most = 1024 // BPF_TRACE_PRINTK_SIZE
	out = out[:min(len(out), most-1)]
	if r.sys.conf.Print != nil {
		r.sys.conf.Print(r.hit.Trap, out)
	}
	return uint64(len(out))
}

func (r *run) snprintf(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[1]))
	args, ok := r.words(a[3], a[4])
	if !ok {
		return errno(syscall.EINVAL)
	}
	out, err := r.format(r.constString(a[2]), args)
	if err != nil {
		return errno(err)
	}
	if n > 0 {
		to := r.fetch(a[0], n)
		if to == nil {
			return 0
		}
		clear(to)
		copy(to[:n-1], out)
	}
	return uint64(len(out) + 1)
}
