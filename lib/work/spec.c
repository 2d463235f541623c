/* A specification out of its stored form.
 *
 *   u32 magic, str name, str warnings
 *   count of slots:    u8 kind, bytes text
 *   counts of sweeps, assignments, params, values, exceptions in all
 *   count of top-level sweeps, each:
 *     count of assignments: bytes key (two for pairs), function, count of params: varint slot, u8 part, u8 which,
 *                           varint start, varint end
 *     count of children, each a sweep
 *   function: u8 kind, then  VALUES, PAIRS  count, bytes each
 *                            INTEGER        u64 start, u64 step, u64 raw, varint width, count of exceptions: varint distance
 *                            DOUBLE         f64 start, f64 step, u64 raw, exceptions likewise */
#include <math.h>
#include <string.h>

#include "work/work_private.h"

typedef struct decoder {
    htc_spec  *spec;
    htc_reader r;
    size_t     sweeps, assignments, params, values, exceptions; /* filled so far */
} decoder;

static void *array(const htc_spec *s, size_t n, size_t size)
{
    return htc__alloc(&s->env, n * size);
}

static int read_exceptions(decoder *d, htc__function *f)
{
    htc_spec *s = d->spec;
    size_t    n = htc_get_count(&d->r, 1);
    uint64_t  at = 0;
    if (n > s->n_exceptions - d->exceptions)
        return 0;
    f->exceptions = s->exceptions + d->exceptions;
    f->n_exceptions = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t distance = htc_get_varint(&d->r);
        if ((i > 0 && distance == 0) || __builtin_add_overflow(at, distance, &at) || at >= f->raw)
            return 0;
        s->exceptions[d->exceptions++] = at;
    }
    return f->raw > n;
}

static int read_values(decoder *d, htc__function *f)
{
    htc_spec *s = d->spec;
    size_t    n = htc_get_count(&d->r, 1);
    if (n > s->n_values - d->values || n < (f->kind == HTC__FUNCTION_PAIRS ? 2 : 1) || n > UINT32_MAX)
        return 0;
    f->values = s->values + d->values;
    f->n_values = n;
    for (size_t i = 0; i < n; i++)
        s->values[d->values++] = htc_get_bytes(&d->r);
    return 1;
}

static int read_function(decoder *d, htc__function *f)
{
    htc_reader *r = &d->r;
    f->kind = htc_get_u8(r);
    switch (f->kind) {
    case HTC__FUNCTION_VALUES:
    case HTC__FUNCTION_PAIRS:
        return read_values(d, f);
    case HTC__FUNCTION_INTEGER: {
        f->start = (int64_t)htc_get_u64(r);
        f->step = (int64_t)htc_get_u64(r);
        f->raw = htc_get_u64(r);
        uint64_t width = htc_get_varint(r);
        f->width = width <= HTC__WIDTH_MAX ? (uint32_t)width : 0;
        return width <= HTC__WIDTH_MAX && read_exceptions(d, f);
    }
    case HTC__FUNCTION_DOUBLE:
        f->start_real = htc_get_f64(r);
        f->step_real = htc_get_f64(r);
        f->raw = htc_get_u64(r);
        return isfinite(f->start_real) && isfinite(f->step_real) && f->raw <= UINT64_C(1) << 53 &&
               isfinite(f->start_real + (double)f->raw * f->step_real) && read_exceptions(d, f);
    default:
        return 0;
    }
}

static int read_param(decoder *d, htc__param *p)
{
    const htc_spec *s = d->spec;
    uint64_t        slot = htc_get_varint(&d->r);
    p->part = htc_get_u8(&d->r);
    p->which = htc_get_u8(&d->r);
    uint64_t start = htc_get_varint(&d->r), end = htc_get_varint(&d->r);
    if (slot > s->n_slots || p->part > 1 || p->which > 1 || start > end)
        return 0;
    if (end > (slot ? s->slots[slot - 1].text.len : 0))
        return 0;
    p->slot = (uint32_t)slot;
    p->start = (uint32_t)start;
    p->end = (uint32_t)end;
    return 1;
}

static int read_assignment(decoder *d, htc__assignment *a)
{
    htc_spec *s = d->spec;
    a->keys[0] = htc_get_bytes(&d->r);
    if (!read_function(d, &a->function))
        return 0;
    if (a->function.kind == HTC__FUNCTION_PAIRS)
        a->keys[1] = htc_get_bytes(&d->r);
    size_t n = htc_get_count(&d->r, 5);
    if (n > s->n_params - d->params)
        return 0;
    a->param_first = d->params;
    a->n_params = n;
    for (size_t i = 0; i < n; i++)
        if (!read_param(d, &s->params[d->params++]))
            return 0;
    return d->r.status == HTC_OK;
}

static int read_sweep(decoder *d, uint32_t depth, uint64_t *size)
{
    htc_spec *s = d->spec;
    if (depth > HTC_SWEEP_DEPTH_MAX || d->sweeps == s->n_sweeps)
        return 0;
    htc__sweep *w = &s->sweeps[d->sweeps++];
    size_t      n = htc_get_count(&d->r, 1);
    if (n == 0 || n > s->n_assignments - d->assignments)
        return 0;
    w->assignment_first = d->assignments;
    w->n_assignments = n;
    d->assignments += n;
    for (size_t i = 0; i < n; i++) {
        htc__assignment *a = &s->assignments[w->assignment_first + i];
        if (!read_assignment(d, a))
            return 0;
        uint64_t steps = htc__function_count(&a->function);
        if (i > 0 && steps != w->steps)
            return 0;
        w->steps = steps;
    }
    size_t children = htc_get_count(&d->r, 1);
    w->inner = children ? 0 : 1;
    for (size_t i = 0; i < children; i++) {
        uint64_t child = 0;
        if (!read_sweep(d, depth + 1, &child) || __builtin_add_overflow(w->inner, child, &w->inner))
            return 0;
    }
    w->next = d->sweeps;
    *size = 0;
    if (w->steps == 0 || __builtin_mul_overflow(w->steps, w->inner, &w->size))
        return 0;
    *size = w->size;
    return d->r.status == HTC_OK;
}

static int read_slots(decoder *d)
{
    htc_spec *s = d->spec;
    for (size_t i = 0; i < s->n_slots; i++) {
        s->slots[i].kind = htc_get_u8(&d->r);
        s->slots[i].text = htc_get_bytes(&d->r);
        if (s->slots[i].kind == 0 || s->slots[i].kind >= HTC__SLOT_KINDS || s->slots[i].text.len > UINT32_MAX)
            return 0;
    }
    return d->r.status == HTC_OK;
}

static int read_sweeps(decoder *d)
{
    htc_spec *s = d->spec;
    size_t    top = htc_get_count(&d->r, 1);
    s->count = top ? 0 : 1;
    for (size_t i = 0; i < top; i++) {
        uint64_t size = 0;
        if (!read_sweep(d, 1, &size) || __builtin_add_overflow(s->count, size, &s->count))
            return 0;
    }
    return d->sweeps == s->n_sweeps && d->assignments == s->n_assignments && d->params == s->n_params &&
           d->values == s->n_values && d->exceptions == s->n_exceptions && htc_reader_done(&d->r) == HTC_OK;
}

static char *read_string(decoder *d)
{
    htc_bytes text = htc_get_bytes(&d->r);
    if (text.len && memchr(text.data, 0, text.len)) {
        htc_reader_fail(&d->r);
        text.len = 0;
    }
    char *copy = htc__alloc(&d->spec->env, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.data, text.len);
    return copy;
}

static htc_status decode(htc_spec *s)
{
    decoder d = { .spec = s, .r = htc_reader_of((htc_bytes){ s->bytes, s->len }) };
    if (htc_get_u32(&d.r) != HTC__SPEC_MAGIC)
        return HTC_ECORRUPT;
    s->name = read_string(&d);
    s->warnings = read_string(&d);
    if (!s->name || !s->warnings)
        return d.r.status == HTC_OK ? HTC_ENOMEM : HTC_ECORRUPT;
    s->n_slots = htc_get_count(&d.r, 2);
    if (s->n_slots > HTC_SLOTS_MAX)
        return HTC_ECORRUPT;
    s->slots = array(s, s->n_slots, sizeof *s->slots);
    if (!s->slots)
        return HTC_ENOMEM;
    if (!read_slots(&d))
        return HTC_ECORRUPT;
    s->n_sweeps = htc_get_count(&d.r, 2);
    s->n_assignments = htc_get_count(&d.r, 4);
    s->n_params = htc_get_count(&d.r, 5);
    s->n_values = htc_get_count(&d.r, 1);
    s->n_exceptions = htc_get_count(&d.r, 1);
    s->sweeps = array(s, s->n_sweeps, sizeof *s->sweeps);
    s->assignments = array(s, s->n_assignments, sizeof *s->assignments);
    s->params = array(s, s->n_params, sizeof *s->params);
    s->values = array(s, s->n_values, sizeof *s->values);
    s->exceptions = array(s, s->n_exceptions, sizeof *s->exceptions);
    if (!s->sweeps || !s->assignments || !s->params || !s->values || !s->exceptions)
        return HTC_ENOMEM;
    return read_sweeps(&d) ? HTC_OK : HTC_ECORRUPT;
}

htc_status htc_spec_from_bytes(const htc_env *env, htc_bytes bytes, htc_spec **out)
{
    htc_spec *s = htc__alloc(env, sizeof *s);
    if (!s)
        return HTC_ENOMEM;
    if (env)
        s->env = *env;
    s->bytes = htc__alloc(env, bytes.len);
    if (!s->bytes) {
        htc__free(env, s, sizeof *s);
        return HTC_ENOMEM;
    }
    s->len = bytes.len;
    if (bytes.len)
        memcpy(s->bytes, bytes.data, bytes.len);
    htc_status status = decode(s);
    if (status != HTC_OK) {
        htc_spec_destroy(s);
        return status;
    }
    *out = s;
    return HTC_OK;
}

void htc_spec_destroy(htc_spec *s)
{
    if (!s)
        return;
    htc_env env = s->env;
    htc__free(&env, s->slots, s->n_slots * sizeof *s->slots);
    htc__free(&env, s->sweeps, s->n_sweeps * sizeof *s->sweeps);
    htc__free(&env, s->assignments, s->n_assignments * sizeof *s->assignments);
    htc__free(&env, s->params, s->n_params * sizeof *s->params);
    htc__free(&env, s->values, s->n_values * sizeof *s->values);
    htc__free(&env, s->exceptions, s->n_exceptions * sizeof *s->exceptions);
    htc__strfree(&env, s->name);
    htc__strfree(&env, s->project);
    htc__wishes_free(&env, s->wishes, s->n_wishes);
    htc__strfree(&env, s->warnings);
    htc__free(&env, s->bytes, s->len);
    htc__free(&env, s, sizeof *s);
}

htc_bytes htc_spec_bytes(const htc_spec *spec)
{
    return (htc_bytes){ spec->bytes, spec->len };
}

uint64_t htc_spec_count(const htc_spec *spec)
{
    return spec->count;
}

const char *htc_spec_name(const htc_spec *spec)
{
    return spec->name;
}

const char *htc_spec_project(const htc_spec *spec)
{
    return spec->project ? spec->project : "";
}

size_t htc_spec_wishes(const htc_spec *spec, const htc_wish **wishes)
{
    *wishes = spec->wishes;
    return spec->n_wishes;
}

const char *htc_spec_warnings(const htc_spec *spec)
{
    return spec->warnings;
}
