/* What a simulated disk stores: files of sectors, each with what is seen and what is durable. */
#include <string.h>

#include "core/util.h"
#include "sim/engine/disk_private.h"

static int same(const disk_file *f, htc_bytes name)
{
    return strlen(f->name) == name.len && memcmp(f->name, name.data, name.len) == 0;
}

disk_file *htc__disk_find(const htc_sim_disk *d, htc_bytes name)
{
    disk_file *f = d->files;
    while (f && !same(f, name))
        f = f->next;
    return f;
}

static void put_in(htc_sim_disk *d, disk_file *f)
{
    disk_file **at = &d->files;
    while (*at && strcmp((*at)->name, f->name) < 0)
        at = &(*at)->next;
    f->next = *at;
    *at = f;
}

static void take_out(htc_sim_disk *d, disk_file *f)
{
    disk_file **at = &d->files;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
}

static void set_name(disk_file *f, htc_bytes name)
{
    memcpy(f->name, name.data, name.len);
    f->name[name.len] = '\0';
}

htc_status htc__disk_make(htc_sim_disk *d, htc_bytes name, uint64_t length)
{
    disk_file *f = htc__alloc(&d->env, sizeof *f);
    size_t     n = (size_t)((length + PIECE - 1) / PIECE);
    if (!f)
        return HTC_ENOMEM;
    f->pieces = htc__alloc(&d->env, n * sizeof *f->pieces);
    if (!f->pieces) {
        htc__free(&d->env, f, sizeof *f);
        return HTC_ENOMEM;
    }
    f->n_pieces = n;
    f->length = length;
    set_name(f, name);
    put_in(d, f);
    d->room -= length;
    return HTC_OK;
}

void htc__disk_remove(htc_sim_disk *d, disk_file *f)
{
    take_out(d, f);
    d->room += f->length;
    for (size_t i = 0; i < f->n_pieces; i++)
        htc__free(&d->env, f->pieces[i], sizeof *f->pieces[i]);
    htc__free(&d->env, f->pieces, f->n_pieces * sizeof *f->pieces);
    htc__free(&d->env, f, sizeof *f);
}

htc_status htc__disk_rename(htc_sim_disk *d, disk_file *f, htc_bytes to)
{
    disk_file *there = htc__disk_find(d, to);
    if (there == f)
        return HTC_OK;
    if (there)
        htc__disk_remove(d, there);
    take_out(d, f);
    set_name(f, to);
    put_in(d, f);
    return HTC_OK;
}

static disk_piece *piece_of(htc_sim_disk *d, disk_file *f, uint64_t offset)
{
    disk_piece **p = &f->pieces[offset / PIECE];
    if (!*p)
        *p = htc__alloc(&d->env, sizeof **p);
    return *p;
}

/* The sectors from..to of a piece are about to be written. What a sync promises for what stands there has to hold even if the
 * sync is still on its way when this write overtakes it: then that is what a power failure goes back to. */
static void mark(htc_sim_disk *d, const disk_file *f, disk_piece *p, size_t from, size_t to, int doomed)
{
    for (size_t s = from / HTC_DISK_SECTOR; s * HTC_DISK_SECTOR < to; s++) {
        uint8_t bit = (uint8_t)(1u << s);
        int     reached = p->stamp[s] <= f->sync_asked && !(p->doomed & bit);
        if (!(p->dirty & bit) || reached)
            memcpy(p->old + s * HTC_DISK_SECTOR, p->now + s * HTC_DISK_SECTOR, HTC_DISK_SECTOR);
        p->dirty |= bit;
        p->doomed = (uint8_t)(doomed ? p->doomed | bit : p->doomed & ~bit);
        p->stamp[s] = d->count;
    }
}

htc_status htc__disk_write(htc_sim_disk *d, disk_file *f, uint64_t offset, htc_bytes data, int doomed)
{
    const uint8_t *from = data.data;
    for (size_t left = data.len; left;) {
        disk_piece *p = piece_of(d, f, offset);
        size_t      at = (size_t)(offset % PIECE), n = PIECE - at < left ? PIECE - at : left;
        if (!p)
            return HTC_ENOMEM;
        mark(d, f, p, at, at + n, doomed);
        memcpy(p->now + at, from, n);
        from += n;
        offset += n;
        left -= n;
    }
    return HTC_OK;
}

void htc__disk_read(const disk_file *f, uint64_t offset, uint8_t *out, size_t n)
{
    while (n) {
        const disk_piece *p = offset < f->length ? f->pieces[offset / PIECE] : NULL;
        size_t            at = (size_t)(offset % PIECE), len = PIECE - at < n ? PIECE - at : n;
        if (p)
            memcpy(out, p->now + at, len);
        else
            memset(out, 0, len);
        out += len;
        offset += len;
        n -= len;
    }
}

void htc__disk_sync(disk_file *f, uint64_t asked, int failed)
{
    for (size_t i = 0; i < f->n_pieces; i++) {
        disk_piece *p = f->pieces[i];
        for (unsigned s = 0; p && p->dirty && s < SECTORS; s++) {
            uint8_t bit = (uint8_t)(1u << s);
            if (!(p->dirty & bit) || p->stamp[s] > asked)
                continue;
            if (failed)
                p->doomed |= bit;
            else if (!(p->doomed & bit))
                p->dirty = (uint8_t)(p->dirty & ~bit);
        }
    }
}

/* Kept, lost, or torn: the new bytes up to somewhere, and then the old ones or none that were ever written. */
static void damage(htc_sim_disk *d, disk_piece *p, unsigned s)
{
    uint8_t *now = p->now + s * HTC_DISK_SECTOR, *old = p->old + s * HTC_DISK_SECTOR;
    int      doomed = (p->doomed >> s) & 1;
    if (!doomed && htc_rng_below(&d->rng, 1000000) >= d->faults.unsynced_ppm) {
        d->stats.sectors_kept++;
        return;
    }
    if (doomed || htc_rng_below(&d->rng, 2)) {
        memcpy(now, old, HTC_DISK_SECTOR);
        d->stats.sectors_lost++;
        return;
    }
    size_t from = (size_t)htc_rng_below(&d->rng, HTC_DISK_SECTOR);
    if (htc_rng_below(&d->rng, 4))
        memcpy(now + from, old + from, HTC_DISK_SECTOR - from);
    else
        for (size_t i = from; i < HTC_DISK_SECTOR; i++)
            now[i] = (uint8_t)htc_rng_next(&d->rng);
    d->stats.sectors_torn++;
}

void htc__disk_reread(disk_file *f)
{
    for (size_t i = 0; i < f->n_pieces; i++) {
        disk_piece *p = f->pieces[i];
        for (unsigned s = 0; p && s < SECTORS; s++)
            if ((p->dirty & p->doomed) >> s & 1)
                memcpy(p->now + s * HTC_DISK_SECTOR, p->old + s * HTC_DISK_SECTOR, HTC_DISK_SECTOR);
        if (p) {
            p->dirty = (uint8_t)(p->dirty & ~p->doomed);
            p->doomed = 0;
        }
    }
}

void htc__disk_power(htc_sim_disk *d, disk_file *f)
{
    for (size_t i = 0; i < f->n_pieces; i++) {
        disk_piece *p = f->pieces[i];
        for (unsigned s = 0; p && s < SECTORS; s++)
            if ((p->dirty >> s) & 1)
                damage(d, p, s);
        if (p)
            p->dirty = p->doomed = 0;
    }
}

htc_status htc__disk_turn_bits(htc_sim_disk *d, disk_file *f, uint64_t offset, uint8_t bits, int durably)
{
    disk_piece *p = piece_of(d, f, offset);
    if (!p)
        return HTC_ENOMEM;
    p->now[offset % PIECE] ^= bits;
    if (durably)
        p->old[offset % PIECE] ^= bits;
    return HTC_OK;
}
