/* Agents as jobs: the decisions of roles/batch against a batch system that is as slow, wrong and forgetful as real ones, in virtual time. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"
#include "roles/batch/site_credentials.h"
#include "roles/batch/ssh_hosts.h"
#include "property.h"

enum { JOBS = 4096, AGENTS = 200 };

typedef struct element {
    uint64_t    submission, agent;
    uint32_t    index, job;
    int         state; /* 0 waits, 1 runs, 2 held, 3 ended, still listed, 4 not listed any more */
    htc_ns      next;  /* when that changes by itself */
} element;

/* The batch system. */
typedef struct world {
    int      sge, wrong; /* wrong: commands fail, print nonsense, come too late */
    htc_rng  rng;
    htc_ns   now;
    element  all[JOBS];
    uint32_t count, jobs, commands, looks, submits;
    const char *left; /* of the wall time of what runs, as Slurm says it */
    uint32_t nonce, forgotten; /* forgotten: looks in a row that showed nothing, though something was there */
} world;

typedef struct known {
    int launched, refused, ended, killed;
} known;

static int chance(world *w, uint32_t in)
{
    return w->wrong && htc_rng_below(&w->rng, in) == 0;
}

static const char *word_behind(const htc__batch_run *r, const char *name)
{
    const char *p = r->words.data, *end = p + r->words.len;
    for (; p < end; p += strlen(p) + 1)
        if (strcmp(p, name) == 0)
            return p + strlen(p) + 1;
        else if (strncmp(p, name, strlen(name)) == 0 && p[strlen(name)] == '=')
            return p + strlen(name) + 1;
    return NULL;
}

static int runs(const htc__batch_run *r, const char *program)
{
    return strcmp(r->words.data, program) == 0;
}

/* As a shell would read it: which agent does the element of that number begin? */
static uint64_t agent_of(const htc__batch_run *r, uint32_t number)
{
    char                   line[32];
    static char            script[1 << 20];
    cr_assert(r->input.len < sizeof script);
    memcpy(script, r->input.data, r->input.len);
    script[r->input.len] = '\0';
    snprintf(line, sizeof line, "\n%u) exec 'agent' '", number);
    const char *at = strstr(script, line);
    cr_assert(at != NULL, "element %u is not in the script:\n%s", number, script);
    return strtoull(at + strlen(line), NULL, 10);
}

static void submit(world *w, const htc__batch_run *r, char *out, size_t cap)
{
    uint32_t       first = w->sge ? 1 : 0, last = 0, from = 9;
    uint64_t       submission;
    const char    *range = word_behind(r, w->sge ? "-t" : "--array"), *name = word_behind(r, w->sge ? "-N" : "--job-name");
    cr_assert(range && name && sscanf(range, "%u-%u", &from, &last) == 2 && from == first);
    cr_assert(sscanf(name, "htc-%x.%lu", &w->nonce, &submission) == 2);
    w->jobs++;
    w->submits++;
    for (uint32_t i = first; i <= last; i++) {
        cr_assert(w->count < JOBS);
        w->all[w->count++] = (element){ .submission = submission, .agent = agent_of(r, i), .index = i, .job = w->jobs,
                                        .next = w->now + htc_rng_below(&w->rng, 60 * HTC_SECOND) };
    }
    snprintf(out, cap, w->sge ? "%u.%u-%u:1\n" : "%u\n", w->jobs, first, last);
}

static void print_element(const world *w, const element *e, char *out, size_t cap)
{
    static const char *const slurm[] = { "PENDING|NAME|Resources", "RUNNING|NAME|None", "PENDING|NAME|JobHeldAdmin", "COMPLETED|NAME|None" };
    static const char *const sge[] = { "qw", "r", "hqw" };
    if (w->sge && e->state < 3) {
        snprintf(out, cap, "<job_list><JB_job_number>%u</JB_job_number><JB_name>htc-%08x.%lu</JB_name><state>%s</state><tasks>%u</tasks></job_list>",
                 e->job, w->nonce, e->submission, sge[e->state], e->index);
    } else if (!w->sge) {
        const char *form = slurm[e->state], *bar = strchr(form, '|');
        snprintf(out, cap, "%u_%u|%.*s|htc-%08x.%lu|%s%s\n", e->job, e->index, (int)(bar - form), form, w->nonce, e->submission, e->state == 1 ? w->left : "UNLIMITED", strrchr(form, '|'));
    }
}

static void look(world *w, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = '\0';
    w->looks++;
    if (w->sge)
        n += (size_t)snprintf(out, cap, "<job_info><queue_info>");
    else
        n += (size_t)snprintf(out, cap, "77|RUNNING|somebody's|own job|1:00|None\n");
    for (uint32_t i = 0; i < w->count; i++)
        if (w->all[i].state < 4) {
            char one[400] = "";
            print_element(w, &w->all[i], one, sizeof one);
            n += (size_t)snprintf(out + n, cap - n, "%s", one);
        }
    if (w->sge)
        n += (size_t)snprintf(out + n, cap - n, "</queue_info><job_info></job_info></job_info>");
    cr_assert(n < cap);
}

/* Grid Engine's accounting knows who has ended. */
static int account(const world *w, const htc__batch_run *r, char *out, size_t cap)
{
    const char *job = word_behind(r, "-j"), *range = word_behind(r, "-t");
    uint32_t    first = 0, last = 0;
    size_t      n = 0;
    cr_assert(job && range && sscanf(range, "%u-%u", &first, &last) == 2 && first <= last);
    for (uint32_t i = 0; i < w->count; i++) {
        const element *e = &w->all[i];
        if (e->job == (uint32_t)strtoul(job, NULL, 10) && e->index >= first && e->index <= last && e->state == 4)
            n += (size_t)snprintf(out + n, cap - n, "====\nowner olga\njobname htc-%08x.%lu\njobnumber %u\ntaskid %u\nfailed 37 : too long\nexit_status 137\n", w->nonce, e->submission,
                                  e->job, e->index);
    }
    return n == 0;
}

static void cancel(world *w, const htc__batch_run *r)
{
    const char *p = r->words.data, *end = p + r->words.len;
    for (; p < end; p += strlen(p) + 1) {
        uint32_t job, index;
        if (sscanf(p, w->sge ? "%u.%u" : "%u_%u", &job, &index) != 2)
            continue;
        for (uint32_t i = 0; i < w->count; i++)
            if (w->all[i].job == job && w->all[i].index == index && w->all[i].state < 3)
                w->all[i].state = w->sge ? 4 : 3;
    }
}

static void pass(world *w, htc_ns to)
{
    w->now = to;
    for (uint32_t i = 0; i < w->count; i++) {
        element *e = &w->all[i];
        while (e->next <= w->now && e->state < 4) {
            if (e->state == 0 && chance(w, 10))
                e->state = 2;
            else if (e->state == 2)
                e->next = HTC_NEVER; /* until somebody acts */
            else
                e->state += e->state == 1 && w->sge ? 3 : e->state == 0 ? 1 : e->state == 1 ? 2 : 1;
            if (e->next != HTC_NEVER)
                e->next += 1 + htc_rng_below(&w->rng, 100 * HTC_SECOND);
        }
    }
}

/* One command, and what it does and says. */
static void carry_out(world *w, htc__batch *b, const htc__batch_run *r)
{
    static char out[1 << 21];
    int         code = 0, is_look = 0, forgets = 0;
    const char *error = "";
    out[0] = '\0';
    w->commands++;
    int lost = chance(w, 8), silent = chance(w, 8), nonsense = chance(w, 8);
    if (lost) {
        code = 1;
        error = "error: Unable to contact the controller\n";
    } else if (runs(r, w->sge ? "qsub" : "sbatch")) {
        submit(w, r, out, sizeof out);
    } else if (runs(r, w->sge ? "qstat" : "squeue")) {
        look(w, out, sizeof out);
        forgets = chance(w, 10); /* all, for a moment */
        is_look = 1;
        if (forgets)
            snprintf(out, sizeof out, "%s", w->sge ? "<job_info><queue_info></queue_info><job_info></job_info></job_info>" : "");
    } else if (w->sge && runs(r, "qacct")) {
        code = account(w, r, out, sizeof out);
    } else {
        cr_assert(runs(r, w->sge ? "qdel" : "scancel"), "%s", (const char *)r->words.data);
        cancel(w, r);
    }
    if (silent) { /* it has worked, and nobody hears of it */
        code = -1;
        out[0] = '\0';
    } else if (nonsense && code == 0) {
        snprintf(out, sizeof out, "slurm_load_jobs error: Socket timed out\n");
    }
    if (is_look && code == 0 && !nonsense)
        w->forgotten = forgets ? w->forgotten + 1 : 0;
    pass(w, w->now + htc_rng_below(&w->rng, 2 * HTC_SECOND));
    htc__batch_done(b, r->id, code, htc_bytes_of(out), htc_bytes_of(error), w->now);
}

/* An end is told of one that has ended, or was held, or that the batch system has twice not known. */
static int has_ended(const world *w, const htc__batch_event *e)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->all[i].agent == e->agent && w->all[i].state < 2 && w->forgotten < 2)
            return 0;
    return 1;
}

static void hear(const world *w, htc__batch *b, known *k)
{
    htc__batch_event e;
    while (htc__batch_next_event(b, &e)) {
        cr_assert(e.agent < AGENTS && e.ctx == e.agent + 7);
        known *a = &k[e.agent];
        if (e.kind == HTC__BATCH_EXPLAINED) {
            cr_assert(w->sge && a->ended && strcmp(e.text, "failed 37: too long, exit status 137") == 0, "%s", e.text);
            continue;
        }
        cr_assert(!a->refused && !a->ended, "agent %lu: event %u behind its end", e.agent, e.kind);
        if (e.kind == HTC__BATCH_LAUNCHED) {
            cr_assert(a->launched == 0);
            a->launched = 1;
        } else if (e.kind == HTC__BATCH_REFUSED) {
            cr_assert(a->launched == 0);
            a->refused = 1;
        } else if (e.kind == HTC__BATCH_ENDED) {
            cr_assert(a->launched);
            cr_assert(has_ended(w, &e), "seed %llu: agent %lu is told to have ended, and has not", (unsigned long long)property_seed, e.agent);
            a->ended = 1;
        } else {
            cr_assert(a->launched);
        }
    }
}

static htc__batch *create(const world *w, const htc_env *env)
{
    htc__batch        *b = NULL;
    htc__batch_options o = { .system = w->sge ? "sge" : "slurm", .nonce = 0x1234abcd, .user = "olga", .words = " --partition  long ", .log_dir = "/d/log",
                             .steps = 10, .submits_per_s = 2 };
    cr_assert(eq(int, htc__batch_create(env, &o, &b), HTC_OK));
    return b;
}

/* Agents are launched, killed and end; a moment comes when no more are launched, and all is well from then on. */
static void campaign(uint64_t seed, int sge, int wrong)
{
    static world w;
    static known k[AGENTS];
    htc_env      env = { .size = sizeof env };
    uint32_t     launched = 0;
    w = (world){ .left = "UNLIMITED", .sge = sge, .wrong = wrong, .rng = { seed }, .now = HTC_SECOND };
    memset(k, 0, sizeof k);
    htc__batch *b = create(&w, &env);
    for (int steps = 0; steps < 100000; steps++) {
        htc__batch_run r;
        if (launched < AGENTS && htc_rng_below(&w.rng, 4) == 0) {
            char command[64];
            snprintf(command, sizeof command, "'agent' '%u' --slots", launched);
            cr_assert(eq(int, htc__batch_launch(b, launched, launched + 7, 1 + launched % 3, command, w.now), HTC_OK));
            cr_assert(eq(int, htc__batch_launch(b, launched, 0, 1, command, w.now), HTC_EEXISTS));
            launched++;
        }
        if (launched && htc_rng_below(&w.rng, 40) == 0) {
            uint64_t one = htc_rng_below(&w.rng, launched);
            k[one].killed = 1;
            htc__batch_kill(b, one, w.now);
        }
        w.wrong = wrong && launched < AGENTS;
        if (htc__batch_command(b, w.now, &r)) {
            htc_buf journal;
            htc_buf_init(&journal, NULL, 0);
            htc__batch_journal(b, &journal);
            cr_assert(!r.journal == !runs(&r, sge ? "qsub" : "sbatch"));
            carry_out(&w, b, &r);
            hear(&w, b, k);
            htc_buf_free(&journal);
        } else if (htc__batch_deadline(b) == HTC_NEVER) {
            if (launched == AGENTS)
                break;
        } else {
            pass(&w, htc__batch_deadline(b));
        }
        hear(&w, b, k);
    }
    for (uint32_t i = 0; i < AGENTS; i++)
        cr_expect(k[i].refused || k[i].ended, "agent %u of seed %lu has no end", i, seed);
    for (uint32_t i = 0; i < w.count; i++)
        for (uint32_t j = 0; j < i; j++)
            cr_expect(w.all[i].agent != w.all[j].agent, "agent %lu of seed %lu is in two jobs", w.all[i].agent, seed);
    for (uint32_t i = 0; i < w.count; i++)
        cr_expect(w.all[i].state >= 3, "element %u of job %u of seed %lu is left in the queue in state %d", w.all[i].index, w.all[i].job, seed, w.all[i].state);
    if (!wrong)
        for (uint32_t i = 0; i < AGENTS; i++)
            cr_expect(k[i].launched || k[i].killed, "agent %u of seed %lu was refused where nothing goes wrong", i, seed);
    htc__batch_destroy(b);
}

Test(batch, every_agent_has_one_end_and_no_job_is_left)
{
    PROPERTY (rng, 60) {
        for (int form = 0; form < 4; form++)
            campaign(htc_rng_next(&rng), form & 1, form >> 1);
    }
}

/* A command that cancels is run again while the job is still shown. */
Test(batch, what_is_killed_is_cancelled)
{
    static world     w;
    htc_env          env = { .size = sizeof env };
    htc__batch_run   r;
    htc__batch_event e;
    int              cancels = 0;
    w = (world){ .left = "UNLIMITED", .rng = { 5 }, .now = HTC_SECOND };
    htc__batch *b = create(&w, &env);
    cr_assert(eq(int, htc__batch_launch(b, 1, 8, 1, "'agent' '1'", w.now), HTC_OK));
    htc__batch_kill(b, 1, w.now);
    cr_expect(htc__batch_next_event(b, &e) && e.kind == HTC__BATCH_REFUSED, "one that is in no job yet is dropped");
    cr_expect(eq(int, htc__batch_command(b, w.now + HTC_SECOND, &r), 0));
    cr_assert(eq(int, htc__batch_launch(b, 2, 9, 1, "'agent' '2'", w.now), HTC_OK));
    pass(&w, w.now + HTC_SECOND);
    cr_assert(htc__batch_command(b, w.now, &r));
    carry_out(&w, b, &r);
    w.all[0].state = 1;
    w.all[0].next = HTC_NEVER;
    htc__batch_kill(b, 2, w.now);
    for (htc_ns until = w.now + 100 * HTC_SECOND; w.now < until && cancels < 2; pass(&w, htc__batch_deadline(b)))
        while (htc__batch_command(b, w.now, &r)) {
            int is_cancel = runs(&r, "scancel");
            cancels += is_cancel;
            if (is_cancel && cancels == 1) {
                cr_expect(word_behind(&r, "1_0") != NULL);
                htc__batch_done(b, r.id, 1, (htc_bytes){ 0 }, htc_bytes_of("it did not work"), w.now);
            } else {
                carry_out(&w, b, &r);
            }
        }
    cr_expect(eq(int, cancels, 2));
    cr_expect(w.all[0].state >= 3);
    htc__batch_destroy(b);
}

/* An agent is told in time that its job's wall time ends: what the batch system says is left counts more than what was asked for. */
Test(batch, agents_stop_ahead_of_the_wall_time)
{
    for (int form = 0; form < 3; form++) {
        static world       w;
        htc_env            env = { .size = sizeof env };
        htc__batch_run     r;
        htc__batch_event   e;
        htc__batch        *b = NULL;
        htc__batch_options o = { .system = form == 2 ? "sge" : "slurm", .nonce = 1, .user = "olga", .log_dir = "/d", .time_ns = 3600 * HTC_SECOND };
        htc_ns             told[2] = { 0 };
        w = (world){ .left = form == 1 ? "10:00" : "UNLIMITED", .sge = form == 2, .rng = { 7 }, .now = HTC_SECOND };
        cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
        for (uint32_t i = 0; i < 2; i++) {
            char command[64];
            snprintf(command, sizeof command, "'agent' '%u'", i);
            cr_assert(eq(int, htc__batch_launch(b, i, i + 7, 1, command, w.now), HTC_OK));
        }
        for (htc_ns begun = 0; w.now < 3700 * HTC_SECOND && !(told[0] && told[1]); pass(&w, htc__batch_deadline(b))) {
            while (htc__batch_command(b, w.now, &r)) {
                carry_out(&w, b, &r);
                for (uint32_t i = 0; i < w.count && w.now > 60 * HTC_SECOND; i++) {
                    w.all[i].state = 1; /* both begin after a minute, and go on */
                    w.all[i].next = HTC_NEVER;
                    begun = begun ? begun : w.now;
                }
                for (uint32_t i = 0; i < w.count && !begun; i++)
                    w.all[i].next = HTC_NEVER;
            }
            while (htc__batch_next_event(b, &e))
                if (e.kind == HTC__BATCH_EXPIRES)
                    told[e.agent] = w.now - begun;
        }
        htc_ns time = (form == 1 ? 600 : 3600) * HTC_SECOND;
        for (int i = 0; i < 2; i++) {
            cr_expect(told[i] > time / 2 && told[i] < time - time / 10 + 20 * HTC_SECOND, "form %d: agent %d is told after %.0f s", form, i, (double)told[i] / 1e9);
        }
        cr_expect(told[0] != told[1], "all end at once");
        htc__batch_destroy(b);
    }
}

static htc__batch *with_agents(world *w, const htc_env *env, uint32_t n)
{
    htc__batch_run r;
    *w = (world){ .left = "UNLIMITED", .rng = { 5 }, .now = HTC_SECOND };
    htc__batch *b = create(w, env);
    for (uint32_t i = 0; i < n; i++) {
        char command[64];
        snprintf(command, sizeof command, "'agent' '%u'", i);
        cr_assert(eq(int, htc__batch_launch(b, i, i + 7, 1, command, w->now), HTC_OK));
    }
    pass(w, w->now + HTC_SECOND);
    cr_assert(htc__batch_command(b, w->now, &r));
    carry_out(w, b, &r);
    for (uint32_t i = 0; i < w->count; i++) {
        w->all[i].state = 1;
        w->all[i].next = HTC_NEVER;
    }
    return b;
}

/* A batch system takes half a minute for each command: others than those that cancel are run all the same. */
Test(batch, slow_cancelling_keeps_nobody_up)
{
    static world   w;
    htc_env        env = { .size = sizeof env };
    htc__batch_run r;
    uint32_t       looks = 0, cancels = 0, submits = 0;
    htc__batch    *b = with_agents(&w, &env, 2);
    htc__batch_kill(b, 0, w.now);
    cr_assert(eq(int, htc__batch_launch(b, 5, 12, 1, "'agent' '5'", w.now), HTC_OK));
    for (int i = 0; i < 12; i++, pass(&w, htc__batch_deadline(b) > w.now ? htc__batch_deadline(b) : w.now))
        if (htc__batch_command(b, w.now, &r)) {
            looks += runs(&r, "squeue");
            cancels += runs(&r, "scancel");
            submits += runs(&r, "sbatch");
            pass(&w, w.now + 40 * HTC_SECOND);
            htc__batch_done(b, r.id, 1, (htc_bytes){ 0 }, htc_bytes_of("it is slow"), w.now);
        }
    cr_expect(looks >= 2 && cancels >= 2 && submits >= 1, "%u looks, %u cancels, %u submits", looks, cancels, submits);
    htc__batch_destroy(b);
}

/* One that was just accepted may not be listed yet. One that never is is cancelled by its number. */
Test(batch, what_was_just_accepted_is_looked_for_twice)
{
    static world     w;
    htc_env          env = { .size = sizeof env };
    htc__batch_run   r;
    htc__batch_event e;
    int              ended = 0, looks = 0, cancelled = 0;
    htc__batch      *b = with_agents(&w, &env, 2);
    while (htc__batch_next_event(b, &e))
        ;
    w.all[1].state = 4; /* not listed */
    for (int i = 0; i < 6 && !cancelled; i++, pass(&w, htc__batch_deadline(b)))
        if (htc__batch_command(b, w.now, &r)) {
            looks += runs(&r, "squeue");
            cancelled += runs(&r, "scancel") && word_behind(&r, "scancel") != NULL && memmem(r.words.data, r.words.len, "1_1", 4) != NULL;
            carry_out(&w, b, &r);
            while (htc__batch_next_event(b, &e))
                ended += e.kind == HTC__BATCH_ENDED;
            cr_expect(looks != 1 || ended == 0, "it is believed gone at once");
        }
    cr_expect(eq(int, ended, 1) && eq(int, cancelled, 1));
    htc__batch_destroy(b);
}

/* A batch system that shows an element again and again, as another one each time, says one thing a look. */
Test(batch, rows_of_one_element_count_once)
{
    static world     w;
    htc_env          env = { .size = sizeof env };
    htc__batch_run   r;
    htc__batch_event e;
    uint32_t         told = 0;
    static char      out[1 << 18];
    size_t           n = 0;
    htc__batch      *b = with_agents(&w, &env, 1);
    while (htc__batch_next_event(b, &e))
        ;
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "1_0|%s|htc-%08x.1|UNLIMITED|None\n", i & 1 ? "RUNNING" : "PENDING", w.nonce);
    pass(&w, htc__batch_deadline(b));
    cr_assert(htc__batch_command(b, w.now, &r) && runs(&r, "squeue"));
    htc__batch_done(b, r.id, 0, htc_bytes_of(out), (htc_bytes){ 0 }, w.now);
    while (htc__batch_next_event(b, &e))
        told++;
    cr_expect(eq(u32, told, 1));
    htc__batch_destroy(b);
}

/* A thousand agents in a minute take few commands, also when some of them end all the time, of which an accounting is asked. */
static void few_commands(int sge)
{
    static world w;
    htc_env      env = { .size = sizeof env };
    uint32_t     asked = 0, others = 0;
    htc__batch_options o = { .system = sge ? "sge" : "slurm", .nonce = 1, .user = "olga", .log_dir = "/d/log", .steps = 1024, .submits_per_s = 1 };
    htc__batch        *b = NULL;
    w = (world){ .left = "UNLIMITED", .sge = sge, .rng = { 1 }, .now = HTC_SECOND };
    cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
    for (uint32_t i = 0; i < 1000; i++) {
        char command[64];
        snprintf(command, sizeof command, "'agent' '%u'", i);
        cr_assert(eq(int, htc__batch_launch(b, i, i + 7, 1, command, w.now), HTC_OK));
    }
    for (htc__batch_run r; w.now < 61 * HTC_SECOND; pass(&w, htc__batch_deadline(b)))
        if (htc__batch_command(b, w.now, &r)) {
            asked++;
            htc__batch_event e;
            static char      out[1 << 21];
            int              code = 0;
            out[0] = '\0';
            if (runs(&r, sge ? "qsub" : "sbatch"))
                submit(&w, &r, out, sizeof out);
            else if (runs(&r, "qacct"))
                code = account(&w, &r, out, sizeof out), others++;
            else
                look(&w, out, sizeof out);
            for (uint32_t i = 0; i < w.count; i++) { /* five have ended at each look but the first */
                w.all[i].next = HTC_NEVER;
                w.all[i].state = asked > 1 && i < asked * 5 ? 4 : 1;
            }
            htc__batch_done(b, r.id, code, htc_bytes_of(out), (htc_bytes){ 0 }, w.now);
            while (htc__batch_next_event(b, &e))
                ;
        }
    cr_expect(asked <= 12, "%u commands of %s", asked, o.system);
    cr_expect(eq(u32, w.submits, 1));
    cr_expect(eq(int, others > 0, sge), "the accounting was asked");
    htc__batch_destroy(b);
}

Test(batch, commands_do_not_grow_with_agents)
{
    few_commands(0);
    few_commands(1);
}

/* No more jobs are there than the site allows, nor wait there; those that are not submitted yet count as waiting. */
Test(batch, no_more_jobs_than_the_site_allows)
{
    for (int queued = 0; queued < 2; queued++) {
        static world w;
        htc_env      env = { .size = sizeof env };
        uint32_t     waits = 0, launched = 0, ended = 0, most = 0;
        htc__batch_options o = { .system = "slurm", .nonce = 1, .user = "olga", .log_dir = "/d/log", .submits_per_s = 50, .running_max = queued ? 0 : 7, .queued_max = queued ? 3 : 0 };
        htc__batch        *b = NULL;
        w = (world){ .left = "UNLIMITED", .rng = { 1 }, .now = HTC_SECOND };
        cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
        for (uint32_t i = 0; i < 40; i++) {
            char command[64];
            snprintf(command, sizeof command, "'agent' '%u'", i + 1);
            cr_assert(eq(int, htc__batch_launch(b, i + 1, 0, 1, command, w.now), HTC_OK));
        }
        for (htc__batch_run r; w.now < 3600 * HTC_SECOND && ended < 40; pass(&w, htc__batch_deadline(b) < HTC_NEVER ? htc__batch_deadline(b) : w.now + HTC_SECOND)) {
            htc__batch_event e;
            if (htc__batch_command(b, w.now, &r))
                carry_out(&w, b, &r);
            uint32_t there = 0;
            for (uint32_t i = 0; i < w.count; i++)
                there += w.all[i].state == 0 || (!queued && w.all[i].state == 1);
            most = there > most ? there : most;
            while (htc__batch_next_event(b, &e)) {
                launched += e.kind == HTC__BATCH_LAUNCHED;
                ended += e.kind == HTC__BATCH_ENDED;
                waits += e.kind == HTC__BATCH_WAITS && strstr(e.text, "as the site allows");
            }
        }
        cr_expect(eq(u32, ended, 40));
        cr_expect(eq(u32, launched, 40), "each once, though some waited before they had a job");
        cr_expect(eq(u32, waits, queued ? 37 : 33));
        cr_expect(eq(u32, most, queued ? 3 : 7));
        htc__batch_destroy(b);
    }
}

/* A process that ends and one that goes on: from the journal, which was stored before each submission. */
Test(batch, a_later_process_goes_on)
{
    static world   w;
    htc_env        env = { .size = sizeof env };
    htc_buf        journal;
    uint64_t       agents[HTC__BATCH_AGENTS_MAX];
    uint32_t       count = 0;
    htc__batch_run r;
    w = (world){ .left = "UNLIMITED", .rng = { 3 }, .now = HTC_SECOND };
    htc__batch *b = create(&w, &env);
    for (uint32_t i = 0; i < 5; i++) {
        char command[64];
        snprintf(command, sizeof command, "'agent' '%u'", i);
        cr_assert(eq(int, htc__batch_launch(b, i, i + 7, 1, command, w.now), HTC_OK));
    }
    pass(&w, w.now + HTC_SECOND);
    cr_assert(htc__batch_command(b, w.now, &r) && r.journal);
    htc_buf_init(&journal, NULL, 0);
    htc__batch_journal(b, &journal);
    carry_out(&w, b, &r); /* it is killed before it hears of it */
    htc__batch_destroy(b);
    b = create(&w, &env);
    cr_assert(eq(int, htc__batch_recover(b, htc_buf_bytes(&journal), agents, &count), HTC_OK));
    cr_expect(eq(u32, count, 5));
    for (uint32_t i = 0; i < count; i++)
        cr_expect(eq(u64, agents[i], i));
    w.all[2].state = 4;
    w.all[2].next = HTC_NEVER;
    cr_assert(htc__batch_command(b, w.now, &r) && runs(&r, "squeue"), "it looks first");
    carry_out(&w, b, &r);
    htc__batch_event e;
    int              ended = 0;
    while (htc__batch_next_event(b, &e))
        ended += e.kind == HTC__BATCH_ENDED && e.agent == 2;
    cr_expect(eq(int, ended, 1), "what has ended meanwhile is told");
    cr_expect(eq(int, htc__batch_launch(b, 9, 16, 1, "'agent' '9'", w.now), HTC_OK));
    pass(&w, w.now + HTC_SECOND);
    while (htc__batch_command(b, w.now, &r) && !runs(&r, "sbatch"))
        carry_out(&w, b, &r);
    cr_assert(runs(&r, "sbatch"));
    cr_expect(strcmp(word_behind(&r, "--job-name"), "htc-1234abcd.2") == 0, "%s: no name comes twice", word_behind(&r, "--job-name"));
    htc__batch_destroy(b);
    b = create(&w, &env);
    cr_expect(eq(int, htc__batch_recover(b, htc_bytes_of("htc-batch 2 1 1\n"), agents, &count), HTC_EFORMAT));
    cr_expect(eq(int, htc__batch_recover(b, htc_bytes_of("htc-batch 1 1 1"), agents, &count), HTC_EFORMAT));
    htc_buf_free(&journal);
    htc__batch_destroy(b);
}

static htc_status read_hosts(const char *text, uint32_t cores, htc__ssh_hosts **out, char why[200])
{
    htc_env    env = { .size = sizeof env };
    htc_error  error = { .status = 0 };
    htc_status status = htc__ssh_hosts_read(&env, htc_bytes_of(text), cores, out, &error);
    snprintf(why, 200, "%.199s", error.text);
    return status;
}

/* The host with most room comes first; one that cannot be reached waits for 5 s, then 10; several that fail together say one thing. */
/* A directory that was copied with its journal has jobs of its own: with the nonce of the other one its broker would take the other's jobs for strays, and cancel them. */
Test(batch, a_copied_directory_is_another_one)
{
    htc_env            env = { .size = sizeof env };
    htc__batch_options o = { .system = "slurm", .nonce = 0x11, .identity = 0xa, .user = "olga", .log_dir = "/d/log" }, copy = o, moved = o;
    htc__batch        *b = NULL, *c = NULL, *d = NULL, *old = NULL;
    htc_buf            journal, again;
    uint64_t           agents[HTC__BATCH_AGENTS_MAX];
    uint32_t           count = 0;
    copy.nonce = moved.nonce = 0x22;
    copy.identity = 0xb;
    htc_buf_init(&journal, NULL, 0);
    htc_buf_init(&again, NULL, 0);
    cr_assert(htc__batch_create(&env, &o, &b) == HTC_OK && htc__batch_create(&env, &copy, &c) == HTC_OK && htc__batch_create(&env, &moved, &d) == HTC_OK &&
              htc__batch_create(&env, &moved, &old) == HTC_OK);
    htc__batch_run r;
    cr_assert(eq(int, htc__batch_launch(b, 5, 0, 1, "'agent'", HTC_SECOND), HTC_OK));
    cr_assert(eq(int, htc__batch_command(b, 2 * HTC_SECOND, &r), 1));
    htc__batch_journal(b, &journal);
    cr_expect(eq(int, htc__batch_recover(c, htc_buf_bytes(&journal), agents, &count), HTC_EEXISTS));
    cr_expect(eq(u32, count, 0));
    htc__batch_journal(c, &again);
    cr_expect(strstr((char *)(uintptr_t)htc_buf_bytes(&again).data, "htc-batch 2 00000022 0 000000000000000b") != NULL, "it has its own nonce");
    cr_expect(eq(int, htc__batch_recover(d, htc_buf_bytes(&journal), agents, &count), HTC_OK), "it was moved, or its broker runs on another host");
    cr_expect(eq(u32, count, 1));
    /* A journal of before names no directory: it is taken, and names this one from now on. */
    htc_buf_clear(&again);
    cr_expect(eq(int, htc__batch_recover(old, htc_bytes_of("htc-batch 1 00000033 4\n1 0 1 9\n"), agents, &count), HTC_OK));
    cr_expect(eq(u32, count, 1));
    htc__batch_journal(old, &again);
    cr_expect(memcmp(htc_buf_bytes(&again).data, "htc-batch 2 00000033 4 000000000000000a\n", 40) == 0);
    htc_buf_free(&journal);
    htc_buf_free(&again);
    htc__batch_destroy(b);
    htc__batch_destroy(c);
    htc__batch_destroy(d);
    htc__batch_destroy(old);
}

Test(batch, hosts_share_agents_by_their_room)
{
    htc__ssh_hosts *h = NULL;
    char            why[200];
    uint32_t        a, b, c, d;
    cr_assert(eq(int, read_hosts("# two\n  4/east  # large\n\n2/ben@west\r\n", 2, &h, why), HTC_OK), "%s", why);
    cr_expect(eq(u32, htc__ssh_hosts_slots(h), 6));
    cr_assert(htc__ssh_hosts_take(h, 1, &a) == HTC_OK && htc__ssh_hosts_take(h, 1, &b) == HTC_OK && htc__ssh_hosts_take(h, 1, &c) == HTC_OK);
    cr_expect(eq(u32, a, 0) && eq(u32, b, 0) && eq(u32, c, 1));
    cr_expect(eq(str, (char *)(uintptr_t)htc__ssh_hosts_name(h, 1), "ben@west"));
    cr_expect(eq(int, htc__ssh_hosts_take(h, 1, &d), HTC_EBUSY));
    htc__ssh_hosts_give(h, 0, 1, HTC_SECOND);
    htc__ssh_hosts_give(h, 0, 1, HTC_SECOND);
    cr_expect(eq(int, htc__ssh_hosts_take(h, 5 * HTC_SECOND, &d), HTC_EBUSY), "it cannot be reached");
    cr_expect(eq(int, htc__ssh_hosts_take(h, 6 * HTC_SECOND, &d), HTC_OK) && eq(u32, d, 0));
    htc__ssh_hosts_give(h, 0, 1, 6 * HTC_SECOND);
    cr_expect(eq(int, htc__ssh_hosts_take(h, 15 * HTC_SECOND, &d), HTC_EBUSY), "twice as long");
    cr_expect(eq(int, htc__ssh_hosts_take(h, 16 * HTC_SECOND, &d), HTC_OK));
    htc__ssh_hosts_free(h);
    static const struct {
        const char *text, *why;
    } bad[] = { { "", "no host" }, { "0/east\n", "1 to 1024" }, { "x/east", "1 to 1024" }, { "4/", "no name" }, { "4/-oProxyCommand=x", "no name" },
                { "4/a;b", "no name" }, { "4/east\n4/east", "line 2" }, { "1/east", "fewer slots" }, { "99999999999999999999/east", "1 to 1024" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect(eq(int, read_hosts(bad[i].text, 2, &h, why), HTC_ECONFIG), "%s", bad[i].text);
        cr_expect(strstr(why, bad[i].why) != NULL, "%s: %s", bad[i].text, why);
    }
}

typedef struct rows {
    uint32_t  count;
    batch_row last;
} rows;

static void take(void *ctx, const batch_row *row)
{
    rows *r = ctx;
    r->count++;
    r->last = *row;
}

/* A shell reads the words as they were. */
Test(batch, words_are_quoted_for_a_shell)
{
    static const char *const words[] = { "a b", "it's", "$HOME`x`\\", "", NULL };
    htc_buf                  b;
    htc_buf_init(&b, NULL, 0);
    htc__batch_quote(&b, words);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&b), htc_bytes_of("'a b' 'it'\\''s' '$HOME`x`\\' ''")));
    htc_buf_free(&b);
}

Test(batch, what_they_print)
{
    char job[HTC__BATCH_NAME_MAX];
    rows r = { 0 };
    cr_expect(eq(int, htc__batch_slurm.read_submitted(htc_bytes_of("12;east\n"), job), HTC_OK));
    cr_expect(eq(str, job, "12"));
    cr_expect(eq(int, htc__batch_slurm.read_submitted(htc_bytes_of("Your account has 3 hours left\n4711\n"), job), HTC_OK));
    cr_expect(eq(str, job, "4711"));
    cr_expect(eq(int, htc__batch_slurm.read_submitted(htc_bytes_of("Submitted batch job 12\n"), job), HTC_EFORMAT));
    cr_expect(eq(int, htc__batch_sge.read_submitted(htc_bytes_of("7.1-10:1\n"), job), HTC_OK));
    cr_expect(eq(str, job, "7"));
    cr_expect(eq(int, htc__batch_sge.read_submitted(htc_bytes_of("7\n"), job), HTC_EFORMAT), "that is no array");
    cr_expect(eq(int, htc__batch_slurm.read_look(htc_bytes_of("5_2|PENDING|htc-a.3|1-02:00:01|DependencyNeverSatisfied\n9|RUNNING|a|b|c|1:00|d\n7_0|RUNNING|htc-a.x|INVALID|None\n"),
                                                 "htc-a.", take, &r), HTC_OK));
    cr_expect(eq(u32, r.count, 1) && eq(u64, r.last.submission, 3) && eq(u32, r.last.index, 2) && eq(int, r.last.state, BATCH_JOB_HELD));
    cr_expect(eq(u64, r.last.left, (26 * 3600 + 1) * HTC_SECOND));
    cr_expect(eq(int, htc__batch_slurm.read_look(htc_bytes_of("5_2|PENDING|htc-a.3|1:00|Resou"), "htc-a.", take, &r), HTC_EFORMAT), "cut off");
    cr_expect(eq(int, htc__batch_slurm.read_look(htc_bytes_of("squeue: error\n"), "htc-a.", take, &r), HTC_EFORMAT));
    static char odd[2000];
    uint32_t    before = r.count;
    snprintf(odd, sizeof odd, "8|RUNNING|a name with\na line break|1:00|None\n9|RUNNING|%0600d|1:00|None\n5_2|RUNNING|htc-a.3|1:00|None\n", 7);
    cr_expect(eq(int, htc__batch_slurm.read_look(htc_bytes_of(odd), "htc-a.", take, &r), HTC_OK), "names of others are theirs");
    cr_expect(eq(u32, r.count, before + 1));
    cr_expect(eq(int, htc__batch_sge.read_look(htc_bytes_of("<job_info><queue_info/><job_info><job_list><JB_job_number>9</JB_job_number><JB_name>other</JB_name>"
                                                            "<state>zzW</state></job_list></job_info></job_info>"), "htc-a.", take, &r), HTC_OK));
    cr_expect(eq(int, htc__batch_sge.read_look(htc_bytes_of("<job_info/>"), "htc-a.", take, &r), HTC_EFORMAT));
    cr_expect(eq(int, htc__batch_sge.read_look(htc_bytes_of("<html><body/></html>"), "htc-a.", take, &r), HTC_EFORMAT));
    cr_expect(eq(int, htc__batch_sge.read_look(htc_bytes_of("<job_info><queue_info/><job_info><job_list><JB_job_number>8</JB_job_number><JB_name>htc-a.4</JB_name>"
                                                            "<state>Eqw</state><tasks>3</tasks></job_list></job_info></job_info>"), "htc-a.", take, &r), HTC_OK));
    cr_expect(eq(u64, r.last.submission, 4) && eq(u32, r.last.index, 3) && eq(int, r.last.state, BATCH_JOB_HELD) && eq(str, r.last.job, "8.3"));
}

/* ---- as whom a site's agents are started ---- */

Test(site_credentials, are_read_for_each_adapter_and_told_without_words_of_a_command)
{
    static const struct {
        const char *system, *text, *told; /* told NULL: refused */
        const char *why;
    } files[] = {
        { "slurm", "# of the group\n account = physics\r\nqos=long.2\n\n", "#SBATCH --account=physics\n#SBATCH --qos=long.2\n", "" },
        { "slurm", "qos = long", "#SBATCH --qos=long\n", "" },
        { "sge", "project = p1\naccount = a+b\n", "#$ -P p1\n#$ -A a+b\n", "" },
        { "ssh", "user = ann\nidentity = /home/ann/.ssh/a key\n", "User ann\nIdentityFile \"/home/ann/.ssh/a key\"\nIdentitiesOnly yes\nInclude ~/.ssh/config\nInclude /etc/ssh/ssh_config\n", "" },
        { "ssh", "user=ann", "User ann\nInclude ~/.ssh/config\nInclude /etc/ssh/ssh_config\n", "" },
        { "slurm", "", NULL, "say nothing" },
        { "slurm", "# account = x\n", NULL, "say nothing" },
        { "slurm", "account physics", NULL, "line 1 of the credentials is not name = value" },
        { "slurm", "\naccount = \n", NULL, "line 2 of the credentials has a value" },
        { "slurm", "account = a b\n", NULL, "has a value" },
        { "slurm", "account = a;b\n", NULL, "has a value" },
        { "slurm", "account = /a\n", NULL, "has a value" },
        { "slurm", "account = -a\n", NULL, "has a value" },
        { "slurm", "account = a\naccount = b\n", NULL, "line 2 of the credentials says something a second time" },
        { "slurm", "user = root\n", NULL, "names a user" },
        { "sge", "user = root\n", NULL, "names a user" },
        { "sge", "qos = long\n", NULL, "has a name that means nothing" },
        { "emu", "account = a\n", NULL, "has a name that means nothing" },
        { "ssh", "identity = key\n", NULL, "has a value" },
        { "ssh", "identity = /a\"b\n", NULL, "has a value" },
        { "ssh", "identity = /%h\n", NULL, "has a value" },
        { "ssh", "user = -oProxyCommand\n", NULL, "has a value" },
        { "ssh", "password = hunter2\n", NULL, "has a name that means nothing" },
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        site_credentials c;
        htc_error        e = { 0 };
        htc_buf          b;
        htc_buf_init(&b, NULL, 0);
        htc_status status = htc__site_credentials_read(htc_bytes_of(files[i].text), files[i].system, &c, &e);
        cr_expect(eq(int, status, files[i].told ? HTC_OK : HTC_ECONFIG), "row %zu: %s", i, e.text);
        cr_expect(strstr(e.text, files[i].why) != NULL, "row %zu: %s", i, e.text);
        cr_expect(!strstr(e.text, "hunter2") && !strstr(e.hint, "hunter2"), "what it says is nobody's business");
        if (strcmp(files[i].system, "ssh") == 0)
            htc__site_credentials_ssh(&c, &b);
        else
            htc__site_credentials_lines(&c, files[i].system, &b);
        htc_put_u8(&b, 0);
        if (files[i].told)
            cr_expect(eq(str, (char *)b.data, (char *)files[i].told), "row %zu", i);
        htc_buf_free(&b);
    }
    char             much[SITE_CREDENTIALS_MAX + 2];
    site_credentials c;
    memset(much, '#', sizeof much);
    cr_expect(eq(int, htc__site_credentials_read((htc_bytes){ much, sizeof much }, "ssh", &c, NULL), HTC_ECONFIG));
    cr_expect(eq(int, htc__site_credentials_read((htc_bytes){ "user=a\0b", 8 }, "ssh", &c, NULL), HTC_ECONFIG));
}

Test(site_credentials, stand_in_the_script_that_is_submitted)
{
    htc_env            env = { .size = sizeof env };
    htc__batch        *b = NULL;
    htc__batch_run     run = { 0 };
    htc__batch_options o = { .system = "slurm", .nonce = 1, .user = "ann", .log_dir = "/log", .lines = "#SBATCH --account=physics\n", .words = "--partition long" };
    cr_assert(eq(int, htc__batch_create(&env, &o, &b), HTC_OK));
    cr_assert(eq(int, htc__batch_launch(b, 7, 7, 1, "'htc-agent'", HTC_SECOND), HTC_OK));
    for (htc_ns now = HTC_SECOND; !run.input.len && now < 60 * HTC_SECOND; now += HTC_SECOND)
        if (htc__batch_command(b, now, &run) && !run.input.len)
            htc__batch_done(b, run.id, 0, (htc_bytes){ 0 }, (htc_bytes){ 0 }, now);
    static const char begins[] = "#!/bin/sh\n#SBATCH --account=physics\ncase ";
    cr_assert(run.input.len > sizeof begins && memcmp(run.input.data, begins, sizeof begins - 1) == 0);
    for (const char *w = run.words.data, *end = w + run.words.len; w < end; w += strlen(w) + 1)
        cr_expect(!strstr(w, "physics"), "all can list %s", w);
    htc__batch_destroy(b);
}
