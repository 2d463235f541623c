#include "roles/gateway/share_history.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OTHERS HISTORY_USERS

void htc__history_begin(share_history *h, htc_ns now)
{
    *h = (share_history){ .began = now, .step = HISTORY_STEP };
}

static htc_ns next_end(const share_history *h)
{
    return h->began + h->step * (h->points + 1);
}

int htc__history_due(const share_history *h, htc_ns now)
{
    return h->step && now >= next_end(h);
}

/* The line of this name; else one that is free, else that of whoever had least and had nothing lately, else that of all others. */
static history_line *line_of(share_history *h, const char *name)
{
    history_line *free = NULL, *least = NULL;
    for (uint32_t i = 0; i < HISTORY_USERS; i++) {
        history_line *l = &h->lines[i];
        if (strcmp(l->name, name) == 0)
            return l;
        if (!l->name[0])
            free = free ? free : l;
        else if (h->points && l->cores[h->points - 1] == 0 && l->now == 0 && (!least || l->sum < least->sum))
            least = l;
    }
    if (!free && !least)
        return &h->lines[OTHERS];
    if (!free) {
        history_line *others = &h->lines[OTHERS];
        for (uint32_t i = 0; i < h->points; i++)
            others->cores[i] += least->cores[i];
        others->sum += least->sum;
        *least = (history_line){ .sum = 0 };
        free = least;
    }
    snprintf(free->name, sizeof free->name, "%s", name);
    return free;
}

void htc__history_user(share_history *h, const char *name, uint32_t cores)
{
    assert(name[0] && strlen(name) < HISTORY_NAME_MAX);
    if (cores)
        line_of(h, name)->now += cores;
}

static void halve(share_history *h)
{
    for (uint32_t k = 0; k <= OTHERS; k++) {
        history_line *l = &h->lines[k];
        for (uint32_t i = 0; i < HISTORY_POINTS / 2; i++)
            l->cores[i] = (l->cores[2 * i] + l->cores[2 * i + 1]) / 2;
        l->sum /= 2;
    }
    h->points = HISTORY_POINTS / 2;
    h->step *= 2;
}

void htc__history_pass(share_history *h, htc_ns now)
{
    while (htc__history_due(h, now)) {
        if (h->points == HISTORY_POINTS) {
            halve(h);
            continue;
        }
        for (uint32_t k = 0; k <= OTHERS; k++) {
            history_line *l = &h->lines[k];
            l->cores[h->points] = (float)l->now;
            l->sum += l->now;
        }
        h->points++;
    }
    for (uint32_t k = 0; k <= OTHERS; k++)
        h->lines[k].now = 0;
}
