#include "kvs/migrate/bucket_migration.h"

#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "htcsched/kv.h"
#include "kvs/peer/eventual_wire.h"
#include "kvs/peer/map_items.h"

typedef struct piece {
    htc_bytes      key, cell;
    htc__kv_ballot accepted;
    uint64_t       version;
    uint32_t       from; /* whose */
} piece;

typedef struct source {
    htc_buf   entries, states;       /* states: of eventual keys */
    htc_bytes after, states_after;   /* the last key of what is there */
    int       strong, whole, lost;   /* strong: all entries are there; whole: the states are, too */
    int       damaged;               /* some of the states, where it holds them */
    uint64_t  floor;                 /* the version of a key that it does not hold */
} source;

struct htc__kv_migration {
    const htc_env        *env;
    htc__kv_migration_options o;
    htc__kv_migration_host    host;
    htc__kv_map_move      move;
    uint64_t              number;
    htc_ns                retry_at;
    source                from[HTC_RING_OWNERS_MAX];
    htc__kv_floors        floors;
    piece                *piece; /* the image; NULL before there is one */
    size_t                room;
    htc_buf               image; /* entries */
    size_t               *page;  /* where each begins; one more: the end */
    uint32_t              pages, pages_room, first_of_states; /* that page has eventual keys, as those behind it */
    htc_ns                wait_until; /* for others than the majority that has shown all; 0: for that */
    uint32_t              has[HTC_RING_OWNERS_MAX]; /* pages that a new owner has */
    int                   installing, activated;
};

void htc__kv_entry_write(htc_buf *b, htc_bytes key, const htc__kv_cell *cell)
{
    htc_buf c;
    htc_buf_init(&c, NULL, 0);
    c.alloc = b->alloc;
    htc__kv_cell_write(&c, cell);
    if (c.status != HTC_OK && b->status == HTC_OK)
        b->status = c.status;
    htc_put_bytes(b, key);
    htc_put_bytes(b, htc_buf_bytes(&c));
    htc_buf_free(&c);
}

int htc__kv_entry_read(htc_reader *r, htc_bytes *key, htc_bytes *bytes, htc__kv_cell *cell)
{
    if (htc_reader_left(r) == 0)
        return 0;
    *key = htc_get_bytes(r);
    *bytes = htc_get_bytes(r);
    *cell = (htc__kv_cell){ .present = 0 };
    if (r->status != HTC_OK || key->len == 0 || key->len > HTC_KV_KEY_MAX ||
        (bytes->len && htc__kv_cell_read(*bytes, NULL, cell) != HTC_OK)) {
        htc_reader_fail(r);
        return 0;
    }
    return 1;
}

int htc__kv_eventual_entry_read(htc_reader *r, htc_bytes *key, htc_bytes *state)
{
    if (htc_reader_left(r) == 0)
        return 0;
    *key = htc_get_bytes(r);
    *state = htc_get_bytes(r);
    if (r->status == HTC_OK && !htc__kv_space_key_fits(*key))
        htc_reader_fail(r);
    return r->status == HTC_OK;
}

htc_status htc__kv_migration_create(const htc_env *env, const htc__kv_migration_options *options,
                                const htc__kv_migration_host *host, const htc__kv_map_move *move, uint64_t number,
                                htc_ns now, htc__kv_migration **out)
{
    htc__kv_migration *m = htc__alloc(env, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    m->env = env;
    m->o = *options;
    m->o.retry_ns = options->retry_ns ? options->retry_ns : 200 * HTC_MS;
    m->o.bytes_max = options->bytes_max ? options->bytes_max : (size_t)256 << 20;
    m->o.page_max = options->page_max ? options->page_max : (size_t)256 << 10;
    m->host = *host;
    m->move = *move;
    m->number = number;
    m->retry_at = now;
    for (uint32_t i = 0; i < move->from_n; i++) {
        htc_buf_init(&m->from[i].entries, env, m->o.bytes_max);
        htc_buf_init(&m->from[i].states, env, m->o.bytes_max);
    }
    htc_buf_init(&m->image, env, m->o.bytes_max * HTC_RING_OWNERS_MAX);
    *out = m;
    return HTC_OK;
}

void htc__kv_migration_destroy(htc__kv_migration *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->move.from_n; i++) {
        htc_buf_free(&m->from[i].entries);
        htc_buf_free(&m->from[i].states);
    }
    htc_buf_free(&m->image);
    htc__free(m->env, m->piece, m->room * sizeof *m->piece);
    htc__free(m->env, m->page, m->pages_room * sizeof *m->page);
    htc__free(m->env, m, sizeof *m);
}

static uint32_t index_of(const uint64_t *ids, uint32_t n, uint64_t id)
{
    uint32_t i = 0;
    while (i < n && ids[i] != id)
        i++;
    return i;
}

/* ---- what is read becomes one image ---- */

/* By key, and of one key the highest ballot first. */
static int order(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int          by_key = htc_bytes_compare(x->key, y->key);
    if (by_key != 0)
        return by_key;
    int by_ballot = htc__kv_ballot_compare(&y->accepted, &x->accepted);
    return by_ballot != 0 ? by_ballot : x->version < y->version ? 1 : x->version > y->version ? -1 : 0;
}

static htc_status add_piece(htc__kv_migration *m, size_t n, const piece *p)
{
    if (n == m->room) {
        size_t room = n ? n * 2 : 64;
        piece *more = htc__resize(m->env, m->piece, n * sizeof *more, room * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        m->piece = more;
        m->room = room;
    }
    m->piece[n] = *p;
    return HTC_OK;
}

static htc_status collect(htc__kv_migration *m, size_t *count)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->move.from_n; i++) {
        htc_reader   r = htc_reader_of(htc_buf_bytes(&m->from[i].entries));
        htc__kv_cell cell;
        piece        p;
        while (m->from[i].whole && htc__kv_entry_read(&r, &p.key, &p.cell, &cell)) {
            if (!cell.present && p.cell.len)
                continue; /* promises of a past epoch */
            p.accepted = cell.accepted;
            p.version = cell.version;
            p.from = i;
            htc_status status = add_piece(m, n++, &p);
            if (status != HTC_OK)
                return status;
        }
    }
    *count = n;
    return HTC_OK;
}

static htc_status begin_page(htc__kv_migration *m)
{
    if (m->pages + 1 >= m->pages_room) {
        uint32_t room = m->pages_room ? m->pages_room * 2 : 16;
        size_t  *more = htc__resize(m->env, m->page, m->pages_room * sizeof *more, room * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        m->page = more;
        m->pages_room = room;
    }
    m->page[m->pages++] = m->image.len;
    return HTC_OK;
}

static uint32_t whole_sources(const htc__kv_migration *m)
{
    uint32_t whole = 0;
    for (uint32_t i = 0; i < m->move.from_n; i++)
        whole += m->from[i].whole != 0;
    return whole;
}

static uint32_t lost_sources(const htc__kv_migration *m)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < m->move.from_n; i++)
        lost += m->from[i].lost != 0;
    return lost;
}

/* Of each key as many owners as meet every majority have to say what they hold: whose record is damaged says nothing. What the map's own
 * image is does not follow from what is read. */
static uint32_t answers_wanted(const htc__kv_migration *m)
{
    return m->move.bucket == HTC__KV_OWN_BUCKET ? 0 : m->move.from_n - m->move.from_n / 2;
}

/* The pieces from i on that are of one key. HTC_AGAIN: too many owners have lost what they held of it. */
static htc_status look_at_key(const htc__kv_migration *m, size_t i, size_t n, size_t *next)
{
    uint32_t lost = 0;
    size_t   j = i;
    for (; j < n && htc_bytes_equal(m->piece[j].key, m->piece[i].key); j++)
        lost += m->piece[j].cell.len == 0;
    *next = j;
    return whole_sources(m) - lost >= answers_wanted(m) ? HTC_OK : HTC_AGAIN;
}

/* The pieces from i to next are of one key. Those who hold nothing of it may have answered, as a majority, that it is not there, in the version of
 * their floor, while one had accepted what becomes final with this image. A ballot carries one version only, so what is lifted gets another
 * one: the first of the new epoch, which no proposer has. */
static void lift(const htc__kv_migration *m, size_t i, size_t next, htc__kv_cell *cell)
{
    uint64_t version = cell->version;
    uint64_t floor = 0;
    uint32_t holders = 0;
    for (; i < next; i++)
        holders |= UINT32_C(1) << m->piece[i].from;
    for (uint32_t n = 0; n < m->move.from_n; n++)
        if (m->from[n].whole && !(holders >> n & 1) && m->from[n].floor > floor)
            floor = m->from[n].floor;
    htc__kv_cell_lift(cell, floor);
    if (cell->version != version)
        cell->accepted = (htc__kv_ballot){ .epoch = m->number };
}

static int by_state(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int          by_key = htc_bytes_compare(x->key, y->key);
    return by_key != 0 ? by_key : htc_bytes_compare(x->cell, y->cell);
}

static htc_status collect_states(htc__kv_migration *m, size_t *count)
{
    htc_status status = HTC_OK;
    *count = 0;
    for (uint32_t i = 0; i < m->move.from_n; i++) {
        htc_reader r = htc_reader_of(htc_buf_bytes(&m->from[i].states));
        piece      p = { .version = 0 };
        while (status == HTC_OK && m->from[i].whole && htc__kv_eventual_entry_read(&r, &p.key, &p.cell))
            if (p.cell.len) /* else it is damaged there */
                status = add_piece(m, (*count)++, &p);
        if (*count && HTC__BROKEN(image_of_one))
            break;
    }
    return status;
}

/* All that was shown, each state once: whoever takes them merges them. */
static htc_status build_states(htc__kv_migration *m)
{
    size_t     n;
    htc_status status = collect_states(m, &n);
    if (status == HTC_OK && n)
        qsort(m->piece, n, sizeof *m->piece, by_state);
    m->first_of_states = m->pages;
    for (size_t i = 0; i < n && status == HTC_OK; i++) {
        if (i > 0 && by_state(&m->piece[i - 1], &m->piece[i]) == 0)
            continue;
        if (m->pages == m->first_of_states || m->image.len - m->page[m->pages - 1] >= m->o.page_max)
            status = begin_page(m);
        htc_put_bytes(&m->image, m->piece[i].key);
        htc_put_bytes(&m->image, m->piece[i].cell);
        if (m->image.status != HTC_OK)
            status = m->image.status;
    }
    return status;
}

static htc_status build(htc__kv_migration *m)
{
    size_t     n, next;
    htc_status status = collect(m, &n);
    if (status == HTC_OK && n)
        qsort(m->piece, n, sizeof *m->piece, order);
    if (status == HTC_OK)
        status = begin_page(m);
    for (size_t i = 0; i < n && status == HTC_OK; i = next) {
        htc__kv_cell cell;
        status = look_at_key(m, i, n, &next);
        if (status != HTC_OK || m->piece[i].cell.len == 0) /* damaged here, and nowhere else is any */
            continue;
        htc__kv_cell_read(m->piece[i].cell, NULL, &cell);
        lift(m, i, next, &cell);
        cell.promise = cell.accepted; /* what was promised in the old epoch binds nobody in the new one */
        if (m->image.len - m->page[m->pages - 1] >= m->o.page_max)
            status = begin_page(m);
        htc__kv_entry_write(&m->image, m->piece[i].key, &cell);
        if (m->image.status != HTC_OK)
            status = m->image.status;
    }
    if (status == HTC_OK)
        status = build_states(m);
    if (status == HTC_OK)
        m->page[m->pages] = m->image.len;
    return status;
}

/* ---- what is said ---- */

static void ask_old(htc__kv_migration *m, uint32_t i)
{
    const source                 *s = &m->from[i];
    const htc__kv_migration_eventual *e = m->o.eventual;
    if (s->lost)
        return;
    if (!s->strong)
        m->host.seal(m->host.ctx, m->move.from[i], m->move.bucket, m->move.epoch, s->after);
    else if (!s->whole)
        e->seal(e->ctx, m->move.from[i], m->move.bucket, m->move.epoch, s->states_after);
}

static void ask_new(htc__kv_migration *m, uint32_t i)
{
    uint32_t page = m->has[i];
    if (page >= m->pages)
        return;
    /* The image of an empty bucket has one page, without a byte. */
    size_t    from = m->page[page], len = m->page[page + 1] - from;
    htc_bytes entries = { len ? m->image.data + from : NULL, len };
    if (page >= m->first_of_states)
        m->o.eventual->install(m->o.eventual->ctx, m->move.to[i], m->move.bucket, m->number, page, page + 1 == m->pages, &m->floors,
                               entries);
    else
        m->host.install(m->host.ctx, m->move.to[i], m->move.bucket, m->number, page, page + 1 == m->pages, &m->floors,
                        entries);
}

static void ask_all(htc__kv_migration *m, htc_ns now)
{
    m->retry_at = now + m->o.retry_ns;
    for (uint32_t i = 0; i < m->move.from_n && !m->installing; i++)
        ask_old(m, i);
    for (uint32_t i = 0; i < m->move.to_n && m->installing; i++)
        ask_new(m, i);
}

htc_ns htc__kv_migration_deadline(const htc__kv_migration *m)
{
    return m->retry_at;
}

/* What a majority of the bucket's owners has may be less than an acknowledged change of an eventual key needs to be in; so may what some have
 * of whom one could not read all of it. */
static int waits_for_more(htc__kv_migration *m, htc_ns now, uint32_t whole)
{
    const htc__kv_migration_eventual *e = m->o.eventual;
    uint32_t                      shown = 0;
    if (!e || whole == m->move.from_n)
        return 0;
    m->wait_until = m->wait_until ? m->wait_until : now + e->patience_ns;
    for (uint32_t i = 0; i < m->move.from_n; i++)
        shown |= (uint32_t)(m->from[i].whole && !m->from[i].damaged) << i;
    return now < m->wait_until && !e->enough(e->ctx, &m->move, shown);
}

/* How many have to be sealed before anything is installed.
 *
 * A majority of a bucket's owners. Of those that keep the map as many as meet every majority: half of them, where they are even. That is enough
 * for it. n owners, of which n - n / 2 are sealed, durably: n / 2 are not, and a majority is n / 2 + 1, so that each has a sealed one in it.
 * Whoever is sealed answers nothing in that epoch any more; so from then on no round of it, of a read or of a change, gets a majority,
 * and nobody is shown what the next owners have gone beyond. And what they are given does not depend on who was sealed: a map that names its next
 * owners is known to be final before one is asked to seal (its ballot won a majority, so every later one starts from it, and an earlier one
 * that a few have accepted is outbid), and nothing may be proposed in its place (map.h), so what follows from it is one value, made by
 * whoever moves it from its own copy and not from what the old owners show. So two movers that have sealed two different halves install
 * the same. It matters where one of two is lost for good right then: it takes both to name the next owners, and one to go on.
 *
 * Of other buckets what is installed is read from who is sealed. There it stays a majority: what the model shows (tests/model/store_epoch.pml,
 * of three owners, where both are two) is said of nothing else. */
static uint32_t seals_wanted(const htc__kv_migration *m)
{
    uint32_t n = m->move.from_n;
    return m->move.bucket == HTC__KV_OWN_BUCKET ? n - n / 2 : n / 2 + 1;
}

static htc_status install(htc__kv_migration *m, htc_ns now)
{
    uint32_t whole = whole_sources(m), sealed = whole + lost_sources(m);
    if (sealed < seals_wanted(m) || waits_for_more(m, now, sealed))
        return HTC_OK;
    htc_status status = whole >= answers_wanted(m) || HTC__BROKEN(lost_counted) ? build(m) : HTC_AGAIN;
    if (status == HTC_AGAIN) { /* with another owner's answer, if there is one */
        htc_buf_clear(&m->image);
        m->pages = 0;
        return sealed == m->move.from_n ? HTC_ECORRUPT : HTC_OK;
    }
    if (status != HTC_OK)
        return status;
    m->installing = 1;
    ask_all(m, now);
    return HTC_OK;
}

htc_status htc__kv_migration_timeout(htc__kv_migration *m, htc_ns now)
{
    if (m->retry_at > now)
        return HTC_OK;
    ask_all(m, now);
    return m->wait_until && !m->installing ? install(m, now) : HTC_OK;
}

htc_status htc__kv_migration_shown(htc__kv_migration *m, htc_ns now, uint64_t from, htc_bytes after,
                               const htc__kv_floors *floors, htc_bytes entries, int last)
{
    uint32_t   i = index_of(m->move.from, m->move.from_n, from);
    htc_reader r = htc_reader_of(entries);
    source    *s = &m->from[i < m->move.from_n ? i : 0];
    if (i == m->move.from_n || m->installing || s->strong || !htc_bytes_equal(after, s->after))
        return HTC_OK; /* of a question that was asked before */
    htc_bytes    key, cell, before = after;
    htc__kv_cell read;
    while (htc__kv_entry_read(&r, &key, &cell, &read)) {
        if (htc_bytes_compare(key, before) <= 0)
            return HTC_EPROTO;
        before = key;
    }
    if (r.status != HTC_OK || (entries.len == 0 && !last))
        return HTC_EPROTO;
    size_t at = s->entries.len,
           behind = before.len && entries.len ? (size_t)((const char *)before.data - (const char *)entries.data) : 0;
    htc_put_raw(&s->entries, entries);
    if (s->entries.status != HTC_OK)
        return s->entries.status;
    if (entries.len)
        s->after = (htc_bytes){ s->entries.data + at + behind, before.len };
    if (floors->version > s->floor)
        s->floor = floors->version;
    if (s->floor > m->floors.version)
        m->floors.version = s->floor;
    m->floors.ballot = htc__kv_ballot_max(m->floors.ballot, floors->ballot);
    s->strong = last;
    s->whole = last && !m->o.eventual;
    if (s->whole)
        return install(m, now);
    ask_old(m, i);
    return HTC_OK;
}

htc_status htc__kv_migration_shown_eventual(htc__kv_migration *m, htc_ns now, uint64_t from, htc_bytes after, htc_bytes entries, int last)
{
    uint32_t   i = index_of(m->move.from, m->move.from_n, from);
    htc_reader r = htc_reader_of(entries);
    source    *s = &m->from[i < m->move.from_n ? i : 0];
    htc_bytes  key = after, state;
    if (i == m->move.from_n || !m->o.eventual || m->installing || s->whole || !s->strong || !htc_bytes_equal(after, s->states_after))
        return HTC_OK; /* of a question that was asked before */
    int damaged = 0;
    while (htc__kv_eventual_entry_read(&r, &key, &state))
        damaged |= state.len == 0;
    if (r.status != HTC_OK || (entries.len == 0 && !last))
        return HTC_EPROTO;
    size_t at = s->states.len, behind = entries.len ? (size_t)((const char *)key.data - (const char *)entries.data) : 0;
    htc_put_raw(&s->states, entries);
    if (s->states.status != HTC_OK)
        return s->states.status;
    if (entries.len)
        s->states_after = (htc_bytes){ s->states.data + at + behind, key.len };
    s->damaged |= damaged;
    s->whole = last;
    if (last)
        return install(m, now);
    ask_old(m, i);
    return HTC_OK;
}

htc_status htc__kv_migration_lost(htc__kv_migration *m, htc_ns now, uint64_t from)
{
    uint32_t i = index_of(m->move.from, m->move.from_n, from);
    if (i == m->move.from_n || m->installing || m->from[i].whole || m->from[i].lost)
        return HTC_OK;
    m->from[i].lost = 1;
    return install(m, now);
}

void htc__kv_migration_installed(htc__kv_migration *m, htc_ns now, uint64_t from, uint64_t number, uint32_t pages)
{
    uint32_t i = index_of(m->move.to, m->move.to_n, from), whole = 0;
    (void)now;
    if (i == m->move.to_n || !m->installing || number != m->number || pages > m->pages || pages <= m->has[i])
        return;
    m->has[i] = pages;
    ask_new(m, i);
    for (uint32_t j = 0; j < m->move.to_n; j++)
        whole += m->has[j] == m->pages;
    if (whole > m->move.to_n / 2 && !m->activated) {
        m->activated = 1;
        m->host.activate(m->host.ctx, m->number);
    }
}
