/* A writer of a flow as a machine with a client of the store: first the header, then all that belongs to it, then the header as one that
 * runs. */
#ifndef EMBED_WRITER_H
#define EMBED_WRITER_H

#include <htcsched/flows.h>
#include <htcsched/kv.h>

#include "loop.h"

enum { STORE = 1 }; /* everybody's number of the store */

static htc_flows_records *records;
static htc_kv_client     *client;
static uint64_t           version;

static void put(uint64_t from, uint64_t to, htc_output *out)
{
    htc_kv_request q;
    for (; from < to; from++)
        if (htc_flows_records_get(records, from, &q) == HTC_OK) {
            q.version = q.op == HTC_KV_CAS_VERSION ? version : 0;
            htc_kv_client_submit(client, now, &q, 1, from, out);
        }
}

static htc_status write_some(void *self, const htc_input *in, htc_output *out)
{
    uint64_t      last = htc_flows_records_count(records) - 1;
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_kv_client_step(client, in, out);
    (void)self;
    if (in->kind == HTC_IN_START)
        put(0, 1, out);
    while (htc_kv_client_next(client, &r)) {
        version = r.tag == 0 ? r.version : version;
        if (r.tag == 0)
            put(1, last, out);
        else if (r.tag < last && htc_kv_client_pending(client) == 0)
            put(last, last + 1, out);
    }
    return status;
}

static htc_ns writer_deadline(const void *self)
{
    (void)self;
    return htc_kv_client_deadline(client);
}

static void writer_start(party *writer, party *store, const htc_flow *flow, uint64_t id)
{
    static const htc_machine_ops ops = { sizeof ops, write_some, writer_deadline, NULL, 0 };
    htc_kv_client_options        options = { .size = sizeof options, .client_id = 4711, .peer = STORE };
    htc_flows_options            tries = { .size = sizeof tries, .tries = 2 };
    if (htc_flows_records_create(NULL, flow, &tries, id, &records, NULL) != HTC_OK || htc_kv_client_create(NULL, &options, &client) != HTC_OK)
        abort();
    party_start(writer, &ops, NULL);
    connect_to(writer, STORE, store);
}

static void writer_end(void)
{
    htc_kv_client_destroy(client);
    htc_flows_records_destroy(records);
}

#endif
