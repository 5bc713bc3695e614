#!/bin/sh
# Builds the programs as gcc builds a kernel, into NAME.bin: the bytes of their text.
set -e
cd "$(dirname "$0")"
for p in alu fib crc32 scan sort; do
	gcc -O2 -ffreestanding -fno-pie -mcmodel=kernel -mno-red-zone -mgeneral-regs-only \
		-fno-asynchronous-unwind-tables -fno-stack-protector -fno-toplevel-reorder -fno-reorder-functions \
		-fno-tree-loop-distribute-patterns -fcf-protection=none -c $p.c -o $p.o
	ld -N --build-id=none -Ttext=0xffffffff81000000 -e run $p.o -o $p.elf
	objcopy -O binary -j .text $p.elf $p.bin
	rm $p.o $p.elf
done
