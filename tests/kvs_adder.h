/* A role with nothing but a client of the store: it adds ones to eight keys, many in flight, reads the sum of the keys
 * at the end, and stops. For tests of a whole store behind a socket. */
#ifndef HTC_TESTS_KVS_ADDER_H
#define HTC_TESTS_KVS_ADDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/host.h"
#include "htcsched/kv.h"

#define KVS_ADDER_KEYS        8
#define KVS_ADDER_PENDING_MAX 256

typedef struct kvs_adder {
    uint64_t       additions;
    int            until_closed; /* the store ends first: the adder then stops as well */
    htc_kv_client *client;
    uint64_t       submitted, answered;
    int            reading;
    int64_t        sum;
} kvs_adder;

static inline void kvs_adder_must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAILED: adder: %s\n", what);
    exit(1);
}

static inline htc_status kvs_adder_submit(kvs_adder *a, const htc_input *in, htc_output *out)
{
    htc_status status = HTC_OK;
    while (status == HTC_OK && a->submitted < a->additions &&
           htc_kv_client_pending(a->client) < KVS_ADDER_PENDING_MAX) {
        char           key = (char)('a' + a->submitted++ % KVS_ADDER_KEYS);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = { &key, 1 }, .delta = 1 };
        status = htc_kv_client_submit(a->client, in->now, &q, 1, 0, out);
    }
    if (status == HTC_OK && a->answered == a->additions && !a->reading) {
        htc_kv_request q[KVS_ADDER_KEYS];
        char           keys[KVS_ADDER_KEYS];
        for (int i = 0; i < KVS_ADDER_KEYS; i++) {
            keys[i] = (char)('a' + i);
            q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { &keys[i], 1 } };
        }
        a->reading = 1;
        status = htc_kv_client_submit(a->client, in->now, q, KVS_ADDER_KEYS, 1, out);
    }
    return status;
}

static inline htc_status kvs_adder_step(void *self, const htc_input *in, htc_output *out)
{
    kvs_adder    *a = (kvs_adder *)self;
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_kv_client_step(a->client, in, out);
    if (in->kind == HTC_IN_CLOSED && a->until_closed)
        return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    while (status == HTC_OK && htc_kv_client_next(a->client, &r)) {
        char value[24] = { 0 };
        kvs_adder_must(r.status == HTC_OK || (a->reading && r.status == HTC_ENOTFOUND), htc_status_name(r.status));
        if (r.op != HTC_KV_GET) {
            a->answered++;
            continue;
        }
        memcpy(value, r.value.len ? r.value.data : "", r.value.len < 23 ? r.value.len : 23);
        a->sum += atoll(value);
        if (r.last)
            status = htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    }
    return status == HTC_OK ? kvs_adder_submit(a, in, out) : status;
}

static inline htc_ns kvs_adder_deadline(const void *self)
{
    return htc_kv_client_deadline(((const kvs_adder *)self)->client);
}

/* The whole life of one, in a host of its own. */
static inline void kvs_adder_run(kvs_adder *a, const char *socket_path)
{
    static const htc_machine_ops ops = { sizeof ops, kvs_adder_step, kvs_adder_deadline, NULL, 0 };
    htc_rng                      rng;
    htc_env                      env = { .size = sizeof env, .rng = &rng };
    htc_kv_client_options        co = { .size = sizeof co };
    htc_host_options             ho = { .size = sizeof ho };
    htc_host                    *host;
    htc_error                    error = { 0 };
    htc_host_random(&rng.state, sizeof rng.state);
    kvs_adder_must(htc_host_create(&env, &ho, &host) == HTC_OK, "host");
    kvs_adder_must(htc_host_dial_unix(host, socket_path, 1, &co.peer, &error) == HTC_OK, error.text);
    co.client_id = htc_rng_next(&rng);
    kvs_adder_must(htc_kv_client_create(&env, &co, &a->client) == HTC_OK, "client");
    kvs_adder_must(htc_host_run(host, &ops, a) == HTC_OK, "run");
    htc_host_destroy(host);
    htc_kv_client_destroy(a->client);
}

#endif
