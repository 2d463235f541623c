/* What one user has used on one day: rows, and their bytes. */
#include <stdio.h>
#include <string.h>

#include "htcsched/runtime.h"
#include "roles/gateway/day_usage.h"
#include "roles/gateway/quota.h"

#define DAY_FORMAT 1

void htc__day_sum(day_sums *to, const day_sums *more)
{
    to->core_ns = htc__quota_sum(to->core_ns, more->core_ns);
    to->wait_ns = htc__quota_sum(to->wait_ns, more->wait_ns);
    to->begun += more->begun;
    to->done += more->done;
    to->failed += more->failed;
    to->lost += more->lost;
}

static day_row *row_of(const day_usage *l, const char *site, const char *project)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].site, site) == 0 && strcmp(l->rows[i].project, project) == 0)
            return &l->rows[i];
    return NULL;
}

static day_row *row_of_project(const day_usage *l, uint32_t from, const char *project)
{
    for (uint32_t i = from; i < l->n; i++)
        if (strcmp(l->rows[i].project, project) == 0)
            return &l->rows[i];
    return NULL;
}

/* Two rows of one project become one. 0: there are no such two. */
static int join_two(day_usage *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        day_row *other = row_of_project(l, i + 1, l->rows[i].project);
        if (!other)
            continue;
        strcpy(l->rows[i].site, "*");
        htc__day_sum(&l->rows[i].sums, &other->sums);
        *other = l->rows[--l->n];
        return 1;
    }
    return 0;
}

/* Where the next pair of that project is counted in a full one. NULL: in a new row, of *site and *project. */
static day_row *make_room(day_usage *l, const char **site, const char **project)
{
    day_row *row = row_of(l, "*", *project);
    int      of_all = strcmp(*project, "*") == 0;
    if (!row && !of_all && (row = row_of_project(l, 0, *project)) != NULL)
        strcpy(row->site, "*");
    if (row)
        return row;
    while (!of_all && l->n >= DAY_ROWS_MAX && join_two(l))
        ;
    if (l->n >= DAY_ROWS_MAX)
        *site = *project = "*";
    return row_of(l, *site, *project);
}

htc_status htc__day_add(day_usage *l, const htc_env *env, const char *site, const char *project, const day_sums *more)
{
    day_row *row = row_of(l, site, project);
    if (!row && l->n >= DAY_ROWS_MAX)
        row = make_room(l, &site, &project);
    if (!row && l->n == l->cap) {
        uint32_t    cap = l->cap ? l->cap * 2 : 4;
        day_row *rows = htc__resize(env, l->rows, l->cap * sizeof *rows, cap * sizeof *rows);
        if (!rows)
            return HTC_ENOMEM;
        l->rows = rows;
        l->cap = cap;
    }
    if (!row) {
        row = &l->rows[l->n++];
        memset(row, 0, sizeof *row);
        snprintf(row->site, sizeof row->site, "%s", site);
        snprintf(row->project, sizeof row->project, "%s", project);
    }
    htc__day_sum(&row->sums, more);
    return HTC_OK;
}

void htc__day_free(day_usage *l, const htc_env *env)
{
    htc__free(env, l->rows, l->cap * sizeof *l->rows);
    *l = (day_usage){ 0 };
}

void htc__day_write(htc_buf *b, const day_usage *l)
{
    htc_runtime_record_begin(b, DAY_FORMAT);
    htc_put_varint(b, l->day);
    htc_put_varint(b, l->n);
    for (uint32_t i = 0; i < l->n; i++) {
        const day_row *row = &l->rows[i];
        htc_put_str(b, row->site);
        htc_put_str(b, row->project);
        htc_put_varint(b, row->sums.core_ns);
        htc_put_varint(b, row->sums.wait_ns);
        htc_put_varint(b, row->sums.begun);
        htc_put_varint(b, row->sums.done);
        htc_put_varint(b, row->sums.failed);
        htc_put_varint(b, row->sums.lost);
    }
}

htc_status htc__day_read(day_usage *l, const htc_env *env, htc_bytes bytes)
{
    htc_reader r;
    htc_runtime_record_open(bytes, DAY_FORMAT, DAY_FORMAT, &r);
    uint64_t day = htc_get_varint(&r);
    size_t   n = htc_get_count(&r, 8);
    *l = (day_usage){ .day = (uint32_t)day };
    if (day > UINT32_MAX || n > DAY_ROWS_MAX + 1)
        htc_reader_fail(&r);
    htc_status status = HTC_OK;
    for (size_t i = 0; i < n && r.status == HTC_OK && status == HTC_OK; i++) {
        day_row row = { 0 };
        htc_get_str(&r, row.site, sizeof row.site);
        htc_get_str(&r, row.project, sizeof row.project);
        row.sums.core_ns = htc_get_varint(&r);
        row.sums.wait_ns = htc_get_varint(&r);
        row.sums.begun = htc_get_varint(&r);
        row.sums.done = htc_get_varint(&r);
        row.sums.failed = htc_get_varint(&r);
        row.sums.lost = htc_get_varint(&r);
        if (row.sums.core_ns == UINT64_MAX || row.sums.wait_ns == UINT64_MAX) /* no sum is as much */
            htc_reader_fail(&r);
        if (row_of(l, row.site, row.project) || (i == DAY_ROWS_MAX && (strcmp(row.site, "*") != 0 || strcmp(row.project, "*") != 0)))
            htc_reader_fail(&r);
        else if (r.status == HTC_OK)
            status = htc__day_add(l, env, row.site, row.project, &row.sums);
    }
    if (status == HTC_OK)
        status = htc_runtime_record_end(&r);
    if (status != HTC_OK)
        htc__day_free(l, env);
    return status;
}
