/* Neighbours that are always the same: the nearest numbers, and those within some hops on a mesh or torus. */
#include "htcsched/steal.h"

htc_status htc_steal_nearest(uint32_t n, uint32_t self, uint32_t k, uint32_t *out)
{
    if (!out || self >= n || k == 0 || k >= n)
        return HTC_EINVAL;
    for (uint32_t i = 0; i < k; i++) {
        uint64_t step = i / 2 + 1;
        out[i] = (uint32_t)((i % 2 == 0 ? self + step : (uint64_t)self + n - step) % n);
    }
    return HTC_OK;
}

/* One axis, seen from the point in question. */
typedef struct axis {
    uint32_t size, at;
    uint32_t ahead, behind; /* how far one can go either way without meeting a point twice */
    uint32_t stride;        /* what a step is worth in numbers */
} axis;

static uint32_t reach(const axis *a)
{
    return a->ahead > a->behind ? a->ahead : a->behind;
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static axis axis_at(uint32_t size, uint32_t at, uint32_t wrap, uint32_t stride)
{
    axis a = { size, at, size - 1 - at, at, stride };
    if (wrap) {
        a.ahead = size / 2;
        a.behind = (size - 1) / 2;
    }
    return a;
}

/* HTC_EINVAL unless there are such a shape and such a point. */
static htc_status axes_at(const htc_steal_shape *s, uint32_t point, axis out[3])
{
    if (s->x == 0 || s->y == 0 || s->wrap > 1)
        return HTC_EINVAL;
    uint64_t plane = (uint64_t)s->x * s->y;
    uint32_t z = s->z ? s->z : 1;
    if (plane > UINT32_MAX || plane * z > UINT32_MAX || point >= plane * z)
        return HTC_EINVAL;
    out[0] = axis_at(s->x, point % s->x, s->wrap, 1);
    out[1] = axis_at(s->y, point / s->x % s->y, s->wrap, s->x);
    out[2] = axis_at(z, (uint32_t)(point / plane), s->wrap, (uint32_t)plane);
    return HTC_OK;
}

typedef struct answer {
    uint32_t *out;
    uint32_t  n, count, cap;
} answer;

/* The points that lie distance[i] along axis i, either way: up to eight. */
static void add_points(const axis axes[3], const uint32_t distance[3], answer *a)
{
    for (uint32_t ways = 0; ways < 8 && a->count < a->cap; ways++) {
        uint64_t point = 0;
        int      exists = 1;
        for (uint32_t i = 0; i < 3; i++) {
            const axis *x = &axes[i];
            uint32_t    d = distance[i], back = ways >> i & 1;
            if (back ? d == 0 || d > x->behind : d > x->ahead)
                exists = 0;
            point += (uint64_t)x->stride * (((uint64_t)x->at + (back ? x->size - d : d)) % x->size);
        }
        if (exists && point < a->n)
            a->out[a->count++] = (uint32_t)point;
    }
}

htc_status htc_steal_mesh(const htc_steal_shape *shape, uint32_t n, uint32_t self, uint32_t hops, uint32_t cap,
                          uint32_t *out, uint32_t *count)
{
    axis axes[3];
    if (!shape || !out || !count || cap == 0 || hops == 0 || self >= n || axes_at(shape, n - 1, axes) != HTC_OK ||
        axes_at(shape, self, axes) != HTC_OK)
        return HTC_EINVAL;
    answer   a = { out, n, 0, cap };
    uint32_t rx = reach(&axes[0]), ry = reach(&axes[1]), rz = reach(&axes[2]);
    uint32_t farthest = rx + ry + rz;
    /* No sum overflows, for the product of the sizes does not. Each turn of the innermost loop meets a point of the
     * mesh: what one axis cannot reach, the others have to. */
    for (uint32_t d = 1; d <= hops && d <= farthest && a.count < cap; d++)
        for (uint32_t dx = d - less(d, ry + rz); dx <= less(d, rx) && a.count < cap; dx++)
            for (uint32_t dy = d - dx - less(d - dx, rz); dy <= less(d - dx, ry) && a.count < cap; dy++)
                add_points(axes, (uint32_t[3]){ dx, dy, d - dx - dy }, &a);
    *count = a.count;
    return HTC_OK;
}

static uint32_t apart(const axis *a, const axis *b, uint32_t wrap)
{
    uint32_t d = a->at > b->at ? a->at - b->at : b->at - a->at;
    return wrap ? less(d, a->size - d) : d;
}

htc_status htc_steal_hops(const htc_steal_shape *shape, uint32_t a, uint32_t b, uint32_t *hops)
{
    axis     from[3], to[3];
    uint32_t sum = 0;
    if (!shape || !hops || axes_at(shape, a, from) != HTC_OK || axes_at(shape, b, to) != HTC_OK)
        return HTC_EINVAL;
    for (int i = 0; i < 3; i++)
        sum += apart(&from[i], &to[i], shape->wrap);
    *hops = sum;
    return HTC_OK;
}
