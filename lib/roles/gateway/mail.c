/* Who is told by mail that a job has ended (htc submit --mail-to).
 *
 * A key m/JOB is stored with the job, and deleted when the mail is on its way or was given up: what a gateway that ends leaves, the next one finds. The
 * job's record says to whom and when. One mail is sent at a time, by a command of the host (HTC_CALL_MAIL), which nothing else waits for. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define ADDRESSES_MAX 8
#define TRIES_MAX 5
#define PAUSE_FIRST (60 * HTC_SECOND) /* after a failure, doubling */

int htc__mail_to_is_fine(const char *text)
{
    static const char local[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+=~-";
    static const char host[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    for (int n = 0; n < ADDRESSES_MAX; n++) {
        size_t len = strspn(text, local);
        if (len == 0 || len > 64 || text[0] == '-') /* a command would take it for an option */
            return 0;
        text += len;
        if (*text == '@') {
            len = strspn(++text, host);
            if (len == 0 || text[0] == '-' || text[0] == '.')
                return 0;
            text += len;
        }
        if (*text == '\0')
            return 1;
        if (*text++ != ',')
            return 0;
    }
    return 0;
}

/* ---- the list ---- */

void htc__gw_mail_add(htc_gateway *gw, uint64_t id)
{
    mail *m = htc__alloc(&gw->env, sizeof *m);
    if (!m) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a mail");
        return;
    }
    m->id = id;
    m->at = gw->now;
    LL_APPEND(gw->mails, m);
}

static void forget(htc_gateway *gw, mail *m, int sent)
{
    if (sent)
        htc__gw_delete(gw, htc__gw_key_mail(m->id));
    LL_DELETE(gw->mails, m);
    htc__free(&gw->env, m, sizeof *m);
}

void htc__gw_mails_free(htc_gateway *gw)
{
    while (gw->mails)
        forget(gw, gw->mails, 0);
}

htc_ns htc__gw_mails_deadline(const htc_gateway *gw)
{
    htc_ns first = HTC_NEVER;
    for (const mail *m = gw->mail_busy || gw->phase != PHASE_READY ? NULL : gw->mails; m && first > gw->now; m = m->next)
        first = m->at < first ? m->at : first;
    return first;
}

/* ---- one of them ---- */

static void again_later(htc_gateway *gw, mail *m, htc_status status, htc_bytes said)
{
    char why[200];
    snprintf(why, sizeof why, "%.*s", said.len < sizeof why ? (int)said.len : (int)sizeof why - 1, said.len ? (const char *)said.data : "");
    htc__text_clean(why);
    int over = ++m->tries == TRIES_MAX;
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", m->id), HTC__STATUS(status)), "mail about job %llu is not sent: %s%s%s -> %s",
                  (unsigned long long)m->id, htc_strerror(status), why[0] ? ": " : "", why, over ? "give it up" : "try again later");
    if (over) {
        forget(gw, m, 1);
        return;
    }
    m->at = gw->now + (PAUSE_FIRST << (m->tries - 1));
    LL_DELETE(gw->mails, m);
    LL_APPEND(gw->mails, m);
}

/* What was asked for that one: nobody else changes its place, since one is worked on at a time. */
static mail *at_hand(const htc_gateway *gw, uint64_t id)
{
    mail *m = gw->mails;
    while (m && m->id != id)
        m = m->next;
    return m;
}

typedef struct sending {
    uint64_t id;
} sending;

static void sent(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    mail        *m = at_hand(gw, ((sending *)ctx)->id);
    htc_runtime_context_free(gw->runtime, ctx);
    gw->mail_busy = 0;
    if (m && status == HTC_OK)
        forget(gw, m, 1);
    else if (m)
        again_later(gw, m, status, body);
}

static void write_mail(htc_gateway *gw, const job *j, const char *owner)
{
    htc_buf    *b = &gw->scratch;
    const char *state = htc__gw_job_state(j);
    char        subject[160], name[128];
    htc_buf_clear(b);
    htc_put_str(b, j->wishes.mail_to);
    snprintf(subject, sizeof subject, "htc: job %llu has ended: %s (%llu done, %llu failed, %llu cancelled)", (unsigned long long)j->id, state,
             (unsigned long long)j->base.done, (unsigned long long)j->base.failed, (unsigned long long)j->base.cancelled);
    htc_put_str(b, subject);
    snprintf(name, sizeof name, "%s", j->name);
    htc__text_clean(name);
    htc_buf text;
    htc_buf_init(&text, &gw->env, 4096);
    htc_put_text(&text, "Job %llu (%s) of %s has ended: %s.\n\n", (unsigned long long)j->id, name, owner, state);
    htc_put_text(&text, "tasks      %llu\ndone       %llu\nfailed     %llu\ncancelled  %llu\n", (unsigned long long)j->count, (unsigned long long)j->base.done,
                 (unsigned long long)j->base.failed, (unsigned long long)j->base.cancelled);
    htc_put_text(&text, "run time   %.1f core hours, %.0f s from its submission to its end\n\n", (double)j->base.used.core_ns / 3.6e12,
                 j->ended > j->submitted ? (double)(j->ended - j->submitted) / 1e9 : 0.0);
    htc_put_text(&text, "htc tasks %llu --failed   lists what failed\nhtc fetch %llu           fetches the results\n", (unsigned long long)j->id, (unsigned long long)j->id);
    if (text.status != HTC_OK && b->status == HTC_OK)
        b->status = text.status;
    htc_put_bytes(b, htc_buf_bytes(&text));
    htc_buf_free(&text);
}

static void record_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    mail        *m = at_hand(gw, ((sending *)ctx)->id);
    char         owner[NAME_MAX_BYTES];
    job          j;
    memset(&j, 0, sizeof j);
    htc_status status = r->status == HTC_OK ? htc__gw_record_job_read(r->value, &j, owner) : r->status;
    int        wanted = status == HTC_OK && j.finished && j.wishes.mail_to[0] && (!j.wishes.mail_fail || j.base.failed || j.base.cancelled);
    if (m && wanted) {
        htc__gw_job_counts_from_record(&j);
        write_mail(gw, &j, owner);
        if (gw->scratch.status == HTC_OK) {
            htc_runtime_call(gw->runtime, HTC_CALL_MAIL, htc_buf_bytes(&gw->scratch), sent, ctx);
            return;
        }
        status = gw->scratch.status;
    }
    htc_runtime_context_free(gw->runtime, ctx);
    gw->mail_busy = 0;
    if (m && status == HTC_OK)
        forget(gw, m, j.finished); /* nobody wants it; or it comes again when the job has ended */
    else if (m && (status == HTC_ENOTFOUND || status == HTC_ECORRUPT))
        forget(gw, m, 1);
    else if (m)
        again_later(gw, m, status, (htc_bytes){ NULL, 0 });
}

void htc__gw_mails_go(htc_gateway *gw)
{
    mail *m = gw->mail_busy || gw->phase != PHASE_READY || !htc__gw_active_holds(gw) ? NULL : gw->mails;
    while (m && m->at > gw->now)
        m = m->next;
    sending *s = m ? htc_runtime_context(gw->runtime, sizeof *s) : NULL;
    if (!s)
        return;
    s->id = m->id;
    gw->mail_busy = 1;
    key k = htc__gw_key_job(m->id);
    htc_runtime_ask(gw->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, record_read, s);
}

/* ---- the start ---- */

static void page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    htc_kv_item  item;
    size_t       at = 0;
    (void)ctx;
    if (r->status != HTC_OK) {
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(r->status)), "the mails that were not sent could not be read -> leave them to the next start");
        return;
    }
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++) {
        char     text[17] = "";
        uint64_t id = 0;
        if (item.key.len == 18) {
            memcpy(text, (const char *)item.key.data + 2, 16);
            id = strtoull(text, NULL, 16);
        }
        if (id && !htc__gw_job(gw, id)) /* of an open one it is known when it ends */
            htc__gw_mail_add(gw, id);
    }
    if (next.len && htc_runtime_status(gw->runtime) == HTC_OK)
        htc_runtime_scan(gw->runtime, htc_bytes_of("m/"), &next, 0, page, NULL);
}

void htc__gw_mails_recover(htc_gateway *gw)
{
    htc_runtime_scan(gw->runtime, htc_bytes_of("m/"), NULL, 0, page, NULL);
}
