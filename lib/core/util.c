#include "core/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const htc_alloc *allocator(const htc_env *env)
{
    return env ? env->alloc : NULL;
}

void *htc__resize_raw(const htc_env *env, void *p, size_t old_size, size_t new_size)
{
    const htc_alloc *a = allocator(env);
    if (new_size == 0)
        new_size = 1;
    return a ? a->resize(a->ctx, p, old_size, new_size) : realloc(p, new_size);
}

void *htc__resize(const htc_env *env, void *p, size_t old_size, size_t new_size)
{
    void *q = htc__resize_raw(env, p, old_size, new_size);
    if (q && new_size > old_size)
        memset((char *)q + old_size, 0, new_size - old_size);
    return q;
}

void *htc__alloc(const htc_env *env, size_t size)
{
    return htc__resize(env, NULL, 0, size);
}

void *htc__alloc_raw(const htc_env *env, size_t size)
{
    return htc__resize_raw(env, NULL, 0, size);
}

void htc__free(const htc_env *env, void *p, size_t size)
{
    const htc_alloc *a = allocator(env);
    if (!p)
        return;
    if (a)
        a->resize(a->ctx, p, size ? size : 1, 0);
    else
        free(p);
}

char *htc__strdup(const htc_env *env, const char *s)
{
    size_t n = strlen(s) + 1;
    char  *copy = htc__alloc(env, n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

void htc__strfree(const htc_env *env, char *s)
{
    if (s)
        htc__free(env, s, strlen(s) + 1);
}

static int is_wanted(const htc_log *log, uint32_t level)
{
    return log && log->write && level <= (log->level & (HTC_LOG_FIELDS - 1));
}

static void say(const htc_log *log, uint32_t level, const htc_log_field *field, size_t n, const char *format, va_list args)
{
    char line[1024];
    vsnprintf(line, sizeof line, format, args);
    if (log->level & HTC_LOG_FIELDS)
        ((const htc_log_structured *)log)->write_fields(log->ctx, level, line, field, n);
    else
        log->write(log->ctx, level, line);
}

void htc__log(const htc_env *env, uint32_t level, const char *format, ...)
{
    va_list args;
    if (!is_wanted(env ? env->log : NULL, level))
        return;
    va_start(args, format);
    say(env->log, level, NULL, 0, format, args);
    va_end(args);
}

void htc__log_with(const htc_env *env, uint32_t level, const htc_log_field *field, size_t n, const char *format, ...)
{
    va_list args;
    if (!is_wanted(env ? env->log : NULL, level))
        return;
    va_start(args, format);
    say(env->log, level, field, n, format, args);
    va_end(args);
}

htc_status htc__error(htc_error *e, htc_status status, const char *format, ...)
{
    va_list args;
    if (!e)
        return status;
    memset(e, 0, sizeof *e);
    e->status = status;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return status;
}

htc_status htc__options_copy(void *out, size_t known, const void *in, size_t size, size_t min)
{
    const uint8_t *bytes = in;
    if (!in)
        return HTC_OK;
    if (size < min)
        return HTC_EINVAL;
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return HTC_EABI;
    memcpy(out, in, size < known ? size : known);
    return HTC_OK;
}

static size_t size_named(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

htc_status htc__options_at(void *out, size_t known, const void *array, size_t i, size_t min)
{
    size_t stride = size_named(array);
    if (stride < min)
        return HTC_EINVAL;
    const uint8_t *at = (const uint8_t *)array + i * stride;
    return size_named(at) == stride ? htc__options_copy(out, known, at, stride, min) : HTC_EINVAL;
}

htc_status htc__options_give(void *out, const void *known, size_t known_size, size_t min)
{
    size_t size = size_named(out);
    if (size < min)
        return HTC_EINVAL;
    memset(out, 0, size);
    memcpy(out, known, size < known_size ? size : known_size);
    memcpy(out, &size, sizeof size);
    return HTC_OK;
}

void htc__options_init(void *options, size_t size)
{
    if (!options || size < sizeof size)
        return;
    memset(options, 0, size);
    memcpy(options, &size, sizeof size);
}

const htc_input *htc__input_known(const htc_input *in, htc_input *room, htc_status *status)
{
    *status = in ? HTC_OK : HTC_EINVAL;
    if (!in || in->size == sizeof *in)
        return in;
    memset(room, 0, sizeof *room);
    *status = htc__options_copy(room, sizeof *room, in, in->size, sizeof *in);
    room->size = sizeof *room;
    return *status == HTC_OK ? room : NULL;
}

size_t htc__utf8_len(const char *p, size_t n)
{
    const unsigned char *c = (const unsigned char *)p;
    size_t               len = n == 0 ? 0 : c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* No overlong form, no surrogate, nothing beyond the last character. */
    if (len == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0)))
        return 0;
    if (len == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)))
        return 0;
    return len;
}

static uint32_t code_point(const char *p, size_t len)
{
    const unsigned char *c = (const unsigned char *)p;
    uint32_t             v = len == 1 ? c[0] : c[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        v = v << 6 | (c[i] & 0x3f);
    return v;
}

/* What a terminal takes for a command, or what makes it show other text than there is: C0, DEL and C1, the marks of
 * direction with their overrides and isolates, and what ends a line or a paragraph. */
static int is_unseen(uint32_t v)
{
    static const uint32_t ranges[][2] = { { 0, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, { 0x200e, 0x200f },
                                          { 0x2028, 0x202e }, { 0x2066, 0x2069 } };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (v >= ranges[i][0] && v <= ranges[i][1])
            return 1;
    return 0;
}

size_t htc_text_shown(const char *p, size_t n)
{
    size_t len = htc__utf8_len(p, n);
    return len && !is_unseen(code_point(p, len)) ? len : 0;
}

void htc_text_show(char *text)
{
    size_t n = strlen(text), to = 0;
    for (size_t i = 0, len; i < n; i += len) {
        size_t whole = htc__utf8_len(text + i, n - i);
        len = whole ? whole : 1;
        if (htc_text_shown(text + i, n - i)) {
            memmove(text + to, text + i, len);
            to += len;
        } else {
            text[to++] = '?';
        }
    }
    text[to] = '\0';
}

/* The character cut off at the end goes; blanks for what divides words. */
void htc__text_clean(char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = htc__utf8_len(text + i, n - i);
        if (len == 0 && n - i < 4 && ((unsigned char)text[i] & 0xc0) == 0xc0) {
            size_t more = 1;
            while (i + more < n && ((unsigned char)text[i + more] & 0xc0) == 0x80)
                more++;
            if (i + more == n)
                text[i] = '\0';
        }
        if (len == 1 && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f))
            text[i] = ' ';
    }
    htc_text_show(text);
}

const char *htc__text_fit(const char *text, char *out, size_t room)
{
    size_t n = strlen(text), head, tail;
    if (n < room) {
        memcpy(out, text, n + 1);
        return out;
    }
    head = (room - 4) / 2;
    tail = n - (room - 4 - head);
    while (head && ((unsigned char)text[head] & 0xc0) == 0x80) /* whole characters */
        head--;
    while (((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    memcpy(out, text, head);
    memcpy(out + head, "...", 3);
    memcpy(out + head + 3, text + tail, n - tail + 1);
    return out;
}

/* ---- tapes ---- */

htc_status htc__tape_check(const htc_tape *tape)
{
    htc_tape known = { 0 };
    htc_status status = tape ? htc__options_copy(&known, sizeof known, tape, tape->size, sizeof known) : HTC_EINVAL;
    return status == HTC_OK && (!known.move || known.reads > 1 || known.reserved) ? HTC_EINVAL : status;
}

#define PIECE ((size_t)65536) /* bytes of an array that is read, to begin with */

/* To so many elements; else HTC_ENOMEM, and the array is as it was. */
static void *resized_to(const htc_env *env, void *array, size_t *n, size_t each, uint64_t count, htc_status *status)
{
    if (count == *n)
        return array;
    void *resized = htc__resize(env, array, *n * each, (size_t)count * each);
    if (!resized && count) {
        *status = HTC_ENOMEM;
        return array;
    }
    *n = (size_t)count;
    return resized;
}

void *htc__tape_array(const htc_tape *tape, const htc_env *env, void *array, size_t *n, size_t each, size_t most, htc_status *status)
{
    uint64_t count = *n, done = 0;
    if (*status == HTC_OK)
        *status = tape->move(tape->ctx, &count, sizeof count);
    if (*status == HTC_OK && count > most)
        *status = HTC_ECORRUPT;
    if (*status == HTC_OK && count < *n)
        array = resized_to(env, array, n, each, count, status);
    for (uint64_t step; *status == HTC_OK && done < count; done += step) { /* room for twice what the tape has had, so that a false number takes no memory */
        step = count <= *n ? count - done : done < PIECE / each + 1 ? PIECE / each + 1 : done;
        step = step < count - done ? step : count - done;
        if (done + step > *n)
            array = resized_to(env, array, n, each, done + step, status);
        if (*status == HTC_OK)
            *status = tape->move(tape->ctx, (char *)array + done * each, (size_t)step * each);
    }
    return array;
}
