#include "shards_page.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_S 2 /* a step takes milliseconds */

typedef struct page page;

typedef struct part {
    page        *page;
    member      *of;
    htc_metrics *text;
    int          written; /* under the lock */
} part;

struct page {
    pthread_mutex_t lock;
    pthread_cond_t  done;
    uint32_t        count;
    uint32_t        held; /* under the lock: by whoever has not written yet, and by the front */
    part            parts[];
};

static void let_go(page *p)
{
    pthread_mutex_lock(&p->lock);
    uint32_t held = --p->held;
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
    if (held)
        return;
    for (uint32_t i = 0; i < p->count; i++)
        htc_metrics_destroy(p->parts[i].text);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void write_part(void *ctx)
{
    part *x = ctx;
    member_show(x->of, x->text);
    pthread_mutex_lock(&x->page->lock);
    x->written = 1;
    pthread_mutex_unlock(&x->page->lock);
    let_go(x->page);
}

static page *page_new(member *const *of, uint32_t count)
{
    pthread_condattr_t attr;
    page              *p = calloc(1, sizeof *p + count * sizeof *p->parts);
    if (!p)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->done, &attr);
    pthread_condattr_destroy(&attr);
    p->count = count;
    p->held = count + 1;
    for (uint32_t i = 0; i < count; i++) {
        p->parts[i] = (part){ .page = p, .of = of[i] };
        if (htc_metrics_create(NULL, 0, &p->parts[i].text) != HTC_OK ||
            htc_host_post(of[i]->host, write_part, &p->parts[i]) != HTC_OK)
            let_go(p);
    }
    return p;
}

void shards_page_write(member *const *of, uint32_t count, const char *label, htc_metrics *metrics)
{
    struct timespec until;
    htc_bytes       texts[SHARDS_MAX] = { 0 };
    page           *p = page_new(of, count);
    if (!p)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&p->lock);
    while (p->held > 1 && pthread_cond_timedwait(&p->done, &p->lock, &until) == 0)
        ;
    for (uint32_t i = 0; i < count; i++)
        if (p->parts[i].written)
            (void)htc_metrics_end(p->parts[i].text, &texts[i]); /* of one that failed it stays empty */
    pthread_mutex_unlock(&p->lock);
    htc_metrics_join(metrics, label, texts, count);
    let_go(p);
}
