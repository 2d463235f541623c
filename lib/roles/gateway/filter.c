/* Which jobs of "all", of "last" and of a list without a selector are meant: by state, name and time of submission. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

int htc__glob(const char *pattern, const char *text)
{
    const char *star = NULL, *again = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            again = text;
        } else if (*pattern == '?') {
            pattern++;
            for (text++; (*text & 0xc0) == 0x80; text++) /* a character of several bytes */
                ;
        } else if (*pattern == *text && *pattern) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++again;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static const char *const states[] = { "queued", "waiting", "running", "done", "done_with_failures", "cancelled", "paused", "open", "ended" };

static int text_of(htc_gateway *gw, request *q, const char *name, char *out, size_t cap)
{
    const json_t *v = json_object_get(q->body, name);
    const char   *text = json_string_value(v);
    if (v && (!text || strlen(text) >= cap)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "%s: a text of at most %zu bytes", name, cap - 1);
        return 0;
    }
    snprintf(out, cap, "%s", text ? text : "");
    return 1;
}

static int time_of(htc_gateway *gw, request *q, const char *name, htc_ns *out)
{
    double at = htc__gw_req_num(q, name, json_object_get(q->body, name) ? -1 : 0);
    if (!(at >= 0 && at < 9e9)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "%s: seconds since 1970", name);
        return 0;
    }
    *out = (htc_ns)(at * 1e9);
    return 1;
}

int htc__gw_filter_parse(htc_gateway *gw, request *q)
{
    job_filter *f = &q->filter;
    size_t      i = 0, n = sizeof states / sizeof states[0];
    int         of_tasks = strcmp(q->op, "tasks") == 0 || strcmp(q->op, "results") == 0; /* their state is that of tasks */
    *f = (job_filter){ .on = 0 };
    if ((!of_tasks && !text_of(gw, q, "state", f->state, sizeof f->state)) || !text_of(gw, q, "name", f->name, sizeof f->name) ||
        !time_of(gw, q, "since", &f->since) || !time_of(gw, q, "until", &f->until))
        return 0;
    while (f->state[0] && i < n && strcmp(states[i], f->state) != 0)
        i++;
    if (i == n) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "queued, waiting, running, done, done_with_failures, cancelled, paused, open or ended", "'%.20s' is no state of a job", f->state);
        return 0;
    }
    f->on = f->state[0] || f->name[0] || f->since || f->until;
    if (f->on && q->select.job) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "say last or all", "a filter chooses among jobs, and job %llu is named", (unsigned long long)q->select.job);
        return 0;
    }
    return 1;
}

int htc__gw_filter_takes(htc_gateway *gw, const request *q, job *read)
{
    const job_filter *f = &q->filter;
    if ((f->since && read->submitted < f->since) || (f->until && read->submitted >= f->until) || (f->name[0] && !htc__glob(f->name, read->name)))
        return 0;
    if (!f->state[0])
        return 1;
    const job *open_job = htc__gw_job(gw, read->id);
    htc__gw_job_counts_from_record(read);
    const char *state = htc__gw_job_state(open_job ? open_job : read);
    int         ended = strcmp(state, "done") == 0 || strcmp(state, "done_with_failures") == 0 || strcmp(state, "cancelled") == 0;
    return strcmp(f->state, "ended") == 0 ? ended : strcmp(f->state, "open") == 0 ? !ended : strcmp(state, f->state) == 0;
}
