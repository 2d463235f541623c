/* What a document says of its job beside its tasks: read, written, refused. */
#include "alloc_fail.h"
#include "jsdl_text.h"

#include "property.h"
#include "work/wishes.h"

#define SUBMISSION(inside)                                                                                             \
    JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN "</p:POSIXApplication></j:Application><h:Submission>" inside               \
    "</h:Submission></j:JobDescription></j:JobDefinition>"

static const char *all_of(const htc_spec *spec)
{
    static char     text[4096];
    const htc_wish *list;
    size_t          n = htc_spec_wishes(spec, &list), len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s=%s;", list[i].name, list[i].value);
    return text;
}

Test(submission, is_read)
{
    htc_spec *spec = jsdl_parse(SUBMISSION("<h:Array>1-10:2%5</h:Array><h:Retries> 3 </h:Retries><h:Priority>-7</h:Priority><h:MaxRunning>5</h:MaxRunning>"
                                           "<h:Begin>2026-12-01T08:00:00Z</h:Begin><h:Signal>USR1@60</h:Signal><h:Hold>1</h:Hold><h:After>4</h:After>"
                                           "<h:After when='any'>5</h:After><h:Output>o-%a</h:Output><h:Error>e-%a</h:Error><h:Compat>slurm</h:Compat>"
                                           "<h:OnEnd>&lt;a/></h:OnEnd><h:MailTo>a@b</h:MailTo><h:MailOn>fail</h:MailOn>"));
    cr_expect(strcmp(all_of(spec), "array=1-10:2%5;retries=3;priority=-7;max_running=5;begin=1796112000;signal=USR1@60;paused=true;after=4:ok;after=5:any;"
                                   "output=o-%a;error_output=e-%a;compat=slurm;on_end=<a/>;mail_to=a@b;mail_on=fail;") == 0, "%s", all_of(spec));
    htc_spec *back;
    cr_assert(eq(int, htc_spec_from_bytes(NULL, htc_spec_bytes(spec), &back), HTC_OK)); /* the tasks are as without */
    cr_expect(eq(str, (char *)(uintptr_t)all_of(back), ""));
    htc_spec *plain = jsdl_parse(JSDL_DOC(RUN, ""));
    cr_expect(htc_bytes_equal(htc_spec_bytes(plain), htc_spec_bytes(spec)));
    cr_expect(eq(str, (char *)(uintptr_t)all_of(plain), ""));
    htc_spec_destroy(plain);
    htc_spec_destroy(back);
    htc_spec_destroy(spec);
}

Test(submission, what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        htc_status  status;
    } rows[] = {
        { SUBMISSION("<h:Begin>2026-12-01T08:00:00</h:Begin>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Begin>2026-02-29T08:00:00Z</h:Begin>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Begin>now+1hour</h:Begin>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Array>3-1</h:Array>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Signal>KILLER@5</h:Signal>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Compat>pbs</h:Compat>"), HTC_ESCHEMA },
        { SUBMISSION("<h:MailOn>start</h:MailOn>"), HTC_ESCHEMA },
        { SUBMISSION("<h:After when='ever'>4</h:After>"), HTC_ESCHEMA },
        { SUBMISSION("<h:After>9999999999999999999</h:After>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Retries>-1</h:Retries>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Retries>1</h:Retries><h:Array>1</h:Array>"), HTC_ESCHEMA },
        { SUBMISSION("<h:Quickly/>"), HTC_ESCHEMA },
        { SUBMISSION("<x:Quickly/>"), HTC_EUNSUPPORTED },
        { SUBMISSION("") "", HTC_OK },
        { JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN "</p:POSIXApplication></j:Application><h:Submission/><h:Submission/></j:JobDescription>"
                    "</j:JobDefinition>", HTC_EUNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_spec  *spec = NULL;
        htc_error  e = { .status = HTC_OK };
        htc_status status = htc_spec_parse(NULL, htc_bytes_of(rows[i].text), NULL, &spec, &e);
        cr_expect(status == rows[i].status && (status == HTC_OK || (e.text[0] && e.line == 1)), "%s\n%s %s", rows[i].text, htc_status_name(status), e.text);
        htc_spec_destroy(spec);
    }
    char many[8000] = JSDL_HEAD "<j:JobDescription><j:Application><p:POSIXApplication>" RUN "</p:POSIXApplication></j:Application><h:Submission>";
    for (int i = 0; i < 65; i++)
        strcat(many, "<h:After>4</h:After>");
    strcat(many, "</h:Submission></j:JobDescription></j:JobDefinition>");
    htc_spec *spec = NULL;
    cr_expect(eq(int, htc_spec_parse(NULL, htc_bytes_of(many), NULL, &spec, NULL), HTC_ETOOBIG));
}

/* What is written is read. */
Test(submission, of_a_command_comes_back)
{
    static const char *const words[] = { "run" };
    static const htc_wish    wishes[] = { { "after", "12:failed" }, { "on_end", "<a b='\"'>\t&\n</a>" }, { "begin", "1796112000" }, { "paused", "true" }, { "after", "13" } };
    htc_command command = { .size = sizeof command, .words = words, .n_words = 1, .name = "a<b", .project = "p&q", .wishes = wishes, .n_wishes = 5 };
    htc_bytes   xml;
    cr_assert(eq(int, htc_command_to_jsdl(NULL, &command, &xml, NULL), HTC_OK));
    char *text = strndup(xml.data, xml.len);
    htc_spec *spec = jsdl_parse(text);
    cr_expect(eq(str, (char *)(uintptr_t)all_of(spec), "begin=1796112000;paused=true;after=12:failed;after=13:ok;on_end=<a b='\"'>\t&\n</a>;"));
    cr_expect(eq(str, (char *)(uintptr_t)htc_spec_project(spec), "p&q"));
    htc_spec_destroy(spec);
    free(text);
    htc_work_free(NULL, xml);
    static const htc_wish wrong[] = { { "quickly", "1" }, { "begin", "soon" }, { "output", "a\1b" }, { "after", "4:'/>" } };
    static const htc_status statuses[] = { HTC_EINVAL, HTC_EUSAGE, HTC_EUSAGE, HTC_EUSAGE };
    for (size_t i = 0; i < 4; i++) {
        command.wishes = &wrong[i];
        command.n_wishes = 1;
        cr_expect(eq(int, htc_command_to_jsdl(NULL, &command, &xml, NULL), statuses[i]));
    }
    command.wishes = NULL;
    cr_expect(eq(int, htc_command_to_jsdl(NULL, &command, &xml, NULL), HTC_EINVAL));
}

Test(submission, times_are_those_of_the_calendar)
{
    static const struct {
        const char *text;
        uint64_t    seconds;
    } rows[] = { { "1970-01-01T00:00:00Z", 0 }, { "2000-02-29T23:59:59Z", 951868799 }, { "2026-12-01T08:00:00Z", 1796112000 }, { "2026-12-01T10:30:00+02:30", 1796112000 },
                 { "2026-12-01T03:00:00-05:00", 1796112000 }, { "2026-12-01T08:00:00.999Z", 1796112000 }, { "9999-12-31T23:59:59Z", 253402300799u } };
    uint64_t at;
    char     text[HTC__TIME_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(htc__time_from_text(rows[i].text, &at) && at == rows[i].seconds, "%s: %llu", rows[i].text, (unsigned long long)at);
    static const char *const none[] = { "", "2026-12-01", "2026-12-01T08:00Z", "2026-13-01T08:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T08:00:00+15:00",
                                        "2026-12-01T08:00:00z", "1969-12-31T23:59:59Z", "2026-12-01T08:00:00Z ", "2026-04-31T00:00:00Z", "9999-12-31T23:59:59-00:01" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect(!htc__time_from_text(none[i], &at), "%s", none[i]);
    PROPERTY (rng, 2000) {
        uint64_t was = htc_rng_below(&rng, 253402300800u);
        htc__time_to_text(was, text);
        HOLDS(htc__time_from_text(text, &at) && at == was);
    }
}

/* Every allocation of it may fail. */
Test(submission, without_memory_nothing_is_left)
{
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env    env = alloc_fail_env(&f);
        htc_spec  *spec = NULL;
        htc_status status = htc_spec_parse(&env, htc_bytes_of(SUBMISSION("<h:Array>1</h:Array><h:After>4</h:After>")), NULL, &spec, NULL);
        cr_expect(status == HTC_OK || (status == HTC_ENOMEM && !spec));
        htc_spec_destroy(spec);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
