#ifndef _LINUX_UUID_H
#define _LINUX_UUID_H

#include <linux/types.h>

#define UUID_SIZE 16
#define UUID_STRING_LEN 36

typedef struct {
	u8 b[UUID_SIZE];
} uuid_t;

typedef struct {
	u8 b[UUID_SIZE];
} guid_t;

bool uuid_is_valid(const char *uuid);
int uuid_parse(const char *uuid, uuid_t *u);
int guid_parse(const char *uuid, guid_t *u);

#endif
