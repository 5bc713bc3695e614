#ifndef _LINUX_BCD_H
#define _LINUX_BCD_H

unsigned int _bcd2bin(unsigned char val);
unsigned char _bin2bcd(unsigned int val);

#endif
