/* Commands word for word, outside of a transaction and within one; of one member alone, and of several. */
#include "resp_rig.h"

/* The clock of the rig: 2000 s since 1970. */
static const char *const lines[][2] = {
    { "SETEX k 10 v", "+OK\r\n" },
    { "TTL k", ":10\r\n" },
    { "PSETEX k 1500 w", "+OK\r\n" },
    { "PTTL k", ":1500\r\n" },
    { "SET k u IFEQ w", "+OK\r\n" },
    { "PTTL k", ":1500\r\n" },
    { "SET k w IFEQ u KEEPTTL", "+OK\r\n" },
    { "PTTL k", ":1500\r\n" },
    { "SETEX k 0 v", "-ERR invalid expire time in 'setex' command\r\n" },
    { "PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command\r\n" },
    { "SETEX k x v", "-ERR value is not an integer or out of range\r\n" },
    { "GETSET k x", "$1\r\nw\r\n" },
    { "GETSET k2 y", "$-1\r\n" },
    { "TTL k", ":-1\r\n" },
    { "GETEX k", "$1\r\nx\r\n" },
    { "GETEX k EX 20", "$1\r\nx\r\n" },
    { "TTL k", ":20\r\n" },
    { "GETEX k PXAT 2030000", "$1\r\nx\r\n" },
    { "PTTL k", ":30000\r\n" },
    { "EXPIRETIME k", ":2030\r\n" },
    { "PEXPIRETIME k", ":2030000\r\n" },
    { "GETEX k PERSIST", "$1\r\nx\r\n" },
    { "TTL k", ":-1\r\n" },
    { "EXPIRETIME k", ":-1\r\n" },
    { "EXPIRETIME none", ":-2\r\n" },
    { "GETEX none PERSIST", "$-1\r\n" },
    { "GETEX none EX 5", "$-1\r\n" },
    { "GETEX k EX", "-ERR syntax error\r\n" },
    { "GETEX k EX 0", "-ERR invalid expire time in 'getex' command\r\n" },
    { "GETEX k2 EXAT 1000", "$1\r\ny\r\n" }, /* past */
    { "EXISTS k2", ":0\r\n" },
    { "EXPIREAT k 2100", ":1\r\n" },
    { "TTL k", ":100\r\n" },
    { "PEXPIREAT k 2050000 NX", ":0\r\n" },
    { "PEXPIREAT k 2050000 GT", ":0\r\n" },
    { "PEXPIREAT k 2050000 LT", ":1\r\n" },
    { "PTTL k", ":50000\r\n" },
    { "EXPIRE k 60 xx gt", ":1\r\n" },
    { "PERSIST k", ":1\r\n" },
    { "EXPIRE k 60 XX", ":0\r\n" },
    { "EXPIRE k 60 GT", ":0\r\n" }, /* without a time it lives longer than any */
    { "EXPIRE k 60 LT", ":1\r\n" },
    { "GET k", "$1\r\nx\r\n" },
    { "EXPIRE none 60 NX", ":0\r\n" },
    { "EXPIRE k 60 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n" },
    { "EXPIRE k 60 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n" },
    { "EXPIRE k 60 ZZ", "-ERR Unsupported option ZZ\r\n" },
    { "EXPIRE k -5 LT", ":1\r\n" },
    { "EXISTS k", ":0\r\n" },
    { "SET k x", "+OK\r\n" },
    { "EXPIREAT k 1999", ":1\r\n" },
    { "EXISTS k", ":0\r\n" },
    /* Longer than the store counts: as long as there is. */
    { "SET k x EX 10000000000", "+OK\r\n" },
    { "TTL k", ":9223372037\r\n" },
    { "SET k x PX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n" },
    { "EXPIRE k 11000000000", ":1\r\n" },
    { "EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n" },
    { "EXPIREAT k 99999999999", ":1\r\n" },
    { "TTL k", ":9223372037\r\n" },
    { "SET s 'Hello World'", "+OK\r\n" },
    { "GETRANGE s 0 4", "$5\r\nHello\r\n" },
    { "GETRANGE s -5 -1", "$5\r\nWorld\r\n" },
    { "SUBSTR s 6 100000000000", "$5\r\nWorld\r\n" },
    { "GETRANGE s 5 3", "$0\r\n\r\n" },
    { "GETRANGE s -1 -5", "$0\r\n\r\n" },
    { "GETRANGE s -100 -100", "$1\r\nH\r\n" },
    { "GETRANGE none 0 -1", "$0\r\n\r\n" },
    { "GETRANGE s a 1", "-ERR value is not an integer or out of range\r\n" },
    { "SETRANGE s 6 Redis", ":11\r\n" },
    { "GET s", "$11\r\nHello Redis\r\n" },
    { "SETRANGE s 12 x", ":13\r\n" },
    { "GETRANGE s 10 -1", "$3\r\ns\0x\r\n" },
    { "SETRANGE s 0 ''", ":13\r\n" },
    { "SETRANGE none 0 ''", ":0\r\n" },
    { "EXISTS none", ":0\r\n" },
    { "SETRANGE s -1 x", "-ERR offset is out of range\r\n" },
    { "SETRANGE s 16777216 x", "-ERR string exceeds maximum allowed size (16777216 bytes here)\r\n" },
    { "INCRBYFLOAT f 10.5", "$4\r\n10.5\r\n" },
    { "INCRBYFLOAT f 0.1", "$4\r\n10.6\r\n" },
    { "INCRBYFLOAT f -5", "$3\r\n5.6\r\n" },
    { "SET f 5.0e3", "+OK\r\n" },
    { "INCRBYFLOAT f 2.0e2", "$4\r\n5200\r\n" },
    { "INCRBYFLOAT f -5200", "$1\r\n0\r\n" },
    { "INCRBYFLOAT s 1", "-ERR value is not a valid float\r\n" },
    { "INCRBYFLOAT f x", "-ERR value is not a valid float\r\n" },
    { "INCRBYFLOAT f ' 1'", "-ERR value is not a valid float\r\n" },
    { "INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity\r\n" },
    { "SET n 007", "+OK\r\n" },
    { "INCR n", "-ERR value is not an integer or out of range\r\n" },
    { "SET n -0", "+OK\r\n" },
    { "INCR n", "-ERR value is not an integer or out of range\r\n" },
    { "SET n 9223372036854775807", "+OK\r\n" },
    { "INCR n", "-ERR increment or decrement would overflow\r\n" },
    { "MSETNX m 1 m 2", ":1\r\n" },
    { "MSETNX m 3 m 4", ":0\r\n" },
    { "GET m", "$1\r\n2\r\n" },
    { "MSETNX m", "-ERR wrong number of arguments for 'msetnx' command\r\n" },
    { "TOUCH m s none", ":2\r\n" },
    { "TIME", "*2\r\n$4\r\n2000\r\n$1\r\n0\r\n" },
    { "DEL k s f n m", ":5\r\n" },
};

static void ask(rig *r, const char *said, const char *answered, size_t len)
{
    char text[256];
    snprintf(text, sizeof text, "%s\r\n", said);
    htc_buf_clear(&r->said[1]);
    cr_assert(rig_input(r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0) == HTC_OK);
    rig_settle(r);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r->said[1]), (htc_bytes){ answered, len }),
              "<%s> is answered <%.*s> instead of <%s>", said, (int)r->said[1].len, (char *)r->said[1].data, answered);
}

/* One answer has a zero byte. */
static size_t length_of(const char *answer)
{
    return strncmp(answer, "$3\r\ns", 5) == 0 ? 9 : strlen(answer);
}

Test(resp_commands, words)
{
    for (int how = 0; how < 4; how++) {
        htc_rng rng = { 5 };
        rig     r;
        rig_make(&r, &(htc__resp_options){ 0 }, how & 2 ? &rng : NULL);
        r.m.alone = how & 1;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            ask(&r, lines[i][0], lines[i][1], length_of(lines[i][1]));
        rig_free(&r);
    }
}

/* The same within MULTI, where what is asked is about one key at most, or one member is alone. */
Test(resp_commands, words_of_transactions)
{
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    r.m.alone = 1;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char   said[300], answered[300];
        int    arity = strncmp(lines[i][1], "-ERR wrong number", 17) == 0 && !strstr(lines[i][0], "MSETNX");
        size_t len = length_of(lines[i][1]);
        cr_assert(!arity);
        snprintf(said, sizeof said, "MULTI\r\n%s\r\nEXEC", lines[i][0]);
        int n = snprintf(answered, sizeof answered, "+OK\r\n+QUEUED\r\n*1\r\n");
        memcpy(answered + n, lines[i][1], len + 1);
        if (!strcmp(lines[i][0], "MSETNX m"))
            continue; /* that is not queued */
        ask(&r, said, answered, (size_t)n + len);
    }
    rig_free(&r);
}

Test(resp_commands, keys_of_several_are_one_step_of_one_member_alone)
{
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    r.m.alone = 1;
    converse(&r, "MSETNX a 1 b 2\r\nMSETNX b 3 c 4\r\nMGET a b c\r\n",
             ":1\r\n:0\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
    r.m.alone = 0;
    converse(
        &r, "MSETNX c 3 d 4\r\nEXISTS c d\r\n",
        "-ERR MSETNX of several keys: this store has several members, and each key is a register of its own\r\n:0\r\n");
    rig_free(&r);
}

/* All pages of it, whatever the store knows. */
Test(resp_commands, keys_and_a_random_one)
{
    for (int places = 0; places < 2; places++) {
        htc_rng rng = { 11 };
        rig     r;
        char    text[64];
        int     seen[1300] = { 0 }, many = 0;
        rig_make(&r, &(htc__resp_options){ 0 }, NULL);
        htc__resp_destroy(r.f);
        r.env.rng = &rng;
        r.m.places = places;
        cr_assert(htc__resp_create(&r.env, &(htc__resp_options){ 0 }, model_backend(&r.m), &r.f) == HTC_OK);
        rig_open(&r, 1);
        converse(&r, "KEYS *\r\nRANDOMKEY\r\n", "*0\r\n$-1\r\n");
        for (int i = 0; i < 1300; i++) {
            snprintf(text, sizeof text, "SET key%d v\r\n", i);
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
        }
        rig_settle(&r);
        converse(&r, "KEYS key129[89]\r\nPING\r\n", "*2\r\n$7\r\nkey1298\r\n$7\r\nkey1299\r\n+PONG\r\n");
        converse(&r, "KEYS nothing*\r\n", "*0\r\n");
        htc_buf_clear(&r.said[1]);
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("KEYS key*\r\n"), 0);
        rig_settle(&r);
        cr_expect(memcmp(r.said[1].data, "*1300\r\n", 7) == 0);
        for (int i = 0; i < 2000; i++) {
            htc_buf_clear(&r.said[1]);
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("RANDOMKEY\r\n"), 0);
            rig_settle(&r);
            htc_put_u8(&r.said[1], 0);
            int which;
            cr_assert(sscanf((char *)r.said[1].data, "$%*d\r\nkey%d\r\n", &which) == 1);
            many += !seen[which];
            seen[which] = 1;
        }
        cr_expect(many > (places ? 0 : 300), "%d", many);
        rig_free(&r);
    }
}

/* A page without keys says nothing of those behind it. */
Test(resp_commands, a_random_key_is_found_behind_a_page_without_any)
{
    htc_rng rng = { 11 };
    rig     r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    htc__resp_destroy(r.f);
    r.env.rng = &rng;
    r.m.places = r.m.hole = 1;
    cr_assert(htc__resp_create(&r.env, &(htc__resp_options){ 0 }, model_backend(&r.m), &r.f) == HTC_OK);
    rig_open(&r, 1);
    converse(&r, "RANDOMKEY\r\n", "$-1\r\n");
    converse(&r, "SET k v\r\n", "+OK\r\n");
    for (int i = 0; i < 20; i++)
        converse(&r, "RANDOMKEY\r\n", "$1\r\nk\r\n");
    rig_free(&r);
}

/* What the store cannot say yet is asked again. */
Test(resp_commands, a_member_that_was_not_let_in_yet_scans_later)
{
    for (int places = 0; places < 2; places++) {
        rig r;
        rig_make(&r, &(htc__resp_options){ 0 }, NULL);
        r.m.places = places;
        converse(&r, "SET k v\r\n", "+OK\r\n");
        r.m.outside = 1;
        converse(&r, "SCAN 0\r\nKEYS *\r\nRANDOMKEY\r\n",
                 "-TRYAGAIN the store is busy\r\n-TRYAGAIN the store is busy\r\n-TRYAGAIN the store is busy\r\n");
        r.m.outside = 0;
        converse(&r, "SCAN 0\r\nKEYS *\r\nRANDOMKEY\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n*1\r\n$1\r\nk\r\n$1\r\nk\r\n");
        rig_free(&r);
    }
}

/* A limit is told with its number, before anything is changed, and the connection goes on. */
Test(resp_commands, limits_are_told)
{
    static const char too_long[] = "-ERR a key of this store has 1 to 400 bytes: this one is longer\r\n";
    char              key[402], text[1200];
    rig               r;
    memset(key, 'k', 401);
    key[401] = 0;
    rig_make(&r, &(htc__resp_options){ .value_max = 100 }, NULL);
    static const char *const forms[] = { "GET %s\r\n",          "SET %s v\r\n",    "MSET a 1 %s 2\r\n",
                                         "DEL a %s\r\n",        "EXISTS a %s\r\n", "MGET a %s\r\n",
                                         "MSETNX a 1 %s 2\r\n", "WATCH %s\r\n",    "SETRANGE %s 0 x\r\n",
                                         "EXPIRE %s 5 NX\r\n" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(text, sizeof text, forms[i], key);
        converse(&r, text, too_long);
    }
    cr_expect(r.m.count == 0);
    key[101] = 0;
    snprintf(text, sizeof text, "MSET a 1 b %s\r\n", key);
    converse(&r, text, "-ERR string exceeds maximum allowed size (100 bytes here)\r\n");
    cr_expect(r.m.count == 0);
    rig_free(&r);
    size_t n = (16u << 20) + 1;
    char  *big = malloc(n + 64);
    int    head = sprintf(big, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", n);
    memset(big + head, 'x', n);
    memcpy(big + head + n, "\r\n", 2);
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    rig_input(&r, HTC_IN_BYTES, 1, (htc_bytes){ big, (size_t)head + n + 2 }, 0);
    rig_settle(&r);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[1]),
                              htc_bytes_of("-ERR string exceeds maximum allowed size (16777216 bytes here)\r\n")));
    converse(&r, "PING\r\n", "+PONG\r\n");
    rig_free(&r);
    free(big);
}

Test(resp_commands, clients)
{
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    rig_open(&r, 2);
    rig_input(&r, HTC_IN_BYTES, 2, htc_bytes_of("CLIENT SETNAME two\r\n"), 0);
    rig_settle(&r);
    htc_buf_clear(&r.said[1]);
    rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("CLIENT LIST\r\n"), 0);
    rig_settle(&r);
    htc_put_u8(&r.said[1], 0);
    cr_expect(strstr((char *)r.said[1].data, "id=1 addr=local:1 ") &&
              strstr((char *)r.said[1].data, "id=2 addr=local:2 laddr=local:0 fd=-1 name=two age=0 idle=0 flags=N "));
    cr_expect(strstr((char *)r.said[1].data, "cmd=client "));
    htc_buf_clear(&r.said[1]);
    rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("CLIENT INFO\r\n"), 0);
    rig_settle(&r);
    htc_put_u8(&r.said[1], 0);
    cr_expect(strstr((char *)r.said[1].data, "id=1 ") && !strstr((char *)r.said[1].data, "id=2 "));
    converse(&r, "CLIENT KILL ID 77\r\n", ":0\r\n");
    converse(&r, "CLIENT KILL ID x\r\n", "-ERR client-id should be greater than 0\r\n");
    converse(&r, "CLIENT KILL local:77\r\n", "-ERR No such client\r\n");
    converse(&r, "CLIENT KILL TYPE pubsub\r\n", ":0\r\n");
    converse(&r, "CLIENT KILL NONSENSE 1\r\n", "-ERR syntax error\r\n");
    cr_expect(!r.closed[2]);
    converse(&r, "CLIENT KILL ID 2\r\n", ":1\r\n");
    cr_expect(r.closed[2] && !r.closed[1]);
    converse(&r, "CLIENT KILL ID 1\r\n", ":0\r\n"); /* SKIPME is the default of this form */
    converse(&r, "CLIENT KILL ID 1 SKIPME no\r\n", ":1\r\n");
    cr_expect(r.closed[1]);
    rig_free(&r);
}
