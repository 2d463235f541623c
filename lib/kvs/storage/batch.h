/* How a batch is written: for each change u8 kind, bytes key, and for a put bytes value. Nothing around it. */
#ifndef HTC_KVS_BATCH_H
#define HTC_KVS_BATCH_H

#include "core/codec.h"

enum { HTC__KV_BATCH_PUT = 1, HTC__KV_BATCH_DROP = 2 };

void htc__kv_batch_put(htc_buf *b, htc_bytes key, htc_bytes value);
void htc__kv_batch_drop(htc_buf *b, htc_bytes key);

#endif
