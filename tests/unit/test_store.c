/* The handle of any store: addresses, what is outstanding, refused memory. What stores answer is tests/live/store.c's. */
#include "expect.h"

#include "alloc_fail.h"
#include "htcsched/host.h"
#include "htcsched/store.h"

static htc_status open_at(const htc_env *env, const char *address, htc_store **store, htc_error *error)
{
    htc_store_options o = { .size = sizeof o, .address = address, .timeout_ns = HTC_SECOND };
    return htc_store_open(env, &o, store, error);
}

Test(store, addresses_that_name_nothing)
{
    static const struct {
        const char *address;
        htc_status  status;
    } rows[] = {
        { NULL, HTC_EINVAL },
        { "", HTC_EINVAL },
        { "store", HTC_EINVAL },
        { "mysql://localhost/db", HTC_EINVAL },
        { "memory:x", HTC_EINVAL },
        { "tcp://127.0.0.1", HTC_EINVAL },
        { "tcp://127.0.0.1:", HTC_EINVAL },
        { "tcp://127.0.0.1:70000", HTC_EINVAL },
        { "tcp://127.0.0.1:80x", HTC_EINVAL },
        { "tcp://192.0.2.1:80", HTC_EDENIED },
        { "tcp://127.0.0.1:1", HTC_EDENIED }, /* or nobody is there: see below */
        { "unix:/nowhere/kvd.sock", HTC_EUNREACHABLE },
        { "/nowhere/kvd.sock", HTC_EUNREACHABLE },
        { "unix:/nowhere/a,b.sock,unix:/nowhere/c.sock", HTC_EUNREACHABLE },
        { "tcp://127.0.0.1:1,", HTC_EINVAL },
        { "tcp://127.0.0.1:1,192.0.2.1:80", HTC_EDENIED },
        { "tcp://127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,"
          "127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1,127.0.0.1:1",
          HTC_EINVAL },
        { "etcd://", HTC_EINVAL },
        { "etcd://127.0.0.1:1,", HTC_EINVAL },
        { "etcd://127.0.0.1:1/a/b", HTC_EINVAL },
        { "etcd://127.0.0.1:1,127.0.0.1:1", HTC_EUNREACHABLE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_store *store = NULL;
        htc_error  error = { 0 };
        htc_status status = open_at(NULL, rows[i].address, &store, &error);
        if (rows[i].status == HTC_EDENIED) /* port 1 without a token: whichever is found first */
            cr_expect(status == HTC_EDENIED || status == HTC_EUNREACHABLE, "row %zu: %d", i, (int)status);
        else
            cr_expect(eq(int, status, rows[i].status), "row %zu: %s", i, error.text);
        cr_expect(eq(ptr, store, NULL));
        cr_expect(error.text[0] != 0, "row %zu says nothing", i);
    }
    htc_store_options o = { .size = 2 };
    htc_store        *store = NULL;
    cr_expect(eq(int, htc_store_open(NULL, &o, &store, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_store_open(NULL, NULL, &store, NULL), HTC_EINVAL));
    htc_store_close(NULL);
    cr_expect(eq(u32, htc_store_can(NULL), 0));
}

Test(store, one_answer_for_each_request)
{
    htc_store     *store = NULL;
    htc_error      error = { 0 };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of("k"), .delta = 2 };
    htc_kv_result  r = { .size = sizeof r };
    cr_assert(eq(int, open_at(NULL, "memory:", &store, &error), HTC_OK));
    cr_expect(eq(int, htc_store_next(store, HTC_NEVER, &r), HTC_EMPTY));
    cr_assert(eq(int, htc_store_submit(store, &q, 1, 5), HTC_OK));
    cr_expect(eq(int, htc_store_ask(store, &q, &r, &error), HTC_EBUSY));
    cr_assert(eq(int, htc_store_next(store, HTC_NEVER, &r), HTC_OK));
    cr_expect(eq(u64, r.tag, 5));
    cr_expect(eq(int, htc_store_next(store, 0, &r), HTC_EMPTY));
    cr_assert(eq(int, htc_store_ask(store, &q, &r, &error), HTC_OK));
    cr_expect(eq(i64, r.number, 4));
    q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("no number") };
    cr_assert(eq(int, htc_store_ask(store, &q, &r, &error), HTC_OK));
    q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = htc_bytes_of("k"), .delta = 2 };
    error.text[0] = 0;
    cr_assert(eq(int, htc_store_ask(store, &q, &r, &error), HTC_OK));
    cr_expect(eq(int, r.status, HTC_EINVAL));
    cr_expect(error.text[0] != 0);
    htc_store_close(store);
}

/* Events wait beside answers, each to be asked for. */
Test(store, a_watch_beside_requests)
{
    htc_store     *store = NULL;
    htc_kv_event   e;
    htc_kv_watch   watch = { .size = sizeof watch, .key = htc_bytes_of("k"), .tag = 9 };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") };
    htc_kv_result  r = { .size = sizeof r };
    cr_assert(eq(int, open_at(NULL, "memory:", &store, NULL), HTC_OK));
    cr_expect(eq(u32, htc_store_can(store) & HTC_STORE_WATCHES, HTC_STORE_WATCHES));
    cr_assert(eq(int, htc_store_watch(store, &watch), HTC_OK));
    cr_assert(eq(int, htc_store_event(store, HTC_NEVER, &e), HTC_OK));
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_DELETED));
    cr_assert(eq(int, htc_store_event(store, HTC_NEVER, &e), HTC_OK));
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_CURRENT));
    cr_expect(eq(int, htc_store_event(store, 0, &e), HTC_ETIMEDOUT));
    cr_assert(eq(int, htc_store_ask(store, &q, &r, NULL), HTC_OK));
    uint64_t version = r.version;
    cr_assert(eq(int, htc_store_event(store, HTC_NEVER, &e), HTC_OK));
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_VALUE));
    cr_expect(eq(u64, e.version, version));
    cr_expect(eq(u64, e.tag, 9));
    cr_assert(eq(int, htc_store_unwatch(store, 9), HTC_OK));
    cr_assert(eq(int, htc_store_ask(store, &q, &r, NULL), HTC_OK));
    cr_expect(eq(int, htc_store_event(store, 0, &e), HTC_ETIMEDOUT));
    htc_store_close(store);
}

/* For a loop that is not ours: a deadline after each thing asked for, none with nothing to do. */
Test(store, in_a_loop_of_another)
{
    htc_store     *store = NULL;
    htc_kv_event   e;
    htc_kv_watch   watch = { .size = sizeof watch, .key = htc_bytes_of("k"), .tag = 9 };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") };
    htc_kv_result  r = { .size = sizeof r };
    cr_assert(eq(int, open_at(NULL, "memory:", &store, NULL), HTC_OK));
    cr_expect(eq(int, htc_store_fd(store), -1));
    cr_expect(eq(int, htc_store_events(store), 0));
    cr_expect(htc_store_deadline(store) > htc_host_now());
    cr_assert(eq(int, htc_store_watch(store, &watch), HTC_OK));
    cr_assert(eq(int, htc_store_submit(store, &q, 1, 5), HTC_OK));
    cr_expect(htc_store_deadline(store) <= htc_host_now());
    int events = 0;
    while (htc_store_event(store, 0, &e) == HTC_OK)
        events++;
    cr_expect(events > 0);
    cr_expect(htc_store_deadline(store) <= htc_host_now(), "an answer came with the events");
    cr_assert(eq(int, htc_store_next(store, 0, &r), HTC_OK));
    cr_expect(eq(u64, r.tag, 5));
    cr_expect(eq(int, htc_store_next(store, 0, &r), HTC_EMPTY));
    for (int i = 0; i < 8 && htc_store_deadline(store) <= htc_host_now(); i++) { /* it may want another turn or two */
        while (htc_store_event(store, 0, &e) == HTC_OK)
            continue;
    }
    cr_expect(htc_store_deadline(store) > htc_host_now());
    cr_expect(eq(int, htc_store_fd(NULL), -1));
    cr_expect(eq(int, htc_store_events(NULL), 0));
    cr_expect(htc_store_deadline(NULL) == HTC_NEVER);
    htc_store_close(store);
}

/* However memory is refused: nothing is lost of it, and who asks is told. */
static void scenario(const htc_env *env)
{
    htc_store     *store = NULL;
    htc_kv_request q[2] = { { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("a"), .value = htc_bytes_of("1") },
                            { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("a") } };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     status = open_at(env, "memory:", &store, NULL);
    cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%d", (int)status);
    for (int i = 0; status == HTC_OK && i < 2; i++) {
        status = htc_store_ask(store, &q[i], &r, NULL);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%d", (int)status);
        cr_assert(status != HTC_OK || r.status == HTC_OK || r.status == HTC_ENOMEM ||
                      (i == 1 && r.status == HTC_ENOTFOUND),
                  "%d", (int)r.status);
    }
    htc_store_close(store);
}

Test(store, refused_memory)
{
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env env = alloc_fail_env(&f);
        scenario(&env);
        cr_assert(eq(sz, f.live, 0));
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
    ALLOC_FAIL_ONCE(f, 1000)
    {
        htc_env env = alloc_fail_env(&f);
        scenario(&env);
        cr_assert(eq(sz, f.live, 0));
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
}
