#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/runtime.h"
#include "roles/worker/flow.h"

#define FLOW_FORMAT 1

void htc__flow_write(htc_buf *b, const flow *f)
{
    htc_runtime_record_begin(b, FLOW_FORMAT);
    htc_put_u8(b, f->state);
    htc_put_varint(b, f->tasks);
    htc_put_str(b, f->user);
    htc_put_bytes(b, f->task);
    htc__ledger_counts_write(b, &f->counts);
}

htc_status htc__flow_read(htc_bytes bytes, flow *f)
{
    htc_reader r;
    htc_runtime_record_open(bytes, FLOW_FORMAT, FLOW_FORMAT, &r);
    f->state = htc_get_u8(&r);
    f->tasks = htc_get_varint(&r);
    htc_get_str(&r, f->user, sizeof f->user);
    f->task = htc_get_bytes(&r);
    htc__ledger_counts_read(&r, &f->counts);
    if (f->state < FLOW_BUILDING || f->state > FLOW_ENDED)
        htc_reader_fail(&r);
    return htc_runtime_record_end(&r);
}

static flow_key key_of(const char *format, uint64_t a, uint64_t b)
{
    flow_key k;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    int n = snprintf(k.text, sizeof k.text, format, a, b);
#pragma GCC diagnostic pop
    k.len = n > 0 && (size_t)n < sizeof k.text ? (size_t)n : 0;
    return k;
}

flow_key htc__flow_key_header(uint64_t id)
{
    return key_of("f/%016" PRIx64 "/h", id, 0);
}

flow_key htc__flow_key_ledger(uint64_t id, uint64_t number)
{
    return key_of("f/%016" PRIx64 "/l/%016" PRIx64, id, number);
}

flow_key htc__flow_key_ledgers(uint64_t id)
{
    return key_of("f/%016" PRIx64 "/l/", id, 0);
}

flow_key htc__flow_key_collector(uint64_t id)
{
    return key_of("f/%016" PRIx64 "/c", id, 0);
}

flow_key htc__flow_key_worker(uint64_t worker)
{
    return key_of("w/%016" PRIx64, worker, 0);
}

flow_key htc__flow_key_workers(void)
{
    return key_of("w/", 0, 0);
}

htc_bytes htc__flow_key_bytes(const flow_key *k)
{
    return (htc_bytes){ k->text, k->len };
}

int htc__flow_key_number(htc_bytes key, const flow_key *prefix, uint64_t *number)
{
    const char *text = key.data;
    uint64_t    n = 0;
    if (key.len != prefix->len + 16 || memcmp(text, prefix->text, prefix->len) != 0)
        return 0;
    for (size_t i = prefix->len; i < key.len; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return 0;
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *number = n;
    return 1;
}
