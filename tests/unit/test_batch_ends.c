/* Why jobs have ended, as the records of a batch system say. The records are those of a Slurm 22.05 and of a Son of Grid Engine 8.1.9, except where nonsense is told. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"
#include "roles/batch/batch_gone.h"

/* Slurm: an array job of which one element ends by itself, one with code 3, one by a signal, and one is cancelled. The first job is somebody's who names it as if
 * it were ours. */
#define RECORD(ID, USER, NAME, STATE, ARRAY, CODE)                                                                                                         \
    "JobId=" ID " UserId=" USER " GroupId=root(0) Name=" NAME " JobState=" STATE " Partition=all TimeLimit=1 StartTime=2026-11-29T19:34:46 "               \
    "EndTime=2026-11-29T19:34:46 NodeList=n1 NodeCnt=1 ProcCnt=1 WorkDir=/tmp/acct ReservationName= Tres=cpu=1,mem=1000M,node=1,billing=1 Account= QOS= " \
    "WcKey= Cluster=unknown SubmitTime=2026-11-29T19:34:45 EligibleTime=2026-11-29T19:34:45" ARRAY " DerivedExitCode=0:0 ExitCode=" CODE " \n"
#define OURS(ID, STATE, INDEX, CODE) RECORD(ID, "olga(0)", "htc-1234abcd.1", STATE, " ArrayJobId=1 ArrayTaskId=" INDEX, CODE)

static const char slurm_records[] = RECORD("2", "root(0)", "x JobState=FAILED ExitCode=9:0 Name=htc-1234abcd.2", "COMPLETED", "", "0:0")
    OURS("5", "FAILED", "3", "0:9") OURS("4", "FAILED", "2", "3:0") OURS("3", "COMPLETED", "1", "0:0") OURS("1", "CANCELLED", "4", "0:0");

typedef struct heard {
    batch_end ends[16];
    int       n;
} heard;

static void hear(void *ctx, const batch_end *end)
{
    heard *h = ctx;
    cr_assert(h->n < 16);
    h->ends[h->n++] = *end;
}

static heard read_slurm(const char *text, size_t len)
{
    heard h = { .n = 0 };
    char *copy = malloc(len + 1); /* of its own length, without an end */
    memcpy(copy, text, len);
    htc__batch_slurm_ends((htc_bytes){ copy, len }, "htc-1234abcd.", "olga", hear, &h);
    free(copy);
    return h;
}

Test(batch_ends, slurm_says_state_and_code)
{
    static const struct {
        uint32_t    index;
        const char *how;
    } all[] = { { 3, "FAILED, signal 9" }, { 2, "FAILED, exit code 3" }, { 1, "" }, { 4, "CANCELLED" } };
    heard h = read_slurm(slurm_records, strlen(slurm_records));
    cr_assert(eq(int, h.n, 4));
    for (int i = 0; i < 4; i++) {
        char job[HTC__BATCH_NAME_MAX];
        htc__batch_slurm_element(job, "1", all[i].index);
        cr_expect(eq(str, h.ends[i].job, job));
        cr_expect(eq(u32, h.ends[i].index, all[i].index));
        cr_expect(eq(u64, h.ends[i].submission, 1));
        cr_expect(strcmp(h.ends[i].how, all[i].how) == 0, "%s", h.ends[i].how);
    }
}

/* Others name their jobs as they like; a line may be cut off, endless, or no text at all. */
Test(batch_ends, slurm_records_are_anybodys)
{
    static const char *const none[] = {
        "", "\n\n", "JobId=", "JobId=\n", "JobId=1 UserId=olga\n", "JobId=1 UserId=olga(\n", "<html>502 Bad Gateway</html>\n",
        RECORD("7", "eve(9)", "htc-1234abcd.1", "FAILED", " ArrayJobId=1 ArrayTaskId=1", "1:0"),                                       /* another user's */
        RECORD("7", "eve(9)", "UserId=olga(0) Name=htc-1234abcd.1", "FAILED", " ArrayJobId=1 ArrayTaskId=1", "1:0"),
        RECORD("7", "olga(0)", "htc-00000000.1", "FAILED", " ArrayJobId=1 ArrayTaskId=1", "1:0"),                                      /* another directory's */
        RECORD("7", "olga(0)", "htc-1234abcd.1x", "FAILED", " ArrayJobId=1 ArrayTaskId=1", "1:0"),
        RECORD("7", "olga(0)", "htc-1234abcd.1", "FAILED", "", "1:0"),                                                                 /* no element */
        RECORD("7", "olga(0)", "htc-1234abcd.1", "FAILED", " ArrayJobId=1 ArrayTaskId=", "1:0"),
        RECORD("7", "olga(0)", "htc-1234abcd.1", "FAILED", " ArrayJobId=1 ArrayTaskId=99999999999999999999", "1:0"),
        RECORD("7", "olga(0)", "htc-1234abcd.1", "FAILED", " ArrayJobId=x ArrayTaskId=1", "1:0"),
        RECORD("7", "olga(0)", "htc-1234abcd.1", "RESIZING", " ArrayJobId=1 ArrayTaskId=1", "1:0"),                                    /* no end */
        RECORD("7", "olga(0)", "htc-1234abcd.1", "", " ArrayJobId=1 ArrayTaskId=1", "1:0"),
    };
    static char line[20000];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect(read_slurm(none[i], strlen(none[i])).n == 0, "%s", none[i]);
    const char *one = OURS("5", "TIMEOUT", "3", "nonsense");
    cr_expect(eq(int, read_slurm(one, strlen(one) - 1).n, 0), "a line without its end is not read");
    heard h = read_slurm(one, strlen(one));
    cr_expect(h.n == 1 && strcmp(h.ends[0].how, "TIMEOUT") == 0);
    memcpy(line, one, strlen(one) + 1);
    line[40] = '\0';
    cr_expect(eq(int, read_slurm(line, strlen(one)).n, 0));
    memset(line, 'x', sizeof line);
    line[9000] = '\n';
    snprintf(line + 9001, 2000, "%s", one);
    cr_expect(eq(int, read_slurm(line, 9001 + strlen(one)).n, 1), "what follows a line that is too long is read");
}

static htc__batch *begun(const htc_env *env, htc_ns now)
{
    htc__batch        *b = NULL;
    htc__batch_options o = { .system = "slurm", .nonce = 0x1234abcd, .user = "olga", .log_dir = "/d/log" };
    htc__batch_run     r;
    htc__batch_event   e;
    cr_assert(eq(int, htc__batch_create(env, &o, &b), HTC_OK));
    for (uint64_t i = 0; i < 5; i++)
        cr_assert(eq(int, htc__batch_launch(b, 100 + i, i, 1, "'agent'", now), HTC_OK));
    cr_assert(htc__batch_command(b, now + HTC_SECOND, &r) && !r.look);
    htc__batch_done(b, r.id, 0, htc_bytes_of("1\n"), (htc_bytes){ 0 }, now + HTC_SECOND);
    while (htc__batch_next_event(b, &e))
        ;
    return b;
}

/* A job that is not listed any more has ended as its record says; that says more than the list, too; and a job of an earlier Slurm with our name is not ours. */
Test(batch_ends, a_job_that_is_not_listed_has_its_reason)
{
    htc_env          env = { .size = sizeof env };
    htc__batch      *b = begun(&env, HTC_SECOND);
    htc__batch_run   r;
    htc__batch_event e;
    const char      *how[5] = { NULL };
    char             texts[5][160];
    const char      *all_run = "1_0|RUNNING|htc-1234abcd.1|1:00|None\n1_1|RUNNING|htc-1234abcd.1|1:00|None\n1_2|RUNNING|htc-1234abcd.1|1:00|None\n"
                               "1_3|RUNNING|htc-1234abcd.1|1:00|None\n1_4|RUNNING|htc-1234abcd.1|1:00|None\n";
    cr_assert(htc__batch_has_records(b));
    htc_ns now = htc__batch_deadline(b);
    cr_assert(htc__batch_command(b, now, &r) && r.look);
    htc__batch_done(b, r.id, 0, htc_bytes_of(all_run), (htc_bytes){ 0 }, now);
    now = htc__batch_deadline(b);
    cr_assert(htc__batch_command(b, now, &r) && r.look);
    htc__batch_records(b, htc_bytes_of(slurm_records));
    htc__batch_records(b, htc_bytes_of(RECORD("90", "olga(0)", "htc-1234abcd.1", "FAILED", " ArrayJobId=88 ArrayTaskId=0", "1:0")));
    htc__batch_done(b, r.id, 0, htc_bytes_of("1_1|RUNNING|htc-1234abcd.1|1:00|None\n1_2|FAILED|htc-1234abcd.1|0:00|NonZeroExitCode\n"), (htc_bytes){ 0 }, now);
    while (htc__batch_next_event(b, &e))
        if (e.kind == HTC__BATCH_ENDED) {
            snprintf(texts[e.agent - 100], sizeof *texts, "%s", e.text);
            how[e.agent - 100] = texts[e.agent - 100];
        }
    cr_expect(how[0] && strcmp(how[0], "") == 0, "%s: nothing is told of it", how[0]);
    cr_expect(how[1] == NULL, "it is listed as one that runs");
    cr_expect(how[2] && strcmp(how[2], "FAILED, exit code 3") == 0, "%s", how[2]);
    cr_expect(how[3] && strcmp(how[3], "FAILED, signal 9") == 0, "%s", how[3]);
    cr_expect(how[4] && strcmp(how[4], "CANCELLED") == 0, "%s", how[4]);
    now = htc__batch_deadline(b);
    cr_assert(htc__batch_command(b, now, &r) && r.look);
    htc__batch_done(b, r.id, 0, htc_bytes_of("1_1|COMPLETED|htc-1234abcd.1|0:00|None\n"), (htc_bytes){ 0 }, now);
    cr_assert(htc__batch_next_event(b, &e) && e.kind == HTC__BATCH_ENDED && e.agent == 101);
    cr_expect(eq(str, e.text, ""), "it ended by itself, and well");
    htc__batch_destroy(b);
}

/* A submission is refused where no other job of ours is listed: that is believed when it comes twice, and why it was refused is known still. */
Test(batch_ends, why_a_submission_failed_is_kept_until_it_is_told)
{
    htc_env            env = { .size = sizeof env };
    htc__batch        *b = NULL;
    htc__batch_options o = { .system = "slurm", .nonce = 0x1234abcd, .user = "olga", .log_dir = "/d/log" };
    htc__batch_run     r;
    htc__batch_event   e;
    htc_ns             now = HTC_SECOND;
    int                refused = 0;
    cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
    cr_assert(eq(int, htc__batch_launch(b, 1, 1, 1, "'agent'", now), HTC_OK));
    for (int i = 0; i < 10 && !refused; i++, now = htc__batch_deadline(b)) {
        if (htc__batch_command(b, now, &r))
            htc__batch_done(b, r.id, r.look ? 0 : 1, (htc_bytes){ 0 }, htc_bytes_of("sbatch: error: Invalid account\n"), now);
        while (htc__batch_next_event(b, &e)) {
            cr_assert(e.kind == HTC__BATCH_REFUSED);
            cr_expect(strstr(e.text, "Invalid account") != NULL, "%s", e.text);
            refused = 1;
        }
    }
    cr_expect(eq(int, refused, 1));
    htc__batch_destroy(b);
}

/* Grid Engine: an array job of which one element ends by itself, one with code 3, one by a signal, and one by its wall time. */
#define ELEMENT(OWNER, NAME, JOB, TASK, FAILED, CODE)                                                                                             \
    "==============================================================\n"                                                                           \
    "qname        all.q               \nhostname     localhost           \ngroup        root                \nowner        " OWNER "     \n"     \
    "project      NONE                \ndepartment   defaultdepartment   \njobname      " NAME "      \njobnumber    " JOB "                   \n" \
    "taskid       " TASK "                   \naccount      sge                 \nstart_time   Sun Nov 29 19:34:47 2026\ngranted_pe   NONE\n"     \
    "slots        1                   \nfailed       " FAILED "\nexit_status  " CODE "\nru_wallclock 6s\nmaxvmem      3.375MB\ncategory     -l h_rt=6\n"
#define TASK(NUMBER, FAILED, CODE) ELEMENT("olga", "htc-1234abcd.1", "1", NUMBER, FAILED, CODE)

static const char sge_printed[] = TASK("1", "0    ", "0                   ") TASK("2", "0    ", "3                   ")
    TASK("3", "100 : assumedly after job", "137                  (Killed)") TASK("4", "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "137                  (Killed)");

static heard read_sge(const char *text, size_t len)
{
    heard h = { .n = 0 };
    char *copy = malloc(len + 1);
    memcpy(copy, text, len);
    htc__batch_sge_ends((htc_bytes){ copy, len }, "htc-1234abcd.", "olga", hear, &h);
    free(copy);
    return h;
}

Test(batch_ends, grid_engine_says_what_failed)
{
    static const char *const all[] = { "", "exit status 3", "failed 100: assumedly after job, exit status 137",
                                       "failed 37: qmaster enforced h_rt, h_cpu, or h_vmem limit, exit status 137" };
    heard h = read_sge(sge_printed, strlen(sge_printed));
    cr_assert(eq(int, h.n, 4));
    for (int i = 0; i < 4; i++) {
        char job[HTC__BATCH_NAME_MAX];
        htc__batch_sge.element(job, "1", (uint32_t)i + 1);
        cr_expect(eq(str, h.ends[i].job, job));
        cr_expect(eq(u64, h.ends[i].submission, 1));
        cr_expect(strcmp(h.ends[i].how, all[i]) == 0, "%s", h.ends[i].how);
    }
}

Test(batch_ends, grid_engine_may_print_anything)
{
    static const char *const none[] = { "", "\n", "====\n====\n", "error: job id 77 not found\n", "<html>502 Bad Gateway</html>\n",
                                        ELEMENT("eve", "htc-1234abcd.1", "1", "1", "1 : x", "1"), ELEMENT("olga", "htc-00000000.1", "1", "1", "1 : x", "1"),
                                        ELEMENT("olga", "htc-1234abcd.1", "x", "1", "1 : x", "1"), ELEMENT("olga", "htc-1234abcd.1", "1", "undefined", "1 : x", "1"),
                                        ELEMENT("olga", "htc-1234abcd.1", "1", "99999999999999", "1 : x", "1"), ELEMENT("olga", "htc-1234abcd.1", "1", "1", "", "1") };
    static char line[4000];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect(read_sge(none[i], strlen(none[i])).n == 0, "%s", none[i]);
    for (size_t len = 0; len < strlen(sge_printed); len++)
        cr_expect(read_sge(sge_printed, len).n <= 4);
    memset(line, 'x', sizeof line);
    line[2000] = '\n';
    snprintf(line + 2001, 1900, "%s", TASK("7", "99999999999999999999 : y", "-5"));
    cr_expect(eq(int, read_sge(line, strlen(line)).n, 1), "what follows a line that is too long is read");
}

static void nothing_is_told(void *ctx, const batch_gone_one *one, const char *how)
{
    (void)ctx, (void)one, (void)how;
    cr_assert(0, "nothing is known");
}

/* However many elements of one job wait, the next question is about another job. */
Test(batch_ends, each_job_is_asked_about_in_turn)
{
    static const char *const jobs[] = { "1", "1", "2", "2", "2", "3" }, *const asked[] = { "1", "2", "3", "1", "2", "3", "1", "2", "3" };
    batch_gone               g = { .n = 0 };
    htc_buf                  words;
    htc_buf_init(&words, NULL, 0);
    for (uint32_t i = 0; i < 6; i++)
        htc__batch_gone_add(&g, &(batch_gone_one){ .agent = i, .submission = jobs[i][0], .index = i + 1 }, jobs[i], 0, HTC_SECOND);
    for (int i = 0; i < 9; i++) {
        cr_assert(htc__batch_gone_due(&g) != HTC_NEVER);
        htc_buf_clear(&words);
        htc__batch_gone_ask(&g, &htc__batch_sge, "olga", &words);
        cr_expect(eq(str, (char *)words.data + sizeof "qacct\0-o\0olga\0-j", (char *)asked[i]), "question %d", i);
        htc__batch_gone_answer(&g, &htc__batch_sge, "htc-1234abcd.", "olga", 1, (htc_bytes){ 0 }, 0, HTC_SECOND, nothing_is_told, NULL);
    }
    cr_expect(htc__batch_gone_due(&g) == HTC_NEVER, "each was asked about three times");
    htc_buf_free(&words);
}

typedef struct explained {
    uint32_t asked, looks;
    char     command[200], how[8][160];
} explained;

/* Grid Engine lists nobody any more, after it has listed all; its accounting answers code and text, and the broker goes on for a while. */
static explained gone(int code, const char *text, htc_ns within, htc_ns *first)
{
    htc_env            env = { .size = sizeof env };
    htc__batch        *b = NULL;
    htc__batch_options o = { .system = "sge", .nonce = 0x1234abcd, .user = "olga", .log_dir = "/d/log" };
    htc__batch_run     r;
    htc__batch_event   e;
    explained          x = { .asked = 0 };
    htc_ns             now = HTC_SECOND, end = 0;
    char               list[2000] = "<job_info><queue_info>";
    cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
    for (uint64_t i = 1; i <= 5; i++) {
        cr_assert(eq(int, htc__batch_launch(b, i, i, 1, "'agent'", now), HTC_OK));
        snprintf(list + strlen(list), sizeof list - strlen(list), "<job_list><JB_job_number>1</JB_job_number><JB_name>htc-1234abcd.1</JB_name><state>r</state><tasks>%d</tasks></job_list>", (int)i);
    }
    snprintf(list + strlen(list), sizeof list - strlen(list), "</queue_info><job_info/></job_info>");
    for (now += HTC_SECOND; htc__batch_deadline(b) != HTC_NEVER && (!end || now < end); now = htc__batch_deadline(b) > now ? htc__batch_deadline(b) : now) {
        if (!htc__batch_command(b, now, &r))
            continue;
        if (strcmp(r.words.data, "qsub") == 0) {
            htc__batch_done(b, r.id, 0, htc_bytes_of("1.1-5:1\n"), (htc_bytes){ 0 }, now);
        } else if (strcmp(r.words.data, "qstat") == 0) {
            htc__batch_done(b, r.id, 0, htc_bytes_of(x.looks++ ? "<job_info><queue_info/><job_info/></job_info>" : list), (htc_bytes){ 0 }, now);
        } else {
            for (const char *p = r.words.data; p < (const char *)r.words.data + r.words.len; p += strlen(p) + 1)
                snprintf(x.command + strlen(x.command), sizeof x.command - strlen(x.command), "%s%s", x.asked ? "" : p, x.asked ? "" : " ");
            x.asked++;
            cr_assert(end != 0, "it is asked before anything has ended");
            htc__batch_done(b, r.id, code, htc_bytes_of(text), (htc_bytes){ 0 }, now);
        }
        while (htc__batch_next_event(b, &e)) {
            if (e.kind == HTC__BATCH_ENDED && !end) {
                end = now + within;
                *first = now;
            }
            if (e.kind == HTC__BATCH_EXPLAINED) {
                cr_assert(e.agent < 8 && e.ctx == e.agent);
                snprintf(x.how[e.agent], sizeof *x.how, "%s", e.text);
            }
        }
    }
    htc__batch_destroy(b);
    return x;
}

/* Their end is told at once, and why they have ended when the accounting knows it: one command for all, and few more for what it does not know. */
Test(batch_ends, accounting_is_asked_about_jobs_that_are_gone)
{
    htc_ns    first = 0;
    explained x = gone(0, sge_printed, 3600 * HTC_SECOND, &first);
    cr_expect(strcmp(x.command, "qacct -o olga -j 1 -t 1-5 ") == 0, "%s", x.command);
    cr_expect(eq(str, x.how[1], ""), "it ended by itself");
    cr_expect(eq(str, x.how[2], "exit status 3"));
    cr_expect(eq(str, x.how[4], "failed 37: qmaster enforced h_rt, h_cpu, or h_vmem limit, exit status 137"));
    cr_expect(eq(str, x.how[5], ""), "nothing is known of it");
    cr_expect(eq(u32, x.asked, 3), "the fifth is asked for three times");
    x = gone(1, "error: job id 1 not found\n", 3600 * HTC_SECOND, &first);
    cr_expect(eq(u32, x.asked, 3));
    x = gone(0, "<html>502 Bad Gateway</html>\n", 60 * HTC_SECOND, &first);
    cr_expect(eq(u32, x.asked, 2), "two commands a minute at most, beside ten that list jobs");
    x = gone(-1, "", 300 * HTC_SECOND, &first);
    cr_expect(eq(u32, x.asked, 1), "one that takes too long is left alone for a while");
}
