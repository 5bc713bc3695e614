# Helpers for the scripts of testdata/modules/debian, sourced as ./modules.sh.
. ./lib.sh
if [ -n "$KPROBEFS_MNT" ]; then
	insert() {
		file=$1.ko
		shift
		echo "options ${file%.ko} $*" >"$KPROBEFS_MNT/machine/modprobe.conf"
		as=$file
		[ -e "$KPROBEFS_MNT/machine/modules/$as" ] && as=again.ko
		cp "$file" "$KPROBEFS_MNT/machine/modules/$as"
	}
	remove() { rm "$KPROBEFS_MNT/machine/modules/$1.ko"; }
else
	insert() {
		file=$1.ko
		shift
		/usr/bin/golden insmod "./$file" "$@" # busybox's tries a second time when the first has failed
	}
	remove() { rmmod "$1"; }
fi

# why TEXT: the reason at the end of what cp, rm, insmod or rmmod says.
why() { echo "[${1##*: }]"; }

# Where the files of modules are.
sysfs=$KPROBEFS_MNT/sys
debugfs=${KPROBEFS_MNT:+$KPROBEFS_MNT/debugfs}
debugfs=${debugfs:-/sys/kernel/debug}

# try COMMAND [ARG]...: what it prints, and its status when that is not 0.
try() { "$@" 2>&1 || echo "[rc=$?]"; }

# reason: the end of each line of an error message: only what went wrong.
reason() { sed 's/.*: //'; }

# load NAME [ARG]... and unload NAME print what they do, and the reason when it fails.
load() {
	echo "# load $*"
	out=$(insert "$@" 2>&1) || why "$out"
}
unload() {
	echo "# unload $1"
	out=$(remove "$1" 2>&1) || why "$out"
}

# modules: the lines of /proc/modules without addresses and sizes.
modules() { cut -d' ' -f1,3-5,7- "$KPROBEFS_MNT/proc/modules"; }

# said NAME...: what modules of these names and the kernel's loader said since the last call.
# What the kernel says about the first module only is left out.
log() { /usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^\([0-9]*\),[0-9]*,[0-9]*,[^;]*;/\1 /p' | grep -v 'taint'; }
log_seen=$(log | wc -l)
said() {
	echo "# said"
	log | tail -n +$((log_seen + 1)) | grep -E "^[0-9]+ ($(echo "$*" | tr ' ' '|'))[: ]"
	log_seen=$(log | wc -l)
}

# oopsed COMM: all that was said since the last call of said or oopsed, when the task COMM
# has oopsed. Left out: registers, addresses, places in functions, how many there were before,
# what the unwinder is not sure of, and what the first oops since boot was.
oopsed() {
	echo "# oopsed, tracing_on $(cat $T/tracing_on)" # an oops ends tracing
	echo 1 >$T/tracing_on
	log | tail -n +$((log_seen + 1)) | sed -E '/end trace/{
		:more
		N
		/\n[0-9] (R[A-Z0-9]*|FS|CS|CR2|Code):[^\n]*$/{
			s/\n[^\n]*$//
			b more
		}
	}' | sed -E "
		/^[0-9] (RIP: 0033|R([ABCDS][A-Z]|[01][0-9]):|FS:|CS:|CR2:|Code:|Hardware name|PGD)/d; / \\? /d
		s/\[#[0-9]+\]/[#N]/; s/CPU: [0-9]+ PID: [0-9]+/CPU: N PID: N/; s/(Not t|T)ainted.*/Tainted/
		s/$1(\[|\/)[0-9]+/$1\1N/; s/(address: f)[0-9a-f]+/\1.../; s/(0010:)0xf[0-9a-f]+/\1.../
		s/\+0x[^ ]*//g; s/\.(cold|part\.0|isra\.0|constprop\.0)//; s/(Modules linked in:).*/\1/; s|at [./][^ ]*/|at |"
	log_seen=$(log | wc -l)
}
