package abi

// Numbers of the guest's system calls: Linux's on x86-64, whatever the host is. These
// are the ones that Go code asks for or looks at; the guest's sys_call_table has more.
const (
	SysRead       = 0
	SysWrite      = 1
	SysOpen       = 2
	SysClose      = 3
	SysLseek      = 8
	SysIoctl      = 16
	SysPread64    = 17
	SysPwrite64   = 18
	SysGetpid     = 39
	SysClone      = 56
	SysFork       = 57
	SysVfork      = 58
	SysExecve     = 59
	SysExit       = 60
	SysKill       = 62
	SysChdir      = 80
	SysMkdir      = 83
	SysRmdir      = 84
	SysUnlink     = 87
	SysSymlink    = 88
	SysPrctl      = 157
	SysGettid     = 186
	SysTkill      = 200
	SysGetdents64 = 217
	SysExitGroup  = 231
	SysTgkill     = 234
	SysOpenat     = 257
	SysMkdirat    = 258
	SysNewfstatat = 262
	SysUnlinkat   = 263
	SysSymlinkat  = 266
	SysClone3     = 435
	SysOpenat2    = 437
)
