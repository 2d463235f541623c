/* What a submission may ask for beside limits: the numbers of an array, a time to begin, a signal ahead of the limit.
 *
 * In the record they are a list of tagged values, tags ascending, so that a new wish needs no new format; a tag that is not known is
 * damage, since a gateway that left it out would run another job. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/script.h"
#include "roles/gateway/gateway.h"

#define LOOK_AGAIN (60 * HTC_SECOND) /* the wall clock may be set meanwhile */

typedef enum wish_tag { WISH_ARRAY = 1, WISH_BEGIN, WISH_SIGNAL, WISH_RAISED, WISH_END_JOB, WISH_END, WISH_MAIL, WISH_PROJECT, WISH_CREDENTIALS, WISH_TAGS } wish_tag;

/* ---- in the record ---- */

static uint32_t wish_count(const wishes *w)
{
    return (uint32_t)((w->array[0] != 0) + (w->begin != 0) + (w->signal[0] != 0) + (w->n_raised != 0) + (w->end_job != 0) + (w->end.known != 0) + (w->mail_to[0] != 0) + (w->project[0] != 0) + (w->credentials != 0));
}

int htc__gw_wishes_are(const job *j)
{
    return wish_count(&j->wishes) != 0;
}

static void put_text(htc_buf *b, wish_tag tag, const char *text)
{
    if (!text[0])
        return;
    htc_put_u8(b, (uint8_t)tag);
    htc_put_str(b, text);
}

void htc__gw_wishes_write(htc_buf *b, const job *j)
{
    const wishes *w = &j->wishes;
    htc_put_varint(b, wish_count(w));
    put_text(b, WISH_ARRAY, w->array);
    if (w->begin) {
        htc_put_u8(b, WISH_BEGIN);
        htc_put_u64(b, w->begin);
    }
    put_text(b, WISH_SIGNAL, w->signal);
    if (w->n_raised) {
        htc_put_u8(b, WISH_RAISED);
        htc_put_u8(b, (uint8_t)w->n_raised);
    }
    for (uint32_t i = 0; i < w->n_raised; i++) {
        htc_put_varint(b, w->raised[i].memory);
        htc_put_f64(b, w->raised[i].time_limit_s);
    }
    if (w->end_job) {
        htc_put_u8(b, WISH_END_JOB);
        htc_put_u64(b, w->end_job);
    }
    if (w->end.known) {
        htc_put_u8(b, WISH_END);
        htc_put_varint(b, w->end.done);
        htc_put_varint(b, w->end.failed);
        htc_put_varint(b, w->end.cancelled);
        htc_put_str(b, w->end.name);
    }
    put_text(b, WISH_MAIL, w->mail_to);
    if (w->mail_to[0])
        htc_put_u8(b, w->mail_fail);
    put_text(b, WISH_PROJECT, w->project);
    if (w->credentials)
        htc_put_u8(b, WISH_CREDENTIALS);
}

/* Texts are those of a submission, which were looked at: what is none is damage. */
static int array_is_fine(const job *j)
{
    htc_array a = { .size = sizeof a };
    return htc_array_parse(j->wishes.array, &a, NULL) == HTC_OK && j->count % a.count == 0;
}

static int signal_is_fine(const char *text)
{
    uint32_t number, seconds;
    return htc_signal_parse(text, &number, &seconds) == HTC_OK;
}

static int time_is_fine(double seconds)
{
    return seconds >= 0 && seconds < 1e9;
}

static void read_raised(htc_reader *r, wishes *w)
{
    w->n_raised = htc_get_u8(r);
    if (w->n_raised == 0 || w->n_raised > RAISED_MAX) {
        w->n_raised = 0;
        htc_reader_fail(r);
    }
    for (uint32_t i = 0; i < w->n_raised; i++) {
        w->raised[i].memory = htc_get_varint(r);
        w->raised[i].time_limit_s = htc_get_f64(r);
        if (!time_is_fine(w->raised[i].time_limit_s))
            htc_reader_fail(r);
    }
}

void htc__gw_wishes_read(htc_reader *r, job *j, uint32_t least)
{
    wishes  *w = &j->wishes;
    uint64_t n = htc_get_varint(r);
    uint8_t  before = 0;
    if (n < least || n >= WISH_TAGS)
        htc_reader_fail(r);
    for (uint64_t i = 0; i < n && r->status == HTC_OK; i++) {
        uint8_t tag = htc_get_u8(r);
        if (tag <= before)
            htc_reader_fail(r);
        before = tag;
        switch (tag) {
        case WISH_ARRAY:
            htc_get_str(r, w->array, sizeof w->array);
            if (r->status == HTC_OK && !array_is_fine(j))
                htc_reader_fail(r);
            break;
        case WISH_BEGIN:
            w->begin = htc_get_u64(r);
            if (w->begin == 0)
                htc_reader_fail(r);
            break;
        case WISH_SIGNAL:
            htc_get_str(r, w->signal, sizeof w->signal);
            if (r->status == HTC_OK && !signal_is_fine(w->signal))
                htc_reader_fail(r);
            break;
        case WISH_RAISED:
            read_raised(r, w);
            break;
        case WISH_END_JOB:
            w->end_job = htc_get_u64(r);
            if (w->end_job <= j->id)
                htc_reader_fail(r);
            break;
        case WISH_END:
            w->end.known = 1;
            w->end.done = htc_get_varint(r);
            w->end.failed = htc_get_varint(r);
            w->end.cancelled = htc_get_varint(r);
            htc_get_str(r, w->end.name, sizeof w->end.name);
            break;
        case WISH_MAIL:
            htc_get_str(r, w->mail_to, sizeof w->mail_to);
            w->mail_fail = htc_get_u8(r);
            if (r->status == HTC_OK && (!htc__mail_to_is_fine(w->mail_to) || w->mail_fail > 1))
                htc_reader_fail(r);
            break;
        case WISH_PROJECT:
            htc_get_str(r, w->project, sizeof w->project);
            if (!w->project[0])
                htc_reader_fail(r);
            break;
        case WISH_CREDENTIALS:
            w->credentials = 1;
            break;
        default:
            htc_reader_fail(r);
        }
    }
}

/* ---- in a request, and in an answer ---- */

static int text_of(htc_gateway *gw, request *q, const char *name, char *out, size_t cap)
{
    const json_t *v = json_object_get(q->body, name);
    const char   *text = json_string_value(v);
    if (v && !json_is_null(v) && (!text || strlen(text) >= cap)) {
        htc__gw_req_fail(gw, q, text ? HTC_ETOOBIG : HTC_EINVAL, "see doc/api.md", text ? "'%s' is longer than %zu bytes" : "%s: a text of at most %zu bytes", name, cap - 1);
        return 0;
    }
    snprintf(out, cap, "%s", text ? text : "");
    return 1;
}

static int parse_array(htc_gateway *gw, request *q, job *j)
{
    htc_array a = { .size = sizeof a };
    htc_error e = { 0 };
    if (!text_of(gw, q, "array", j->wishes.array, sizeof j->wishes.array))
        return 0;
    if (!j->wishes.array[0])
        return 1;
    htc_status status = htc_array_parse(j->wishes.array, &a, &e);
    if (status != HTC_OK) {
        htc__gw_req_error(gw, q, &e);
        return 0;
    }
    if (j->count % a.count) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "its sweep has a value for each number", "the array has %llu number%s and the document %llu task%s",
                         (unsigned long long)a.count, htc__plural(a.count), (unsigned long long)j->count, htc__plural(j->count));
        return 0;
    }
    if (!json_object_get(q->body, "max_running"))
        j->max_running = a.at_once;
    return 1;
}

static int parse_signal(htc_gateway *gw, request *q, job *j)
{
    if (!text_of(gw, q, "signal", j->wishes.signal, sizeof j->wishes.signal))
        return 0;
    if (!j->wishes.signal[0] || signal_is_fine(j->wishes.signal))
        return 1;
    htc__gw_req_fail(gw, q, HTC_EINVAL, "write USR1@60: a signal, and how many seconds ahead of the wall-time limit it is sent", "'%.30s' is no signal", j->wishes.signal);
    return 0;
}

static int parse_mail(htc_gateway *gw, request *q, job *j)
{
    wishes     *w = &j->wishes;
    const char *on = htc__gw_req_str(q, "mail_on");
    if (!text_of(gw, q, "mail_to", w->mail_to, sizeof w->mail_to))
        return 0;
    if (on && strcmp(on, "end") != 0 && strcmp(on, "fail") != 0 && strcmp(on, "none") != 0) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "end, fail or none", "mail is not sent on '%.20s'", on);
        return 0;
    }
    if (w->mail_to[0] && !htc__mail_to_is_fine(w->mail_to)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "NAME@HOST, at most 8 with commas between them", "mail_to: this is no address");
        return 0;
    }
    if (w->mail_to[0] && !(on && strcmp(on, "none") == 0) && !gw->options.mail && !htc__gw_req_flag(q, "mail_if_possible")) {
        htc__gw_req_fail(gw, q, HTC_EUNSUPPORTED, "server.mail_command in htc.ini(5) names the command that sends it", "no mail is sent here");
        return 0;
    }
    w->mail_fail = on && strcmp(on, "fail") == 0;
    if (!gw->options.mail || (on && strcmp(on, "none") == 0))
        w->mail_to[0] = '\0';
    return 1;
}

/* ---- in the document ---- */

static json_t *edge_of(const char *text) /* "12:any" */
{
    const char *colon = strchr(text, ':');
    return json_pack("{s:I,s:s}", "id", (json_int_t)strtoull(text, NULL, 10), "when", colon ? colon + 1 : "ok");
}

static json_t *value_of(const htc_wish *w)
{
    static const char *const numbers[] = { "retries", "priority", "max_running", "begin" };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(w->name, numbers[i]) == 0)
            return json_integer((json_int_t)strtoll(w->value, NULL, 10));
    return strcmp(w->name, "paused") == 0 ? json_boolean(strcmp(w->value, "true") == 0) : json_string(w->value);
}

void htc__gw_wishes_of_document(request *q, const htc_spec *spec)
{
    const htc_wish *list;
    size_t          n = htc_spec_wishes(spec, &list);
    json_t         *after = NULL;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, "after") == 0) {
            after = after ? after : json_array();
            json_array_append_new(after, edge_of(list[i].value));
        } else if (!json_object_get(q->body, list[i].name)) {
            json_object_set_new(q->body, list[i].name, value_of(&list[i]));
        }
    }
    if (after && !json_object_get(q->body, "after"))
        json_object_set(q->body, "after", after);
    json_decref(after);
}

int htc__gw_wishes_parse(htc_gateway *gw, request *q, job *j)
{
    double begin = htc__gw_req_num(q, "begin", 0);
    if (!(begin >= 0 && begin < 9e9)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "begin: seconds since 1970");
        return 0;
    }
    j->wishes.begin = begin * 1e9 > (double)gw->wall ? (htc_ns)(begin * 1e9) : 0;
    return parse_array(gw, q, j) && parse_signal(gw, q, j) && parse_mail(gw, q, j) && htc__gw_credentials_parse(gw, q, j);
}

void htc__gw_wishes_json(json_t *o, const job *j)
{
    const wishes *w = &j->wishes;
    json_object_set_new(o, "array", json_string(w->array));
    json_object_set_new(o, "begin", w->begin ? json_real((double)w->begin / 1e9) : json_null());
    json_object_set_new(o, "signal", json_string(w->signal));
    json_t *list = json_array();
    for (uint32_t i = 0; i < w->n_raised; i++)
        json_array_append_new(list, json_pack("{s:I,s:f}", "memory", (json_int_t)w->raised[i].memory, "time_limit", w->raised[i].time_limit_s));
    json_object_set_new(o, "raised", list);
    json_object_set_new(o, "on_end", w->end_job ? json_integer((json_int_t)w->end_job) : json_null());
    json_object_set_new(o, "mail_to", json_string(w->mail_to));
}

/* ---- higher limits of tasks that are tried again ---- */

const raised *htc__gw_raised(const job *j, uint32_t level)
{
    return level && level <= j->wishes.n_raised ? &j->wishes.raised[level - 1] : NULL;
}

/* Its first task stands for all, as at its submission. */
static int first_fits(htc_gateway *gw, request *q, const job *j, uint32_t level)
{
    char       why[256];
    htc_task  *t = NULL;
    htc_status status = j->spec ? htc_spec_task(j->spec, 0, &t, NULL) : HTC_EMPTY; /* of one that has ended it is not in memory: a task that fits nowhere fails then */
    if (status != HTC_OK)
        return 1;
    status = htc__gw_fits(gw, j, t, level, why, sizeof why);
    htc_task_destroy(t);
    if (status != HTC_OK)
        htc__gw_req_fail(gw, q, status, "ask for what a site has (htc sites, htc agents), or add one that has it", "the task %s", why);
    return status == HTC_OK;
}

int htc__gw_raise(htc_gateway *gw, request *q, job *j)
{
    raised   r = { htc__gw_req_u64(q, "memory", 0), htc__gw_req_num(q, "time_limit", 0) };
    wishes  *w = &j->wishes;
    uint32_t i = 0;
    q->level = 0;
    if (!time_is_fine(r.time_limit_s) || r.memory > INT64_MAX) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "memory: bytes; time_limit: 0 to 1e9 seconds");
        return 0;
    }
    if (!r.memory && !(r.time_limit_s > 0))
        return 1;
    while (i < w->n_raised && (w->raised[i].memory != r.memory || w->raised[i].time_limit_s != r.time_limit_s))
        i++;
    if (i == RAISED_MAX) {
        htc__gw_req_fail(gw, q, HTC_EFULL, "htc resubmit, and limits for all tasks", "job %llu has had %d different limits", (unsigned long long)j->id, RAISED_MAX);
        return 0;
    }
    int fresh = i == w->n_raised;
    w->raised[i] = r;
    w->n_raised += (uint32_t)fresh;
    if (!first_fits(gw, q, j, i + 1)) {
        w->n_raised -= (uint32_t)fresh;
        return 0;
    }
    q->level = (uint8_t)(i + 1);
    return 1;
}

/* ---- a time to begin ---- */

void htc__gw_begin_arm(htc_gateway *gw, job *j)
{
    htc_ns begin = j->wishes.begin;
    j->early = begin > gw->wall && !j->cancelled && !j->finished;
    if (!j->early)
        return;
    htc_ns left = begin - gw->wall;
    htc__gw_due_add(gw, gw->now + (left < LOOK_AGAIN ? left : LOOK_AGAIN), j->id, DUE_BEGIN);
}

void htc__gw_begin_due(htc_gateway *gw, job *j)
{
    if (!j->early)
        return;
    htc__gw_begin_arm(gw, j);
    htc__gw_job_touch(gw, j);
}

int htc__gw_begin_why(const htc_gateway *gw, const job *j, char *text, size_t cap)
{
    if (!j->early || j->cancelled || j->finished)
        return 0;
    double left = j->wishes.begin > gw->wall ? (double)(j->wishes.begin - gw->wall) / 1e9 : 0;
    if (left < 120)
        snprintf(text, cap, "it is not to begin for %.0f s more", ceil(left));
    else
        snprintf(text, cap, "it is not to begin for %llu h %llu min more", (unsigned long long)(left / 3600), (unsigned long long)(left / 60) % 60);
    return 1;
}
