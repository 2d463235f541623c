/* Cells in memory alone: they keep no promise to a disk, so that nothing ever waits and no effect leaves. */
#ifndef HTC_KVS_CELLS_TABLE_H
#define HTC_KVS_CELLS_TABLE_H

#include "kvs/storage/cells.h"
#include "kvs/storage/cells_heap.h"

/* Gives cells->ctx: cells->ops->destroy. HTC_OK; HTC_ENOMEM. */
htc_status htc__cells_table_create(const htc_env *env, const htc__heap_options *options, htc__cells *cells);

#endif
