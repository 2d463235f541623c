/* Cells over an engine: what is staged lies above what the engine has committed.
 *
 * One batch is on its way at a time, as the body of HTC_OUT_COMMIT; what is put meanwhile is the next: group commit at the
 * pace of the disk. A batch that fails takes along what was staged on top of it; after HTC_EIO or HTC_ECORRUPT nobody
 * knows what is stored, and step says so. What the engine holds is sealed (record.h). */
#ifndef HTC_KVS_CELLS_OVERLAY_H
#define HTC_KVS_CELLS_OVERLAY_H

#include "kvs/storage/cells.h"

/* The engine stays the caller's and outlives the cells. */
htc_status htc__cells_overlay(const htc_env *env, const htc_kv_engine *engine, htc__cells *cells);

#endif
