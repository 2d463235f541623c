/* Why jobs have ended, as the records of a batch system say. The records are those of a Slurm 22.05 and of a Son of Grid Engine 8.1.9, except where nonsense is told. */
#include "expect.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"

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
    } all[] = { { 3, "FAILED, signal 9" }, { 2, "FAILED, exit code 3" }, { 1, "COMPLETED" }, { 4, "CANCELLED" } };
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
    htc__batch_destroy(b);
}
