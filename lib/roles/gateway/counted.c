#include "roles/gateway/counted.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int name_is_fine(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    return n > 0 && n <= HTC_RESOURCE_NAME_MAX && name[n] == '\0' && name[0] >= 'a' && name[0] <= 'z';
}

void htc__counted_need(counted_need *need, const htc_resource *list, uint32_t n)
{
    need->n = n < HTC_TASK_RESOURCES_MAX ? n : HTC_TASK_RESOURCES_MAX;
    for (uint32_t i = 0; i < need->n; i++) {
        snprintf(need->names[i], sizeof need->names[i], "%s", list[i].name);
        need->of[i] = (htc_resource){ need->names[i], list[i].count };
    }
}

void htc__counted_need_copy(counted_need *to, const counted_need *from)
{
    htc__counted_need(to, from->of, from->n);
}

/* COUNTED_MAX: there is none of that name. */
static uint32_t find(const counted_pool *c, const char *name)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (strcmp(c->at[i].name, name) == 0)
            return i;
    return COUNTED_MAX;
}

static int is_device(const char *name)
{
    return strcmp(name, HTC_RESOURCE_GPU) == 0;
}

htc_status htc__counted_set(counted_pool *c, const char *name, uint32_t total)
{
    uint32_t i = find(c, name);
    if (!name_is_fine(name) || (is_device(name) && total > COUNTED_DEVICES_MAX))
        return HTC_EINVAL;
    if (i == COUNTED_MAX) {
        if (total == 0)
            return HTC_OK;
        if (c->n == COUNTED_MAX)
            return HTC_ENOSPC;
        i = c->n++;
        c->at[i] = (counted_kind){ .used = 0 };
        snprintf(c->at[i].name, sizeof c->at[i].name, "%s", name);
        c->kept[i] = 0;
    }
    c->at[i].total = total;
    if (c->kept[i] > total)
        c->kept[i] = total;
    return HTC_OK;
}

uint32_t htc__counted_total(const counted_pool *c, const char *name)
{
    uint32_t i = find(c, name);
    return i < COUNTED_MAX ? c->at[i].total : 0;
}

static uint32_t free_at(const counted_pool *c, uint32_t i)
{
    return c->at[i].total > c->at[i].used ? c->at[i].total - c->at[i].used : 0;
}

uint32_t htc__counted_free(const counted_pool *c, const char *name)
{
    uint32_t i = find(c, name);
    return i < COUNTED_MAX ? free_at(c, i) : 0;
}

const htc_resource *htc__counted_never(const counted_pool *c, const counted_need *need)
{
    for (uint32_t k = 0; k < need->n; k++)
        if (need->of[k].count > htc__counted_total(c, need->of[k].name))
            return &need->of[k];
    return NULL;
}

const htc_resource *htc__counted_lacks(const counted_pool *c, uint64_t job, const counted_need *need)
{
    for (uint32_t k = 0; k < need->n; k++) {
        uint32_t i = find(c, need->of[k].name);
        uint32_t left = i < COUNTED_MAX ? free_at(c, i) : 0, kept = i < COUNTED_MAX && c->kept_for && c->kept_for != job ? c->kept[i] : 0;
        if (left < kept || need->of[k].count > left - kept)
            return &need->of[k];
    }
    return NULL;
}

uint32_t htc__counted_times(const counted_pool *c, uint64_t job, const counted_need *need, int now)
{
    uint32_t times = UINT32_MAX;
    for (uint32_t k = 0; k < need->n; k++) {
        uint32_t i = find(c, need->of[k].name), count = need->of[k].count;
        uint32_t has = i == COUNTED_MAX ? 0 : now ? free_at(c, i) : c->at[i].total, kept = i < COUNTED_MAX && now && c->kept_for && c->kept_for != job ? c->kept[i] : 0;
        uint32_t its = count == 0 ? UINT32_MAX : has > kept ? (has - kept) / count : 0;
        times = its < times ? its : times;
    }
    return times;
}

uint64_t htc__counted_take(counted_pool *c, const counted_need *need)
{
    uint64_t devices = 0;
    for (uint32_t k = 0; k < need->n; k++)
        if (is_device(need->of[k].name)) {
            uint32_t wanted = need->of[k].count, total = htc__counted_total(c, HTC_RESOURCE_GPU);
            for (uint32_t d = 0; d < total && wanted; d++)
                if (!(c->devices >> d & 1)) {
                    devices |= UINT64_C(1) << d;
                    wanted--;
                }
            assert(wanted == 0);
        }
    htc__counted_retake(c, need, devices);
    return devices;
}

void htc__counted_retake(counted_pool *c, const counted_need *need, uint64_t devices)
{
    for (uint32_t k = 0; k < need->n; k++) {
        uint32_t i = find(c, need->of[k].name);
        if (i == COUNTED_MAX && c->n < COUNTED_MAX) { /* it is told of later, by its host */
            i = c->n++;
            c->at[i] = (counted_kind){ .used = 0 };
            snprintf(c->at[i].name, sizeof c->at[i].name, "%s", need->of[k].name);
            c->kept[i] = 0;
        }
        if (i < COUNTED_MAX)
            c->at[i].used += need->of[k].count;
    }
    c->devices |= devices;
}

void htc__counted_give_back(counted_pool *c, const counted_need *need, uint64_t devices)
{
    for (uint32_t k = 0; k < need->n; k++) {
        uint32_t i = find(c, need->of[k].name);
        assert(i == COUNTED_MAX || c->at[i].used >= need->of[k].count);
        if (i < COUNTED_MAX)
            c->at[i].used -= need->of[k].count;
    }
    assert((c->devices & devices) == devices); /* nobody else had them */
    c->devices &= ~devices;
}

void htc__counted_keep(counted_pool *c, uint64_t job, const counted_need *need)
{
    c->kept_for = job;
    memset(c->kept, 0, sizeof c->kept);
    for (uint32_t k = 0; job && k < need->n; k++) {
        uint32_t i = find(c, need->of[k].name);
        if (i < COUNTED_MAX)
            c->kept[i] = need->of[k].count < c->at[i].total ? need->of[k].count : c->at[i].total;
    }
}

void htc__counted_devices(uint64_t devices, char *text, size_t cap)
{
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < COUNTED_DEVICES_MAX && len < cap; d++)
        if (devices >> d & 1)
            len += (size_t)snprintf(text + len, cap - len, "%s%u", len ? "," : "", d);
}
