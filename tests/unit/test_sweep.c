/* Sweeps: the conformance set by table, arithmetic against counting, and random nests against a naive expander. */
#include "jsdl_text.h"

#include <locale.h>
#include <stdlib.h>

static const struct {
    const char *what, *text;
    uint64_t    count;
    const char *tasks[8]; /* "index line", up to the first NULL */
} conformance[] = {
    { "no sweep is one task", JSDL_DOC(RUN ARG("a"), ""), 1, { "0 run a" } },
    { "values", JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument[1]", VALUES(V("x") V("") V("z"))))), 3,
      { "0 run x", "1 run ", "2 run z" } },
    { "integer loop", JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument", LOOP("1", "10", "4")))), 3,
      { "0 run 1", "1 run 5", "2 run 9" } },
    { "step is 1 where none is given",
      JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument", "<f:LoopInteger start=\"7\" end=\"9\"/>"))), 3,
      { "2 run 9" } },
    { "negative step counts down", JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument", LOOP("2", "-4", "-3")))), 3,
      { "0 run 2", "1 run -1", "2 run -4" } },
    { "exceptions are skipped, those off the grid ignored",
      JSDL_DOC(RUN ARG("a"),
               SWEEP(ASSIGN("//p:Argument", "<f:LoopInteger start=\"1\" end=\"5\"><f:Exception>1</f:Exception>"
                                            "<f:Exception> 4 </f:Exception><f:Exception>4</f:Exception>"
                                            "<f:Exception>77</f:Exception></f:LoopInteger>"))),
      3,
      { "0 run 2", "1 run 3", "2 run 5" } },
    { "double loop without accumulated error",
      JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument", "<f:LoopDouble start=\"0\" end=\"1\" step=\"0.1\"/>"))), 11,
      { "1 run 0.1", "3 run 0.3", "10 run 1" } },
    { "double loop down, with an exception",
      JSDL_DOC(RUN ARG("a"), SWEEP(ASSIGN("//p:Argument", "<f:LoopDouble start=\"1\" end=\"-1\" step=\"-0.5\">"
                                                          "<f:Exception>0.0</f:Exception></f:LoopDouble>"))),
      4,
      { "0 run 1", "1 run 0.5", "2 run -0.5", "3 run -1" } },
    { "lock-step", JSDL_DOC(RUN ARG("a") ARG("b"), SWEEP(ASSIGN("//p:Argument[1]", VALUES(V("x") V("y")))
                                                           ASSIGN("//p:Argument[2]", LOOP("1", "2", "1")))),
      2,
      { "0 run x 1", "1 run y 2" } },
    { "one function feeds several parameters",
      JSDL_DOC(RUN ARG("a") ARG("b"),
               SWEEP("<s:Assignment>" NODE("//p:Argument[2]") NODE("//p:Executable") VALUES(V("x") V("y"))
                     "</s:Assignment>")),
      2,
      { "0 x a x", "1 y a y" } },
    { "one match, several nodes", JSDL_DOC(RUN ARG("a") ARG("b"), SWEEP(ASSIGN("//p:Argument", VALUES(V("x"))))), 1,
      { "0 run x x" } },
    { "nesting: the child is fastest",
      JSDL_DOC(RUN ARG("a") ARG("b"),
               SWEEP(ASSIGN("//p:Argument[1]", VALUES(V("x") V("y")))
                         SWEEP(ASSIGN("//p:Argument[2]", LOOP("1", "3", "1"))))),
      6,
      { "0 run x 1", "2 run x 3", "3 run y 1", "5 run y 3" } },
    { "siblings run one after the other for each step",
      JSDL_DOC(RUN ARG("a") ARG("b"),
               SWEEP(ASSIGN("//p:Argument[1]", VALUES(V("x") V("y")))
                         SWEEP(ASSIGN("//p:Argument[2]", LOOP("1", "2", "1")))
                             SWEEP(ASSIGN("//p:Argument[2]", VALUES(V("q")))))),
      6,
      { "1 run x 2", "2 run x q", "3 run y 1", "5 run y q" } },
    { "several top-level sweeps are put one behind the other",
      JSDL_DOC(RUN ARG("a") ARG("b"), SWEEP(ASSIGN("//p:Argument[1]", VALUES(V("x") V("y"))))
                                          SWEEP(ASSIGN("//p:Argument[2]", LOOP("1", "3", "1")))),
      5,
      { "0 run x b", "1 run y b", "2 run a 1", "4 run a 3" } },
    { "substring of a word", JSDL_DOC(RUN ARG("seed=NN.dat"), SWEEP(ASSIGN("substring(//p:Argument[1], 6, 2)", LOOP("9", "10", "1")))),
      2,
      { "0 run seed=9.dat", "1 run seed=10.dat" } },
    { "substring without length goes to the end",
      JSDL_DOC(RUN ARG("keep-this"), SWEEP(ASSIGN("substring(//p:Argument, 6)", VALUES(V("x"))))), 1,
      { "0 run keep-x" } },
    { "two substrings count in the original text",
      JSDL_DOC(RUN ARG("AxB"), SWEEP(ASSIGN("substring(//p:Argument,3,1)", VALUES(V("22") V("33")))
                                         ASSIGN("substring(//p:Argument,1,1)", VALUES(V("aaaa") V(""))))),
      2,
      { "0 run aaaax22", "1 run x33" } },
    { "substring counts characters, not bytes",
      JSDL_DOC(RUN ARG("äöü"), SWEEP(ASSIGN("substring(//p:Argument,2,1)", VALUES(V("o"))))), 1,
      { "0 run äoü" } },
    { "a position behind the end appends", JSDL_DOC(RUN ARG("ab"), SWEEP(ASSIGN("substring(//p:Argument,9,3)", VALUES(V("c"))))),
      1,
      { "0 run abc" } },
    { "an insertion and a replacement at one place",
      JSDL_DOC(RUN ARG("abc"), SWEEP(ASSIGN("substring(//p:Argument,2,1)", VALUES(V("B")))
                                         ASSIGN("substring(//p:Argument,2,0)", VALUES(V("+"))))),
      1,
      { "0 run a+Bc" } },
    { "text() and a condition", JSDL_DOC(RUN ARG("a") "<p:Environment name=\"E\">v</p:Environment>",
                                          SWEEP(ASSIGN("/j:JobDefinition//p:*[@name='E']/text()", VALUES(V("1") V("2"))))),
      2,
      { "0 run a" } },
    { "pairs, each once",
      JSDL_DOC(RUN ARG("a") ARG("b"), SWEEP("<s:Assignment>" NODE("//p:Argument[1]") NODE("//p:Argument[2]")
                                                "<h:Pairs><h:Value>x</h:Value><h:Value>y</h:Value><h:Value>z</h:Value>"
                                                "</h:Pairs></s:Assignment>")),
      3,
      { "0 run x y", "1 run x z", "2 run y z" } },
};

Test(sweep, conforms)
{
    char line[256];
    for (size_t i = 0; i < sizeof conformance / sizeof conformance[0]; i++) {
        htc_spec *spec = jsdl_parse(conformance[i].text);
        cr_expect(eq(u64, htc_spec_count(spec), conformance[i].count), "%s", conformance[i].what);
        for (const char *const *t = conformance[i].tasks; t < conformance[i].tasks + 8 && *t; t++) {
            char    *rest;
            uint64_t index = strtoull(*t, &rest, 10);
            cr_expect(eq(str, (char *)jsdl_line(spec, index, line, sizeof line), rest + 1), "%s", conformance[i].what);
        }
        htc_spec_destroy(spec);
    }
}

/* The value goes into an attribute, and shows in HTC_SWEEP's JSON under the names of the places. */
Test(sweep, reaches_attributes_and_names_its_values)
{
    htc_spec *spec = jsdl_parse(JSDL_DOC(
        RUN ARG("a") "<p:Environment name=\"E\">v</p:Environment>",
        SWEEP(ASSIGN("//p:Environment/@name", VALUES(V("X") V("Y"))) SWEEP(
            ASSIGN("substring(//p:Argument[1],1,1)", LOOP("5", "6", "1")) ASSIGN("//p:Environment", VALUES(V("\"") V("&lt;")))))));
    htc_task *t = NULL;
    cr_assert(eq(int, htc_spec_task(spec, 2, &t, NULL), HTC_OK));
    cr_expect(eq(str, (char *)t->env[0], "Y=\""));
    cr_expect(t->env[1] == NULL);
    cr_expect(eq(str, (char *)t->args[0], "5"));
    cr_expect(eq(str, (char *)t->values_json,
                 "{\"Environment/@name\":\"Y\",\"Argument[1]:1\":5,\"Environment\":\"\\\"\"}"));
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

/* The whole point: what a sweep costs is the size of its document. Exceptions in a loop of a billion included. */
Test(sweep, of_a_billion_points_is_a_few_bytes)
{
    char      line[128];
    htc_spec *spec = jsdl_parse(JSDL_DOC(
        RUN ARG("a") ARG("b"),
        SWEEP(ASSIGN("//p:Argument[1]", "<f:LoopInteger start=\"1\" end=\"1000000001\"><f:Exception>3</f:Exception>"
                                        "</f:LoopInteger>") SWEEP(ASSIGN("//p:Argument[2]", LOOP("1", "1000", "1"))))));
    cr_expect(eq(u64, htc_spec_count(spec), UINT64_C(1000000000000)));
    cr_expect(lt(sz, htc_spec_bytes(spec).len, 1024));
    cr_expect(eq(str, (char *)jsdl_line(spec, 2999, line, sizeof line), "run 4 1000"));
    cr_expect(eq(str, (char *)jsdl_line(spec, UINT64_C(999999999999), line, sizeof line), "run 1000000001 1000"));
    htc_task *t = NULL;
    cr_expect(eq(int, htc_spec_task(spec, UINT64_C(1000000000000), &t, NULL), HTC_EINVAL));
    htc_spec_destroy(spec);
}

Test(sweep, skips_exceptions_by_arithmetic_as_by_counting)
{
    htc_rng rng = { 20 };
    for (int round = 0; round < 2000; round++) {
        uint64_t      raw = 1 + htc_rng_below(&rng, 60), exceptions[60], kept[60];
        size_t        n = 0, m = 0;
        for (uint64_t k = 0; k < raw; k++)
            if (htc_rng_below(&rng, 3) == 0)
                exceptions[n++] = k;
            else
                kept[m++] = k;
        htc__function f = { .kind = HTC__FUNCTION_INTEGER, .raw = raw, .exceptions = exceptions, .n_exceptions = n };
        cr_assert(eq(u64, htc__function_count(&f), m));
        for (size_t k = 0; k < m; k++)
            cr_assert(eq(u64, htc__function_step(&f, k), kept[k]));
    }
}

Test(sweep, numbers_pairs_as_counting_does)
{
    for (uint64_t n = 2; n < 40; n++)
        for (uint64_t i = 0, k = 0; i < n; i++)
            for (uint64_t j = i + 1; j < n; j++, k++) {
                uint64_t a, b;
                htc__pair_at(n, k, &a, &b);
                cr_assert(a == i && b == j, "n %d k %d", (int)n, (int)k);
            }
    /* The largest list: nothing overflows. */
    uint64_t      n = UINT32_MAX, a, b;
    htc__function f = { .kind = HTC__FUNCTION_PAIRS, .n_values = n };
    cr_expect(eq(u64, htc__function_count(&f), n / 2 * 2 * ((n - 1) / 2) + (n - 1) / 2));
    htc__pair_at(n, htc__function_count(&f) - 1, &a, &b);
    cr_expect(eq(u64, a, n - 2));
    cr_expect(eq(u64, b, n - 1));
}

Test(sweep, counts_loops_at_the_ends_of_64_bits)
{
    static const struct {
        int64_t    start, end, step;
        uint64_t   steps;
        htc_status status;
    } table[] = {
        { INT64_MIN, INT64_MAX, 1, 0, HTC_ETOOBIG }, { INT64_MIN, INT64_MAX, 2, UINT64_C(1) << 63, HTC_OK },
        { INT64_MAX, INT64_MIN, INT64_MIN, 2, HTC_OK }, { INT64_MAX, INT64_MAX, INT64_MAX, 1, HTC_OK },
        { 1, 0, 1, 0, HTC_OK },                         { 0, 1, -1, 0, HTC_OK },
        { INT64_MIN, INT64_MAX - 1, 1, UINT64_MAX, HTC_OK },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t steps = 0;
        cr_expect(eq(int, htc__integer_steps(table[i].start, table[i].end, table[i].step, &steps), table[i].status));
        cr_expect(eq(u64, steps, table[i].steps), "row %zu", i);
    }
}

/* Shortest form that reads back, in every locale there is here. */
Test(sweep, prints_numbers_that_read_back)
{
    static const struct {
        double      v;
        const char *text;
    } table[] = { { 0, "0" },         { 1, "1" },       { -2.5, "-2.5" },  { 100000, "100000" }, { 1e15, "1000000000000000" },
                  { 1e16, "1e+16" },  { 0.1, "0.1" },   { 1e-5, "0.00001" }, { 1e-6, "1e-6" },   { 1.5e-7, "1.5e-7" },
                  { 1.5e300, "1.5e+300" }, { 123456.789, "123456.789" } };
    static const char *const locales[] = { "C", "fr_FR.UTF-8", "de_DE.UTF-8", NULL };
    htc_rng                  rng = { 5 };
    char                     text[HTC__DOUBLE_TEXT_MAX];
    for (const char *const *l = locales; *l; l++) {
        if (!setlocale(LC_NUMERIC, *l))
            continue;
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            htc__double_text(table[i].v, text);
            cr_expect(eq(str, text, (char *)table[i].text));
        }
        for (int i = 0; i < 5000; i++) {
            uint64_t bits = htc_rng_next(&rng);
            double   v, back;
            memcpy(&v, &bits, sizeof v);
            htc__double_text(v, text);
            cr_assert(htc__double_parse(htc_bytes_of(text), &back), "%s", text);
            cr_assert(back == v || (v != v && back != back), "%s", text);
        }
    }
    setlocale(LC_NUMERIC, "C");
}

/* ---- random nests against a naive expander ----
 *
 * The model has the arguments as three pieces each, knows no arithmetic, and expands by recursion, printing as it goes. */

enum { ARGS = 4, PIECES = 3, DEPTH = 3, STEPS = 4, TASKS = 4000 };

typedef struct model_function {
    size_t n;
    char   values[STEPS + 3][24];
    int    arg, piece; /* piece PIECES: the whole text */
} model_function;

typedef struct model_sweep {
    model_function     f[2];
    size_t             n_f, n_children;
    struct model_sweep *children[2];
} model_sweep;

typedef struct world {
    htc_rng rng;
    char    text[1 << 16];
    size_t  len;
    int     used[ARGS][PIECES];
    char   *tasks[TASKS];
    size_t  n_tasks;
} world;

static void say(world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    w->len += (size_t)vsnprintf(w->text + w->len, sizeof w->text - w->len, format, args);
    va_end(args);
    cr_assert(w->len < sizeof w->text);
}

static int choose_place(world *w, model_function *f)
{
    for (int tries = 0; tries < 20; tries++) {
        f->arg = (int)htc_rng_below(&w->rng, ARGS);
        f->piece = (int)htc_rng_below(&w->rng, PIECES + 1);
        int busy = 0;
        for (int p = 0; p < PIECES; p++)
            busy |= w->used[f->arg][p] && (f->piece == PIECES || f->piece == p);
        if (busy)
            continue;
        for (int p = 0; p < PIECES; p++)
            w->used[f->arg][p] |= f->piece == PIECES || f->piece == p;
        return 1;
    }
    return 0;
}

static void forget_place(world *w, const model_function *f)
{
    for (int p = 0; p < PIECES; p++)
        if (f->piece == PIECES || f->piece == p)
            w->used[f->arg][p] = 0;
}

/* A function of n values: written into the document, and as a list into the model. Exceptions are values left out. */
static void write_function(world *w, model_function *f, size_t n)
{
    f->n = 0;
    say(w, "<s:Assignment>");
    if (f->piece == PIECES)
        say(w, NODE("//p:Argument[%d]"), f->arg + 1);
    else
        say(w, NODE("substring(//p:Argument[%d], %d, 2)"), f->arg + 1, 2 * f->piece + 1);
    switch (htc_rng_below(&w->rng, 3)) {
    case 0:
        say(w, "<f:Values>");
        for (; f->n < n; f->n++) {
            static const char *const words[] = { "", "x", "ü", "long-word", "7" };
            snprintf(f->values[f->n], sizeof f->values[0], "%s", words[htc_rng_below(&w->rng, 5)]);
            say(w, "<f:Value>%s</f:Value>", f->values[f->n]);
        }
        say(w, "</f:Values></s:Assignment>");
        return;
    case 1: {
        long   start = (long)htc_rng_below(&w->rng, 200) - 100, step = (long)htc_rng_below(&w->rng, 9) - 4;
        size_t out = htc_rng_below(&w->rng, 3), total = n + out;
        step = step ? step : 5;
        say(w, "<f:LoopInteger start=\"%ld\" end=\"%ld\" step=\"%ld\">", start,
            start + step * (long)(total - 1) + (step > 0 ? 1 : -1) * (long)htc_rng_below(&w->rng, (uint64_t)labs(step)),
            step);
        for (size_t k = 0; k < total; k++)
            if (total - k == out || (out && htc_rng_below(&w->rng, 2))) {
                say(w, "<f:Exception>%ld</f:Exception>", start + step * (long)k);
                out--;
            } else {
                snprintf(f->values[f->n++], sizeof f->values[0], "%ld", start + step * (long)k);
            }
        say(w, "</f:LoopInteger></s:Assignment>");
        return;
    }
    default: {
        /* Quarters are exact in binary, so %g of the sum is the shortest form. */
        double start = ((double)htc_rng_below(&w->rng, 80) - 40) / 4, step = htc_rng_below(&w->rng, 2) ? 0.25 : -0.75;
        say(w, "<f:LoopDouble start=\"%g\" end=\"%g\" step=\"%g\"/></s:Assignment>", start,
            start + step * (double)(n - 1) + step / 3, step);
        for (; f->n < n; f->n++)
            snprintf(f->values[f->n], sizeof f->values[0], "%g", start + step * (double)f->n);
    }
    }
}

static model_sweep *random_sweep(world *w, int depth)
{
    model_sweep *m = calloc(1, sizeof *m);
    size_t       n = 1 + htc_rng_below(&w->rng, STEPS);
    size_t       want = 1 + htc_rng_below(&w->rng, 2);
    say(w, "<s:Sweep>");
    while (m->n_f < want && choose_place(w, &m->f[m->n_f]))
        write_function(w, &m->f[m->n_f++], n);
    if (m->n_f == 0) { /* everything is taken: a place that no task looks at */
        say(w, "<s:Assignment>" NODE("//j:ApplicationName") "<f:Values><f:Value>v</f:Value></f:Values></s:Assignment>");
        m->f[0].n = 1;
    }
    size_t children = depth < DEPTH ? htc_rng_below(&w->rng, 3) : 0;
    for (size_t i = 0; i < children; i++)
        m->children[m->n_children++] = random_sweep(w, depth + 1);
    for (size_t i = 0; i < m->n_f; i++)
        forget_place(w, &m->f[i]);
    say(w, "</s:Sweep>");
    return m;
}

static void expand(world *w, const model_sweep *m, char pieces[ARGS][PIECES][24])
{
    for (size_t k = 0; k < m->f[0].n; k++) {
        char mine[ARGS][PIECES][24];
        memcpy(mine, pieces, sizeof mine);
        for (size_t i = 0; i < m->n_f; i++)
            for (int p = 0; p < PIECES; p++)
                if (m->f[i].piece == p || m->f[i].piece == PIECES)
                    snprintf(mine[m->f[i].arg][p], 24, "%s",
                             m->f[i].piece == PIECES && p > 0 ? "" : m->f[i].values[k]);
        for (size_t c = 0; c < m->n_children; c++)
            expand(w, m->children[c], mine);
        if (m->n_children)
            continue;
        char   line[512] = "run";
        size_t n = 3;
        for (int a = 0; a < ARGS; a++)
            n += (size_t)snprintf(line + n, sizeof line - n, " %s%s%s", mine[a][0], mine[a][1], mine[a][2]);
        cr_assert(w->n_tasks < TASKS);
        w->tasks[w->n_tasks++] = strdup(line);
    }
}

static void free_sweep(model_sweep *m)
{
    for (size_t i = 0; i < m->n_children; i++)
        free_sweep(m->children[i]);
    free(m);
}

static void one_random_document(uint64_t seed)
{
    static world w;
    char         pieces[ARGS][PIECES][24], line[512];
    model_sweep *top[2];
    w = (world){ .rng = { seed } };
    for (int a = 0; a < ARGS; a++)
        for (int p = 0; p < PIECES; p++)
            snprintf(pieces[a][p], 24, "%c%c", 'a' + p, 'A' + a);
    say(&w, JSDL_HEAD "<j:JobDescription><j:Application><j:ApplicationName>n</j:ApplicationName><p:POSIXApplication>" RUN);
    for (int a = 0; a < ARGS; a++)
        say(&w, ARG("%s%s%s"), pieces[a][0], pieces[a][1], pieces[a][2]);
    say(&w, "</p:POSIXApplication></j:Application></j:JobDescription>");
    size_t n_top = 1 + htc_rng_below(&w.rng, 2);
    for (size_t i = 0; i < n_top; i++)
        top[i] = random_sweep(&w, 1);
    say(&w, "</j:JobDefinition>");
    for (size_t i = 0; i < n_top; i++)
        expand(&w, top[i], pieces);
    htc_spec *parsed = jsdl_parse(w.text), *spec = NULL;
    cr_assert(eq(int, htc_spec_from_bytes(NULL, htc_spec_bytes(parsed), &spec), HTC_OK));
    cr_assert(eq(u64, htc_spec_count(spec), w.n_tasks), "seed %d\n%s", (int)seed, w.text);
    for (size_t i = 0; i < w.n_tasks; i++) {
        cr_assert(eq(str, (char *)jsdl_line(spec, i, line, sizeof line), w.tasks[i]), "seed %d task %zu\n%s", (int)seed, i,
                  w.text);
        free(w.tasks[i]);
    }
    for (size_t i = 0; i < n_top; i++)
        free_sweep(top[i]);
    htc_spec_destroy(parsed);
    htc_spec_destroy(spec);
}

/* 3000 documents: each task of each, from the stored form, equals what the naive expander printed. */
Test(sweep, expands_as_the_naive_expander_does)
{
    for (uint64_t seed = 1; seed <= 3000; seed++)
        one_random_document(seed);
}
