/* Command lines in the manner of GNU parallel: the tasks that come out, and what is refused. */
#include "alloc_fail.h"
#include "jsdl_text.h"

#include <stdlib.h>

static htc_status read_file(void *ctx, const char *path, htc_bytes *content)
{
    (void)ctx;
    if (strcmp(path, "ligands.txt") == 0)
        *content = htc_bytes_of("1abc\n2 <x>&\"y\"\r\n\n3µ");
    else if (strcmp(path, "empty") == 0)
        *content = htc_bytes_of("\n\n");
    else if (strcmp(path, "binary") == 0)
        *content = (htc_bytes){ "a\nb\x01", 4 };
    else
        return HTC_ENOTFOUND;
    return HTC_OK;
}

#define WORDS(...) { __VA_ARGS__, NULL }

static size_t count_words(const char *const *words)
{
    size_t n = 0;
    while (words[n])
        n++;
    return n;
}

static htc_command command_of(const char *const *words)
{
    return (htc_command){ .size = sizeof(htc_command), .words = words, .n_words = count_words(words), .read_file = read_file };
}

static htc_spec *spec_of(const htc_command *c)
{
    htc_bytes  xml;
    htc_error  e = { .status = HTC_OK };
    htc_status status = htc_command_to_jsdl(NULL, c, &xml, &e);
    cr_assert(status == HTC_OK, "%s: %s", htc_status_name(status), e.text);
    htc_spec *spec = NULL;
    status = htc_spec_parse(NULL, xml, NULL, &spec, &e);
    cr_assert(status == HTC_OK, "%s: %s\n%.*s", htc_status_name(status), e.text, (int)xml.len, (const char *)xml.data);
    htc_work_free(NULL, xml);
    return spec;
}

static const struct {
    const char *words[16];
    uint64_t    count;
    const char *tasks[6]; /* "index line {json}" */
} lines[] = {
    { WORDS("date"), 1, { "0 date {}" } },
    { WORDS("dock.sh", "{ligand}", "{seed}", ":::", "ligand=@ligands.txt", ":::", "seed=1:100"), 300,
      { "0 dock.sh 1abc 1 {\"ligand\":\"1abc\",\"seed\":1}", "99 dock.sh 1abc 100 {\"ligand\":\"1abc\",\"seed\":100}",
        "100 dock.sh 2 <x>&\"y\" 1 {\"ligand\":\"2 <x>&\\\"y\\\"\",\"seed\":1}", "299 dock.sh 3µ 100 {\"ligand\":\"3µ\",\"seed\":100}" } },
    { WORDS("a", "--x={x}/{x}.{y}", ":::", "x=1,2", ":::+", "y=p,q"), 2,
      { "0 a --x=1/1.p {\"x\":\"1\",\"y\":\"p\"}", "1 a --x=2/2.q {\"x\":\"2\",\"y\":\"q\"}" } },
    { WORDS("a", "{2}{1}", ":::", "x", "y", ":::", "1", "2"), 4, { "1 a 2x {\"1\":\"x\",\"2\":\"2\"}" } },
    { WORDS("a", ":::", "x", "y"), 2, { "1 a y {\"1\":\"y\"}" } },
    { WORDS("a", "-n", ":::", "x", "y", ":::", "1"), 2, { "1 a -n y 1 {\"1\":\"y\",\"2\":\"1\"}" } },
    { WORDS("{}", "go", ":::", "x", "y"), 2, { "1 y go {\"1\":\"y\"}" } },
    { WORDS("a", "{}", "::::", "ligands.txt"), 3, { "2 a 3µ {\"1\":\"3µ\"}" } },
    { WORDS("a", "{1}", "{2}", "::::", "ligands.txt", "::::+", "ligands.txt"), 3, { "0 a 1abc 1abc {\"1\":\"1abc\",\"2\":\"1abc\"}" } },
    { WORDS("a", "{x}", ":::", "x=5:1:-2"), 3, { "2 a 1 {\"x\":1}" } },
    { WORDS("a", "{x}", ":::", "x=0.5:1:0.25"), 3, { "1 a 0.75 {\"x\":0.75}" } },
    { WORDS("a", "{x}", ":::", "x=-0.3:0.3:0.1"), 7,
      { "0 a -0.3 {\"x\":-0.3}", "1 a -0.2 {\"x\":-0.2}", "3 a 0 {\"x\":0}", "4 a 0.1 {\"x\":0.1}", "6 a 0.3 {\"x\":0.3}" } },
    { WORDS("a", "{x}", ":::", "x=1e-7:1e-6:1e-7"), 10, { "2 a 3e-7 {\"x\":3e-7}" } },
    { WORDS("a", "{x}", ":::", "x=100.01:100.05:0.01"), 5, { "4 a 100.05 {\"x\":100.05}" } },
    { WORDS("a", "{x}", ":::", "x=001:010"), 10, { "0 a 001 {\"x\":\"001\"}", "9 a 010 {\"x\":\"010\"}" } },
    { WORDS("a", "{x}", ":::", "x=-01:100:101"), 2, { "0 a -001 {\"x\":\"-001\"}", "1 a 100 {\"x\":\"100\"}" } },
    { WORDS("a", ":::", "1:5"), 1, { "0 a 1:5 {\"1\":\"1:5\"}" } },
    { WORDS("a", ":::", "@file", "001:003"), 2, { "0 a @file {\"1\":\"@file\"}", "1 a 001:003 {\"1\":\"001:003\"}" } },
    { WORDS("a", "{x}", ":::", "x=one\\,two,\\@three,"), 3,
      { "0 a one,two {\"x\":\"one,two\"}", "1 a @three {\"x\":\"@three\"}", "2 a  {\"x\":\"\"}" } },
    { WORDS("a", "{x}", ":::", "x=1:2:3:4"), 1, { "0 a 1:2:3:4 {\"x\":\"1:2:3:4\"}" } },
    { WORDS("sh", "-c", "awk '{print $1}' ${HOME} \\{x} {x}", ":::", "x=1,2"), 2,
      { "1 sh -c awk '{print $1}' ${HOME} {x} 2 {\"x\":\"2\"}" } },
    { WORDS("find", "-regex", "[0-9]{4}", "{}", ";"), 1, { "0 find -regex [0-9]{4} {} ; {}" } },
    { WORDS("a", "two\nlines\tand <&> \"'", ":::", "x=y", "z"), 2, { "0 a two\nlines\tand <&> \"' x=y {\"1\":\"x=y\"}" } },
    { WORDS("a", "µµ{x}µ", ":::", "x=ä,ö"), 2, { "1 a µµöµ {\"x\":\"ö\"}" } },
};

Test(command, makes_these_tasks)
{
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        htc_command c = command_of(lines[i].words);
        htc_spec   *spec = spec_of(&c);
        cr_expect(eq(u64, htc_spec_count(spec), lines[i].count), "row %zu", i);
        for (const char *const *t = lines[i].tasks; t < lines[i].tasks + 6 && *t; t++) {
            char      line[512], got[1024];
            uint64_t  index = strtoull(*t, NULL, 10);
            htc_task *task = NULL;
            cr_assert(eq(int, htc_spec_task(spec, index, &task, NULL), HTC_OK));
            snprintf(got, sizeof got, "%d %s %s", (int)index, jsdl_line(spec, index, line, sizeof line), task->values_json);
            cr_expect(eq(str, got, (char *)*t), "row %zu", i);
            htc_task_destroy(task);
        }
        htc_spec_destroy(spec);
    }
}

static const struct {
    const char *words[12];
    htc_status  status;
    const char *where, *says;
} refused[] = {
    { { NULL }, HTC_EUSAGE, "", "no command" },
    { WORDS("", "a"), HTC_EUSAGE, "", "no command" },
    { WORDS(":::", "a"), HTC_EUSAGE, "", "no command" },
    { WORDS("a", "{y}", ":::", "x=1:2"), HTC_EUSAGE, "{y}", "{y}" },
    { WORDS("a", "{y}"), HTC_EUSAGE, "{y}", "{y}" },
    { WORDS("a", "{3}", ":::", "b"), HTC_EUSAGE, "{3}", "{3}" },
    { WORDS("a", ":::", "x=1:2"), HTC_EUSAGE, "x=1:2", "no place uses the source \"x\"" },
    { WORDS("a", "{1}", ":::", "b", ":::", "c"), HTC_EUSAGE, "c", "no place uses" },
    { WORDS("a", "{}", ":::", "b", ":::", "c"), HTC_EUSAGE, "{}", "several" },
    { WORDS("a", "{#}", ":::", "b"), HTC_EUSAGE, "{#}", "{#}" },
    { WORDS("a", "{.}.out", ":::", "b"), HTC_EUSAGE, "{.}.out", "not done" },
    { WORDS("a", "{x}", ":::", "x=1", ":::", "x=2"), HTC_EUSAGE, "x=2", "two sources" },
    { WORDS("a", ":::"), HTC_EUSAGE, ":::", "no values" },
    { WORDS("a", ":::", ":::", "b"), HTC_EUSAGE, ":::", "no values" },
    { WORDS("a", ":::+", "b"), HTC_EUSAGE, ":::+", "no source before" },
    { WORDS("a", "{1}{2}", ":::", "b", ":::+", "c", "d"), HTC_ESWEEP, "c", "c has 2 values and goes in lock-step with b, which has 1" },
    { WORDS("a", "{1}{2}", ":::", "b", "c", ":::+", "d"), HTC_ESWEEP, "d", "d has 1 value and goes in lock-step with b, which has 2" },
    { WORDS("a", "{x}", ":::", "x=5:1"), HTC_ESWEEP, "x=5:1", "empty" },
    { WORDS("a", "{x}", ":::", "x=1:2:0"), HTC_ESWEEP, "x=1:2:0", "step 0" },
    { WORDS("a", "{x}", ":::", "x=-9223372036854775808:9223372036854775807"), HTC_ETOOBIG, NULL, "steps" },
    { WORDS("a", "{x}", ":::", "x=@missing"), HTC_EINPUT, "missing", "missing" },
    { WORDS("a", "{x}", ":::", "x=@empty"), HTC_ESWEEP, "empty", "no lines" },
    { WORDS("a", "{x}", ":::", "x=@binary"), HTC_EINPUT, "binary", "line 2" },
    { WORDS("a", "\x7f\xff"), HTC_EUSAGE, NULL, "no text" },
    { WORDS("a", "{1}", ":::", "\x1b"), HTC_EUSAGE, NULL, "no text" },
};

Test(command, refuses_with_the_word)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        htc_command c = command_of(refused[i].words);
        htc_bytes   xml = { NULL, 0 };
        htc_error   e = { .status = HTC_OK };
        htc_status  status = htc_command_to_jsdl(NULL, &c, &xml, &e);
        cr_expect(status == refused[i].status && e.status == status, "row %zu: %s: %s", i, htc_status_name(status), e.text);
        cr_expect(strstr(e.text, refused[i].says) != NULL, "row %zu: %s", i, e.text);
        cr_expect(refused[i].where == NULL || strcmp(e.where, refused[i].where) == 0, "row %zu: [%s]", i, e.where);
        cr_expect(xml.data == NULL);
    }
}

/* Inputs whose names hold a value: each is written out, in lock-step with the source, so that each can be replaced. */
Test(command, writes_out_the_inputs_of_each_task)
{
    static const struct {
        const char *words[12];
        const char *name, *uri, *names[3], *uris[3];
    } rows[] = {
        { WORDS("cat", "in{n}.txt", ":::", "n=08:10"), "in{n}.txt", "file:/in{n}.txt", { "in08.txt", "in09.txt", "in10.txt" }, { "file:/in08.txt", "file:/in09.txt", "file:/in10.txt" } },
        { WORDS("cat", "x", ":::", "m=b,a&,c"), "x", "file:/{m}/{m}\\{", { "x", "x", "x" }, { "file:/b/b{", "file:/a&/a&{", "file:/c/c{" } },
        { WORDS("cat", "x", ":::", "p", "q", "r"), "x", "file:/{}", { "x", "x", "x" }, { "file:/p", "file:/q", "file:/r" } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_stage   in[] = { { rows[i].name, rows[i].uri, HTC_STAGE_OVERWRITE } };
        htc_command c = command_of(rows[i].words);
        c.in = in;
        c.n_in = 1;
        c.in_each = 1;
        htc_spec *spec = spec_of(&c);
        cr_assert(eq(u64, htc_spec_count(spec), 3));
        for (uint64_t k = 0; k < 3; k++) {
            htc_task *t = NULL;
            cr_assert(eq(int, htc_spec_task(spec, k, &t, NULL), HTC_OK));
            cr_expect(eq(str, (char *)t->in[0].name, (char *)rows[i].names[k]));
            cr_expect(eq(str, (char *)t->in[0].uri, (char *)rows[i].uris[k]), "row %zu", i);
            cr_expect(eq(sz, t->n_args, 1), "a value is an argument too");
            htc_task_destroy(t);
        }
        htc_spec_destroy(spec);
    }
}

Test(command, refuses_inputs_that_cannot_be_written_out)
{
    static const struct {
        const char *words[12];
        const char *uri;
    } rows[] = {
        { WORDS("cat", "{a}", "{b}", ":::", "a=1:2", ":::", "b=1:2"), "file:{a}.{b}" }, /* of two sources */
        { WORDS("cat", "{a}", ":::", "a=0.5:2.5:0.5"), "file:{a}" },
        { WORDS("cat", "{a}", ":::", "a=1:2"), "file:{c}" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_stage   in[] = { { "x", rows[i].uri, HTC_STAGE_OVERWRITE } };
        htc_command c = command_of(rows[i].words);
        htc_bytes   xml = { NULL, 0 };
        c.in = in;
        c.n_in = 1;
        c.in_each = 1;
        cr_expect(eq(int, htc_command_to_jsdl(NULL, &c, &xml, NULL), HTC_EUSAGE), "row %zu", i);
    }
}

/* Everything beside the words arrives in the task, places in it included. */
Test(command, carries_everything_beside_the_words)
{
    const char *const words[] = WORDS("run", ":::", "n=1:3");
    const char *const env[] = WORDS("SEED={n}", "PLAIN=a b");
    const htc_stage   in[] = { { "l{n}.pdbqt", "file:///data/{n}", HTC_STAGE_APPEND | HTC_STAGE_DELETE | HTC_STAGE_EXECUTABLE } };
    const htc_stage   out[] = { { "o", "{n}.dlg", 0 } };
    htc_command       c = command_of(words);
    htc_task         *t = NULL;
    c.name = "a <job>";
    c.env = env;
    c.in = in;
    c.out = out;
    c.n_in = c.n_out = 1;
    c.input = "i{n}";
    c.output = "out-{n}.txt";
    c.error_output = "err.txt";
    c.limits = (htc_limits){ .wall = HTC_SECOND / 2, .cpu = 3 * HTC_SECOND, .memory = 4, .virtual_memory = 5, .file_size = 6,
                             .core_is_set = 1, .open_files = 7, .stack = 8, .data = 9, .processes = 10, .cores = 3 };
    htc_spec *spec = spec_of(&c);
    cr_expect(eq(str, (char *)htc_spec_name(spec), "a <job>"));
    cr_assert(eq(int, htc_spec_task(spec, 1, &t, NULL), HTC_OK));
    cr_expect(eq(str, (char *)t->env[0], "SEED=2"));
    cr_expect(eq(str, (char *)t->env[1], "PLAIN=a b"));
    cr_expect(eq(str, (char *)t->in[0].name, "l2.pdbqt"));
    cr_expect(eq(str, (char *)t->in[0].uri, "file:///data/2"));
    cr_expect(eq(u32, t->in[0].flags, in[0].flags));
    cr_expect(eq(str, (char *)t->out[0].uri, "2.dlg"));
    cr_expect(eq(u32, t->out[0].flags, HTC_STAGE_OVERWRITE));
    cr_expect(eq(str, (char *)t->input, "i2"));
    cr_expect(eq(str, (char *)t->output, "out-2.txt"));
    cr_expect(eq(str, (char *)t->error, "err.txt"));
    cr_expect(t->limits.wall == HTC_SECOND && t->limits.cpu == 3 * HTC_SECOND && t->limits.memory == 4);
    cr_expect(t->limits.virtual_memory == 5 && t->limits.file_size == 6 && t->limits.core_size == 0 && t->limits.core_is_set);
    cr_expect(t->limits.open_files == 7 && t->limits.stack == 8 && t->limits.data == 9 && t->limits.processes == 10);
    cr_expect(eq(u32, t->limits.cores, 3));
    cr_expect(eq(sz, t->n_args, 0));
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

Test(command, makes_pairs)
{
    const char *const words[] = WORDS("cmp", "{a}", "{b}");
    char              line[64];
    htc_command       c = command_of(words);
    c.pairs_a = "@ligands.txt";
    htc_spec *spec = spec_of(&c);
    cr_expect(eq(u64, htc_spec_count(spec), 9));
    cr_expect(eq(str, (char *)jsdl_line(spec, 2, line, sizeof line), "cmp 1abc 3µ"));
    htc_spec_destroy(spec);
    c.pairs_unordered = 1;
    c.pairs_b = "ligands.txt";
    spec = spec_of(&c);
    cr_expect(eq(u64, htc_spec_count(spec), 3));
    cr_expect(eq(str, (char *)jsdl_line(spec, 2, line, sizeof line), "cmp 2 <x>&\"y\" 3µ"));
    htc_task *t = NULL;
    cr_assert(eq(int, htc_spec_task(spec, 1, &t, NULL), HTC_OK));
    cr_expect(eq(str, (char *)t->values_json, "{\"a\":\"1abc\",\"b\":\"3µ\"}"));
    htc_task_destroy(t);
    htc_spec_destroy(spec);
}

Test(command, cuts_a_text_into_words)
{
    char        text[] = "  -a 'b c'd\t\"e'f\" ''\n", open[] = "a 'b", *left = text;
    const char *word, *const want[] = { "-a", "b cd", "e'f", "" };
    for (size_t i = 0; i < 4; i++) {
        cr_assert(eq(int, htc_command_word(&left, &word), HTC_OK));
        cr_expect(eq(str, (char *)word, (char *)want[i]));
    }
    cr_expect(eq(int, htc_command_word(&left, &word), HTC_EMPTY));
    cr_expect(eq(int, htc_command_word(&left, &word), HTC_EMPTY));
    left = open;
    cr_expect(eq(int, htc_command_word(&left, &word), HTC_OK));
    cr_expect(eq(int, htc_command_word(&left, &word), HTC_EUSAGE));
    cr_expect(eq(int, htc_command_word(NULL, &word), HTC_EINVAL));
}

Test(command, reads_times_and_sizes)
{
    static const struct {
        const char *text;
        double      seconds;
    } times[] = { { "90s", 90 },      { "5m", 300 },         { "1.5h", 5400 }, { "2d", 172800 },    { "7", 420 },
                  { "10:30", 630 },   { "1:00:01", 3601 },   { "1-2", 93600 }, { "1-2:03", 93780 }, { "1-2:03:04", 93784 },
                  { "", -1 },         { "s", -1 },           { "-1s", -1 },    { "1s ", -1 },       { "1:2:3:4", -1 },
                  { "1w", -1 },       { "0x10", -1 },        { "1-", -1 },     { "-2", -1 },        { "1..5h", -1 } };
    static const struct {
        const char *text;
        uint64_t    bytes;
    } sizes[] = { { "900B", 900 }, { "100K", 102400 }, { "512M", 512u << 20 }, { "4GiB", 4ull << 30 }, { "1.5g", 3ull << 29 }, { "1TB", 1ull << 40 },
                  { "3", 3u << 20 }, { "", 1 },        { "G", 1 },             { "1Gx", 1 },           { "-1", 1 },            { "9000000T", 1 } };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double     v = -1;
        htc_status s = htc_command_time(times[i].text, 60, &v);
        cr_expect(s == (times[i].seconds < 0 ? HTC_EUSAGE : HTC_OK) && v == times[i].seconds, "'%s' is %g", times[i].text, v);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t   v = 1;
        htc_status s = htc_command_size(sizes[i].text, &v);
        cr_expect(s == (sizes[i].bytes == 1 ? HTC_EUSAGE : HTC_OK) && v == sizes[i].bytes, "'%s' is %llu", sizes[i].text, (unsigned long long)v);
    }
    cr_expect(eq(int, htc_command_time("1", 0, &(double){ 0 }), HTC_EINVAL));
}

Test(command, gives_back_everything_when_memory_is_refused)
{
    const char *const words[] = WORDS("run", "--l={l}", "{s}", ":::", "l=@ligands.txt", ":::", "s=1,2");
    htc_command       c = command_of(words);
    ALLOC_FAIL_EVERY (f, 5000) {
        htc_env    env = alloc_fail_env(&f);
        htc_bytes  xml = { NULL, 0 };
        htc_status status = htc_command_to_jsdl(&env, &c, &xml, NULL);
        cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu", f.fail_at);
        if (status == HTC_OK)
            htc_work_free(&env, xml);
        cr_expect(eq(sz, f.live, 0), "allocation %zu", f.fail_at);
        cr_expect(eq(sz, f.wrong_sizes, 0));
    }
}
