/* Checkpoints of the scale models that anybody may have changed: a run that goes on from one is refused, fails with an error, or goes on for a bounded number of events in a
 * bounded amount of memory. The first byte says which run, the second where it was stopped; then each eight bytes change the checkpoint in one place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_resume_runs.h"

#define RUNS    (sizeof runs / sizeof *runs)
#define CUTS    4u
#define EVENTS  1500u            /* that a run goes on for */
#define PIECES  4096u
#define ONE_MAX ((size_t)32 << 20) /* bytes at once: the runs are small */
#define ALL_MAX ((size_t)96 << 20)

/* ---- memory ---- */

static size_t in_use;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    (void)ctx;
    CHECK(new_size <= ONE_MAX);
    if (in_use - old_size + new_size > ALL_MAX)
        return NULL;
    in_use = in_use - old_size + new_size;
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    p = realloc(p, new_size);
    CHECK(p);
    return p;
}

static const htc_alloc alloc = { .resize = resize };
static const htc_env   env = { .size = sizeof env, .alloc = &alloc };

/* ---- checkpoints, as pieces ---- */

typedef struct film {
    unsigned char *data;
    size_t         len, room, at, pieces, piece[PIECES + 1]; /* piece: where each begins */
    uint32_t       made;
} film;

static htc_status write_piece(void *ctx, void *data, size_t n)
{
    film *f = ctx;
    while (f->len + n > f->room)
        CHECK((f->data = realloc(f->data, f->room = 2 * f->room + 4096)));
    if (n)
        memcpy(f->data + f->len, data, n);
    if (n && f->pieces < PIECES)
        f->piece[f->pieces++] = f->len;
    f->len += n;
    f->piece[f->pieces] = f->len;
    return HTC_OK;
}

static htc_status read_piece(void *ctx, void *data, size_t n)
{
    film *f = ctx;
    if (n > f->len - f->at)
        return HTC_EIO;
    if (n)
        memcpy(data, f->data + f->at, n);
    f->at += n;
    return HTC_OK;
}

/* What is written is looked at: it is all initialised. */
static htc_status drop_piece(void *ctx, void *data, size_t n)
{
    unsigned *sum = ctx;
    for (size_t i = 0; i < n; i++)
        *sum += ((unsigned char *)data)[i];
    return HTC_OK;
}

/* The run as it is after some events, more for each cut. */
static film *checkpoint_of(size_t run, size_t cut)
{
    static film films[RUNS][CUTS];
    film       *f = &films[run][cut];
    if (f->made)
        return f;
    static const uint64_t events[CUTS] = { 40, 150, 400, 900 };
    for (uint64_t stop = events[cut]; !f->made; stop /= 2) { /* short ones are over before that */
        htc_scale_tape tape = { .size = sizeof tape, .move = write_piece, .ctx = f };
        htc_scale_host host = { .size = sizeof host, .stop_after = stop };
        one_run        r = { .env = &env, .host = &host, .checkpoint = &tape };
        CHECK(runs[run](&r) == HTC_OK);
        f->made = r.interrupted;
    }
    CHECK(f->pieces > 1);
    return f;
}

/* ---- changes ---- */

static uint64_t number(const uint8_t *p, int n)
{
    uint64_t x = 0;
    for (int i = n; i-- > 0;)
        x = x << 8 | p[i];
    return x;
}

static void change_word(unsigned char *at, const uint8_t *how, const film *f)
{
    uint32_t word, v = (uint32_t)number(how + 1, 3);
    memcpy(&word, at, sizeof word);
    switch (how[0] % 6) {
    case 0:
        word = v;
        break;
    case 1:
        word = UINT32_MAX - v;
        break;
    case 2:
        word += v < 1u << 23 ? v : v - (1u << 24);
        break;
    case 3:
        word ^= UINT32_C(1) << v % 32;
        break;
    case 4:
        word = v << 8;
        break;
    default: /* as it is elsewhere */
        memcpy(&word, f->data + (size_t)v * 4 % (f->len - 3), sizeof word);
    }
    memcpy(at, &word, sizeof word);
}

static void change(const film *f, unsigned char *data, const uint8_t *how)
{
    size_t piece = number(how, 2) % f->pieces, from = f->piece[piece], size = f->piece[piece + 1] - from, at = number(how + 2, 2);
    if (how[4] & 0x80 || size < 4) {
        data[from + at % size] = how[5];
        return;
    }
    change_word(data + from + at * 4 % (size & ~(size_t)3), how + 4, f);
}

static int is_line(const char *text)
{
    return text[0] && !strpbrk(text, "\n\r\033");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t      run = data[0] % RUNS;
    const film *whole = checkpoint_of(run, data[1] % CUTS);
    film        f = { .data = malloc(whole->len), .len = whole->len };
    CHECK(f.data);
    memcpy(f.data, whole->data, whole->len);
    for (size_t at = 2; at + 8 <= size && at < 2 + 8 * 64; at += 8)
        change(whole, f.data, data + at);
    unsigned       sum = 0;
    htc_scale_tape from = { .size = sizeof from, .reads = 1, .move = read_piece, .ctx = &f }, to = { .size = sizeof to, .move = drop_piece, .ctx = &sum };
    htc_scale_host host = { .size = sizeof host, .stop_after = EVENTS };
    one_run        r = { .env = &env, .host = &host, .resume = &from, .checkpoint = &to };
    htc_status     status = runs[run](&r);
    CHECK(status == HTC_OK || (size >= 10 && status < 0 && is_line(r.error.text)));
    CHECK(in_use == 0);
    free(f.data);
    return 0;
}
