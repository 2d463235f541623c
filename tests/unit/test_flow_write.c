/* Flows that are written read back the same, and each form by hand. */
#include "flow_read.h"

#include "alloc_fail.h"
#include "property.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- a round trip ---- */

static const char *const nasty[] = { "a",    "a b",  "it's", "\"",           "\\",       "$HOME", "a\nb", "\t",
                                     "#x",   "x#",   "a=b",  "after=x",      "@noop",    "x:",    ":",    "a,b",
                                     "a:ok", "`x`",  "|",    "<>&;",         "\xc3\xa4", "-n",    "~",    "*",
                                     "%s",   "\x01", "a\r",  "\xe2\x80\xae", "{}",       "'" };

/* A text of one or two of them; is_name: without what a name may not have. */
static const char *draw_text(htc_rng *rng, int is_name, char *out, size_t cap)
{
    do {
        const char *a = nasty[htc_rng_below(rng, COUNT(nasty))],
                   *b = htc_rng_below(rng, 3) ? "" : nasty[htc_rng_below(rng, COUNT(nasty))];
        snprintf(out, cap, "%s%s", a, b);
    } while (is_name && strpbrk(out, "\n\t\x01\r\xe2"));
    return out;
}

static uint64_t draw_number(htc_rng *rng)
{
    static const uint64_t units[] = { 1, 1000, 1000000000, 3600000000000, 1024, 1048576 };
    return htc_rng_below(rng, 3) == 0   ? 0
           : htc_rng_below(rng, 8) == 0 ? htc_rng_next(rng) >> 1
                                        : (1 + htc_rng_below(rng, 1000)) * units[htc_rng_below(rng, COUNT(units))];
}

static void draw_task(htc_rng *rng, htc_flow *f)
{
    static char   text[16][32];
    const char   *args[3], *env[2];
    htc_flow_file in[2], out[2];
    uint32_t      n = 0;
    htc_flow_task t = { .size = sizeof t, .args = args, .env = env, .in = in, .out = out };
    t.builtin = htc_rng_below(rng, 3) ? HTC_FLOW_PROGRAM : 1 + (uint32_t)htc_rng_below(rng, 6);
    if (t.builtin == HTC_FLOW_PROGRAM) {
        t.executable = draw_text(rng, 0, text[n++], 32);
        for (t.n_args = 0; t.n_args < htc_rng_below(rng, 4); t.n_args++)
            args[t.n_args] = htc_rng_below(rng, 8) ? draw_text(rng, 0, text[n++], 32) : "";
    } else if (t.builtin == HTC_FLOW_CALL) {
        static char object[40];
        snprintf(object, sizeof object, "/%s", draw_text(rng, 0, text[n++], 32));
        t.object = object;
        t.function = htc_rng_below(rng, 2) ? "run_2" : "_";
        t.argument = htc_rng_below(rng, 3) ? draw_text(rng, 0, text[n++], 32) : htc_rng_below(rng, 2) ? "" : NULL;
    } else if (t.builtin != HTC_FLOW_NOOP) {
        t.amount = draw_number(rng);
    }
    t.name = htc_rng_below(rng, 3) ? draw_text(rng, 1, text[n++], 32) : NULL;
    t.kind = htc_rng_below(rng, 3) ? NULL : draw_text(rng, 1, text[n++], 32);
    for (; t.n_env < htc_rng_below(rng, 3); t.n_env++) {
        static char entries[2][80];
        char        name[32], value[32];
        do
            draw_text(rng, 0, name, sizeof name);
        while (strchr(name, '='));
        snprintf(entries[t.n_env], sizeof *entries, "%s=%s", name,
                 htc_rng_below(rng, 4) ? draw_text(rng, 0, value, sizeof value) : "");
        env[t.n_env] = entries[t.n_env];
    }
    for (; t.n_in < htc_rng_below(rng, 3); t.n_in++)
        in[t.n_in] = (htc_flow_file){ draw_text(rng, 1, text[n++], 32), draw_number(rng) };
    for (; t.n_out < htc_rng_below(rng, 3); t.n_out++)
        out[t.n_out] = (htc_flow_file){ draw_text(rng, 1, text[n++], 32), draw_number(rng) };
    t.adds = (t.builtin == HTC_FLOW_PROGRAM || t.builtin == HTC_FLOW_CALL) && htc_rng_below(rng, 3) == 0;
    t.cores = (uint32_t)htc_rng_below(rng, 5);
    t.memory = draw_number(rng);
    t.wall = draw_number(rng);
    t.run = draw_number(rng);
    htc_status status = htc_flow_add(f, &t, NULL, NULL);
    HOLDS(status == HTC_OK || status == HTC_EEXISTS);
}

static htc_flow *draw_flow(htc_rng *rng)
{
    htc_flow *f = NULL;
    HOLDS(htc_flow_create(NULL, NULL, &f) == HTC_OK);
    for (uint64_t n = 1 + htc_rng_below(rng, 8); n > 0; n--)
        draw_task(rng, f);
    /* A task waits for tasks of lower rank, so that there is no cycle; their numbers say nothing. */
    uint32_t tasks = htc_flow_count(f);
    uint64_t rank[8];
    for (uint32_t t = 0; t < tasks; t++)
        rank[t] = htc_rng_next(rng);
    for (uint64_t n = htc_rng_below(rng, 16); n > 0; n--) {
        uint32_t a = (uint32_t)htc_rng_below(rng, tasks), b = (uint32_t)htc_rng_below(rng, tasks), rule = (a + b) % 3;
        if (rank[a] > rank[b])
            HOLDS(htc_flow_after(f, a, b, rule) == HTC_OK);
    }
    if (htc_rng_below(rng, 4) == 0) {
        htc_flow_task bag = {
            .size = sizeof bag, .name = "the bag", .builtin = HTC_FLOW_NOOP, .count = 2 + htc_rng_below(rng, 1000)
        };
        HOLDS(htc_flow_add(f, &bag, NULL, NULL) == HTC_OK);
    }
    HOLDS(htc_flow_check(f, NULL) == HTC_OK);
    return f;
}

Test(flow_write, what_is_written_reads_back_the_same)
{
    static const uint32_t formats[] = { HTC_FLOW_TEXT, HTC_FLOW_JSONL };
    PROPERTY(rng, 3000)
    {
        htc_flow *f = draw_flow(&rng);
        for (size_t i = 0; i < COUNT(formats); i++)
            for (int by_content = 0; by_content < 2; by_content++) {
                htc_bytes bytes;
                htc_flow *again = NULL;
                htc_error e = { .text = "" };
                HOLDS(htc_flow_write(NULL, f, formats[i], &bytes) == HTC_OK);
                htc_status status =
                    htc_flow_read(NULL, bytes, by_content ? HTC_FLOW_AUTO : formats[i], NULL, &again, &e);
                if (status != HTC_OK || flow_difference(f, again) != UINT32_MAX)
                    fprintf(stderr, "%.*s\n%s at %u:%u: %s\n", (int)bytes.len, (const char *)bytes.data,
                            htc_status_name(status), e.line, e.column, e.text);
                HOLDS(status == HTC_OK);
                HOLDS(flow_difference(f, again) == UINT32_MAX);
                htc_work_free(NULL, bytes);
                htc_flow_destroy(again);
            }
        htc_flow_destroy(f);
    }
}

static void writes(const char *text, uint32_t format, const char *wanted)
{
    htc_error e = { .text = "" };
    htc_flow *f = flow_of(text, HTC_FLOW_TEXT, &e);
    htc_bytes bytes;
    cr_assert(f != NULL, "%s", e.text);
    cr_assert(eq(int, htc_flow_write(NULL, f, format, &bytes), HTC_OK));
    cr_expect(bytes.len == strlen(wanted) && memcmp(bytes.data, wanted, bytes.len) == 0, "%.*s", (int)bytes.len,
              (const char *)bytes.data);
    htc_work_free(NULL, bytes);
    htc_flow_destroy(f);
}

Test(flow_write, each_form_by_hand)
{
    static const char text[] = "a: time=90s memory=2048 out=f:3 ./run 'x y' 1=2\nb: after=a:any run=0.001 @sleep "
                               "1h\n'c d': after=a,b X=y 'it'\\''s'\nbag: count=3 @noop\n";
    writes(text, HTC_FLOW_TEXT,
           "a: memory=2K time=90s out=f:3 ./run 'x y' 1=2\nb: after=a:any run=1ms @sleep 1h\n'c d': after=a,b env=X=y "
           "'it'\\''s'\nbag: count=3 @noop\n");
    writes(text, HTC_FLOW_JSONL,
           "{\"name\": \"a\", \"command\": [\"./run\", \"x y\", \"1=2\"], \"memory\": 2048, \"time\": \"90s\", "
           "\"out\": [{\"name\": \"f\", \"bytes\": 3}]}\n"
           "{\"name\": \"b\", \"after\": [{\"task\": \"a\", \"rule\": \"any\"}], \"builtin\": \"sleep\", \"amount\": "
           "\"1h\", \"run\": \"1ms\"}\n"
           "{\"name\": \"c d\", \"after\": [\"a\", \"b\"], \"command\": [\"it's\"], \"env\": [\"X=y\"]}\n"
           "{\"name\": \"bag\", \"builtin\": \"noop\", \"count\": 3}\n");
    writes(text, HTC_FLOW_DOT,
           "digraph flow {\n  \"a\";\n  \"a\" -> \"b\" [label=\"any\", style=dashed];\n  \"a\" -> \"c d\";\n  \"b\";\n "
           " \"b\" -> \"c d\";\n  \"c d\";\n"
           "  \"bag\" [xlabel=\"3 times\"];\n}\n");
}

Test(flow_write, what_cannot_be_written_is_refused)
{
    htc_flow_task t = { .size = sizeof t, .executable = "p" };
    htc_flow     *f = NULL;
    htc_bytes     bytes = { NULL, 7 };
    cr_assert(eq(int, htc_flow_create(NULL, NULL, &f), HTC_OK));
    cr_assert(eq(int, htc_flow_add(f, &t, NULL, NULL), HTC_OK));
    cr_expect(eq(int, htc_flow_write(NULL, f, HTC_FLOW_TEXT, &bytes), HTC_EINVAL), "it is not checked");
    cr_assert(eq(int, htc_flow_check(f, NULL), HTC_OK));
    cr_expect(eq(int, htc_flow_write(NULL, f, HTC_FLOW_DAX, &bytes), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_write(NULL, f, HTC_FLOW_TEXT, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_write(NULL, NULL, HTC_FLOW_TEXT, &bytes), HTC_EINVAL));
    cr_expect(eq(sz, bytes.len, 7));
    ALLOC_FAIL_EVERY(memory, 100)
    {
        htc_env env = alloc_fail_env(&memory);
        if (htc_flow_write(&env, f, HTC_FLOW_JSONL, &bytes) == HTC_OK)
            htc_work_free(&env, bytes);
        else
            cr_expect(memory.refused > 0);
        cr_expect(eq(sz, memory.live, 0));
    }
    htc_flow_destroy(f);
}
