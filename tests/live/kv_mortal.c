/* usage: live_kv_mortal ADDRESS KEY VALUE ttl|lease SECONDS
 * Puts a key that has an end of its own, or is bound to a new lease of that length. With VALUE "": says what a GET tells of the key. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/store.h"

static void ask(htc_store *store, const htc_kv_request *q, htc_kv_result *r)
{
    htc_error  error;
    htc_status status = htc_store_ask(store, q, r, &error);
    if (status == HTC_OK)
        status = r->status;
    if (status != HTC_OK) {
        fprintf(stderr, "%s\n", htc_status_name(status));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    htc_store_options o = { .size = sizeof o, .address = argv[1] };
    htc_store        *store;
    htc_kv_result     r = { .size = sizeof r };
    if (htc_store_open(NULL, &o, &store, NULL) != HTC_OK)
        return 1;
    htc_ns         ttl = strtoull(argv[5], NULL, 10) * HTC_SECOND;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(argv[2]), .value = htc_bytes_of(argv[3]) };
    if (!argv[3][0]) {
        q.op = HTC_KV_GET;
        ask(store, &q, &r);
        printf("%" PRIu64 " %s\n", r.ttl / HTC_SECOND, r.lease ? "leased" : "free");
    } else if (strcmp(argv[4], "lease") == 0) {
        ask(store, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = ttl }, &r);
        q.lease = r.lease;
        ask(store, &q, &r);
    } else {
        q.ttl = ttl;
        ask(store, &q, &r);
    }
    htc_store_close(store);
    return 0;
}
