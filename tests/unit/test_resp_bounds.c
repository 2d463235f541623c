/* What Redis' clients may hold of this process: of memory, and of its time. */
#include "resp_rig.h"

#define TOO_MUCH                                                                                                       \
    "-EXECABORT Transaction discarded: its replies are more than 16777216 bytes, or the values that it writes more than " \
    "33554432, or the keys that it looks at take more than 67108864, or it is more than the log takes at once\r\n"

static void set(rig *r, const char *key, size_t len)
{
    char *big = malloc(len + 64);
    int   n = sprintf(big, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, len);
    memset(big + n, 'x', len);
    memcpy(big + (size_t)n + len, "\r\n", 2);
    rig_input(r, HTC_IN_BYTES, 1, (htc_bytes){ big, (size_t)n + len + 2 }, 0);
    rig_settle(r);
    htc_buf_clear(&r->said[1]);
    free(big);
}

/* While answers of others lie unread a long value waits: the command that it is a part of goes on with it, and leaves nothing out. */
Test(resp_bounds, a_long_value_that_is_put_off_is_answered_in_its_place)
{
    enum { LEN = 100000, HEAD = 9, END = 2 };
    static const struct {
        const char *said, *before, *behind;
        int         values;
    } rows[] = { { "GET long\r\nPING\r\n", "", "+PONG\r\n", 1 },
                 { "MGET none long long\r\nPING\r\n", "*3\r\n$-1\r\n", "+PONG\r\n", 2 },
                 { "MULTI\r\nGET long\r\nEXEC\r\nPING\r\n", "+OK\r\n+QUEUED\r\n*1\r\n", "+PONG\r\n", 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig r;
        rig_make(&r, &(htc__resp_options){ .output_all = LEN }, NULL);
        rig_open(&r, 2);
        set(&r, "long", LEN);
        rig_input(&r, HTC_IN_BYTES, 2, htc_bytes_of("GET long\r\n"), 0);
        rig_flush(&r);
        cr_assert(r.tag[2]);
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(rows[i].said), 0);
        rig_flush(&r);
        cr_expect(r.said[1].len < LEN && r.held[1]);
        rig_settle(&r);
        size_t before = strlen(rows[i].before), behind = strlen(rows[i].behind);
        cr_assert(eq(sz, r.said[1].len, before + (size_t)rows[i].values * (HEAD + LEN + END) + behind), "<%s>", rows[i].said);
        cr_expect(memcmp(r.said[1].data, rows[i].before, before) == 0);
        cr_expect(memcmp(r.said[1].data + r.said[1].len - behind, rows[i].behind, behind) == 0);
        rig_free(&r);
    }
}

/* Answers that are there and wait for one before them are held as others are: they make their connection wait, and count for all. */
Test(resp_bounds, answers_behind_one_that_is_late_are_counted)
{
    enum { LEN = 100000, HEAD = 9, END = 2 };
    rig r;
    rig_make(&r, &(htc__resp_options){ .output_max = 3 * LEN, .output_all = 5 * LEN }, NULL);
    rig_open(&r, 2);
    set(&r, "long", LEN);
    r.m.slow = "slow";
    size_t before = r.m.asked;
    rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("GET slow\r\n"), 0);
    for (int i = 0; i < 20; i++)
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of("GET long\r\n"), 0);
    rig_flush(&r);
    cr_expect(eq(sz, r.m.asked - before, 4));
    cr_expect(r.held[1]);
    rig_input(&r, HTC_IN_BYTES, 2, htc_bytes_of("GET long\r\nGET slow\r\nGET long\r\nGET long\r\n"), 0);
    rig_flush(&r);
    cr_expect(eq(sz, r.said[2].len, HEAD + LEN + END));
    cr_expect(r.held[2]);
    r.m.slow = NULL;
    rig_settle(&r);
    cr_expect(eq(sz, r.said[1].len, 5 + 20 * (HEAD + LEN + END)));
    cr_expect(eq(sz, r.said[2].len, 5 + 3 * (HEAD + LEN + END)));
    cr_expect(!r.held[1] && !r.held[2]);
    rig_free(&r);
}

/* Of a transaction memory is bounded, also for keys that it only looks at. */
Test(resp_bounds, keys_of_a_transaction_are_bounded)
{
    enum { KEYS = 400000 };
    rig     r;
    htc_buf b;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    r.m.alone = 1;
    htc_buf_init(&b, NULL, 0);
    htc_put_text(&b, "*%d\r\n$3\r\nDEL\r\n", KEYS + 1);
    for (int i = 0; i < KEYS; i++)
        htc_put_text(&b, "$7\r\nk%06d\r\n", i);
    converse(&r, "MULTI\r\n", "+OK\r\n");
    rig_input(&r, HTC_IN_BYTES, 1, htc_buf_bytes(&b), 0);
    converse(&r, "EXEC\r\nPING\r\n", "+QUEUED\r\n" TOO_MUCH "+PONG\r\n");
    htc_buf_free(&b);
    rig_free(&r);
}

/* What is written is counted, not what is looked at; also where a key is written several times. */
Test(resp_bounds, values_that_a_transaction_leaves_as_they_are_do_not_count_as_written)
{
    enum { LEN = 12000000 };
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    r.m.alone = 1;
    set(&r, "a", LEN);
    set(&r, "b", LEN);
    set(&r, "c", LEN);
    converse(&r, "MULTI\r\nINCR a\r\nINCR b\r\nINCR c\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n-ERR value is not an integer or out of range\r\n"
             "-ERR value is not an integer or out of range\r\n-ERR value is not an integer or out of range\r\n");
    converse(&r, "MULTI\r\nAPPEND a x\r\nAPPEND a x\r\nAPPEND b x\r\nAPPEND a x\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:12000001\r\n:12000002\r\n:12000001\r\n:12000003\r\n");
    converse(&r, "MULTI\r\nAPPEND a x\r\nAPPEND b x\r\nAPPEND c x\r\nEXEC\r\nSTRLEN a\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n" TOO_MUCH ":12000003\r\n");
    converse(&r, "MULTI\r\nAPPEND a x\r\nAPPEND b x\r\nDEL a\r\nAPPEND c x\r\nEXEC\r\nEXISTS a b c\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:12000004\r\n:12000002\r\n:1\r\n:12000001\r\n:2\r\n");
    rig_free(&r);
}

/* A pattern is bounded, and so is what is held against it in one step: all keys are found all the same. */
Test(resp_bounds, patterns_are_bounded)
{
    enum { MAX = 4096, KEYS = 200 };
    for (int places = 0; places < 2; places++) {
        char               stars[MAX + 2], text[MAX + 64];
        unsigned long long cursor = 0;
        int                found = 0, pages = 0;
        rig                r;
        rig_make(&r, &(htc__resp_options){ 0 }, NULL);
        r.m.places = places;
        memset(stars, '*', sizeof stars);
        stars[MAX + 1] = 0;
        snprintf(text, sizeof text, "KEYS %s\r\n", stars);
        converse(&r, text, "-ERR a pattern has at most 4096 bytes\r\n");
        snprintf(text, sizeof text, "SCAN 0 MATCH %s\r\n", stars);
        converse(&r, text, "-ERR a pattern has at most 4096 bytes\r\n");
        stars[MAX] = 0;
        stars[0] = 'k';
        for (int i = 0; i < KEYS; i++) {
            snprintf(text, sizeof text, "SET k%03d v\r\n", i);
            converse(&r, text, "+OK\r\n");
        }
        htc_buf_clear(&r.said[1]);
        snprintf(text, sizeof text, "KEYS %s\r\n", stars);
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
        rig_settle(&r);
        cr_expect(r.said[1].len > 6 && memcmp(r.said[1].data, "*200\r\n", 6) == 0);
        do {
            int now = 0;
            htc_buf_clear(&r.said[1]);
            snprintf(text, sizeof text, "SCAN %llu COUNT 10000 MATCH %s\r\n", cursor, stars);
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
            rig_settle(&r);
            htc_put_u8(&r.said[1], 0);
            cr_assert(sscanf((char *)r.said[1].data, "*2\r\n$%*d\r\n%llu\r\n*%d\r\n", &cursor, &now) == 2);
            found += now;
        } while (cursor && ++pages < KEYS);
        cr_expect(eq(int, found, KEYS));
        cr_expect(pages > 1);
        rig_free(&r);
    }
}

/* Each of the clients is looked for among the ids. */
Test(resp_bounds, ids_of_clients_are_bounded)
{
    enum { MAX = 1024 };
    rig     r;
    htc_buf b;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    htc_buf_init(&b, NULL, 0);
    htc_put_text(&b, "CLIENT LIST ID");
    for (int i = 0; i < MAX; i++)
        htc_put_text(&b, " %d", MAX - i);
    size_t len = b.len;
    htc_put_text(&b, "\r\n");
    rig_input(&r, HTC_IN_BYTES, 1, htc_buf_bytes(&b), 0);
    rig_settle(&r);
    htc_put_u8(&r.said[1], 0);
    cr_expect(strstr((char *)r.said[1].data, "id=1 addr=local:1 ") != NULL);
    b.len = len;
    htc_put_text(&b, " 1\r\n%c", 0);
    converse(&r, (char *)b.data, "-ERR CLIENT LIST ID takes at most 1024 ids\r\n");
    converse(&r, "CLIENT LIST ID 1 x\r\n", "-ERR Invalid client ID\r\n");
    htc_buf_free(&b);
    rig_free(&r);
}

/* What goes through all keys waits where everybody else does: for a store that has no room for one more request. */
Test(resp_bounds, commands_about_all_keys_wait_for_room)
{
    static const char *const forms[][2] = { { "DBSIZE\r\n", ":2\r\n" }, { "FLUSHALL\r\n", "+OK\r\n" }, { "KEYS *\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n" } };
    for (size_t i = 0; i < 3; i++)
        for (int places = 0; places < 2; places++) {
            rig r;
            rig_make(&r, &(htc__resp_options){ .flush = 1 }, NULL);
            r.m.places = places;
            converse(&r, "MSET a 1 b 2\r\n", "+OK\r\n");
            htc_buf_clear(&r.said[1]);
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(forms[i][0]), 0);
            size_t asked = r.m.asked;
            r.m.is_full = 1;
            for (int k = 0; k < 3; k++)
                rig_flush(&r);
            cr_expect(eq(sz, r.m.asked, asked));
            cr_expect(!htc__resp_more(r.f));
            r.m.is_full = 0;
            rig_settle(&r);
            cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[1]), htc_bytes_of(forms[i][1])), "%s", forms[i][0]);
            rig_free(&r);
        }
}
