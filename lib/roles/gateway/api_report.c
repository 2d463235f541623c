/* report: sums over the days of a time, by user, site, project and day. The cost is that of these days, not of others or of jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define GROUPS_MAX 20000

enum { BY_USER = 1, BY_SITE = 2, BY_PROJECT = 4, BY_DAY = 8 };
static const char *const by_names[] = { "user", "site", "project", "day" };

typedef struct group {
    struct {
        char     user[NAME_MAX_BYTES], site[DAY_NAME_BYTES], project[DAY_NAME_BYTES];
        uint32_t day;
    } at; /* what is not asked for: zeros */
    day_sums sums;
} group;

typedef struct report {
    request *q;
    uint32_t by, first, last; /* days */
    uint32_t from, to;        /* those that are being read: of one prefix */
    uint32_t end;             /* no day after it is stored */
    uint32_t folds;           /* days that had been folded when it began: usage_fold.c */
    uint32_t summed;          /* days before it are one sum, of some user */
    char     project[PROJECT_NAME_BYTES];
    group   *groups; /* a context of its own: it ends with the gateway, if that ends first */
    size_t   n, cap;
    uint8_t  full;
} report;

static void report_free(htc_gateway *gw, report *t)
{
    gw->reports--;
    if (t->groups)
        htc_runtime_context_free(gw->runtime, t->groups);
    htc_runtime_context_free(gw->runtime, t);
}

static int by_key(const void *x, const void *y)
{
    const group *a = x, *b = y;
    int          c = a->at.day < b->at.day ? -1 : a->at.day > b->at.day;
    c = c ? c : strcmp(a->at.user, b->at.user);
    c = c ? c : strcmp(a->at.site, b->at.site);
    return c ? c : strcmp(a->at.project, b->at.project);
}

/* In order, and each key once. */
static void gather(report *t)
{
    size_t kept = 0;
    if (t->n)
        qsort(t->groups, t->n, sizeof *t->groups, by_key);
    for (size_t i = 0; i < t->n; i++) {
        if (kept && by_key(&t->groups[kept - 1], &t->groups[i]) == 0)
            htc__day_sum(&t->groups[kept - 1].sums, &t->groups[i].sums);
        else
            t->groups[kept++] = t->groups[i];
    }
    t->n = kept;
}

/* Room for one more: keys that are there already are summed up first, so that little is asked for. 0: there is none. */
static int make_room(htc_gateway *gw, report *t)
{
    if (t->n == t->cap)
        gather(t);
    if (t->n * 2 <= t->cap && t->n < t->cap)
        return 1;
    size_t cap = t->cap ? t->cap * 2 : 64;
    if (t->n >= GROUPS_MAX) {
        t->full = 1;
        return 0;
    }
    group *groups = htc_runtime_context(gw->runtime, cap * sizeof *groups);
    if (!groups)
        return 0;
    if (t->n)
        memcpy(groups, t->groups, t->n * sizeof *groups);
    if (t->groups)
        htc_runtime_context_free(gw->runtime, t->groups);
    t->groups = groups;
    t->cap = cap;
    return 1;
}

static void add_row(htc_gateway *gw, report *t, const char *name, uint32_t day, const day_row *row)
{
    if (t->project[0] && strcmp(t->project, row->project) != 0)
        return;
    if (t->n == t->cap && !make_room(gw, t))
        return;
    group *g = &t->groups[t->n++];
    memset(g, 0, sizeof *g);
    snprintf(g->at.user, sizeof g->at.user, "%s", t->by & BY_USER ? name : "");
    snprintf(g->at.site, sizeof g->at.site, "%s", t->by & BY_SITE ? row->site : "");
    snprintf(g->at.project, sizeof g->at.project, "%s", t->by & BY_PROJECT ? row->project : "");
    g->at.day = t->by & BY_DAY ? day : 0;
    g->sums = row->sums;
}

static int is_seen(const report *t, const char *name)
{
    return t->q->operator_ || strcmp(name, t->q->user->name) == 0;
}

static void add_day(htc_gateway *gw, report *t, const char *name, const day_usage *l)
{
    if (l->day < t->first || l->day > t->last || !is_seen(t, name))
        return;
    for (uint32_t i = 0; i < l->n && !t->full && htc_runtime_status(gw->runtime) == HTC_OK; i++)
        add_row(gw, t, name, l->day, &l->rows[i]);
}

/* What is newer in memory than in the store, and of long ago all or nothing: that is one sum. */
static void add_memory(htc_gateway *gw, report *t)
{
    for (const used_book *b = gw->used_books; b; b = b->hh.next) {
        add_day(gw, t, b->name, &b->today);
        if (!b->folded.day || !is_seen(t, b->name))
            continue;
        t->summed = b->folded.day > t->summed ? b->folded.day : t->summed;
        for (uint32_t i = 0; t->first == 0 && t->last >= b->folded.day - 1 && i < b->folded.n && !t->full && htc_runtime_status(gw->runtime) == HTC_OK; i++)
            add_row(gw, t, b->name, 0, &b->folded.rows[i]);
    }
}

static json_t *sums_json(const day_sums *s)
{
    return json_pack("{s:f,s:f,s:I,s:I,s:I,s:I,s:f}", "core_s", (double)s->core_ns / 1e9, "core_hours", (double)s->core_ns / 3.6e12, "done",
                     (json_int_t)s->done, "failed", (json_int_t)s->failed, "lost", (json_int_t)s->lost, "attempts", (json_int_t)s->begun, "wait_s",
                     s->begun ? (double)s->wait_ns / 1e9 / (double)s->begun : 0.0);
}

static void answer(htc_gateway *gw, report *t)
{
    json_t     *rows = json_array(), *by = json_array();
    day_sums all = { 0 };
    for (size_t i = 0; i < 4; i++)
        if (t->by >> i & 1)
            json_array_append_new(by, json_string(by_names[i]));
    gather(t);
    for (size_t k = 0; k < t->n; k++) {
        const group *g = &t->groups[k];
        json_t *row = sums_json(&g->sums);
        if (t->by & BY_USER)
            json_object_set_new(row, "user", json_string(g->at.user));
        if (t->by & BY_SITE)
            json_object_set_new(row, "site", json_string(g->at.site));
        if (t->by & BY_PROJECT)
            json_object_set_new(row, "project", json_string(g->at.project));
        if (t->by & BY_DAY)
            json_object_set_new(row, "day", json_integer((json_int_t)g->at.day * 86400));
        json_array_append_new(rows, row);
        htc__day_sum(&all, &g->sums);
    }
    htc__gw_req_answer(gw, t->q,
                       json_pack("{s:o,s:o,s:o,s:I,s:o,s:b,s:o}", "by", by, "rows", rows, "total", sums_json(&all), "since", (json_int_t)t->first * 86400, "until",
                                 t->last == UINT32_MAX ? json_null() : json_integer(((json_int_t)t->last + 1) * 86400), "durable", !gw->options.not_durable, "summed_until",
                                 t->summed ? json_integer((json_int_t)t->summed * 86400) : json_null()));
    report_free(gw, t);
}

/* The day that a user's book is at is newer in memory than in the store, and days of long ago are in the sum, which is there too. */
static int is_in_memory(const htc_gateway *gw, const char *name, uint32_t day)
{
    used_book *b;
    HASH_FIND_STR(gw->used_books, name, b);
    return b && (b->today.day == day || day < b->folded.day);
}

static void too_long(htc_gateway *gw, report *t)
{
    htc__gw_req_fail(gw, t->q, HTC_ETOOBIG, "ask for a shorter time, or by less", "the report has more than %d rows", GROUPS_MAX);
    report_free(gw, t);
}

static void days_page(void *role, void *ctx, const htc_kv_result *r);

static void read_days(htc_gateway *gw, report *t)
{
    key k = htc__gw_key_days(t->from, t->end, &t->to);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), NULL, 0, days_page, t);
}

static void days_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    report      *t = ctx;
    htc_kv_item  item;
    size_t       at = 0;
    htc_status   status = r->status;
    htc_runtime_cursor next = status == HTC_OK ? htc_runtime_next_page(gw->runtime, r) : (htc_runtime_cursor){ 0 };
    for (uint32_t i = 0; status == HTC_OK && i < r->items && !t->full && htc_kv_result_item(r, &at, &item) == HTC_OK; i++) {
        char   name[NAME_MAX_BYTES];
        day_usage l;
        size_t n = item.key.len > DAY_KEY_USER ? item.key.len - DAY_KEY_USER : 0;
        if (n == 0 || n >= sizeof name)
            continue;
        memcpy(name, (const char *)item.key.data + DAY_KEY_USER, n);
        name[n] = '\0';
        status = htc__day_read(&l, &gw->env, item.value);
        if (status == HTC_OK && !is_in_memory(gw, name, l.day))
            add_day(gw, t, name, &l);
        if (status == HTC_OK)
            htc__day_free(&l, &gw->env);
    }
    if (status == HTC_OK && t->full) {
        too_long(gw, t);
        return;
    }
    if (status != HTC_OK) {
        htc__gw_req_fail(gw, t->q, status, "try again in a moment", "the usage could not be read: %s", htc_strerror(status));
        report_free(gw, t);
        return;
    }
    if (next.len) {
        key k = htc__gw_key_days(t->from, t->end, &t->to);
        htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), &next, 0, days_page, t);
        return;
    }
    if (t->to < t->end) {
        t->from = t->to + 1;
        read_days(gw, t);
        return;
    }
    if (t->folds != gw->folds) { /* one that was read as a day may be in the sum by now */
        t->folds = gw->folds;
        t->n = 0;
        t->from = t->first;
        read_days(gw, t);
        return;
    }
    add_memory(gw, t);
    if (htc_runtime_status(gw->runtime) == HTC_OK && t->full)
        too_long(gw, t);
    else if (htc_runtime_status(gw->runtime) == HTC_OK)
        answer(gw, t);
}

static uint32_t by_of(const request *q)
{
    const json_t *list = json_object_get(q->body, "by");
    uint32_t      by = list ? 0 : BY_USER;
    size_t        i;
    json_t       *one;
    if (list && !json_is_array(list))
        return 0;
    json_array_foreach(list, i, one) {
        uint32_t bit = 0;
        for (uint32_t k = 0; k < 4; k++)
            bit |= json_is_string(one) && strcmp(json_string_value(one), by_names[k]) == 0 ? 1u << k : 0;
        if (!bit)
            return 0;
        by |= bit;
    }
    return by;
}

void htc__gw_api_report(htc_gateway *gw, request *q)
{
    double      since = htc__gw_req_num(q, "since", 0), until = htc__gw_req_num(q, "until", -1);
    const char *project_name = htc__gw_req_str(q, "project");
    uint32_t    by = by_of(q);
    if (!by) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "a list of user, site, project and day", "a report is by something else");
        return;
    }
    if (!(since >= 0 && since < 1e11) || (until >= 0 && (!(until < 1e11) || until < since))) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "seconds since 1970, the end not before the beginning", "this is no span of time");
        return;
    }
    report *t = htc_runtime_context(gw->runtime, sizeof *t);
    if (!t)
        return;
    *t = (report){ .q = q, .by = by, .first = (uint32_t)(since / 86400), .last = until < 0 ? UINT32_MAX : until > 0 ? (uint32_t)((until - 1e-6) / 86400) : 0 };
    snprintf(t->project, sizeof t->project, "%s", project_name ? project_name : "");
    t->from = t->first;
    t->end = htc__gw_today(gw);
    for (const used_book *b = gw->used_books; b; b = b->hh.next) /* a clock may have been set back */
        t->end = b->today.day > t->end ? b->today.day : t->end;
    t->end = t->last < t->end ? t->last : t->end;
    t->folds = gw->folds;
    gw->reports++;
    if (t->from <= t->end) {
        read_days(gw, t);
        return;
    }
    add_memory(gw, t);
    answer(gw, t);
}
