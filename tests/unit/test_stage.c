/* Documents that were written beside their files. */
#include "alloc_fail.h"
#include "jsdl_text.h"

typedef struct beside {
    char        asked[300]; /* "file NAME; program NAME; " */
    char        uri[80];
    htc_status  says;
    int         runs;  /* what is named may be run */
    const char *brought; /* the program that is to be brought */
} beside;

static void note(beside *b, const char *what, const char *name)
{
    size_t n = strlen(b->asked);
    snprintf(b->asked + n, sizeof b->asked - n, "%s %s; ", what, name);
}

static htc_status file(void *ctx, const char *name, const char **uri, uint32_t *flags)
{
    beside *b = ctx;
    note(b, "file", name);
    snprintf(b->uri, sizeof b->uri, "file:/up%s%s?a&b", name[0] == '/' ? "" : "/", name);
    *uri = strcmp(name, "stays") == 0 ? NULL : b->uri;
    if (b->runs)
        *flags |= HTC_STAGE_EXECUTABLE;
    return b->says;
}

static htc_status program(void *ctx, const char *name, const char **uri)
{
    beside *b = ctx;
    note(b, "program", name);
    if (b->brought && strcmp(name, b->brought) == 0)
        *uri = "file:/bin/it";
    return b->says;
}

static htc_status stage_env(const htc_env *env, beside *b, const char *text, htc_bytes *out, htc_error *e)
{
    htc_staging asked = { .size = sizeof asked, .file = file, .program = program, .ctx = b };
    return htc_jsdl_stage(env, htc_bytes_of(text), &asked, out, e);
}

/* Gives the document as a string. */
static char *stage(beside *b, const char *text)
{
    static char answer[8192];
    htc_bytes   out;
    htc_error   e = { .status = HTC_OK };
    htc_status  s = stage_env(NULL, b, text, &out, &e);
    cr_assert(s == HTC_OK, "%s: %s", htc_status_name(s), e.text);
    snprintf(answer, sizeof answer, "%.*s", (int)out.len, (const char *)out.data);
    htc_work_free(NULL, out);
    htc_spec_destroy(jsdl_parse_env(NULL, answer));
    return answer;
}

static int has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

#define SOURCE(uri)                                                                                                    \
    "<j:DataStaging><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Source><j:URI>" uri        \
    "</j:URI></j:Source></j:DataStaging>"
#define TARGET(uri)                                                                                                    \
    "<j:DataStaging><j:FileName>out</j:FileName><j:CreationFlag>overwrite</j:CreationFlag><j:Target><j:URI>" uri       \
    "</j:URI></j:Target></j:DataStaging>"
#define STAGED(program, stages, sweeps)                                                                                \
    JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication><p:Executable>" program                            \
              "</p:Executable></p:POSIXApplication></j:Application>" stages "</j:JobDescription>" sweeps "</j:JobDefinition>"

Test(stage, files_that_are_brought_in_get_another_name)
{
    static const struct {
        const char *text, *asked, *becomes;
    } cases[] = {
        { STAGED("sh", SOURCE("file:a b.txt"), ""), "file a b.txt; program sh; ", "<j:URI>file:/up/a b.txt?a&amp;b</j:URI>" },
        { STAGED("sh", SOURCE(" file:/abs\n"), ""), "file /abs; program sh; ", "<j:URI>file:/up/abs?a&amp;b</j:URI>" },
        { STAGED("sh", SOURCE("file:///abs"), ""), "file /abs; program sh; ", "<j:URI>file:/up/abs?a&amp;b</j:URI>" },
        { STAGED("sh", SOURCE("file://localhost/abs"), ""), "file /abs; program sh; ", "<j:URI>file:/up/abs?a&amp;b</j:URI>" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        beside b = { .says = HTC_OK };
        char  *made = stage(&b, cases[i].text);
        cr_assert(eq(str, b.asked, cases[i].asked));
        cr_assert(has(made, cases[i].becomes), "%s", made);
        cr_assert(!has(made, "Executable>true"));
    }
}

Test(stage, what_is_no_file_or_goes_out_stays)
{
    beside b = { .says = HTC_OK };
    char  *made = stage(&b, STAGED("sh", SOURCE("file:/stays") TARGET("file:/results/x"), ""));
    cr_assert(eq(str, b.asked, "file /stays; program sh; "));
    cr_assert(has(made, "<j:URI>file:/results/x</j:URI>"));
    b = (beside){ .says = HTC_OK };
    htc_bytes out;
    cr_assert(eq(int, stage_env(NULL, &b, STAGED("sh", SOURCE("file:stays") SOURCE("http://x/y"), ""), &out, NULL), HTC_OK));
    cr_assert(eq(str, b.asked, "file stays; program sh; "));
    htc_work_free(NULL, out);
}

Test(stage, what_may_be_run_here_may_be_run_there)
{
    beside b = { .says = HTC_OK, .runs = 1 };
    char  *made = stage(&b, STAGED("sh", SOURCE("file:tool"), ""));
    cr_assert(has(made, "Executable>true</h:Executable>"), "%s", made);
    b = (beside){ .says = HTC_OK };
    made = stage(&b, STAGED("./in", SOURCE("file:tool"), "")); /* the document brings its own program */
    cr_assert(eq(str, b.asked, "file tool; "));
    cr_assert(has(made, "Executable>true</h:Executable>"), "%s", made);
}

/* The prefix is another's in this element; ours is not declared. */
Test(stage, a_prefix_that_is_taken_is_left_alone)
{
    static const char text[] =
        "<j:JobDefinition xmlns:j=\"" HTC_JSDL_NS "\" xmlns:p=\"" HTC_POSIX_NS "\">"
        "<j:JobDescription><j:Application><p:POSIXApplication><p:Executable>in</p:Executable></p:POSIXApplication></j:Application>"
        "<j:DataStaging xmlns:htc=\"urn:another\"><j:FileName>in</j:FileName><j:CreationFlag>overwrite</j:CreationFlag>"
        "<j:Source><j:URI>htc:0123456789012345678901234567890123456789012345678901234567890123</j:URI></j:Source></j:DataStaging>"
        "</j:JobDescription></j:JobDefinition>";
    beside b = { .says = HTC_OK };
    cr_assert(has(stage(&b, text), "<htc1:Executable>true</htc1:Executable>"));
}

Test(stage, values_of_a_sweep_are_files_where_they_become_one)
{
    beside b = { .says = HTC_OK };
    char  *made = stage(&b, STAGED("sh", SOURCE("file:x"), SWEEP(ASSIGN("//j:URI", VALUES(V("file:one") V("file:two"))))));
    cr_assert(eq(str, b.asked, "file x; file one; file two; program sh; "));
    cr_assert(has(made, "<f:Value>file:/up/two?a&amp;b</f:Value>"));
    b = (beside){ .says = HTC_OK };
    made = stage(&b, JSDL_DOC(RUN ARG("x"), SWEEP(ASSIGN("//p:Argument", VALUES(V("file:one"))))));
    cr_assert(eq(str, b.asked, "program run; "));
    cr_assert(has(made, "<f:Value>file:one</f:Value>"));
}

/* 200,000 values that go into no URI, beside one that does. What looks through an assignment anew for each of its values is
 * not done with it in an hour. */
Test(stage, a_long_list_of_values_is_looked_through_once)
{
    enum { N = 200000 };
    size_t    room = N * 2 * 40 + 8192, at = 0;
    char     *text = malloc(room), *doc = NULL;
    htc_bytes out;
    htc_error e = { .status = HTC_OK };
    beside    b = { .says = HTC_OK };
    cr_assert(text != NULL);
    at += (size_t)snprintf(text + at, room - at, "<s:Assignment>" NODE("//p:Argument") "<f:Values>");
    for (int i = 0; i < N; i++)
        at += (size_t)snprintf(text + at, room - at, "<f:Value>%d</f:Value>", i);
    snprintf(text + at, room - at, "</f:Values></s:Assignment>" ASSIGN("//j:URI", VALUES(V("file:one"))));
    cr_assert(asprintf(&doc, "%s", STAGED("sh", SOURCE("file:x"), SWEEP("@@"))) > 0);
    char *mark = strstr(doc, "@@"), *whole = NULL;
    cr_assert(asprintf(&whole, "%.*s%s%s", (int)(mark - doc), doc, text, mark + 2) > 0);
    cr_assert(eq(int, stage_env(NULL, &b, whole, &out, &e), HTC_OK), "%s", e.text);
    cr_expect(eq(str, b.asked, "file x; file one; program sh; "));
    htc_work_free(NULL, out);
    free(text);
    free(doc);
    free(whole);
}

Test(stage, a_program_beside_the_document_is_brought)
{
    beside b = { .says = HTC_OK, .brought = "./bin/a&b" };
    char  *made = stage(&b, STAGED("./bin/a&amp;b", SOURCE("file:/stays"), ""));
    cr_assert(has(made, "<p:Executable>./bin/a&amp;b</p:Executable>"), "%s", made);
    cr_assert(has(made, "<j:FileName>bin/a&amp;b</j:FileName>") && has(made, "<j:URI>file:/bin/it</j:URI>"), "%s", made);
    htc_error e;
    htc_spec *spec = jsdl_parse_env(NULL, made);
    htc_task *task;
    cr_assert(eq(int, htc_spec_task(spec, 0, &task, &e), HTC_OK));
    cr_assert(task->n_in == 2 && (task->in[1].flags & HTC_STAGE_EXECUTABLE));
    cr_assert(eq(str, task->executable, "./bin/a&b"));
    htc_task_destroy(task);
    htc_spec_destroy(spec);
    /* A sweep names it: who knows which. */
    b = (beside){ .says = HTC_OK };
    (void)stage(&b, JSDL_DOC(RUN, SWEEP(ASSIGN("//p:Executable", VALUES(V("a") V("b"))))));
    cr_assert(eq(str, b.asked, ""));
}

Test(stage, another_encoding_becomes_utf8)
{
    beside b = { .says = HTC_OK };
    char  *made = stage(&b, "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>" JSDL_DOC(RUN ARG("caf\xe9"), ""));
    cr_assert(has(made, "encoding=\"UTF-8\"") && has(made, "caf\xc3\xa9"), "%s", made);
}

Test(stage, what_fails_says_where)
{
    htc_bytes   out = { "as it was", 9 };
    htc_error   e;
    beside      b = { .says = HTC_EINPUT };
    htc_staging asked = { .size = sizeof asked, .file = file };
    cr_assert(eq(int, stage_env(NULL, &b, STAGED("sh", "\n\n" SOURCE("file:x"), ""), &out, &e), HTC_EINPUT));
    cr_assert(e.status == HTC_EINPUT && e.line == 3);
    cr_assert(eq(str, e.where, "URI"));
    b.says = HTC_ENOEXEC;
    cr_assert(eq(int, stage_env(NULL, &b, STAGED("sh", "", ""), &out, &e), HTC_ENOEXEC));
    cr_assert(eq(str, e.where, "Executable"));
    b.says = HTC_OK;
    b.brought = "../x";
    cr_assert(eq(int, stage_env(NULL, &b, STAGED("../x", "", ""), &out, &e), HTC_EPATH));
    cr_assert(eq(int, stage_env(NULL, &b, "<a>", &out, &e), HTC_EXML));
    cr_assert(eq(int, stage_env(NULL, &b, "<!DOCTYPE a []><a/>", &out, &e), HTC_EXML));
    cr_assert(eq(int, htc_jsdl_stage(NULL, htc_bytes_of("<a/>"), &asked, &out, &e), HTC_EINVAL));
    asked.size = 0;
    cr_assert(eq(int, htc_jsdl_stage(NULL, htc_bytes_of("<a/>"), &asked, &out, &e), HTC_EINVAL));
    cr_assert(eq(int, htc_jsdl_stage(NULL, htc_bytes_of("<a/>"), NULL, &out, &e), HTC_EINVAL));
    cr_assert(eq(str, out.data, "as it was"));
    alloc_fail f = alloc_fail_at(1);
    htc_env    env = alloc_fail_env(&f);
    b = (beside){ .says = HTC_OK };
    cr_assert(eq(int, stage_env(&env, &b, STAGED("sh", "", ""), &out, &e), HTC_ENOMEM));
    cr_assert(eq(sz, f.live, 0));
}

/* No specification, but XML: nothing breaks. */
Test(stage, what_is_no_specification_is_not_harmed)
{
    static const char *const texts[] = {
        "<j:Source xmlns:j=\"" HTC_JSDL_NS "\"><j:URI>file:x</j:URI></j:Source>",
        "<j:URI xmlns:j=\"" HTC_JSDL_NS "\">file:x</j:URI>",
        "<p:Executable xmlns:p=\"" HTC_POSIX_NS "\">x<j:JobDescription xmlns:j=\"" HTC_JSDL_NS "\"/></p:Executable>",
        "<j:JobDescription xmlns:j=\"" HTC_JSDL_NS "\"><j:FileName>x</j:FileName><p:Executable xmlns:p=\"" HTC_POSIX_NS "\">x</p:Executable></j:JobDescription>",
        "<j:FileName xmlns:j=\"" HTC_JSDL_NS "\">x<j:JobDescription><p:Executable xmlns:p=\"" HTC_POSIX_NS "\"/></j:JobDescription></j:FileName>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        beside    b = { .says = HTC_OK, .runs = 1, .brought = "x" };
        htc_bytes out = { NULL, 0 };
        cr_assert(eq(int, stage_env(NULL, &b, texts[i], &out, NULL), HTC_OK), "%s", texts[i]);
        htc_work_free(NULL, out);
    }
}
