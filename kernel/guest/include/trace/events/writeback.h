#ifndef _TRACE_WRITEBACK_H
#define _TRACE_WRITEBACK_H
#include <linux/tracepoint.h>
struct bdi_writeback;
struct wb_writeback_work;
DECLARE_TRACE(writeback_start, TP_PROTO(struct bdi_writeback *wb, struct wb_writeback_work *work), TP_ARGS(wb, work))
DECLARE_TRACE(writeback_written, TP_PROTO(struct bdi_writeback *wb, struct wb_writeback_work *work), TP_ARGS(wb, work))
#endif
