#!/bin/sh
# crowd.sh COMMAND...: runs COMMAND on a host that has what many hosts have: a syslog socket at
# /dev/log, 300 users, /proc/modules with the host's modules, tracefs and debugfs mounted, a bridge
# with addresses like Docker's, directories of other programs in /tmp. Needs root; all of it is in
# a mount namespace of the command's own, but for the bridge, which goes when the command ends. No
# recording may depend on any of this:
#
#	integration/crowd.sh go test ./integration
set -eu
if [ "${KPROBEFS_CROWD:-}" != inside ]; then
	KPROBEFS_CROWD=inside exec unshare -m --propagation private "$0" "$@"
fi
unset KPROBEFS_CROWD
bridge=
syslogd=
dir=$(mktemp -d)
trap 'kill $syslogd 2>/dev/null; [ -z "$bridge" ] || ip link del "$bridge"; umount -R "$dir/dev" || umount -l "$dir/dev"; rm -f "$dir/passwd" "$dir/modules"; rmdir "$dir/dev" "$dir"' EXIT

# A /dev of its own, with the devices of the host's.
mkdir "$dir/dev"
mount --rbind /dev "$dir/dev"
mount -t tmpfs -o mode=755 crowd /dev
for f in "$dir"/dev/*; do
	name=/dev/${f##*/}
	if [ -L "$f" ]; then cp -P "$f" "$name"
	elif [ -d "$f" ]; then mkdir "$name" && mount --rbind "$f" "$name"
	else cp -a "$f" "$name"; fi
done
busybox syslogd -n -O "$dir/dev/null" &
syslogd=$!

# Users.
{ cat /etc/passwd; i=0; while [ $i -lt 300 ]; do echo "crowd$i:x:$((20000 + i)):$((20000 + i))::/nonexistent:/bin/false"; i=$((i + 1)); done; } >"$dir/passwd"
mount --bind "$dir/passwd" /etc/passwd

# Modules, where the host's kernel shows any; file systems of the host's own tracing.
if [ -e /proc/modules ]; then
	printf 'veth 40960 0 - Live 0x0000000000000000\nbridge 425984 0 - Live 0x0000000000000000\nkprobe_example 16384 0 - Live 0x0000000000000000 (OE)\n' >"$dir/modules"
	mount --bind "$dir/modules" /proc/modules
fi
mount -t tracefs crowd /sys/kernel/tracing 2>/dev/null || echo "crowd: no tracefs on this host" >&2
mount -t debugfs crowd /sys/kernel/debug 2>/dev/null || echo "crowd: no debugfs on this host" >&2

# A bridge like Docker's, where there is none: the command has the host's network, since the
# connector of processes is of that only.
bridge=
if ! ip link show docker0 >/dev/null 2>&1 && ip link add docker0 type bridge 2>/dev/null; then
	bridge=docker0
	ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up
fi

while [ ! -S /dev/log ]; do sleep 0.1; done
mount --make-rshared / # as systemd has it; these are groups of this namespace
"$@"
