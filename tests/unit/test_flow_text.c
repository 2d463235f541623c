/* The text form of flows: what each line means, quoting against a shell's, every refusal with its line, and no memory. */
#include "flow_read.h"

#include "alloc_fail.h"
#include "property.h"
#include "work/flow_private.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- meaning ---- */

Test(flow_text, the_example_means_what_it_says)
{
    size_t               len;
    char                *content = flow_content(test_data("flows/variants.txt"), &len);
    const htc_flow_edge *parents = NULL;
    const htc_flow_task *t;
    htc_error            e = { .text = "" };
    cr_assert(content != NULL);
    htc_flow *f = flow_of(content, HTC_FLOW_AUTO, &e);
    cr_assert(f != NULL, "line %u: %s", e.line, e.text);
    free(content);
    cr_assert(eq(u32, htc_flow_count(f), 8));
    cr_expect(eq(u64, htc_flow_total(f), 1007));
    t = htc_flow_get(f, 0);
    cr_expect(eq(str, t->name, "fetch"));
    cr_expect(eq(str, t->executable, "./fetch.sh"));
    cr_expect(t->wall == 600 * HTC_SECOND && t->n_out == 2 && t->out[0].bytes == UINT64_C(3) << 30 &&
              t->out[1].bytes == 0);
    t = htc_flow_get(f, 2);
    cr_expect(t->cores == 4 && t->memory == UINT64_C(8) << 30 && t->n_args == 3 && t->n_in == 1);
    cr_expect(eq(str, t->kind, "align"));
    cr_expect(eq(str, t->args[2], "2.fq"), "the line goes on");
    t = htc_flow_get(f, 3);
    cr_assert(t->n_env == 2 && t->n_args == 2);
    cr_expect(eq(str, t->env[0], "LANG=C"));
    cr_expect(eq(str, t->env[1], "http_proxy=none"));
    cr_expect(eq(str, t->args[1], "diff <(samtools view 1.bam) <(samtools view 2.bam) > diff.txt"));
    cr_expect(eq(sz, htc_flow_parents(f, 3, NULL), 2));
    cr_assert(eq(sz, htc_flow_parents(f, 4, &parents), 1));
    cr_expect(parents[0].task == 3 && parents[0].rule == HTC_FLOW_FAILED);
    cr_expect(eq(str, htc_flow_get(f, 4)->name, "mail it"));
    cr_expect(eq(str, htc_flow_get(f, 4)->args[0], "it's broken"));
    cr_assert(eq(sz, htc_flow_parents(f, 5, &parents), 1));
    cr_expect(eq(u32, parents[0].rule, HTC_FLOW_ANY));
    cr_expect(htc_flow_get(f, 5)->builtin == HTC_FLOW_SLEEP && htc_flow_get(f, 5)->amount == 1500 * HTC_MS);
    cr_expect(htc_flow_get(f, 6)->builtin == HTC_FLOW_SPIN && htc_flow_get(f, 6)->count == 1000 &&
              htc_flow_get(f, 6)->run == 250 * HTC_MS);
    cr_expect(eq(str, htc_flow_get(f, 7)->name, "12"), "a task without a name has that of its line");
    htc_flow_destroy(f);
}

/* One command each, as words with | between them. */
Test(flow_text, words_are_those_of_a_shell)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        { "a b  c\td", "a|b|c|d" },
        { "a 'b  c' \"d e\"", "a|b  c|d e" },
        { "a b'c d'\"e\"f", "a|bc def" },
        { "a '' \"\"", "a||" },
        { "a 'it'\\''s'", "a|it's" },
        { "a \"x\\\"y\\\\z\\n\"", "a|x\"y\\z\\n" },
        { "a \\  \\'", "a| |'" },
        { "a b\\\nc", "a|bc" },
        { "a b \\\n  c", "a|b|c" },
        { "a \\\r\n c\r\n", "a|c" },
        { "a 'b\nc'", "a|b\nc" },
        { "a # b", "a" },
        { "a b#c", "a|b#c" },
        { "a '#' \\#", "a|#|#" },
        { "a '$HOME' \\$HOME $ 5$", "a|$HOME|$HOME|$|5$" },
        { "a '|' \"<\" \\;", "a|||<|;" }, /* a | is one of the words */
        { "a x=y after=b", "a|x=y|after=b" },
        { "'cores=2' b", "cores=2|b" },
        { "'@sleep' 2", "@sleep|2" },
        { "'a:' b", "a:|b" },
        { "n: a:b c:", "a:b|c:" },
        { "\xef\xbb\xbf"
          "a b",
          "a|b" },
        { "a \xc3\xa4", "a|\xc3\xa4" },
        { "a \"\\$x\" '`'", "a|$x|`" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        htc_error e = { .text = "" };
        char      words[200];
        htc_flow *f = flow_of(cases[i].line, HTC_FLOW_TEXT, &e);
        cr_expect(f && htc_flow_count(f) == 1, "%s: %s", cases[i].line, e.text);
        if (!f)
            continue;
        const htc_flow_task *t = htc_flow_get(f, 0);
        size_t               n = (size_t)snprintf(words, sizeof words, "%s", t->executable);
        for (size_t w = 0; w < t->n_args; w++)
            n += (size_t)snprintf(words + n, sizeof words - n, "|%s", t->args[w]);
        cr_expect(eq(str, words, cases[i].words), "of %s", cases[i].line);
        htc_flow_destroy(f);
    }
}

/* sh itself says what the words of a line are. Lines are drawn from what can be quoted and the quotes; one that ours refuses is left out,
 * as is one that means something else to a shell. */
Test(flow_text, words_agree_with_sh)
{
    static const char *const parts[] = { "a",    "b c",  "'x y'", "\"p q\"", "\\ ", "\\'", "''", "\\\"",    "\"'\"",
                                         "'\"'", "\\\\", "-",     "=",       "#",   " #",  "%",  "\"\\\\\"" };
    int                      seen = 0;
    PROPERTY_ALL(rng, 64)
    {
        char line[200] = "printf '%s\\0' .", got[400] = { 0 };
        for (uint64_t n = htc_rng_below(&rng, 8); n > 0; n--)
            strcat(line, parts[htc_rng_below(&rng, COUNT(parts))]);
        htc_flow *f = flow_of(line, HTC_FLOW_TEXT, NULL);
        FILE     *pipe = popen(line, "r");
        HOLDS(pipe != NULL);
        size_t len = fread(got, 1, sizeof got - 1, pipe);
        HOLDS(pclose(pipe) == 0 && f != NULL);
        const htc_flow_task *t = htc_flow_get(f, 0);
        char                *at = got;
        for (size_t w = 1; w < t->n_args; w++) {
            HOLDS(at < got + len && strcmp(at, t->args[w]) == 0);
            at += strlen(at) + 1;
        }
        HOLDS(at == got + len);
        seen++;
        htc_flow_destroy(f);
    }
    cr_expect(seen > 0);
}

/* ---- times and sizes ---- */

Test(flow_text, times_and_sizes_are_exact)
{
    static const struct {
        const char *text;
        int         ok;
        uint64_t    value;
    } times[] = {
        { "0", 1, 0 },
        { "90", 1, 90 * HTC_SECOND },
        { "1.5h", 1, 5400 * HTC_SECOND },
        { "0.1s", 1, 100 * HTC_MS },
        { "2m", 1, 120 * HTC_SECOND },
        { "1d", 1, 86400 * HTC_SECOND },
        { "7ns", 1, 7 },
        { "0.9ns", 1, 0 },
        { "0.000000001", 1, 1 },
        { "1.0000000000000000009999s", 1, HTC_SECOND },
        { "9223372036.854775807", 1, INT64_MAX },
        { "9223372036.854775808", -1, 0 },
        { "99999999999999999999999999999999999999999999h", -1, 0 },
        { "", 0, 0 },
        { ".5", 0, 0 },
        { "1.", 0, 0 },
        { "-1", 0, 0 },
        { "1 s", 0, 0 },
        { "1S", 0, 0 },
        { "1e3", 0, 0 },
    }, sizes[] = {
        { "1", 1, 1 },
        { "1B", 1, 1 },
        { "2K", 1, 2048 },
        { "2KiB", 1, 2048 },
        { "1.5M", 1, 1572864 },
        { "8G", 1, UINT64_C(8) << 30 },
        { "1T", 1, UINT64_C(1) << 40 },
        { "8388608T", -1, 0 },
        { "1KB", 0, 0 },
        { "K", 0, 0 },
        { "1s", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(times); i++) {
        uint64_t value = 0;
        cr_expect(eq(int, htc__flow_time_parse(htc_bytes_of(times[i].text), &value), times[i].ok), "%s", times[i].text);
        cr_expect(eq(u64, value, times[i].value), "%s", times[i].text);
    }
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint64_t value = 0;
        cr_expect(eq(int, htc__flow_size_parse(htc_bytes_of(sizes[i].text), &value), sizes[i].ok), "%s", sizes[i].text);
        cr_expect(eq(u64, value, sizes[i].value), "%s", sizes[i].text);
    }
}

/* ---- refusals ---- */

Test(flow_text, every_mistake_is_told_with_its_line)
{
    static const refusal cases[] = {
        { "", HTC_ESCHEMA, 0, "", "there are no tasks" },
        { "\n# nothing\n", HTC_ESCHEMA, 0, "", "there are no tasks" },
        { "a: true\nb:\n", HTC_ESCHEMA, 2, NULL, "the line has no command" },
        { ": true\n", HTC_ESCHEMA, 1, NULL, "no name in front of the colon" },
        { "a: x\na : true\n", HTC_ESCHEMA, 2, NULL, "a blank stands between the name and its colon" },
        { "a: true\n\na: false", HTC_ESCHEMA, 3, NULL, "two tasks have the name \"a\"" },
        { "a: after=b true", HTC_ESCHEMA, 1, "a", "task \"a\" waits for \"b\", and there is no such task" },
        { "a: after=a true", HTC_ECYCLE, 1, "a", "task \"a\" waits for itself" },
        { "x: true\na: after=b true\nb: after=a true", HTC_ECYCLE, 2, "a", "\"a\" waits for \"b\", \"b\" for \"a\"" },
        { "a: true\nb: after=a,a:any true", HTC_ESCHEMA, 2, "b", "in two ways: ok and any" },
        { "a: true\nb: after=a:later true", HTC_ESCHEMA, 2, NULL, "\"a:later\" names no rule" },
        { "a: after= true", HTC_ESCHEMA, 1, NULL, "after= has an empty name" },
        { "a: true\nb: after=a, true", HTC_ESCHEMA, 2, NULL, "after= has an empty name" },
        { "a: true\nb: after=:ok true", HTC_ESCHEMA, 2, NULL, "the name of a parent has 1 to 255 bytes" },
        { "a: cores=x true", HTC_ESCHEMA, 1, NULL, "cores=x is no number" },
        { "a: cores=0 true", HTC_ESCHEMA, 1, NULL, "cores=0 is not above 0" },
        { "a: cores=4294967296 true", HTC_ESCHEMA, 1, NULL, "is too large" },
        { "a: cores=1 cores=2 true", HTC_ESCHEMA, 1, NULL, "cores= is given twice" },
        { "a: count=0 true", HTC_ESCHEMA, 1, NULL, "count=0 is not above 0" },
        { "a: memory=-1 true", HTC_ESCHEMA, 1, NULL, "memory=-1 is no number" },
        { "a: memory=9999999999G true", HTC_ESCHEMA, 1, NULL, "is too large" },
        { "a: time=5parsec true", HTC_ESCHEMA, 1, NULL, "time=5parsec is no number" },
        { "a: run=1.x true", HTC_ESCHEMA, 1, NULL, "run=1.x is no number" },
        { "a: out=x:y true", HTC_ESCHEMA, 1, NULL, "names no size behind the colon" },
        { "a: in=x,,y true", HTC_ESCHEMA, 1, NULL, "in= has an empty name" },
        { "a: env=x true", HTC_ESCHEMA, 1, NULL, "env=x is no variable" },
        { "a: cpus=2 true", HTC_ESCHEMA, 1, NULL, "there is no setting \"cpus\"" },
        { "a: @dance", HTC_ESCHEMA, 1, NULL, "there is no builtin \"@dance\"" },
        { "a: @sleep", HTC_ESCHEMA, 1, NULL, "@sleep takes one word" },
        { "a: @noop 1", HTC_ESCHEMA, 1, NULL, "@noop takes no word" },
        { "a: @call /x.so", HTC_ESCHEMA, 1, NULL, "@call takes two or three words" },
        { "a: @call /x.so f a b", HTC_ESCHEMA, 1, NULL, "@call takes two or three words" },
        { "a: @call x.so f a", HTC_ESCHEMA, 1, "function", "the object is no absolute path" },
        { "a: @call /x.so f()", HTC_ESCHEMA, 1, NULL, "\"(\" means something to a shell" },
        { "a: @call /x.so f-1", HTC_ESCHEMA, 1, "function", "the function has no name" },
        { "a: adds=output ./f", HTC_ESCHEMA, 1, NULL, "adds=output is not stdout" },
        { "a: adds=stdout @call /x.so f", HTC_ESCHEMA, 1, NULL, "adds=stdout is not output" },
        { "a: adds=output @noop", HTC_ESCHEMA, 1, "adds", "only a program or a function of an object adds tasks" },
        { "a: adds=stdout adds=stdout ./f", HTC_ESCHEMA, 1, NULL, "adds= is given twice" },
        { "a: @sleep 1M", HTC_ESCHEMA, 1, NULL, "\"1M\" is no time" },
        { "a: @write 1s", HTC_ESCHEMA, 1, NULL, "\"1s\" is no size" },
        { "a: ''", HTC_ESCHEMA, 1, NULL, "empty name" },
        { "a: x\nb: cat 'f", HTC_ESCHEMA, 2, NULL, "a single quote is not closed" },
        { "a: cat \"f\n\n", HTC_ESCHEMA, 3, NULL, "a double quote is not closed" },
        { "a: cat \\", HTC_ESCHEMA, 1, NULL, "ends with a backslash" },
        { "a: cat f | wc", HTC_ESCHEMA, 1, NULL, "\"|\" means something to a shell" },
        { "a: cat f > g", HTC_ESCHEMA, 1, NULL, "\">\" means something to a shell" },
        { "a: echo $HOME", HTC_ESCHEMA, 1, NULL, "nothing is put in for $" },
        { "a: echo \"$(date)\"", HTC_ESCHEMA, 1, NULL, "nothing is put in for $" },
        { "a: echo \"`date`\"", HTC_ESCHEMA, 1, NULL, "nothing is run for a backquote" },
        { "a: x\x01", HTC_ESCHEMA, 1, NULL, "a control character" },
        { "a: x \xff", HTC_ESCHEMA, 1, NULL, "is not UTF-8" },
        { "b: x\n\xff: x", HTC_ESCHEMA, 2, NULL, "the name" },
        { "a: count=5 x\nb: after=a x", HTC_ESCHEMA, 1, "a", "has a count" },
        { "a: kind='' x", HTC_ESCHEMA, 1, "kind", "the kind" },
    };
    flow_refuses(cases, COUNT(cases), HTC_FLOW_TEXT);
    htc_flow *f = NULL;
    htc_error e;
    cr_expect(eq(int, htc_flow_read(NULL, (htc_bytes){ "a: b\0c", 6 }, HTC_FLOW_TEXT, NULL, &f, &e), HTC_ESCHEMA));
    cr_expect(eq(str, e.text, "there is a zero byte"));
}

/* What a command prints and what a function leaves have words of their own, and a mistake says the right one. */
Test(flow_text, who_adds_tasks)
{
    static const struct {
        const char *text;
        uint32_t    format;
        const char *hint; /* NULL: it adds tasks */
    } cases[] = {
        { "a: adds=stdout ./f", HTC_FLOW_TEXT, NULL },
        { "a: adds=output @call /x.so f", HTC_FLOW_TEXT, NULL },
        { "a: adds=output ./f", HTC_FLOW_TEXT, "write adds=stdout: what the command prints" },
        { "a: adds=stdout @call /x.so f", HTC_FLOW_TEXT, "write adds=output: what the function appends" },
        { "{\"command\": [\"f\"], \"adds\": \"stdout\"}", HTC_FLOW_JSONL, NULL },
        { "{\"adds\": \"output\", \"object\": \"/x.so\", \"function\": \"f\"}", HTC_FLOW_JSONL, NULL },
        { "{\"adds\": \"output\", \"command\": [\"f\"]}", HTC_FLOW_JSONL, "write \"adds\": \"stdout\": what the command" },
        { "{\"object\": \"/x.so\", \"function\": \"f\", \"adds\": \"stdout\"}", HTC_FLOW_JSONL,
          "write \"adds\": \"output\": what the function" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        htc_flow  *f = NULL;
        htc_error  e = { .text = "" };
        htc_status status = htc_flow_read(NULL, htc_bytes_of(cases[i].text), cases[i].format, NULL, &f, &e);
        cr_expect(eq(int, status, cases[i].hint ? HTC_ESCHEMA : HTC_OK), "%s: %s", cases[i].text, e.text);
        cr_expect(cases[i].hint ? strncmp(e.hint, cases[i].hint, strlen(cases[i].hint)) == 0 : htc_flow_get(f, 0)->adds == 1, "%s: %s",
                  cases[i].text, e.hint);
        htc_flow_destroy(f);
    }
}

Test(flow_text, a_mistake_in_a_line_is_told_with_its_column_and_file)
{
    htc_flow_reading o = { .size = sizeof o, .file = "day.flow" };
    htc_flow        *f = NULL;
    htc_error        e;
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a: true\nb: echo a; echo b"), HTC_FLOW_AUTO, &o, &f, &e),
                 HTC_ESCHEMA));
    cr_expect(e.line == 2 && e.column == 10, "%u:%u", e.line, e.column);
    cr_expect(eq(str, e.where, "day.flow"));
    cr_expect(e.hint[0]);
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a: after=b true"), HTC_FLOW_AUTO, &o, &f, &e), HTC_ESCHEMA));
    cr_expect(eq(str, e.where, "day.flow: a"));
}

Test(flow_text, objects_of_functions_are_found_from_the_directory)
{
    static const struct {
        const char *text, *object;
    } cases[] = {
        { "@call x.so f 'a b'", "/here/x.so" },
        { "@call ./y/x.so f 'a b'", "/here/y/x.so" },
        { "@call ../x.so f 'a b'", "/here/../x.so" },
        { "@call /x.so f 'a b'", "/x.so" },
        { "@call htc:0123456789012345678901234567890123456789012345678901234567890123 f 'a b'",
          "htc:0123456789012345678901234567890123456789012345678901234567890123" },
        { "{\"object\": \"x.so\", \"function\": \"f\", \"argument\": \"a b\"}", "/here/x.so" },
    };
    htc_flow_reading o = { .size = sizeof o, .directory = "/here" };
    for (size_t i = 0; i < COUNT(cases); i++) {
        htc_flow *f = NULL;
        htc_error e = { .text = "" };
        cr_assert(
            eq(int,
               htc_flow_read(NULL, htc_bytes_of(cases[i].text), i < 5 ? HTC_FLOW_TEXT : HTC_FLOW_JSONL, &o, &f, &e),
               HTC_OK),
            "%s", e.text);
        const htc_flow_task *t = htc_flow_get(f, 0);
        cr_expect(t->builtin == HTC_FLOW_CALL);
        cr_expect(eq(str, t->object, cases[i].object) && eq(str, t->function, "f") && eq(str, t->argument, "a b"));
        htc_flow_destroy(f);
    }
    htc_flow *f = NULL;
    htc_error e;
    cr_expect(eq(int,
                 htc_flow_read(NULL, htc_bytes_of("{\"object\": \"x.so\", \"function\": \"f\", \"command\": [\"x\"]}"),
                               HTC_FLOW_JSONL, &o, &f, &e),
                 HTC_ESCHEMA));
    cr_expect(strstr(e.text, "only a call has") != NULL, "%s", e.text);
    o.directory = "here";
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of(cases[0].text), HTC_FLOW_TEXT, &o, &f, &e), HTC_EINVAL));
}

Test(flow_text, bounds_hold)
{
    htc_flow_options bounds = { .size = sizeof bounds, .tasks_max = 2, .edges_max = 1 };
    htc_flow_reading o = { .size = sizeof o, .bounds = &bounds, .bytes_max = 100 };
    htc_flow        *f = NULL;
    htc_error        e;
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a\nb\nc\n"), HTC_FLOW_TEXT, &o, &f, &e), HTC_ETOOBIG));
    cr_expect(e.line == 3 && strstr(e.text, "more than 2 tasks"), "line %u: %s", e.line, e.text);
    cr_expect(
        eq(int, htc_flow_read(NULL, htc_bytes_of("a: x\nb: after=a,a x\n"), HTC_FLOW_TEXT, &o, &f, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "more dependencies") != NULL, "%s", e.text);
    cr_expect(
        eq(int, htc_flow_read(NULL, htc_bytes_of("a: after=b,b x\nb: x\n"), HTC_FLOW_TEXT, &o, &f, &e), HTC_ETOOBIG));
    cr_expect(eq(str, e.text, "there are more than 1 dependencies"));
    char *large = calloc(1, 102);
    memset(large, '#', 101);
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of(large), HTC_FLOW_TEXT, &o, &f, &e), HTC_ETOOBIG));
    cr_expect(eq(str, e.text, "the file has 101 bytes, more than 100"));
    free(large);
    o.time_scale = -1;
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a"), HTC_FLOW_TEXT, &o, &f, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a"), HTC_FLOW_DOT, NULL, &f, &e), HTC_EINVAL));
    cr_expect(eq(int, htc_flow_read(NULL, htc_bytes_of("a"), HTC_FLOW_TEXT, NULL, NULL, &e), HTC_EINVAL));
    cr_expect(f == NULL);
}

Test(flow_text, refused_memory_is_told_and_all_of_it_given_back)
{
    static const char text[] =
        "c: after=a,b:any cores=2 in=x:1K,y out=z A=b ./run 'it is'\na: @sleep 1s\nb: after=a true\n";
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env    env = alloc_fail_env(&f);
        htc_flow  *flow = NULL;
        htc_error  e;
        htc_status status = htc_flow_read(&env, htc_bytes_of(text), HTC_FLOW_TEXT, NULL, &flow, &e);
        cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK), "allocation %zu: %s", f.fail_at, e.text);
        htc_flow_destroy(flow);
        cr_expect(f.live == 0 && f.wrong_sizes == 0, "allocation %zu", f.fail_at);
    }
}
