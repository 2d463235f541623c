/* Operations, keys, clocks, values and the form of the file. */
#include "expect.h"

#include "alloc_fail.h"
#include "history_made.h"
#include "property.h"

static htc_history *new_history(void)
{
    htc_history *h;
    cr_assert(eq(int, htc_history_create(NULL, NULL, &h), HTC_OK));
    return h;
}

Test(history, joined_values_are_what_the_bytes_are)
{
    PROPERTY(rng, 2000)
    {
        char   bytes[200];
        size_t n = htc_rng_below(&rng, sizeof bytes), cut = htc_rng_below(&rng, n + 1);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)htc_rng_below(&rng, 3);
        htc_history_value whole = made_value(bytes, n), a = made_value(bytes, cut),
                          b = made_value(bytes + cut, n - cut), joined = htc_history_value_join(a, b);
        HOLDS(joined.hash == whole.hash && joined.length == n && joined.number == HTC_HISTORY_NO_NUMBER);
        HOLDS(n == cut || a.hash != whole.hash);
    }
}

Test(history, numbers_are_known_as_the_store_writes_them)
{
    static const struct {
        const char *text;
        int64_t     number;
    } rows[] = { { "0", 0 },
                 { "-7", -7 },
                 { "9223372036854775807", INT64_MAX },
                 { "-9223372036854775807", -INT64_MAX },
                 { "9223372036854775808", HTC_HISTORY_NO_NUMBER },
                 { "99999999999999999999", HTC_HISTORY_NO_NUMBER },
                 { "", HTC_HISTORY_NO_NUMBER },
                 { "-", HTC_HISTORY_NO_NUMBER },
                 { "-0", HTC_HISTORY_NO_NUMBER },
                 { "007", HTC_HISTORY_NO_NUMBER },
                 { "+7", HTC_HISTORY_NO_NUMBER },
                 { "7 ", HTC_HISTORY_NO_NUMBER } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(eq(i64, made_value(rows[i].text, strlen(rows[i].text)).number, rows[i].number), "\"%s\"",
                  rows[i].text);
}

Test(history, keys_have_one_number)
{
    htc_history *h = new_history();
    uint32_t     key, again;
    char         name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "k%d", i);
        cr_assert(eq(int, htc_history_key(h, htc_bytes_of(name), &key), HTC_OK));
        cr_assert(eq(u32, key, (uint32_t)i));
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "k%d", i);
        cr_assert(eq(int, htc_history_key(h, htc_bytes_of(name), &again), HTC_OK));
        cr_assert(eq(u32, again, (uint32_t)i));
        cr_assert(htc_bytes_equal(htc_history_key_bytes(h, again), htc_bytes_of(name)));
    }
    cr_expect(eq(u32, htc_history_keys(h), 1000));
    cr_expect(eq(sz, htc_history_key_bytes(h, 1000).len, 0));
    htc_history_destroy(h);
}

Test(history, refuses_what_cannot_be)
{
    htc_history           *h = new_history();
    const htc_history_op   init = HTC_HISTORY_OP_INIT;
    uint32_t               key, clock;
    const htc_history_tick twice[] = { { 1, 1 }, { 1, 2 } }, none[] = { { 1, 0 } };
    htc_history_op         o = init;
    size_t                 index;
    cr_assert(eq(int, htc_history_key(h, htc_bytes_of("k"), &key), HTC_OK));
    cr_expect(eq(int, htc_history_clock(h, twice, 2, &clock), HTC_EINVAL));
    cr_expect(eq(int, htc_history_clock(h, none, 1, &clock), HTC_EINVAL));
    cr_expect(eq(int, htc_history_add(h, &o, NULL), HTC_EINVAL), "no kind");
    o.kind = HTC_HISTORY_PUT;
    cr_expect(eq(int, htc_history_add(h, &o, &index), HTC_OK));
    o.outcome = HTC_HISTORY_DONE;
    cr_expect(eq(int, htc_history_add(h, &o, NULL), HTC_EINVAL), "done, and never answered");
    o.returned = 5;
    o.invoked = 6;
    cr_expect(eq(int, htc_history_add(h, &o, NULL), HTC_EINVAL), "answered before it was asked");
    o.invoked = 5;
    o.key = 1;
    cr_expect(eq(int, htc_history_add(h, &o, NULL), HTC_EINVAL), "no such key");
    o.key = 0;
    o.clock = 1;
    cr_expect(eq(int, htc_history_add(h, &o, NULL), HTC_EINVAL), "no such clock");
    cr_expect(eq(int, htc_history_answer(h, 1, &o), HTC_EINVAL), "no such operation");
    cr_expect(eq(int, htc_history_answer(h, index, &o), HTC_OK));
    cr_expect(eq(int, htc_history_answer(h, index, &o), HTC_EINVAL), "answered twice");
    cr_expect(eq(u32, htc_history_at(h, index)->outcome, HTC_HISTORY_DONE));
    cr_expect(eq(ptr, (void *)htc_history_at(h, 1), NULL));
    htc_history_destroy(h);
}

Test(history, holds_no_more_than_it_is_told)
{
    htc_history              *h;
    const htc_history_options o = { .size = sizeof o, .ops_max = 1, .keys_max = 2, .bytes_max = 8 };
    const htc_history_tick    ticks[] = { { 1, 1 } };
    htc_history_op            op = HTC_HISTORY_OP_INIT;
    uint32_t                  key;
    op.kind = HTC_HISTORY_GET;
    cr_assert(eq(int, htc_history_create(NULL, &o, &h), HTC_OK));
    cr_expect(eq(int, htc_history_key(h, htc_bytes_of("123456789"), &key), HTC_EFULL));
    cr_expect(eq(int, htc_history_key(h, htc_bytes_of("1"), &key), HTC_OK));
    cr_expect(eq(int, htc_history_key(h, htc_bytes_of("2"), &key), HTC_OK));
    cr_expect(eq(int, htc_history_key(h, htc_bytes_of("3"), &key), HTC_EFULL));
    cr_expect(eq(int, htc_history_key(h, htc_bytes_of("1"), &key), HTC_OK));
    cr_expect(eq(int, htc_history_clock(h, ticks, 1, &key), HTC_EFULL));
    cr_expect(eq(int, htc_history_add(h, &op, NULL), HTC_OK));
    cr_expect(eq(int, htc_history_add(h, &op, NULL), HTC_EFULL));
    htc_history_destroy(h);
}

/* ---------------------------------------------------------------- the form */

/* All lines of a history; the caller frees them. */
static char *text_of(const htc_history *h)
{
    static char line[HTC_HISTORY_LINE_MAX];
    char       *all = calloc(1, 64);
    size_t      len = 0;
    for (size_t i = 0; i < htc_history_count(h); i++) {
        size_t n = htc_history_line(h, i, line, sizeof line);
        cr_assert(n > 0 && n == strlen(line));
        all = realloc(all, len + n + 2);
        memcpy(all + len, line, n);
        len += n;
        all[len++] = '\n';
        all[len] = 0;
    }
    return all;
}

Test(history, what_is_written_is_read_again)
{
    PROPERTY(rng, 300)
    {
        htc_history *h = made_history(
            rng,
            (made_options){ .ops = 50, .keys = 3, .processes = 4, .unknown_ppm = 100000, .counters = 1, .appends = 1 });
        htc_history *again = new_history();
        char        *text = text_of(h);
        HOLDS(htc_history_read(again, htc_bytes_of("htc-history 1\n# a comment\n\n"), NULL) == HTC_OK);
        HOLDS(htc_history_read(again, htc_bytes_of(text), NULL) == HTC_OK);
        HOLDS(htc_history_count(again) == htc_history_count(h));
        char *twice = text_of(again);
        HOLDS(strcmp(text, twice) == 0);
        HOLDS(htc_history_at(again, 2)->line == 3);
        free(text);
        free(twice);
        htc_history_destroy(again);
        htc_history_destroy(h);
    }
}

Test(history, a_line_says_what_it_says)
{
    htc_history *h = new_history();
    char         line[1024];
    const char  *in =
        "write to=9 done process=3 from=4 key=a%20b%25%0a value='x%00y version=2 expected=18446744073709551615 "
        "clock=1:2,18446744073709551615:7 final";
    cr_assert(eq(int, htc_history_read(h, htc_bytes_of(in), NULL), HTC_OK));
    const htc_history_op *o = htc_history_at(h, 0);
    cr_expect(o->kind == HTC_HISTORY_WRITE && o->process == 3 && o->invoked == 4 && o->returned == 9);
    cr_expect(htc_bytes_equal(htc_history_key_bytes(h, o->key), (htc_bytes){ "a b%\n", 5 }));
    cr_expect(eq(u64, o->argument.hash, made_value("x\0y", 3).hash));
    cr_expect(eq(u32, o->flags, HTC_HISTORY_FINAL));
    cr_expect(htc_history_line(h, 0, line, sizeof line) > 0);
    cr_expect(strstr(line,
                     "write process=3 key=a%20b%25%0a from=4 to=9 done final expected=18446744073709551615 version=2 "
                     "value=") == line,
              "%s", line);
    cr_expect(strstr(line, ":3 clock=1:2,18446744073709551615:7") != NULL, "%s", line);
    for (size_t size = 0; size <= strlen(line); size++) {
        char small[1024];
        cr_assert(eq(sz, htc_history_line(h, 0, small, size), 0), "%zu bytes are too few", size);
    }
    htc_history_destroy(h);
}

/* A wrong line is named, and nothing of the text is taken in. */
Test(history, wrong_lines_are_refused)
{
    static const char *const rows[] = {
        "htc-history 2",
        "jump key=a from=1 unknown",
        "get from=1 unknown",
        "get key=a unknown",
        "get key=a from=1",
        "get key=a from=1 done",
        "get key=a from=2 to=1 done",
        "get key=a from=1 to=2 done observed=nothing",
        "get key=a from=1 to=2 missed observed='x",
        "get key=a from=1 unknown unknown",
        "get key=a from=1 from=1 unknown",
        "get key=a from=1 unknown final final",
        "get key=a from=1 unknown colour=red",
        "get key=a from=-1 unknown",
        "get key=a from=18446744073709551616 unknown",
        "get key=a from= unknown",
        "get key=a%2 from=1 unknown",
        "get key=a%zz from=1 unknown",
        "add key=a from=1 unknown delta=9223372036854775808",
        "put key=a from=1 unknown value=xyz",
        "put key=a from=1 unknown value=12",
        "put key=a from=1 unknown value=1fffffffffffffff:3",
        "put key=a from=1 unknown value=12:3:x",
        "put key=a from=1 unknown value=12:18446744073709551615",
        "write key=a from=1 unknown clock=1",
        "write key=a from=1 unknown clock=1:0",
        "write key=a from=1 unknown clock=1:1,1:2",
        " get key=a from=1 unknown",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char         text[256];
        htc_error    e = { .line = 0 };
        htc_history *h = new_history();
        snprintf(text, sizeof text, "get key=a from=1 unknown\n%s\nget key=a from=1 unknown\n", rows[i]);
        cr_expect(eq(int, htc_history_read(h, htc_bytes_of(text), &e), HTC_EPROTO), "%s", rows[i]);
        cr_expect(e.line == 2 && e.text[0] && e.status == HTC_EPROTO, "%s: line %u %s", rows[i], e.line, e.text);
        cr_expect(eq(sz, htc_history_count(h), 0), "%s", rows[i]);
        htc_history_destroy(h);
    }
}

Test(history, a_text_that_does_not_fit_is_refused)
{
    htc_history              *h;
    htc_error                 e;
    const htc_history_options o = { .size = sizeof o, .ops_max = 2 };
    cr_assert(eq(int, htc_history_create(NULL, &o, &h), HTC_OK));
    cr_expect(
        eq(int,
           htc_history_read(
               h, htc_bytes_of("get key=a from=1 unknown\nget key=a from=1 unknown\n\nget key=a from=1 unknown"), &e),
           HTC_EFULL));
    cr_expect(e.line == 4 && htc_history_count(h) == 0);
    htc_history_destroy(h);
}

/* ---------------------------------------------------------------- no memory */

static const char everything[] =
    "put process=1 key=a from=1 to=2 done version=1 value='x\n"
    "get process=2 key=a from=1 to=9 done version=1 observed='x\n"
    "get process=2 key=a from=3 to=4 missed\n"
    "delete process=2 key=a from=2 unknown\n"
    "get process=3 key=a from=10 to=11 done version=1 observed='x final\n"
    "cas_value process=3 key=u from=1 to=2 done seen='q value='r\n"
    "add process=1 key=c from=1 to=2 done version=1 delta=3 number=3\n"
    "get process=1 key=c from=3 to=4 done version=1 observed='3 final\n"
    "append process=1 key=p from=1 unknown value='xy\n"
    "append process=2 key=p from=1 unknown value='z\n"
    "get process=3 key=p from=3 to=4 done observed='zxy\n"
    "watch process=8 key=a from=1 to=2 done\n"
    "event process=8 key=a from=3 to=3 done version=1 observed='x\n"
    "grant process=1 key=l from=1 to=2 done expected=1000\n"
    "look process=1 key=l from=5000 to=5001 missed\n"
    "down process=0 key=l from=3000 to=3001 done\n"
    "write process=1 key=e from=1 to=2 done value='x expected=1 version=1 clock=2:3\n"
    "sibling process=1 key=e from=5 to=5 done observed='x expected=1 version=1 clock=2:3 final\n";

typedef htc_status checker(const htc_history *, const htc_history_rules *, htc_history_verdict *);

Test(history, refused_memory_is_said_and_nothing_is_lost)
{
    static checker *const checkers[] = { htc_history_linear,   htc_history_rising,  htc_history_kept,
                                         htc_history_counted,  htc_history_watched, htc_history_leased,
                                         htc_history_converged };
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env             env = alloc_fail_env(&f);
        htc_history        *h = NULL;
        htc_history_verdict v;
        htc_error           e;
        htc_status          status = htc_history_create(&env, NULL, &h);
        if (status == HTC_OK) {
            status = htc_history_read(h, htc_bytes_of(everything), &e);
            cr_assert(status == HTC_OK || htc_history_count(h) == 0);
        }
        for (size_t i = 0; i < sizeof checkers / sizeof *checkers && status == HTC_OK; i++)
            status = checkers[i](h, NULL, &v);
        for (uint32_t k = 0; k < htc_history_keys(h) && status == HTC_OK; k++)
            status = htc_history_search(h, k, NULL, &v);
        cr_assert(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        htc_history_destroy(h);
        cr_assert(eq(sz, f.live, 0));
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
}

/* What is known stays known when there is no memory for more. */
Test(history, is_as_it_was_without_memory)
{
    ALLOC_FAIL_ONCE(f, 1000)
    {
        htc_env      env = alloc_fail_env(&f);
        htc_history *h = NULL;
        if (htc_history_create(&env, NULL, &h) != HTC_OK)
            continue;
        for (int i = 0; i < 80; i++) {
            uint32_t       key;
            char           name[16];
            htc_history_op op = HTC_HISTORY_OP_INIT;
            snprintf(name, sizeof name, "k%d", i);
            while (htc_history_key(h, htc_bytes_of(name), &key) != HTC_OK)
                continue;
            cr_assert(eq(u32, key, (uint32_t)i));
            op.kind = HTC_HISTORY_GET;
            op.key = key;
            while (htc_history_add(h, &op, NULL) != HTC_OK)
                continue;
        }
        cr_assert(htc_history_count(h) == 80 && htc_history_keys(h) == 80);
        htc_history_destroy(h);
        cr_assert(f.live == 0 && f.wrong_sizes == 0);
    }
}

Test(history, arguments_are_checked)
{
    htc_history_verdict v;
    htc_history_rules   newer[2] = { { .size = sizeof newer, .settle_ns = 1 }, { .size = 1 } };
    htc_history        *h = new_history();
    uint32_t            key;
    cr_expect(eq(int, htc_history_linear(NULL, NULL, &v), HTC_EINVAL));
    cr_expect(eq(int, htc_history_linear(h, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_history_linear(h, newer, &v), HTC_EABI));
    cr_expect(eq(int, htc_history_kept(h, newer, &v), HTC_EABI));
    cr_expect(eq(int, htc_history_leased(h, newer, &v), HTC_EABI));
    cr_expect(eq(int, htc_history_search(h, 0, NULL, &v), HTC_EINVAL));
    cr_expect(eq(int, htc_history_create(NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_history_key(h, (htc_bytes){ NULL, 3 }, &key), HTC_EINVAL));
    cr_expect(eq(int, htc_history_read(h, (htc_bytes){ NULL, 3 }, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_history_linear(h, NULL, &v), HTC_OK));
    cr_expect(eq(u32, v.answer, HTC_HISTORY_HOLDS), "of nothing everything holds");
    htc_history_destroy(NULL);
    htc_history_destroy(h);
}
