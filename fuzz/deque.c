/* Any operations on two deques, by one thread, against plain double-ended arrays: what comes out, how many, what is
 * refused, with memory that is refused now and then, from indexes just below their wrap. */
#include <string.h>

#include "check.h"
#include "core/codec.h"
#include "sched/deque/deque_private.h"

#define STEPS_MAX 4096

/* All items of both deques fit in either. */
typedef struct plain {
    uintptr_t items[2 * STEPS_MAX];
    size_t    first, behind;
} plain;

typedef struct refusing {
    htc_alloc alloc;
    int       refuses, refused;
} refusing;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    refusing *r = ctx;
    (void)old_size;
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    r->refused |= r->refuses;
    return r->refuses ? NULL : realloc(p, new_size);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t size_of(const plain *p)
{
    return p->behind - p->first;
}

static void append(plain *p, uintptr_t item)
{
    if (p->behind == 2 * STEPS_MAX) {
        p->behind = size_of(p);
        memmove(p->items, p->items + p->first, p->behind * sizeof *p->items);
        p->first = 0;
    }
    p->items[p->behind++] = item;
}

static void check_push(htc_deque *d, plain *p, uintptr_t item, size_t max, const refusing *r)
{
    htc_status status = htc_deque_push(d, (void *)item);
    CHECK(status == HTC_OK || (status == HTC_EFULL && size_of(p) == max) || (status == HTC_ENOMEM && r->refused));
    if (status == HTC_OK)
        append(p, item);
}

static void check_pop(htc_deque *d, plain *p)
{
    void      *item;
    htc_status status = htc_deque_pop(d, &item);
    CHECK(status == (size_of(p) ? HTC_OK : HTC_EMPTY));
    if (status == HTC_OK)
        CHECK((uintptr_t)item == p->items[--p->behind]);
}

static void check_steal(htc_deque *d, plain *p)
{
    void      *item;
    size_t     shown = htc_deque_size_public(d);
    htc_status status = htc_deque_steal(d, &item);
    CHECK(status == (shown ? HTC_OK : HTC_EMPTY));
    if (status == HTC_OK)
        CHECK((uintptr_t)item == p->items[p->first++]);
}

static void check_half_out(htc_deque *d, plain *p, size_t max)
{
    void      *items[256];
    size_t     n = 0, want = least(least(size_of(p) - size_of(p) / 2, htc_deque_size_public(d)), max);
    htc_status status = htc_deque_steal_half_out(d, max, items, &n);
    CHECK(status == (want ? HTC_OK : HTC_EMPTY) && n == want);
    for (size_t i = 0; i < n; i++)
        CHECK((uintptr_t)items[i] == p->items[p->first++]);
}

static void check_half(htc_deque *d, plain *p, htc_deque *own, plain *o, size_t max, size_t room, const refusing *r)
{
    size_t     n = 0, want = least(least(size_of(p) - size_of(p) / 2, htc_deque_size_public(d)), max);
    htc_status status = htc_deque_steal_half(d, own, max, &n);
    if (status == HTC_OK)
        CHECK(n == least(want, room) || (n > 0 && n < want && r->refused));
    else
        CHECK(n == 0 && (status == HTC_EMPTY    ? want == 0
                         : status == HTC_EFULL  ? want > 0 && room == 0
                         : status == HTC_ENOMEM ? want > 0 && r->refused
                                                : 0));
    for (size_t i = 0; i < n; i++)
        append(o, p->items[p->first++]);
}

static void check_step(uint8_t op, htc_deque *d, plain *p, htc_deque *own, plain *o, size_t max, refusing *r,
                       uintptr_t next)
{
    size_t most = (size_t)(op >> 4) + 1;
    r->refused = 0;
    switch (op % 8) {
    case 0:
    case 1:
        check_push(d, p, next, max, r);
        break;
    case 2:
        check_pop(d, p);
        break;
    case 3:
        check_steal(d, p);
        break;
    case 4:
        check_half_out(d, p, most * most);
        break;
    case 5:
        check_half(d, p, own, o, most == 16 ? SIZE_MAX : most, max - size_of(o), r);
        break;
    case 6:
        CHECK(htc_deque_expose(d) == HTC_OK && htc_deque_size_public(d) == size_of(p));
        break;
    default:
        r->refuses = op >> 7;
    }
    CHECK(htc_deque_size(d) == size_of(p) && htc_deque_size(own) == size_of(o));
    CHECK(htc_deque_size_public(d) <= size_of(p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static plain      p[2];
    htc_reader        in = htc_reader_of((htc_bytes){ data, size });
    refusing          r = { .alloc = { resize, &r } };
    htc_env           env = { .size = sizeof env, .alloc = &r.alloc };
    htc_deque_options o = { .size = sizeof o, .capacity = htc_get_u8(&in), .capacity_max = htc_get_u8(&in) };
    uint64_t          start = (UINT64_C(1) << 31) - htc_get_u8(&in);
    size_t            max = o.capacity_max ? o.capacity_max : 1 << 20;
    htc_deque        *d[2] = { NULL, NULL };
    int               bad = o.capacity_max > 0 && o.capacity > o.capacity_max;
    for (int i = 0; i < 2; i++) {
        CHECK(htc__deque_create_at(&env, &o, start, &d[i]) == (bad ? HTC_EINVAL : HTC_OK));
        p[i].first = p[i].behind = 0;
    }
    for (uintptr_t step = 0; !bad && step < STEPS_MAX; step++) {
        uint8_t op = htc_get_u8(&in), i = op >> 3 & 1;
        if (in.status != HTC_OK)
            break;
        check_step(op, d[i], &p[i], d[!i], &p[!i], max, &r, step + 1);
    }
    for (int i = 0; i < 2; i++)
        htc_deque_destroy(d[i]);
    return 0;
}
