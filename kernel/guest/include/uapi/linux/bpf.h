// bpf.h: an instruction. Compilers of BPF programs, such as bcc, bring the rest.
#ifndef _UAPI__LINUX_BPF_H__
#define _UAPI__LINUX_BPF_H__

#include <linux/types.h>
#include <linux/bpf_common.h>

struct bpf_insn {
	__u8 code;
	__u8 dst_reg : 4, src_reg : 4;
	__s16 off;
	__s32 imm;
};

#endif
