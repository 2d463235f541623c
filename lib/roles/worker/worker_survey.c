/* The look at all ledgers, when a flow begins to run, when somebody is gone, when there is no work here, and now and then until nothing is
 * left to be had. What is nobody's is taken: one ledger by a worker that has no tasks, more of them each time that it has run out of what it
 * took, and what is left by who looks for the end, a moment later. A worker that finds every ledger owned, and has none, makes one: it needs a place for what it steals.
 *
 * An owner that is not seen among the living is looked for in the store before its ledger is taken; that it is dead is a guess all the same,
 * which costs work, and never a result. */
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

#define SAFETY_NS (30 * HTC_SECOND)  /* between surveys that nothing has caused */
#define SOON_NS   (10 * HTC_MS)      /* another was faster, and this one has no ledger yet */
#define REST_NS   (200 * HTC_MS)     /* what is nobody's is left to those without tasks */
#define ORPHANS   256
#define APPETITE  64 /* at most: of one of several workers that has run out of tasks again and again */

typedef struct orphan {
    uint64_t number, version, worker, epoch;
} orphan;

typedef struct survey {
    uint64_t           beyond;      /* all numbers of ledgers that were seen */
    uint64_t           spans, done; /* live ones that were seen, tasks that have ended */
    uint32_t           n, at;       /* orphans; the one that is being taken */
    uint32_t           took;
    uint32_t           limit;
    orphan             orphans[ORPHANS];
    ledger             taking;
    htc_runtime_cursor next;
} survey;

void htc__worker_survey_soon(htc_worker *w, htc_ns in)
{
    if (w->now + in < w->survey_at)
        w->survey_at = w->now + in;
    w->survey_caused = 1;
}

/* Without a cause none is made by a worker that rests: what it could find would have been a cause. */
htc_ns htc__worker_survey_deadline(const htc_worker *w)
{
    return w->survey || w->leaving || (!w->survey_caused && htc__worker_rests(w)) ? HTC_NEVER : w->survey_at;
}

static void survey_end(htc_worker *w, htc_ns next)
{
    const survey *s = w->survey;
    w->more = s->n > s->took && (s->took || !s->limit); /* if it wanted some and got none, it looks again in its time */
    htc_runtime_context_free(w->runtime, w->survey);
    w->survey = NULL;
    w->survey_at = w->now + next;
    w->survey_caused = next != SAFETY_NS;
}

/* ---- taking ---- */

static void take_next(htc_worker *w);

static void taken(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    survey      *s = w->survey;
    uint64_t     number = *(uint64_t *)ctx;
    htc_runtime_context_free(w->runtime, ctx);
    if (!s)
        return;
    if (r->status == HTC_OK && !htc__worker_own(w, number)) {
        w->figures.taken++;
        s->took++;
        htc__worker_take_up(w, number, &s->taking, r->version);
        htc_steal_nudge(&w->thief, w->now);
    }
    s->at++;
    if (s->took || r->status == HTC_MISMATCH || s->at < s->n)
        take_next(w);
    else
        survey_end(w, AGAIN_NS); /* whether it was stored is not known: look */
}

static void put_taken(htc_worker *w, uint64_t number, uint64_t version)
{
    flow_key  k = htc__flow_key_ledger(w->options.flow, number);
    uint64_t *ctx = htc_runtime_context(w->runtime, sizeof *ctx);
    if (!ctx)
        return;
    *ctx = number;
    htc__ledger_take(&w->survey->taking, w->id, w->epoch);
    htc__ledger_write(&w->buf, &w->survey->taking);
    if (!htc__worker_written(w, "taking a ledger"))
        return;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = version }, 1, taken, ctx);
}

/* As it stands now. */
static void to_take(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    survey      *s = w->survey;
    (void)ctx;
    if (!s)
        return;
    const orphan *x = &s->orphans[s->at];
    if (r->status == HTC_OK && htc__worker_ledger_read(w, r->value, &s->taking) == HTC_OK && s->taking.worker == x->worker && s->taking.epoch == x->epoch &&
        !htc__worker_own(w, x->number)) {
        put_taken(w, x->number, r->version);
        return;
    }
    s->at++;
    take_next(w);
}

static void read_to_take(htc_worker *w)
{
    flow_key k = htc__flow_key_ledger(w->options.flow, w->survey->orphans[w->survey->at].number);
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, to_take, NULL);
}

static void owner_known(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    survey      *s = w->survey;
    flow_worker  f;
    (void)ctx;
    if (!s)
        return;
    int dead = r->status == HTC_ENOTFOUND || (r->status == HTC_OK && htc__flow_worker_read(r->value, &f) == HTC_OK && f.epoch != s->orphans[s->at].epoch);
    if (dead) {
        read_to_take(w);
        return;
    }
    s->at++;
    take_next(w);
}

static void take_next(htc_worker *w)
{
    survey *s = w->survey;
    if (s->at >= s->n || s->at >= s->limit || w->leaving) {
        /* all pages were not looked at if there were more of them than room */
        survey_end(w, s->n == ORPHANS || s->took ? REST_NS : w->owns || w->leaving ? SAFETY_NS : SOON_NS);
        return;
    }
    const orphan *x = &s->orphans[s->at];
    if (x->worker == 0 || x->worker == w->id) { /* nobody's, or of a life before this one */
        read_to_take(w);
        return;
    }
    flow_key k = htc__flow_key_worker(w->options.flow, x->worker);
    htc_runtime_ask(w->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, 1, owner_known, NULL);
}

/* All that have none make theirs at the same moment: each under a number of its own. */
static void create(htc_worker *w)
{
    survey *s = w->survey;
    s->n = s->limit = 1;
    htc__ledger_init(&s->taking, (ledger_span){ 0, 0 });
    put_taken(w, s->beyond + htc__worker_place_of_self(w), 0);
}

/* ---- looking ---- */

static int has_tasks(const htc_worker *w)
{
    const own *o;
    EACH_OWN(w, o)
    if (o->now.live.n)
        return 1;
    return 0;
}

/* A slot is free, and what waits here waits for tasks of others. */
static int starves(const htc_worker *w)
{
    return htc__worker_idle(w) > 0 && !w->to_read && !w->reads && !w->to_tell && !w->tells && htc__worker_waiting(w) == 0 && htc__worker_local(w) == 0;
}

/* One ledger at first, so that others who are about to come find some too; then twice as many each time, and all of them where nobody has come:
 * those who do can steal, and children in ledgers of one's own are told with half the requests. */
void htc__worker_survey_starved(htc_worker *w)
{
    if (!w->more || w->survey || w->leaving || !starves(w))
        return;
    w->more = 0;
    w->appetite = !w->n_members ? ORPHANS : w->appetite < APPETITE ? w->appetite * 2 : APPETITE;
    htc__worker_survey_soon(w, 0);
}

static void seen(htc_worker *w, uint64_t number, const ledger *l, uint64_t version)
{
    survey *s = w->survey;
    own    *o = htc__worker_own(w, number);
    s->spans += l->live.n;
    s->done += l->counts.done;
    if (htc__worker_collects(w))
        htc__worker_sum(w, number, &l->counts);
    s->beyond = number >= s->beyond ? number + 1 : s->beyond;
    htc__worker_ledger_is(w, number, l);
    if (htc__ledger_is_of(l, w->id, w->epoch)) {
        if (!o)
            htc__worker_take_up(w, number, l, version); /* taken before, though the answer was lost */
        else if (version > o->version && !o->writing && !o->reading)
            htc__worker_read_again(w, o); /* what was taken up was read before a change of ours that was late */
    } else if (s->n < ORPHANS && !htc__worker_lives(w, l->worker, l->epoch)) {
        s->orphans[s->n++] = (orphan){ number, version, l->worker, l->epoch };
    }
}

/* Its tasks are nobody's to run, and the flow does not end before somebody has cancelled or mended it. */
static void unreadable(htc_worker *w, uint64_t number)
{
    w->survey->beyond = number >= w->survey->beyond ? number + 1 : w->survey->beyond;
    htc__log_with(&w->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__NUMBER("flow", w->options.flow), HTC__NUMBER("ledger", number)),
                  "ledger %llu cannot be read -> leave it", (unsigned long long)number);
}

static void all_seen(htc_worker *w)
{
    survey *s = w->survey;
    int     needs_one = !w->owns || !has_tasks(w) || starves(w);
    if (HTC__BROKEN(end_when_empty) && htc__worker_collects(w) && !s->spans && s->done)
        htc__worker_sum(w, UINT64_MAX, &(ledger_counts){ .done = w->flow.tasks - w->total.done - w->total.failed - w->total.cancelled });
    if (s->n && w->rest_at == HTC_NEVER)
        w->rest_at = w->now + REST_NS;
    if (!s->n) {
        w->rest_at = HTC_NEVER;
        w->appetite = 1;
    }
    s->limit = htc__worker_collects(w) && w->now >= w->rest_at ? s->n : needs_one ? w->appetite : 0;
    if (HTC__BROKEN(ledger_each_life) && !w->owns && !w->leaving) {
        create(w);
        return;
    }
    if (s->n && s->limit) {
        /* those without tasks do not all reach for the same one; one that is alone begins with the first, as tasks do */
        s->limit = s->limit < s->n ? s->limit : s->n;
        s->at = s->limit < s->n && w->n_members ? (uint32_t)htc_rng_below(w->env.rng, s->n - s->limit + 1) : 0;
        s->limit += s->at;
        take_next(w);
    } else if (s->n) {
        survey_end(w, htc__worker_collects(w) ? w->rest_at - w->now : SAFETY_NS);
    } else if ((!w->owns || w->wants_ledger) && !w->leaving) {
        w->wants_ledger = 0;
        create(w);
    } else {
        survey_end(w, SAFETY_NS);
    }
}

static void ledgers_page(void *role, void *ctx, const htc_kv_result *r);

static void next_page(htc_worker *w)
{
    flow_key k = htc__flow_key_ledgers(w->options.flow);
    htc_runtime_scan(w->runtime, htc__flow_key_bytes(&k), &w->survey->next, 0, ledgers_page, NULL);
}

static void ledgers_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    survey      *s = w->survey;
    htc_kv_item  item;
    size_t       at = 0;
    uint64_t     number;
    flow_key     prefix = htc__flow_key_ledgers(w->options.flow);
    (void)ctx;
    if (!s)
        return;
    if (r->status != HTC_OK) {
        survey_end(w, AGAIN_NS);
        return;
    }
    ledger *l = &s->taking;
    while (htc_kv_result_item(r, &at, &item) == HTC_OK)
        if (!htc__flow_key_number(item.key, &prefix, &number))
            continue;
        else if (htc__worker_ledger_read(w, item.value, l) == HTC_OK)
            seen(w, number, l, item.version);
        else
            unreadable(w, number);
    s->next = htc_runtime_next_page(w->runtime, r);
    if (s->next.len)
        next_page(w);
    else
        all_seen(w);
}

void htc__worker_survey(htc_worker *w)
{
    w->survey_at = HTC_NEVER;
    if (w->survey || w->ended)
        return;
    w->survey = htc_runtime_context(w->runtime, sizeof *w->survey);
    if (w->survey)
        next_page(w);
}
