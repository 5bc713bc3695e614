// What radix trees and the IDR use of the XArray beyond its interface.
#ifndef _LIB_XARRAY_H
#define _LIB_XARRAY_H
#include <linux/xarray.h>

bool xa_track_free(const struct xarray *xa);
unsigned long xa_slot_index(const struct xa_node *node, unsigned int offset);
void *xas_make_path(struct xa_state *xas, bool head_too);
void xas_put(struct xa_state *xas, void *entry, bool uses);
#endif
