#ifndef _LINUX_LZ4_H
#define _LINUX_LZ4_H

int LZ4_decompress_safe(const char *source, char *dest, int compressed_size, int max_decompressed_size);
int LZ4_compressBound(int size);

#endif
