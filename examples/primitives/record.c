/* Two controllers take nodes from one partition at the same time. What they share is a cell that knows compare-and-swap; the one
 * who comes too late starts again from what the other wrote. */
#include <stdio.h>

#include "htcsched/record.h"

static htc_bytes versions[8]; /* in place of the store: all that the record ever was */
static int       newest;

static htc_status compare_and_swap(htc_bytes *seen, htc_bytes next)
{
    if (!htc_bytes_equal(versions[newest], *seen)) {
        *seen = versions[newest]; /* a failed swap answers what is there now */
        return HTC_MISMATCH;
    }
    versions[++newest] = next;
    return HTC_OK;
}

static htc_status take(htc_bytes seen, const char *job, uint32_t nodes, htc_record_set *got)
{
    htc_record_ask ask = { .size = sizeof ask, .job = htc_bytes_of(job), .attempt = 1, .most = nodes };
    htc_bytes      next;
    htc_status     status;
    while ((status = htc_record_take(NULL, seen, &ask, &next, got)) == HTC_OK) {
        if (compare_and_swap(&seen, next) == HTC_OK)
            break;
        printf("%s: somebody was faster, once more\n", job);
        htc_record_free(NULL, next);
    }
    return status;
}

int main(void)
{
    const char        *jobs[] = { "climate", "protein", "late" };
    const uint32_t     nodes[] = { 100, 29, 1 };
    htc_record_names  *names;
    htc_record_set    *got;
    htc_record_summary now;
    htc_bytes          text;
    if (htc_record_names_parse(NULL, htc_bytes_of("n[001-128,200]"), 0, &names, NULL) != HTC_OK ||
        htc_record_set_create(NULL, &got) != HTC_OK ||
        htc_record_create(NULL, htc_record_names_count(names), 1, &versions[0]) != HTC_OK)
        return 1;
    for (int i = 0; i < 3; i++) /* all have read the record before one of them writes */
        if (take(versions[0], jobs[i], nodes[i], got) != HTC_OK) {
            printf("%s: waits\n", jobs[i]);
        } else if (htc_record_names_text(NULL, names, got, &text) == HTC_OK) {
            printf("%s: runs on %.*s\n", jobs[i], (int)text.len, (const char *)text.data);
            htc_record_free(NULL, text);
        }
    htc_record_count(NULL, versions[newest], &now);
    printf("%u free, %u taken for %u jobs, %zu bytes\n", now.free, now.taken, now.takings, versions[newest].len);
    while (newest >= 0)
        htc_record_free(NULL, versions[newest--]);
    htc_record_set_destroy(got);
    htc_record_names_destroy(names);
    return 0;
}
