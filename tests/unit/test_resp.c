/* The RESP face against a slow model of its commands, and word for word. */
#include "expect.h"

#include "alloc_fail.h"
#include "kvs/resp/resp_parse.h"
#include "property.h"
#include "resp_rig.h"

/* --- a reference of what the commands answer, in plain C over its own array --- */

typedef struct ref {
    model   m;
    int     proto;
    int     queued; /* what is asked is in a transaction: nothing that there is not */
    htc_buf expected, wire;
} ref;

static void ref_bulk(ref *x, htc_bytes b)
{
    htc_put_text(&x->expected, "$%zu\r\n", b.len);
    htc_put_raw(&x->expected, b);
    htc_put_text(&x->expected, "\r\n");
}

static void ref_null(ref *x)
{
    htc_put_text(&x->expected, "%s", x->proto == 3 ? "_\r\n" : "$-1\r\n");
}

static void ref_value(ref *x, const model_key *k)
{
    if (k)
        ref_bulk(x, (htc_bytes){ k->value, k->len });
    else
        ref_null(x);
}

/* What is asked, said in RESP or, where it can be, on a line. */
static void say(ref *x, htc_rng *rng, int argc, const char **argv)
{
    int plain = htc_rng_below(rng, 8) == 0;
    for (int i = 0; i < argc; i++)
        plain &= argv[i][0] != 0;
    if (plain) {
        for (int i = 0; i < argc; i++)
            htc_put_text(&x->wire, htc_rng_below(rng, 4) && !strchr(argv[i], ' ') ? "%s%s" : "%s\"%s\"", i ? "  " : "",
                         argv[i]);
        htc_put_text(&x->wire, htc_rng_below(rng, 2) ? "\r\n" : "\n");
        return;
    }
    htc_put_text(&x->wire, "*%d\r\n", argc);
    for (int i = 0; i < argc; i++)
        htc_put_text(&x->wire, "$%zu\r\n%s\r\n", strlen(argv[i]), argv[i]);
}

static void ref_put(ref *x, const char *key, const char *value, htc_ns ttl)
{
    model_key *k = model_find(&x->m, htc_bytes_of(key));
    k = k ? k : model_make(&x->m, htc_bytes_of(key));
    k->ttl = ttl;
    model_set(&x->m, k, htc_bytes_of(value));
}

static void ref_drop(ref *x, const char *key)
{
    htc_kv_result  a = { .size = sizeof a };
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_DELETE, .key = htc_bytes_of(key) };
    model_delete(&x->m, &q, model_find(&x->m, q.key), &a);
}

static void ref_set(ref *x, htc_rng *rng, const char *key)
{
    static const char *const values[] = { "", "0", "12", "x", "hello world", "9223372036854775807", "-5" };
    const char              *argv[12] = { "SET", key, values[htc_rng_below(rng, 7)] };
    int         argc = 3, get = 0, condition = (int)htc_rng_below(rng, 6), time = (int)htc_rng_below(rng, 8);
    const char *seen = values[htc_rng_below(rng, 7)];
    model_key  *k = model_find(&x->m, htc_bytes_of(key));
    htc_ns      ttl = 0;
    if (condition == 1)
        argv[argc++] = "nx";
    if (condition == 2)
        argv[argc++] = "XX";
    if (condition == 3)
        argv[argc++] = "IFEQ", argv[argc++] = seen;
    if (htc_rng_below(rng, 3) == 0)
        argv[argc++] = "GET", get = 1;
    if (time == 1)
        argv[argc++] = "EX", argv[argc++] = "100", ttl = 100 * HTC_SECOND;
    if (time == 2)
        argv[argc++] = "px", argv[argc++] = "1700", ttl = 1700 * HTC_MS;
    if (time == 3)
        argv[argc++] = "EXAT", argv[argc++] = "2050", ttl = 50 * HTC_SECOND;
    if (time == 4)
        argv[argc++] = "PXAT", argv[argc++] = "2000300", ttl = 300 * HTC_MS;
    if (time == 5)
        argv[argc++] = "KEEPTTL", ttl = k ? k->ttl : 0;
    say(x, rng, argc, argv);
    int done = condition == 1   ? !k
               : condition == 2 ? !!k
               : condition == 3 ? k && k->len == strlen(seen) && !memcmp(k->value, seen, k->len)
                                : 1;
    if (get)
        ref_value(x, k);
    else if (done)
        htc_put_text(&x->expected, "+OK\r\n");
    else
        ref_null(x);
    /* A compare-and-swap without a time leaves the time as it is. */
    if (done)
        ref_put(x, key, argv[2], condition == 3 && !ttl ? k->ttl : ttl);
}

static void ref_incr(ref *x, htc_rng *rng, const char *key)
{
    static const char *const names[] = { "INCR", "decr", "INCRBY", "DecrBy" };
    int                      which = (int)htc_rng_below(rng, 4);
    const char              *argv[3] = { names[which], key, "-17" };
    htc_kv_request           q = { .size = sizeof q, .op = HTC_KV_ADD,
                                   .key = htc_bytes_of(key),
                                   .delta = which == 0   ? 1
                                            : which == 1 ? -1
                                            : which == 2 ? -17
                                                         : 17 };
    htc_kv_result            a = { .size = sizeof a };
    say(x, rng, which < 2 ? 2 : 3, argv);
    model_add(&x->m, &q, model_find(&x->m, q.key), &a);
    if (a.status == HTC_OK)
        htc_put_text(&x->expected, ":%lld\r\n", (long long)a.number);
    else
        htc_put_text(&x->expected, a.status == HTC_ETOOBIG ? "-ERR increment or decrement would overflow\r\n"
                                                           : "-ERR value is not an integer or out of range\r\n");
}

static void ref_many(ref *x, htc_rng *rng, char c)
{
    static const char *const names[] = { "MGET", "DEL", "EXISTS", "MSET", "unlink" };
    int                      which = (int)htc_rng_below(rng, 5), n = 1 + (int)htc_rng_below(rng, 5), done = 0;
    char                     keys[5][4];
    const char              *argv[12] = { names[which] };
    int                      argc = 1;
    for (int i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "%c%d", c, (int)htc_rng_below(rng, 6));
        argv[argc++] = keys[i];
        if (which == 3)
            argv[argc++] = "many";
    }
    say(x, rng, argc, argv);
    if (which == 0)
        htc_put_text(&x->expected, "*%d\r\n", n);
    for (int i = 0; i < n; i++) {
        model_key *k = model_find(&x->m, htc_bytes_of(keys[i]));
        done += k != NULL;
        if (which == 0)
            ref_value(x, k);
        if ((which == 1 || which == 4) && k)
            ref_drop(x, keys[i]);
        if (which == 3)
            ref_put(x, keys[i], "many", 0);
    }
    if (which == 3)
        htc_put_text(&x->expected, "+OK\r\n");
    else if (which != 0)
        htc_put_text(&x->expected, ":%d\r\n", done);
}

static void ref_life(ref *x, htc_rng *rng, const char *key)
{
    static const char *const names[] = { "EXPIRE", "PEXPIRE", "TTL", "PTTL", "PERSIST" };
    int                      which = (int)htc_rng_below(rng, 5), gone = which < 2 && htc_rng_below(rng, 4) == 0;
    const char              *argv[3] = { names[which], key, gone ? "-1" : "77" };
    model_key               *k = model_find(&x->m, htc_bytes_of(key));
    say(x, rng, which < 2 ? 3 : 2, argv);
    if (which < 2) {
        htc_put_text(&x->expected, ":%d\r\n", k != NULL);
        if (k && gone)
            ref_drop(x, key);
        else if (k)
            k->ttl = which == 0 ? 77 * HTC_SECOND : 77 * HTC_MS;
    } else if (which < 4) {
        long long ms = k ? (long long)(k->ttl / HTC_MS) : 0;
        htc_put_text(&x->expected, ":%lld\r\n", !k ? -2 : !k->ttl ? -1 : which == 3 ? ms : (ms + 500) / 1000);
    } else {
        htc_put_text(&x->expected, ":%d\r\n", k && k->ttl);
        if (k)
            k->ttl = 0;
    }
}

static void ref_other(ref *x, htc_rng *rng, const char *key)
{
    model_key  *k = model_find(&x->m, htc_bytes_of(key));
    const char *argv[3] = { NULL, key, "tail" };
    char        text[32];
    switch (htc_rng_below(rng, x->queued ? 7 : 8)) {
    case 0:
        argv[0] = "GET";
        say(x, rng, 2, argv);
        ref_value(x, k);
        break;
    case 1:
        argv[0] = "getdel";
        say(x, rng, 2, argv);
        ref_value(x, k);
        if (k)
            ref_drop(x, key);
        break;
    case 2: {
        char longer[256];
        argv[0] = "APPEND";
        say(x, rng, 3, argv);
        snprintf(longer, sizeof longer, "%.*stail", k ? (int)(k->len < 200 ? k->len : 200) : 0,
                 k ? (char *)k->value : "");
        ref_put(x, key, longer, k ? k->ttl : 0);
        htc_put_text(&x->expected, ":%zu\r\n", strlen(longer));
        break;
    }
    case 3:
        argv[0] = "STRLEN";
        say(x, rng, 2, argv);
        htc_put_text(&x->expected, ":%zu\r\n", k ? k->len : 0);
        break;
    case 4:
        argv[0] = "SETNX";
        say(x, rng, 3, argv);
        htc_put_text(&x->expected, ":%d\r\n", k == NULL);
        if (!k)
            ref_put(x, key, "tail", 0);
        break;
    case 5:
        argv[0] = "TYPE";
        say(x, rng, 2, argv);
        htc_put_text(&x->expected, "%s", k ? "+string\r\n" : "+none\r\n");
        break;
    case 6:
        argv[0] = "ECHO";
        say(x, rng, 2, argv);
        ref_bulk(x, htc_bytes_of(key));
        break;
    default:
        argv[0] = "NONSENSE";
        say(x, rng, 2, argv);
        snprintf(text, sizeof text, "'%s' ", key);
        htc_put_text(&x->expected, "-ERR unknown command 'NONSENSE', with args beginning with: %s\r\n", text);
    }
}

static void ref_init(ref *x, htc_rng *rng)
{
    const char *hello[] = { "HELLO", "3" };
    memset(x, 0, sizeof *x);
    model_init(&x->m, NULL);
    htc_buf_init(&x->expected, NULL, 0);
    htc_buf_init(&x->wire, NULL, 0);
    x->proto = htc_rng_below(rng, 2) ? 3 : 2;
    if (x->proto == 3)
        say(x, rng, 2, hello);
}

static void ref_command(ref *x, htc_rng *rng, char c)
{
    char key[4];
    snprintf(key, sizeof key, "%c%d", c, (int)htc_rng_below(rng, 6));
    switch (htc_rng_below(rng, 6)) {
    case 0:
    case 1:
        ref_set(x, rng, key);
        break;
    case 2:
        ref_incr(x, rng, key);
        break;
    case 3:
        ref_many(x, rng, c);
        break;
    case 4:
        ref_life(x, rng, key);
        break;
    default:
        ref_other(x, rng, key);
    }
}

/* A transaction, of any keys where one member is alone, else of one. */
static void ref_transaction(ref *x, htc_rng *rng, char c, int alone)
{
    static const char *multi[] = { "MULTI" }, *exec[] = { "EXEC" }, *discard[] = { "DISCARD" };
    int                n = (int)htc_rng_below(rng, 6);
    char               key[4];
    htc_buf            before = x->expected;
    htc_buf_init(&x->expected, NULL, 0);
    say(x, rng, 1, multi);
    if (htc_rng_below(rng, 4) == 0) { /* nothing of it is done */
        const char *set[] = { "SET", "a1", "queued" };
        say(x, rng, 3, set);
        say(x, rng, 1, discard);
        htc_put_text(&before, "+OK\r\n+QUEUED\r\n+OK\r\n");
        say(x, rng, 1, multi);
    }
    x->queued = 1;
    snprintf(key, sizeof key, "%c%d", c, (int)htc_rng_below(rng, 6));
    for (int i = 0; i < n; i++) {
        int which = (int)htc_rng_below(rng, 4);
        if (alone)
            ref_command(x, rng, c);
        else if (which == 0)
            ref_set(x, rng, key);
        else if (which == 1)
            ref_incr(x, rng, key);
        else if (which == 2)
            ref_life(x, rng, key);
        else
            ref_other(x, rng, key);
    }
    x->queued = 0;
    say(x, rng, 1, exec);
    htc_put_text(&before, "+OK\r\n");
    for (int i = 0; i < n; i++)
        htc_put_text(&before, "+QUEUED\r\n");
    htc_put_text(&before, "*%d\r\n", n);
    htc_put_raw(&before, htc_buf_bytes(&x->expected));
    htc_buf_free(&x->expected);
    x->expected = before;
}

static void ref_free(ref *x)
{
    model_free(&x->m);
    htc_buf_free(&x->expected);
    htc_buf_free(&x->wire);
}

/* What HELLO says is not looked at here. */
static htc_bytes behind_hello(const ref *x, const htc_buf *said)
{
    if (x->proto == 2)
        return htc_buf_bytes(said);
    const char *end = memmem(said->data, said->len, "modules\r\n*0\r\n", 13);
    cr_assert(end != NULL);
    size_t at = (size_t)(end + 13 - (const char *)said->data);
    return (htc_bytes){ said->data + at, said->len - at };
}

/* Two connections, each with keys of its own; their bytes cut anywhere, answers late and in any order, the backend busy and
 * the peer slow now and then: each is told what it would be told by a store that does one thing after another. */
Test(resp, answers_as_the_model_however_it_is_cut_and_delayed)
{
    PROPERTY(rng, 3000)
    {
        htc__resp_options o = { .pending_max = 1 + (uint32_t)htc_rng_below(&rng, 9),
                                .output_max = htc_rng_below(&rng, 2) ? 1 + (size_t)htc_rng_below(&rng, 100) : 0 };
        rig               r;
        ref               x[2];
        size_t            at[2] = { 0, 0 };
        rig_make(&r, &o, &rng);
        rig_open(&r, 2);
        r.m.alone = (int)htc_rng_below(&rng, 2);
        for (int i = 0; i < 2; i++) {
            ref_init(&x[i], &rng);
            for (int n = (int)htc_rng_below(&rng, 40); n >= 0; n--)
                if (htc_rng_below(&rng, 8))
                    ref_command(&x[i], &rng, (char)('a' + i));
                else
                    ref_transaction(&x[i], &rng, (char)('a' + i), r.m.alone);
        }
        while (at[0] < x[0].wire.len || at[1] < x[1].wire.len) {
            uint32_t i = (uint32_t)htc_rng_below(&rng, 2);
            size_t   left = x[i].wire.len - at[i];
            size_t   n = 1 + (size_t)htc_rng_below(&rng, htc_rng_below(&rng, 3) ? 20 : 2000);
            n = n < left ? n : left;
            if (n) {
                /* Lent for the call alone. */
                uint8_t *lent = malloc(n);
                memcpy(lent, x[i].wire.data + at[i], n);
                HOLDS(rig_input(&r, HTC_IN_BYTES, i + 1, (htc_bytes){ lent, n }, 0) == HTC_OK);
                free(lent);
                at[i] += n;
            }
            r.m.is_busy = htc_rng_below(&rng, 4) == 0;
            for (uint64_t k = htc_rng_below(&rng, 4); k > 0; k--)
                model_answer_one(&r.m);
            if (htc_rng_below(&rng, 2))
                HOLDS(rig_flush(&r) == HTC_OK);
            if (htc_rng_below(&rng, 3) == 0)
                rig_sent(&r, i + 1);
        }
        r.m.is_busy = 0;
        rig_settle(&r);
        for (uint32_t i = 0; i < 2; i++) {
            htc_bytes said = behind_hello(&x[i], &r.said[i + 1]), expected = htc_buf_bytes(&x[i].expected);
            if (!htc_bytes_equal(said, expected))
                fprintf(stderr, "said <%.*s> expected <%.*s> asked <%.*s>\n", (int)said.len, (const char *)said.data,
                        (int)expected.len, (const char *)expected.data, (int)x[i].wire.len,
                        (const char *)x[i].wire.data);
            HOLDS(htc_bytes_equal(said, expected));
            HOLDS(r.held[i + 1] == 0 && r.closed[i + 1] == 0);
            ref_free(&x[i]);
        }
        rig_free(&r);
    }
}

/* --- word for word --- */

#define GREETING                                                                                                       \
    "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n" \
    "$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"

Test(resp, words)
{
    static const char *const lines[][2] = {
        { "\"\"\r\n", "-ERR unknown command '', with args beginning with: \r\n" }, /* the first: there is no memory for words yet */
        { "PING\r\n", "+PONG\r\n" },
        { "ping 'a b'\r\n", "$3\r\na b\r\n" },
        { "*1\r\n$4\r\nPING\r\n", "+PONG\r\n" },
        { "\r\n\n", "" },
        { "*0\r\n*-1\r\nPING\r\n", "+PONG\r\n" },
        { "SET k v\r\n", "+OK\r\n" },
        { "get k\r\n", "$1\r\nv\r\n" },
        { "GET nothing\r\n", "$-1\r\n" },
        { "GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n" },
        { "GET a b\r\n", "-ERR wrong number of arguments for 'get' command\r\n" },
        { "MSET a 1 b\r\n", "-ERR wrong number of arguments for 'mset' command\r\n" },
        { "FOO bar baz\r\n", "-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' \r\n" },
        { "*1\r\n$5\r\na\r\nbc\r\n", "-ERR unknown command 'a  bc', with args beginning with: \r\n" },
        { "SET k v ' NX'\r\n", "-ERR syntax error\r\n" },
        { "SET k v \"\\x00XX\"\r\n", "-ERR syntax error\r\n" },
        { "' GET' k\r\n", "-ERR unknown command ' GET', with args beginning with: 'k' \r\n" },
        { "SET k v NX XX\r\n", "-ERR syntax error\r\n" },
        { "SET k v EX 5 PX 6\r\n", "-ERR syntax error\r\n" },
        { "SET k v KEEPTTL EX 5\r\n", "-ERR syntax error\r\n" },
        { "SET k v NX IFEQ x\r\n", "-ERR syntax error\r\n" },
        { "SET k v EX\r\n", "-ERR syntax error\r\n" },
        { "SET k v EX 0\r\n", "-ERR invalid expire time in 'set' command\r\n" },
        { "SET k v EX -1\r\n", "-ERR invalid expire time in 'set' command\r\n" },
        { "SET k v EX 9223372036854775807\r\n", "-ERR invalid expire time in 'set' command\r\n" },
        { "SET k v PX x\r\n", "-ERR value is not an integer or out of range\r\n" },
        { "SET k w IFEQ x GET\r\n", "$1\r\nv\r\n" },
        { "SET k w IFEQ v GET\r\n", "$1\r\nv\r\n" },
        { "SET k z IFEQ v\r\n", "$-1\r\n" },
        { "SET none z IFEQ v GET\r\n", "$-1\r\n" },
        { "INCR k\r\n", "-ERR value is not an integer or out of range\r\n" },
        { "INCRBY n 01\r\n", "-ERR value is not an integer or out of range\r\n" },
        { "DECRBY n -9223372036854775808\r\n", "-ERR decrement would overflow\r\n" },
        { "EXPIRE k 99999999999999999\r\n", "-ERR invalid expire time in 'expire' command\r\n" },
        { "SET \"\" v\r\n", "-ERR a key of this store has 1 to 400 bytes: this one is empty\r\n" },
        { "SELECT 0\r\n", "+OK\r\n" },
        { "SELECT 9\r\n", "-ERR DB index is out of range: this store has database 0 alone\r\n" },
        { "SELECT x\r\n", "-ERR value is not an integer or out of range\r\n" },
        { "CLIENT ID\r\n", ":1\r\n" },
        { "CLIENT GETNAME\r\n", "$-1\r\n" },
        { "CLIENT SETNAME me\r\n", "+OK\r\n" },
        { "CLIENT GETNAME\r\n", "$2\r\nme\r\n" },
        { "CLIENT SETNAME \"a b\"\r\n", "-ERR Client names cannot contain spaces, newlines or special characters.\r\n" },
        { "CLIENT SETINFO lib-name x\r\n", "+OK\r\n" },
        { "CLIENT NO-EVICT on\r\n", "+OK\r\n" },
        { "CONFIG GET save\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n" },
        { "CONFIG GET appendonly\r\n", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n" },
        { "CONFIG GET nothing\r\n", "*0\r\n" },
        { "COMMAND COUNT\r\n", ":59\r\n" },
        { "ROLE\r\n", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n" },
        { "COMMAND INFO get nonsense\r\n",
          "*2\r\n*6\r\n$3\r\nget\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n*-1\r\n" },
        { "COMMAND DOCS nonsense\r\n", "*0\r\n" },
        { "COMMAND DOCS get nonsense\r\n",
          "*2\r\n$3\r\nget\r\n*4\r\n$7\r\nsummary\r\n$19\r\nThe value of a key.\r\n$5\r\ngroup\r\n$6\r\nstring\r\n" },
        { "DBSIZE\r\n", ":1\r\n" },
        { "INFO keyspace\r\n", "$34\r\n# Keyspace\r\ndb0:keys=1,avg_ttl=0\r\n\r\n" },
        { "INFO Replication KEYSPACE\r\n",
          "$84\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\ndb0:keys=1,avg_ttl=0\r\n\r\n" },
        { "INFO nonsense\r\n", "$0\r\n\r\n" },
        { "CONFIG GET append*\r\n", "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n" },
        { "FLUSHALL\r\n",
          "-ERR FLUSHALL and FLUSHDB are not allowed here; start the server with --resp-allow-flush\r\n" },
        { "HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n" },
        { "HELLO x\r\n", "-ERR Protocol version is not an integer or out of range\r\n" },
        { "HELLO 3 NONSENSE\r\n", "-ERR Syntax error in HELLO option\r\n" },
        { "HELLO 3 SETNAME you\r\n", GREETING },
        { "CLIENT GETNAME\r\n", "$3\r\nyou\r\n" },
        { "GET nothing\r\n", "_\r\n" },
        { "COMMAND DOCS Echo\r\n",
          "%1\r\n$4\r\necho\r\n%2\r\n$7\r\nsummary\r\n$14\r\nWhat was said.\r\n$5\r\ngroup\r\n$6\r\nserver\r\n" },
        { "RESET\r\n", "+RESET\r\n" },
        { "GET nothing\r\n", "$-1\r\n" },
        { "AUTH x\r\n",
          "-ERR AUTH <password> called without any password configured for the default user. Are you sure your "
          "configuration is correct?\r\n" },
    };
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        converse(&r, lines[i][0], lines[i][1]);
    r.m.refuse = HTC_EFULL;
    converse(&r, "SET k v\r\n", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    r.m.refuse = HTC_ENOSPC;
    converse(&r, "MSET k v l w\r\n", "-MISCONF the disk is full: changes are refused, reads go on\r\n");
    r.m.refuse = HTC_OK;
    /* Made, but what was there before nobody knows any more: that is not nothing. */
    r.m.repeated = 1;
    converse(&r, "SET again v GET\r\n", "$-1\r\n");
    converse(&r, "SET again w GET\r\n", "-ERR the outcome of a repeated change is not known\r\n");
    converse(&r, "SET again x NX GET\r\n", "$1\r\nw\r\n");
    converse(&r, "GETDEL again\r\n", "-ERR the outcome of a repeated change is not known\r\n");
    converse(&r, "GETDEL again\r\n", "$-1\r\n");
    r.m.repeated = 0;
    /* Of all commands, each in eleven lines: its name and a map of two words. */
    size_t said = 0;
    htc_buf_clear(&r.said[1]);
    rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("COMMAND DOCS\r\n"), 0);
    rig_settle(&r);
    for (size_t i = 0; i < r.said[1].len; i++)
        said += r.said[1].data[i] == '\n';
    cr_expect(eq(sz, said, 1 + 11 * 59));
    char long_key[600] = "SET ";
    memset(long_key + 4, 'k', 401);
    strcpy(long_key + 405, " v\r\n");
    converse(&r, long_key, "-ERR a key of this store has 1 to 400 bytes: this one is longer\r\n");
    converse(&r, "QUIT\r\nPING\r\n", "+OK\r\n");
    cr_expect(r.closed[1]);
    rig_free(&r);
}

/* What tools ask for before they trust it with anything: when it is on the disk. */
Test(resp, what_is_kept_is_told)
{
    static const struct {
        uint32_t    durability;
        const char *config, *info;
    } rows[] = { { 1, "$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n", "aof_enabled:1" },
                 { 2, "$3\r\nyes\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n", "aof_enabled:1" },
                 { 3, "$3\r\nyes\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n", "aof_enabled:1" },
                 { 0, "$2\r\nno\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n", "aof_enabled:0" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig  r;
        char wanted[200];
        rig_make(&r, &(htc__resp_options){ .durability = rows[i].durability }, NULL);
        snprintf(wanted, sizeof wanted, "*4\r\n$10\r\nappendonly\r\n%s", rows[i].config);
        converse(&r, "CONFIG GET append*\r\n", wanted);
        snprintf(wanted, sizeof wanted, "$41\r\n# Persistence\r\nloading:0\r\n%s\r\n\r\n", rows[i].info);
        converse(&r, "INFO persistence\r\n", wanted);
        rig_free(&r);
    }
}

static int too_late(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn, uint64_t slot,
                    htc_kv_result *result)
{
    (void)ctx, (void)stamp, (void)face, (void)conn, (void)slot;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_ETIMEDOUT };
    return 1;
}

/* Without a majority a change may be made later; what only reads is never done. */
Test(resp, only_a_change_may_be_done_later)
{
    static const char *const reads[] = { "GET a", "STRLEN a", "EXISTS a", "EXISTS a b", "TTL a", "TYPE a", "SCAN 0" };
    static const char *const changes[] = { "SET a 1", "INCR a", "DEL a", "DEL a b", "MSET a 1 b 2", "GETDEL a", "EXPIRE a 10", "APPEND a b" };
    static const char        late[] = "-CLUSTERDOWN no owner has answered in time\r\n";
    static const char        done[] = "-CLUSTERDOWN no owner has answered in time; it may be done all the same\r\n";
    for (size_t i = 0; i < sizeof reads / sizeof *reads + sizeof changes / sizeof *changes; i++) {
        int  change = i >= sizeof reads / sizeof *reads;
        char line[64];
        rig  r;
        rig_make(&r, &(htc__resp_options){ 0 }, NULL);
        htc__resp_destroy(r.f);
        htc__kv_backend backend = model_backend(&r.m);
        backend.ask = too_late;
        cr_assert(htc__resp_create(&r.env, &(htc__resp_options){ 0 }, backend, &r.f) == HTC_OK);
        rig_open(&r, 1);
        snprintf(line, sizeof line, "%s\r\n", change ? changes[i - sizeof reads / sizeof *reads] : reads[i]);
        converse(&r, line, change ? done : late);
        rig_free(&r);
    }
}

/* What is no request is said to be none, after everything before it was answered, and the connection ends. */
Test(resp, broken_requests_end_the_connection)
{
    static const char *const lines[][2] = {
        { "*1048577\r\n", "invalid multibulk length" },
        { "*x\r\n", "invalid multibulk length" },
        { "*1\r\n+PING\r\n", "expected '$'" },
        { "*1\r\n$-1\r\n", "invalid bulk length (a request has at most 67108864 bytes, a value 16777216)" },
        { "*1\r\n$67108865\r\n", "invalid bulk length (a request has at most 67108864 bytes, a value 16777216)" },
        { "*1\r\n$99999999999999999999999", "invalid bulk length (a request has at most 67108864 bytes, a value 16777216)" },
        { "*1\r\n$1\r\nabc", "expected the end of a bulk string" },
        { "set \"a\r\n", "unbalanced quotes in request" },
        { "set 'a'b c\r\n", "unbalanced quotes in request" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        rig  r;
        char text[128], expected[256];
        rig_make(&r, &(htc__resp_options){ 0 }, NULL);
        snprintf(text, sizeof text, "PING\r\n%s", lines[i][0]);
        snprintf(expected, sizeof expected, "+PONG\r\n-ERR Protocol error: %s\r\n", lines[i][1]);
        converse(&r, text, expected);
        cr_expect(r.closed[1]);
        rig_free(&r);
    }
}

Test(resp, a_password_is_wanted_first)
{
    htc__resp_options o = { .password = htc_bytes_of("open sesame") };
    rig               r;
    rig_make(&r, &o, NULL);
    converse(&r, "GET k\r\n", "-NOAUTH Authentication required.\r\n");
    converse(&r, "AUTH open\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "AUTH \"open sesameopen sesame\"\r\n",
             "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "AUTH \"\"\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "AUTH root \"open sesame\"\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "HELLO 3 AUTH default x\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "AUTH \"open sesame\"\r\n", "+OK\r\n");
    converse(&r, "GET k\r\n", "$-1\r\n");
    converse(&r, "RESET\r\n", "+RESET\r\n");
    converse(&r, "GET k\r\n", "-NOAUTH Authentication required.\r\n");
    /* In one line, as libraries do. */
    converse(&r, "HELLO 3 SETNAME me AUTH default x\r\n",
             "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    converse(&r, "HELLO 3 AUTH default \"open sesame\" SETNAME me\r\n", GREETING);
    converse(&r, "CLIENT GETNAME\r\n", "$2\r\nme\r\n");
    converse(&r, "GET k\r\n", "_\r\n");
    converse(&r, "RESET\r\n", "+RESET\r\n");
    converse(&r, "GET k\r\n", "-NOAUTH Authentication required.\r\n");
    /* Strangers may not make us keep much. */
    converse(&r, "*2\r\n$4\r\nECHO\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n");
    cr_expect(r.closed[1]);
    rig_free(&r);
}

/* A SCAN from the first cursor to the last shows every key once, whether the store knows places or only keys. */
Test(resp, a_scan_shows_every_key_once)
{
    PROPERTY(rng, 60)
    {
        rig               r;
        int               n = (int)htc_rng_below(&rng, 60), seen[60] = { 0 };
        char              text[96];
        htc__resp_options o = { .flush = 1 };
        rig_make(&r, &o, htc_rng_below(&rng, 2) ? &rng : NULL);
        r.m.places = (int)htc_rng_below(&rng, 2);
        for (int i = 0; i < n; i++) {
            snprintf(text, sizeof text, "SET key%d v\r\n", i);
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
        }
        rig_settle(&r);
        unsigned long long cursor = 0;
        int                pages = 0;
        do {
            htc_buf_clear(&r.said[1]);
            snprintf(text, sizeof text, "SCAN %llu MATCH k?y[0-9]* COUNT %d\r\n", cursor,
                     1 + (int)htc_rng_below(&rng, 9));
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
            rig_settle(&r);
            htc_put_u8(&r.said[1], 0);
            char *p = (char *)r.said[1].data, *save, *line = strtok_r(p, "\r\n", &save);
            HOLDS(line && strcmp(line, "*2") == 0);
            line = strtok_r(NULL, "\r\n", &save);
            line = strtok_r(NULL, "\r\n", &save);
            cursor = strtoull(line, NULL, 10);
            HOLDS(cursor < 1ull << 53); /* clients hold it in a signed number, or in a double */
            line = strtok_r(NULL, "\r\n", &save);
            for (int count = atoi(line + 1); count > 0; count--) {
                (void)strtok_r(NULL, "\r\n", &save);
                line = strtok_r(NULL, "\r\n", &save);
                int which = atoi(line + 3);
                HOLDS(which < n && seen[which] == 0);
                seen[which] = 1;
            }
            pages++;
            HOLDS(pages < 100);
        } while (cursor);
        for (int i = 0; i < n; i++)
            HOLDS(seen[i]);
        snprintf(text, sizeof text, ":%d\r\n", n);
        converse(&r, "DBSIZE\r\n", text);
        converse(&r, "SCAN 0 TYPE list COUNT 10000\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
        if (r.m.places)
            converse(&r, "SCAN 1073741824\r\n", "-ERR invalid cursor\r\n");
        converse(&r, "SCAN 1073741823\r\n",
                 r.m.places ? "*2\r\n$1\r\n0\r\n*0\r\n"
                            : "-ERR invalid cursor: another member gave it, or it is too old; "
                              "begin again with 0\r\n");
        converse(&r, "FLUSHALL\r\nDBSIZE\r\nSET a b\r\nGET a\r\n", "+OK\r\n:0\r\n+OK\r\n$1\r\nb\r\n");
        rig_free(&r);
    }
}

/* Where a member remembers cursors, those of another one are refused, and never taken for its own; any client can hold them: a
 * number of 53 bits. */
Test(resp, a_cursor_of_another_member_is_refused)
{
    htc__resp_options  o = { .flush = 0 };
    static rig         r[2];
    htc_rng            rng[2] = { { 1 }, { 2 } };
    unsigned long long cursor[2];
    char               text[64];
    for (int i = 0; i < 2; i++) {
        rig_make(&r[i], &o, NULL);
        r[i].env.rng = &rng[i];
        htc__resp_destroy(r[i].f);
        cr_assert(htc__resp_create(&r[i].env, &o, model_backend(&r[i].m), &r[i].f) == HTC_OK);
        rig_open(&r[i], 1);
        converse(&r[i], "MSET a 1 b 2 c 3\r\n", "+OK\r\n");
        htc_buf_clear(&r[i].said[1]);
        rig_input(&r[i], HTC_IN_BYTES, 1, htc_bytes_of("SCAN 0 COUNT 1\r\n"), 0);
        rig_settle(&r[i]);
        htc_put_u8(&r[i].said[1], 0);
        cr_assert(eq(int, sscanf((char *)r[i].said[1].data, "*2\r\n$%*d\r\n%llu\r\n", &cursor[i]), 1));
        cr_expect(cursor[i] > 0 && cursor[i] < 1ull << 53);
        htc_buf_clear(&r[i].said[1]);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "SCAN %llu\r\n", cursor[!i]);
        converse(&r[i], text, "-ERR invalid cursor: another member gave it, or it is too old; begin again with 0\r\n");
        snprintf(text, sizeof text, "SCAN %llu\r\n", cursor[i]);
        converse(&r[i], text, "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n");
        rig_free(&r[i]);
    }
}

/* A request of many arguments is parsed the same however it is cut; what is left over is never longer than was sent. */
Test(resp, a_peer_that_asks_for_much_is_held)
{
    htc__resp_options o = { .output_max = 1 << 20 };
    rig               r;
    rig_make(&r, &o, NULL);
    char *big = malloc(3000000);
    memset(big, 'x', 3000000);
    int n = sprintf(big, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2900000\r\n");
    memcpy(big + n + 2900000, "\r\n", 2);
    rig_input(&r, HTC_IN_BYTES, 1, (htc_bytes){ big, (size_t)n + 2900002 }, 0);
    rig_settle(&r);
    cr_expect(r.said[1].len == 5);
    for (int i = 0; i < 20; i++)
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("GET k\r\n"), 0);
    rig_flush(&r);
    cr_expect(r.held[1] == 1 && r.tag[1]);
    cr_expect(r.said[1].len < 4000000, "%zu", r.said[1].len);
    rig_flush(&r);
    cr_expect(r.said[1].len < 4000000, "%zu", r.said[1].len);
    rig_settle(&r);
    cr_expect(r.held[1] == 0);
    cr_expect(r.said[1].len == 5 + 20 * (2900000 + 12), "%zu", r.said[1].len);
    free(big);
    rig_free(&r);
}

/* A client that closes its half is answered, then closed; one that is gone is forgotten, whatever is still to come for it. */
Test(resp, ends)
{
    htc_rng rng = { 4 };
    rig     r;
    rig_make(&r, &(htc__resp_options){ 0 }, &rng);
    rig_open(&r, 2);
    rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("SET a 1\r\nGET a\r\nDBSIZE\r\nMGET a b\r\nGE"), 0);
    rig_input(&r, HTC_IN_BYTES, 2, htc_bytes_of("GET a\r\nDBSIZE\r\nGET b\r\n"), 0);
    rig_input(&r, HTC_IN_BYTES, 1, (htc_bytes){ NULL, 0 }, 0);
    rig_input(&r, HTC_IN_CLOSED, 2, (htc_bytes){ NULL, 0 }, 0);
    cr_expect(htc__resp_owns(r.f, 2) == 0);
    rig_settle(&r);
    cr_expect(
        htc_bytes_equal(htc_buf_bytes(&r.said[1]), htc_bytes_of("+OK\r\n$1\r\n1\r\n:1\r\n*2\r\n$1\r\n1\r\n$-1\r\n")));
    cr_expect(r.closed[1] && !r.closed[2] && !htc__resp_owns(r.f, 1));
    rig_free(&r);
}

Test(resp, thousands_of_connections)
{
    alloc_fail  a = alloc_fail_at(0);
    htc_env     env = alloc_fail_env(&a);
    model       m;
    htc__resp  *f;
    htc_output *out;
    model_init(&m, NULL);
    cr_assert(htc_output_create(NULL, 0, &out) == HTC_OK);
    cr_assert(htc__resp_create(&env, &(htc__resp_options){ .connections_max = 5000 }, model_backend(&m), &f) == HTC_OK);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t p = 1; p <= 5001; p++) {
            htc_output_clear(out);
            htc__resp_input(f, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = p * 64 }, out);
            cr_assert(htc_output_count(out) == (p == 5001 ? 2 : 0));
        }
        for (uint32_t p = 1; p <= 5000; p++)
            cr_assert(htc__resp_owns(f, p * 64) && !htc__resp_owns(f, p * 64 + 1));
        for (uint32_t p = 1; p <= 5000; p++) {
            htc__resp_input(f, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = p * 64 }, out);
            cr_assert(htc__resp_owns(f, p * 64) == 0 && (p == 5000 || htc__resp_owns(f, p * 64 + 64)));
        }
    }
    htc__resp_destroy(f);
    cr_expect(a.live == 0 && a.wrong_sizes == 0);
    htc_output_destroy(out);
    model_free(&m);
}

static void scenario(alloc_fail *a, htc_rng *rng, int alone)
{
    htc_env           env = alloc_fail_env(a);
    htc_output       *out;
    model             m;
    htc__resp        *f = NULL;
    htc__resp_options o = { .pending_max = 3, .flush = 1 };
    static const char text[] =
        "CLIENT SETNAME x\r\nSET a 1\r\nSET a 2 IFEQ 1 GET\r\nMGET a b c d\r\nMSET a 1 b 2\r\nSCAN 0\r\n"
        "*2\r\n$4\r\nECHO\r\n$20\r\n01234567890123456789\r\nDBSIZE\r\nINFO\r\n"
        "WATCH a\r\nMULTI\r\nSET a 5\r\nINCR a\r\nDEL a a\r\nEXEC\r\nMULTI\r\nAPPEND a x\r\nFLUSHALL\r\nGET a\r\n";
    model_init(&m, rng);
    m.alone = alone;
    cr_assert(htc_output_create(NULL, 0, &out) == HTC_OK);
    if (htc__resp_create(&env, &o, model_backend(&m), &f) == HTC_OK) {
        htc__resp_input(f, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 }, out);
        for (size_t i = 0; i < sizeof text - 1; i += 7) {
            size_t n = sizeof text - 1 - i < 7 ? sizeof text - 1 - i : 7;
            htc__resp_input(f, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_BYTES, .peer = 1, .body = { text + i, n } }, out);
            model_answer_one(&m);
            htc__resp_flush(f, 0, 0, out);
            htc_output_clear(out);
        }
        for (int i = 0; i < 40; i++) {
            model_answer_one(&m);
            htc__resp_flush(f, 0, 0, out);
            htc_output_clear(out);
        }
    }
    htc__resp_destroy(f);
    cr_expect(a->live == 0 && a->wrong_sizes == 0, "%zu live, %zu wrong, refusing from %zu", a->live, a->wrong_sizes,
              a->fail_at);
    htc_output_destroy(out);
    model_free(&m);
}

Test(resp, memory_may_be_refused_anywhere)
{
    ALLOC_FAIL_EVERY(a, 2000)
    {
        htc_rng rng = { 7 };
        scenario(&a, &rng, 0);
    }
    ALLOC_FAIL_ONCE(a, 2000)
    {
        htc_rng rng = { 7 };
        scenario(&a, &rng, 1);
    }
    ALLOC_FAIL_ONCE(a, 2000)
    {
        htc_rng rng = { 7 };
        scenario(&a, &rng, 0);
    }
}
