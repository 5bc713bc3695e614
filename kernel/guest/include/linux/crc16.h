#ifndef _LINUX_CRC16_H
#define _LINUX_CRC16_H

#include <linux/types.h>

u16 crc16(u16 crc, const u8 *p, size_t len);     // polynomial 0x8005, reflected
u16 crc_ccitt(u16 crc, const u8 *p, size_t len); // 0x1021, reflected
u16 crc_itu_t(u16 crc, const u8 *p, size_t len); // 0x1021, not reflected
u8 crc8(const u8 *table, const u8 *p, size_t len, u8 crc);
void crc8_populate_msb(u8 table[256], u8 polynomial);
void crc8_populate_lsb(u8 table[256], u8 polynomial);

#endif
