/* What workers store and say: any bytes are read or refused, and what is read is written back as the same bytes, but for texts. */
#include <stdlib.h>

#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/ledger.h"
#include "roles/worker/worker_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes      bytes = { data + 1, size - 1 };
    htc_reader     r;
    htc_buf        b, again;
    ledger         l;
    flow           f;
    graph_task     g;
    worker_message m;
    uint16_t       type;
    uint64_t       id;
    htc_bytes      entries;
    bag_outcome    o = { 0 };
    if (size == 0)
        return 0;
    htc_buf_init(&b, NULL, 0);
    switch (data[0] % 5) {
    case 0:
        if (htc__ledger_read(bytes, &l) != HTC_OK)
            break;
        htc__ledger_write(&b, &l); /* a set has several forms, of which one is written; it may not fit */
        if (b.status == HTC_OK) {
            htc_buf_init(&again, NULL, 0);
            if (htc__ledger_read(htc_buf_bytes(&b), &l) != HTC_OK)
                abort();
            htc__ledger_write(&again, &l);
            if (!htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&again)))
                abort();
            htc_buf_free(&again);
        }
        htc_buf_clear(&b);
        break;
    case 1:
        if (htc__flow_read(bytes, &f) != HTC_OK)
            break;
        htc__flow_write(&b, &f); /* texts are cleaned on arrival: a second reading changes nothing any more */
        htc_buf_init(&again, NULL, 0);
        if (htc__flow_read(htc_buf_bytes(&b), &f) != HTC_OK)
            abort();
        htc__flow_write(&again, &f);
        if (!htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&again)))
            abort();
        htc_buf_free(&again);
        htc_buf_clear(&b);
        break;
    case 3:
        if (htc__graph_read(bytes, &g) != HTC_OK)
            break;
        htc__graph_write(&b, &g);
        htc_buf_init(&again, NULL, 0);
        if (htc__graph_read(htc_buf_bytes(&b), &g) != HTC_OK)
            abort();
        htc__graph_write(&again, &g);
        if (!htc_bytes_equal(htc_buf_bytes(&b), htc_buf_bytes(&again)))
            abort();
        htc_buf_free(&again);
        htc_buf_clear(&b);
        break;
    case 4: /* entries have several forms, and are handed on as they are */
        if (htc__outcome_block_read(bytes, &id, &entries) != HTC_OK)
            break;
        for (r = htc_reader_of(entries); htc_reader_left(&r);) {
            htc__outcome_get(&r, &o);
            if (r.status != HTC_OK || o.from >= o.to)
                abort();
        }
        break;
    case 2:
        r = htc_wire_open(bytes, &type, &id);
        if (r.status == HTC_OK && id == 0 && htc__worker_read(&r, &m) == HTC_OK)
            htc__worker_write(&b, type, &m);
        break;
    }
    if (b.len && !htc_bytes_equal(htc_buf_bytes(&b), bytes))
        abort();
    htc_buf_free(&b);
    return 0;
}
