/* A helper process is dead: what had ended counts, who ended it is told, the others run again. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "net/exec/functions.h"

#define DEATHS_MAX 3 /* in a row without one task that has ended */

/* A task that was under way when the process died. */
typedef struct suspect {
    htc__span *span;
    uint32_t   index, at, where, thread;
} suspect;

/* Those that had ended count; those that were under way are told. */
static size_t who_was_at_work(htc__fn_process *p, suspect list[HTC__FN_THREADS_MAX])
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->threads; i++) {
        htc__fn_thread *t = &p->shared->thread[i];
        uint32_t        where = atomic_load(&t->where), from = atomic_load(&t->from), at = atomic_load(&t->at);
        htc__span      *s = htc__process_span_at(p, where);
        uint32_t        index = s ? (where - 1) % HTC__SPAN_PORTIONS : 0;
        if (!s || from > at)
            continue;
        uint64_t before = htc__span_book_done(s->book);
        if (at > from && htc__span_book_ended(s->book, index, from, at - from) != HTC_OK)
            continue;
        p->settled += htc__span_book_done(s->book) - before;
        if (htc__span_book_is_out(s->book, index, at))
            list[n++] = (suspect){ s, index, at, where, i };
    }
    return n;
}

static void say_end(const htc__fn_process *p, const htc_outcome *o, char reason[HTC__SPAN_REASON_MAX])
{
    uint32_t how = atomic_load(&p->shared->how);
    if (atomic_load(&p->shared->guilty) && how == FN_HOW_THREAD_EXIT)
        snprintf(reason, HTC__SPAN_REASON_MAX, "the function called pthread_exit(): it has to return");
    else if (o->signal == 0 && (o->status == HTC_OK || o->status == HTC_EEXIT))
        snprintf(reason, HTC__SPAN_REASON_MAX, "the function ended its process with exit code %u: it has to return", o->exit_code);
    else
        snprintf(reason, HTC__SPAN_REASON_MAX, "%s", o->reason);
}

static void blame(htc__fn_process *p, const suspect *x, htc_status why, const char *reason)
{
    p->settled++;
    (void)htc__process_failed(x->span, x->index, x->at, why == HTC_OK ? HTC_EEXIT : why, reason);
}

/* Whose fault it was, if that is known: of the others nobody is blamed. */
static const suspect *guilty(htc__fn_process *p, const suspect *list, size_t n, const htc_outcome *o, htc_status *why, char reason[HTC__SPAN_REASON_MAX])
{
    uint32_t noted = atomic_load(&p->shared->guilty);
    *why = o->status;
    say_end(p, o, reason);
    for (size_t i = 0; i < n; i++)
        if (p->over_where && list[i].where == p->over_where && list[i].at == p->over_at) {
            *why = HTC_EWALLTIME;
            snprintf(reason, HTC__SPAN_REASON_MAX, "ran longer than its limit of %.3g s", (double)p->over_limit / (double)HTC_SECOND);
            return &list[i];
        }
    if (p->over_where || atomic_load(&p->shared->how) == FN_HOW_HELPER)
        return NULL; /* it had ended meanwhile; or it was nobody */
    for (size_t i = 0; i < n; i++)
        if (noted == list[i].thread + 1 && o->status != HTC_EKILLED)
            return &list[i];
    if (n != 1)
        return NULL;
    htc__span *s = list[0].span;
    uint64_t   number = htc__span_book_number(s->book, list[0].index, list[0].at);
    if (o->status != HTC_EKILLED)
        return &list[0];
    /* Killed from outside, once, is an accident. */
    if (s->killed_once && s->killed_alone == number && s->alone_is_out && s->alone == number)
        return &list[0];
    if (s->alone_is_out && s->alone == number) {
        s->killed_once = 1;
        s->killed_alone = number;
    }
    return NULL;
}

static void judge(htc__fn_process *p, const htc_outcome *o)
{
    suspect    list[HTC__FN_THREADS_MAX];
    char       reason[HTC__SPAN_REASON_MAX];
    htc_status why;
    int        by_us = 0;
    size_t     n = who_was_at_work(p, list), left = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i].span->killed) {
            blame(p, &list[i], list[i].span->why, list[i].span->reason);
            by_us = 1;
        } else {
            list[left++] = list[i];
        }
    const suspect *x = by_us ? NULL : guilty(p, list, left, o, &why, reason);
    if (x)
        blame(p, x, why, reason);
    if (x || by_us || p->over_where || p->ending || atomic_load(&p->shared->how) == FN_HOW_HELPER)
        return;
    for (size_t i = 0; i < left; i++)
        if (htc__span_book_suspect(list[i].span->book, list[i].index, list[i].at) != HTC_OK)
            htc__log(p->agent->env, HTC_LOG_WARN, "more tasks are suspected of having ended their process than can be kept -> one is run as any other");
}

/* A span's object ended the process while it was loaded. */
static void judge_loading(htc__fn_process *p, const htc_outcome *o)
{
    uint32_t   loading = atomic_load(&p->shared->loading);
    htc__span *s = loading >= 1 && loading <= HTC__FN_SPANS_MAX ? p->spans[loading - 1] : NULL;
    char       reason[HTC__SPAN_REASON_MAX];
    if (!s || s->phase != SPAN_OPENS || !s->opened_since || o->status == HTC_EKILLED || p->ending)
        return;
    snprintf(reason, sizeof reason, "while its object was loaded: %.200s", o->reason[0] ? o->reason : "the process ended");
    p->settled++; /* the next process does not load it */
    htc__span_give_up(s, HTC_EINPUT, reason);
}

void htc__process_give_up_all(htc__fn_process *p, const htc_outcome *o)
{
    char reason[HTC__SPAN_REASON_MAX];
    char said[160] = "";
    snprintf(said, sizeof said, "%.*s", (int)(o->stderr_tail.len < 120 ? o->stderr_tail.len : 120),
             o->stderr_tail.len ? (const char *)o->stderr_tail.data : "");
    htc__text_clean(said);
    snprintf(reason, sizeof reason, "functions cannot be run here: %.120s%s%.100s", o->reason[0] ? o->reason : "their process ends at once", said[0] ? ": " : "", said);
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++)
        if (p->spans[i])
            htc__span_give_up(p->spans[i], o->status == HTC_ENOSPC || o->status == HTC_EIO ? o->status : HTC_EREFUSED, reason);
}

static void open_anew(htc__fn_process *p)
{
    for (uint32_t i = 0; i < HTC__FN_SPANS_MAX; i++) {
        htc__span *s = p->spans[i];
        if (!s || s->phase == SPAN_CHECKS)
            continue;
        s->alone_is_out = 0;
        s->opened_since = 0;
        if (s->phase == SPAN_RUNS)
            s->phase = SPAN_OPENS;
        if (htc__span_book_lost(s->book) != HTC_OK)
            htc__span_answer_error(s, HTC_ENOMEM, "what was run of the span is not known: there is no memory for it");
        else
            htc__span_settle(s);
    }
}

void htc__functions_ended(htc__run *r, const htc_outcome *o)
{
    htc__fn_process *p = r->process;
    r->clean_wanted = 1; /* and so it is freed, by who has told this */
    r->process = NULL;
    if (p->starting) {
        p->outcome = *o;
        p->outcome.stderr_tail = (htc_bytes){ 0 };
        return;
    }
    (void)htc__process_read(p);
    judge(p, o);
    judge_loading(p, o);
    p->run = NULL;
    int progress = p->settled != p->settled_before || p->ending;
    p->deaths = progress ? 0 : p->deaths + 1;
    p->ending = 0;
    open_anew(p);
    if (p->deaths >= DEATHS_MAX)
        htc__process_give_up_all(p, o);
    htc__process_free(p);
    htc__functions_attend(p->agent);
}
