/* What needs all members: a page of a SCAN, and COUNT.
 *
 *     LIST ──▶ every member ──LISTED: its cells from the cursor on, in the order of keys──▶ merged, up to where all have listed
 *                                                                              │
 *            a majority of a key's owners lists the same cell: that is final ◀──┼──▶ they differ: the key is read (its register)
 *
 * Who has not answered is waited for until it is suspected, and then done without if a majority of the owners of each bucket has
 * answered: then what was acknowledged before is in one of the lists. A bucket that moves is one that nobody answers for: the lists are asked
 * for anew, and those before are kept. A bucket for which a majority has answered once since the page began is covered, however it moves
 * then: what was acknowledged before the page is in these lists, and keys that differ are read. So a page needs no moment in which no
 * bucket at all moves. A page is bounded in keys and bytes, lists are bounded, and
 * only so many scans are under way at once; so many others wait, no longer than a request does, and those beyond are refused. Whose
 * client is gone holds no place.
 *
 * A page of a watch (replica/watch.h) is made of the lists of members that know what is watched, and where not all of them list the same of
 * a key it is read at or above all that was listed; if no such version is found it is settled: read, and whatever is under way outbid. */
#include <string.h>

#include "core/fault.h"
#include "kvs/replica/watch.h"

#define LIST_BYTES    ((size_t)256 << 10) /* in one list, if it has more than one cell */
#define LIST_VALUE    ((size_t)64 << 10)  /* longer values are read by key */
#define LIST_READ     ((size_t)4 << 20)   /* of values looked at for one list */
#define LIST_MAX      4096
#define LIST_LOOK     4 /* times the limit: cells looked at that have nothing to list */
#define PAGE_BYTES    ((size_t)1 << 20)
#define READS_AT_ONCE 16
#define RUNNING_MAX   8
#define ROUNDS_MAX    6 /* lists of one member that a page is made of */
#define SCANS_MAX     1024 /* waiting ones too */
#define UNSERVED_MAX  1024 /* who has more buckets that it cannot speak for does not answer */

typedef struct listing {
    uint8_t        answered, more, has;
    uint8_t        needed;  /* a bucket may be covered by it */
    uint64_t       version; /* of the map that the member had */
    uint64_t       stream;  /* of a watch: as which it was asked first; 0: not yet */
    uint32_t       unserved_n, unserved[UNSERVED_MAX];
    htc_buf        bytes;
    htc_bytes      up_to;
    htc_reader     r;
    htc__kv_listed head;
} listing;

typedef enum found_state { FOUND, GONE, TO_READ, READING } found_state;

/* A key of the page; its bytes and its value are in `bytes`. */
typedef struct found {
    found_state state;
    size_t      key_at, key_len, value_at, value_len;
    uint64_t    version;
    uint64_t    least;   /* of a watch: a member lists that version, and others do not */
    uint8_t     settled; /* it was read for good, or is */
} found;

typedef struct htc__kv_scanning {
    struct htc__kv_scanning *next;
    const htc__kv_face      *face;
    uint64_t                 conn, slot;
    uint64_t                 tag; /* of this page; 0: it has not begun */
    uint32_t                 op, limit, ask;
    int                      merged; /* the lists have become `found` */
    int                      watch;  /* it is of one */
    int64_t                  number; /* COUNT, of the pages before */
    htc_ns                   again_at, settle_at, until;
    listing                 *lists; /* by peer; behind these `rounds` - 1 times as many that were listed earlier */
    uint32_t                 list_n, rounds;
    uint8_t                 *covered; /* by bucket: a majority of its owners has answered for it since the page began */
    uint32_t                 uncovered;
    int                      heard;           /* a list has come since these were counted */
    uint64_t                 counted_version; /* of the map by which they were */
    htc_ns                   pause;             /* until lists are asked for anew, if all have answered */
    found                   *found;
    size_t                   found_n, found_cap, read_next, reading;
    htc_buf                  bytes;
    htc_status               failed;
    size_t                   prefix_len, after_len, last_len; /* last: where the page ends */
    int                      more;
    uint8_t                  prefix[HTC_KV_KEY_MAX], after[HTC_KV_KEY_MAX], last[HTC_KV_KEY_MAX];
} scanning;

/* ---------------------------------------------------------------- a member's list */

typedef struct list {
    htc_kv_server          *s;
    const htc__kv_list_ask *ask;
    htc_buf                *out;
    size_t                  begin, looked, listed, bytes;
    int                     more;
    htc__kv_name            last;
} list;

/* Without its promise, as owners compare them. */
static uint64_t digest_of(htc_kv_server *s, const htc__kv_cell *cell)
{
    htc__kv_cell same = *cell;
    same.promise = same.accepted;
    htc_buf_clear(&s->scratch);
    htc__kv_cell_write(&s->scratch, &same);
    return htc_hash64(htc_buf_bytes(&s->scratch), 0);
}

static int list_cell(void *visitor, htc_bytes name, htc_bytes value)
{
    list          *l = visitor;
    htc_bytes      prefix = l->ask->prefix, key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_listed item = { .key = key };
    htc__kv_cell   cell = { 0 };
    if (!htc__schema_is(name, HTC__SCHEMA_CELL) || key.len < prefix.len ||
        (prefix.len && memcmp(key.data, prefix.data, prefix.len) != 0))
        return 0;
    if (l->listed == l->ask->limit || l->looked == LIST_LOOK * l->ask->limit || l->out->len > LIST_BYTES ||
        l->bytes > LIST_READ) {
        l->more = 1;
        return 0;
    }
    l->looked++;
    l->last = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
    if (htc__kv_own_key(key))
        return 1;
    uint32_t bucket = htc__kv_cluster_bucket(l->s->cluster, key);
    if (!htc__kv_cluster_serves(l->s, bucket, htc__kv_bucket_epoch(l->s->cluster, bucket)))
        return 1; /* another's, or one of those that were named as not served */
    if (!value.data || htc__kv_cell_read(value, NULL, &cell) != HTC_OK) {
        item.flags = HTC__KV_LISTED_UNSAID;
    } else if (cell.present && !cell.deleted && cell.lease) {
        item.flags = HTC__KV_LISTED_UNSAID; /* it exists if its lease lives */
        item.version = cell.version;
        item.digest = digest_of(l->s, &cell);
    } else if (!cell.present) {
        return 1;
    } else {
        htc__kv_owners owners = htc__kv_cluster_owners(l->s, key, &bucket);
        l->bytes += cell.value.len;
        item.version = cell.version;
        item.digest = digest_of(l->s, &cell);
        if (cell.deleted)
            item.flags = HTC__KV_LISTED_TOMBSTONE;
        else if ((l->ask->flags & HTC__KV_LIST_VALUES) && cell.value.len <= LIST_VALUE &&
                 owners.id[owners.first] == l->s->cluster->id)
            item.flags = HTC__KV_LISTED_VALUE;
        item.value = cell.value;
    }
    l->listed++;
    htc__kv_listed_write(l->out, &item);
    return l->out->status == HTC_OK;
}

/* The buckets that this member owns and cannot speak for now. 0: they are too many. */
static int put_unserved(htc_kv_server *s, htc_buf *b)
{
    htc__kv_cluster *c = s->cluster;
    uint32_t         n = 0, unserved[UNSERVED_MAX];
    for (uint32_t i = 0; i < c->buckets; i++) {
        if (htc__kv_cluster_serves(s, i, c->route[i].epoch) || !htc__kv_route_has(c, i, c->id))
            continue;
        if (n == UNSERVED_MAX)
            return 0;
        unserved[n++] = i;
    }
    htc_put_varint(b, c->map_version);
    htc_put_varint(b, n);
    for (uint32_t i = 0; i < n; i++)
        htc_put_varint(b, unserved[i]);
    return 1;
}

static void on_list(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_list_ask ask;
    htc_buf          cells;
    if (htc__kv_list_read(item, &ask) != HTC_OK || ask.limit == 0 ||
        ((ask.flags & HTC__KV_LIST_WATCHED) && !htc__kv_cluster_watch_known(s, from, &ask)))
        return;
    ask.limit = ask.limit < LIST_MAX ? ask.limit : LIST_MAX;
    int          behind = ask.after.len && htc_bytes_compare(ask.after, ask.prefix) >= 0;
    htc__kv_name start = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, behind ? ask.after : ask.prefix);
    if (behind)
        start.data[start.len++] = 0;
    htc_buf_init(&cells, &s->env, 0);
    list l = { .s = s, .ask = &ask, .out = &cells };
    s->touched = 0;
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&start), list_cell, &l);
    htc_buf_clear(&c->scratch);
    htc_put_u64(&c->scratch, ask.tag);
    htc_put_u8(&c->scratch, l.more != 0);
    int can = put_unserved(s, &c->scratch);
    htc_put_bytes(&c->scratch, l.more ? (htc_bytes){ l.last.data + 1, l.last.len - 1 } : (htc_bytes){ NULL, 0 });
    htc_put_raw(&c->scratch, htc_buf_bytes(&cells));
    status = status == HTC_OK ? cells.status : status;
    htc_buf_free(&cells);
    if (status == HTC_OK && can)
        htc__kv_cluster_reply(s, from, HTC__KV_ITEM_LISTED);
    else if (status == HTC_ENOMEM || status == HTC_EIO)
        htc__kv_cluster_broken(s, status);
}

/* ---------------------------------------------------------------- scans under way */

static void clear_page(htc_kv_server *s, scanning *x)
{
    for (uint32_t i = 0; x->lists && i < x->list_n * x->rounds; i++)
        htc_buf_free(&x->lists[i].bytes);
    htc__free(&s->env, x->lists, (size_t)x->list_n * x->rounds * sizeof *x->lists);
    htc__free(&s->env, x->covered, s->cluster->buckets);
    htc__free(&s->env, x->found, x->found_cap * sizeof *x->found);
    htc_buf_free(&x->bytes);
    x->lists = NULL;
    x->covered = NULL;
    x->found = NULL;
    x->found_n = x->found_cap = x->read_next = x->reading = 0;
    x->merged = 0;
}

struct htc__kv_scans {
    scanning    *first, **last;
    size_t       count;
    htc__kv_face face;
};

static void drop(htc_kv_server *s, scanning *x)
{
    htc__kv_cluster *c = s->cluster;
    scanning       **at = &c->scans->first;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    c->scans->count--;
    if (c->scans->last == &x->next)
        c->scans->last = at;
    clear_page(s, x);
    htc__free(&s->env, x, sizeof *x);
}

size_t htc__kv_scans_count(const htc_kv_server *s)
{
    return s->cluster->scans->count;
}

int htc__kv_scans_asks(const htc_kv_server *s, const htc__kv_face *face)
{
    return face == &s->cluster->scans->face;
}

static void set(uint8_t *to, size_t *len, htc_bytes from)
{
    if (from.len)
        memmove(to, from.data, from.len);
    *len = from.len;
}

static void answer(htc_kv_server *s, scanning *x, htc_kv_result *result)
{
    result->op = x->op;
    htc__kv_count_answer(&s->counts, x->op, result->status);
    x->face->answer(x->face->ctx, x->conn, x->slot, result);
    drop(s, x);
}

static int is_gone(const scanning *x)
{
    return x->face->gone && x->face->gone(x->face->ctx, x->conn);
}

static void drop_gone(htc_kv_server *s)
{
    for (scanning *x = s->cluster->scans->first, *next; x; x = next) {
        next = x->next;
        if (is_gone(x))
            answer(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ECANCELLED });
    }
}

static htc_ns retry_of(const htc_kv_server *s)
{
    return s->options.member_retry_ns ? s->options.member_retry_ns : 50 * HTC_MS;
}

int htc__kv_cluster_scan(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn,
                         uint64_t slot, htc_kv_result *result)
{
    htc__kv_cluster *c = s->cluster;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    if (q->flags) {
        result->status = HTC_EUNSUPPORTED; /* members list in the order of keys */
        return 1;
    }
    if (c->scans->count >= SCANS_MAX)
        drop_gone(s);
    if (c->scans->count >= SCANS_MAX) {
        result->status = HTC_EBUSY;
        return 1;
    }
    scanning *x = htc__alloc(&s->env, sizeof *x);
    if (!x) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        result->status = HTC_ENOMEM;
        return 1;
    }
    s->stats.reads++;
    x->op = q->op;
    x->face = face;
    x->watch = htc__kv_cluster_watch_asks(s, face);
    x->conn = conn;
    x->slot = slot;
    x->limit = q->limit ? q->limit : 1000;
    uint64_t share = (uint64_t)x->limit * c->route[0].n / c->map->members + 16;
    x->ask = q->op == HTC_KV_COUNT || share > LIST_MAX ? LIST_MAX : (uint32_t)share;
    set(x->prefix, &x->prefix_len, q->key);
    set(x->after, &x->after_len, q->cursor);
    x->until = s->now + c->request_ns;
    x->pause = retry_of(s) / 2;
    c->scans->count++;
    *c->scans->last = x;
    c->scans->last = &x->next;
    return 0;
}

static void ask_lists(htc_kv_server *s, scanning *x)
{
    htc__kv_cluster *c = s->cluster;
    htc__kv_list_ask ask = { .tag = x->tag,
                             .flags = x->op == HTC_KV_SCAN ? HTC__KV_LIST_VALUES : 0,
                             .limit = x->ask,
                             .prefix = { x->prefix, x->prefix_len },
                             .after = { x->after, x->after_len } };
    for (uint32_t i = 0; i < x->list_n; i++) {
        htc__kv_list_ask of = ask;
        if (x->lists[i].answered || !c->peers[i].listed || (x->watch && !htc__kv_cluster_watch_list(s, i, &of)))
            continue;
        x->lists[i].stream = x->lists[i].stream ? x->lists[i].stream : of.stream;
        htc_buf_clear(&c->scratch);
        htc__kv_list_write(&c->scratch, &of);
        htc__kv_cluster_say(s, c->peers[i].id, HTC__KV_ITEM_LIST, htc_buf_bytes(&c->scratch));
    }
    x->again_at = s->now + retry_of(s) * 4;
}

static void begin_page(htc_kv_server *s, scanning *x)
{
    htc__kv_cluster *c = s->cluster;
    clear_page(s, x);
    x->list_n = c->count;
    x->rounds = 1;
    x->lists = htc__alloc(&s->env, x->list_n * sizeof *x->lists);
    x->covered = htc__alloc(&s->env, c->buckets);
    x->uncovered = c->buckets;
    x->heard = 0;
    if (!x->lists || !x->covered) {
        htc__free(&s->env, x->lists, x->list_n * sizeof *x->lists);
        x->lists = NULL;
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < x->list_n; i++)
        htc_buf_init(&x->lists[i].bytes, &s->env, 0);
    htc_buf_init(&x->bytes, &s->env, 0);
    x->tag = ++c->last_tag;
    x->settle_at = s->now + c->suspect_ns;
    if (x->watch && 8 * c->suspect_ns <= c->request_ns) /* one that lists later has it start over */
        x->settle_at = s->now + 4 * c->suspect_ns;
    ask_lists(s, x);
}

static scanning *find(const htc_kv_server *s, uint64_t tag)
{
    scanning *x = s->cluster->scans->first;
    while (x && x->tag != tag)
        x = x->next;
    return x;
}

static int read_unserved(htc_reader *r, listing *l)
{
    l->version = htc_get_varint(r);
    uint64_t n = htc_get_varint(r);
    if (n > UNSERVED_MAX)
        htc_reader_fail(r);
    l->unserved_n = r->status == HTC_OK ? (uint32_t)n : 0;
    for (uint32_t i = 0; i < l->unserved_n; i++) {
        uint64_t bucket = htc_get_varint(r);
        if (bucket > UINT32_MAX || (i > 0 && bucket <= l->unserved[i - 1]))
            htc_reader_fail(r);
        l->unserved[i] = (uint32_t)bucket;
    }
    return r->status == HTC_OK;
}

static void on_listed(htc_kv_server *s, uint64_t from, htc_bytes item)
{
    htc_reader          r = htc_reader_of(item);
    scanning           *x = find(s, htc_get_u64(&r));
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, from);
    uint8_t             more = htc_get_u8(&r);
    if (r.status != HTC_OK || more > 1 || !x || x->tag == 0 || x->merged || !peer ||
        (uint32_t)(peer - s->cluster->peers) >= x->list_n)
        return;
    listing *l = &x->lists[peer - s->cluster->peers];
    if (l->answered || !read_unserved(&r, l))
        return;
    if (l->version > s->cluster->map_version)
        htc__kv_cluster_say_want(s, from);
    htc_put_raw(&l->bytes, htc_get_raw(&r, htc_reader_left(&r)));
    if (l->bytes.status != HTC_OK) {
        htc__kv_cluster_broken(s, l->bytes.status);
        return;
    }
    l->answered = 1;
    x->heard = 1;
    l->more = more;
    l->r = htc_reader_of(htc_buf_bytes(&l->bytes));
    l->up_to = htc_get_bytes(&l->r);
    l->has = (uint8_t)htc__kv_listed_next(&l->r, &l->head);
    /* A list with more to come goes on behind where it was asked from, or the scan would never end. */
    if (l->r.status != HTC_OK || l->up_to.len > HTC_KV_KEY_MAX ||
        (more && (l->up_to.len == 0 || htc_bytes_compare(l->up_to, (htc_bytes){ x->after, x->after_len }) <= 0)))
        x->failed = HTC_EPROTO;
}

/* ---------------------------------------------------------------- are there enough of them? */

/* It knew who owns that bucket now, and served it. */
static int speaks_for(const htc_kv_server *s, const listing *l, uint32_t bucket)
{
    const htc__kv_cluster *c = s->cluster;
    if (!l->answered || l->version < c->route[bucket].since || l->version > c->map_version)
        return 0;
    uint32_t low = 0, high = l->unserved_n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (l->unserved[middle] < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low == l->unserved_n || l->unserved[low] != bucket;
}

/* The newest list in which that member answers for that bucket, or NULL. */
static const listing *list_for(const htc_kv_server *s, const scanning *x, uint32_t peer, uint32_t bucket)
{
    for (uint32_t round = 0; peer < x->list_n && round < x->rounds; round++) {
        /* Of the earlier ones the last is the newest. */
        const listing *l = &x->lists[(round ? x->rounds - round : 0) * x->list_n + peer];
        if (speaks_for(s, l, bucket))
            return l;
    }
    return NULL;
}

static int bucket_covered(const htc_kv_server *s, const scanning *x, uint32_t bucket)
{
    const htc__kv_route *route = &s->cluster->route[bucket];
    uint32_t             answered = 0;
    for (uint32_t i = 0; i < route->n; i++)
        answered += list_for(s, x, route->peer[i], bucket) != NULL;
    return answered >= route->n / 2 + 1;
}

/* 1: each member that is not suspected has answered. Those that do not answer for all of what they own are added to `*missing`. */
static int all_answered(const htc_kv_server *s, const scanning *x, int late, uint32_t *missing)
{
    const htc__kv_cluster *c = s->cluster;
    for (uint32_t i = 0; i < x->list_n; i++) {
        const listing *l = &x->lists[i];
        if (!c->peers[i].listed)
            continue;
        *missing += !l->answered || l->unserved_n || l->version != c->map_version;
        if (!l->answered && !late && !htc__kv_cluster_suspected(s, &c->peers[i]))
            return 0;
    }
    return 1;
}

static int enough(const htc_kv_server *s, const scanning *x)
{
    uint32_t missing = 0;
    return x->list_n == s->cluster->count && all_answered(s, x, s->now >= x->settle_at, &missing) && (!missing || !x->uncovered);
}

static int lists_anew(const htc_kv_server *s, const listing *l)
{
    return l->answered && (l->version != s->cluster->map_version || l->unserved_n);
}

/* Where nothing moves and nobody is away there is nothing to count. */
static int is_to_be_counted(const htc_kv_server *s, const scanning *x)
{
    uint32_t missing = 0, i = 0;
    if (!x->tag || x->merged || x->list_n != s->cluster->count || !(x->heard || x->counted_version != s->cluster->map_version))
        return 0;
    while (i < x->list_n && !lists_anew(s, &x->lists[i]))
        i++;
    return i < x->list_n || (all_answered(s, x, s->now >= x->settle_at, &missing) && missing);
}

/* A majority that served a bucket after the page began could not have been sealed before: nobody else was its owner then. So what is counted
 * once stays so. The lists of a watch are those of one moment. */
static void count_covered(htc_kv_server *s, scanning *x)
{
    uint32_t missing = 0, before = x->uncovered;
    x->heard = 0;
    x->counted_version = s->cluster->map_version;
    x->uncovered = 0;
    for (uint32_t b = 0; b < s->cluster->buckets; b++) {
        int was = x->covered[b] && !x->watch;
        x->covered[b] = (uint8_t)(was || bucket_covered(s, x, b));
        x->uncovered += !x->covered[b];
    }
    for (uint32_t i = 0; x->uncovered < before && i < x->list_n; i++)
        x->lists[i].needed |= x->lists[i].answered;
    if (x->uncovered && !x->watch && all_answered(s, x, 0, &missing) && s->now + x->pause < x->again_at)
        x->again_at = s->now + x->pause;
}

/* 0: they are too many, or there is no memory. */
static int keep_lists(htc_kv_server *s, scanning *x)
{
    size_t   n = (size_t)x->list_n * x->rounds;
    listing *more = x->rounds == ROUNDS_MAX ? NULL : htc__resize(&s->env, x->lists, n * sizeof *more, (n + x->list_n) * sizeof *more);
    if (!more)
        return 0;
    x->lists = more;
    x->rounds++;
    for (uint32_t i = 0; i < x->list_n; i++) {
        listing empty = { .stream = more[i].stream };
        htc_buf_init(&empty.bytes, &s->env, 0);
        int moves = more[i].needed && lists_anew(s, &more[i]);
        more[n + i] = moves ? more[i] : empty;
        more[i] = moves ? empty : more[i];
    }
    return 1;
}

/* What was listed before a bucket moved, or while it did, is listed anew. What it was enough for is kept. */
static void list_again(htc_kv_server *s, scanning *x)
{
    uint32_t needed = 0;
    for (uint32_t i = 0; i < x->list_n; i++)
        needed += x->lists[i].needed && lists_anew(s, &x->lists[i]);
    if (needed && !x->watch && !keep_lists(s, x)) {
        begin_page(s, x);
        return;
    }
    x->pause = 2 * x->pause < 4 * retry_of(s) ? 2 * x->pause : 4 * retry_of(s);
    for (uint32_t i = 0; i < x->list_n; i++) {
        listing *l = &x->lists[i];
        if (!lists_anew(s, l))
            continue;
        htc_buf_clear(&l->bytes);
        l->answered = l->more = l->has = l->needed = 0;
    }
    ask_lists(s, x);
}

/* ---------------------------------------------------------------- lists become a page */

/* What a majority of the owners lists alike is final. Absent alike is not decided here: who holds nothing may have collected a
 * tombstone, or may never have heard of the key. */
static found_state vote(const htc_kv_server *s, const scanning *x, htc_bytes key, const htc__kv_listed **shown)
{
    uint32_t       bucket, same;
    htc__kv_owners owners = htc__kv_cluster_owners(s, key, &bucket);
    const listing *l[HTC_RING_OWNERS_MAX];
    for (uint32_t i = 0; i < owners.n; i++) {
        const listing *of = list_for(s, x, s->cluster->route[bucket].peer[i], bucket);
        l[i] = of && of->has && htc_bytes_equal(of->head.key, key) && !(of->head.flags & HTC__KV_LISTED_UNSAID) ? of : NULL;
    }
    for (uint32_t i = 0; i < owners.n; i++) {
        if (!l[i])
            continue;
        same = 0;
        *shown = &l[i]->head;
        for (uint32_t j = 0; j < owners.n; j++) {
            if (!l[j] || l[j]->head.digest != l[i]->head.digest)
                continue;
            same++;
            if (l[j]->head.flags & HTC__KV_LISTED_VALUE)
                *shown = &l[j]->head;
        }
        if (same < owners.n / 2 + 1)
            continue;
        if ((*shown)->flags & HTC__KV_LISTED_TOMBSTONE)
            return GONE;
        return x->op == HTC_KV_COUNT || ((*shown)->flags & HTC__KV_LISTED_VALUE) ? FOUND : TO_READ;
    }
    return TO_READ;
}

/* Whoever can speak for the key lists the same of it, and they are enough: 0; else the highest version that is listed, or, where they are too
 * few, that none is high enough. Who holds it damaged cannot speak for it. */
static uint64_t disputed(const htc_kv_server *s, const scanning *x, htc_bytes key)
{
    uint32_t             bucket = htc__kv_cluster_bucket(s->cluster, key);
    const htc__kv_route *route = &s->cluster->route[bucket];
    const listing       *first = NULL;
    uint64_t             most = 1;
    uint32_t             speak = 0;
    int                  differ = 0;
    for (uint32_t i = 0; i < route->n; i++) {
        const listing *l = list_for(s, x, route->peer[i], bucket);
        if (!l)
            continue;
        int lists = l->has && htc_bytes_equal(l->head.key, key);
        if (lists && (l->head.flags & HTC__KV_LISTED_UNSAID) && l->head.version == 0)
            continue;
        speak++;
        differ |= !lists || (first && first->head.digest != l->head.digest);
        if (lists && l->head.version > most)
            most = l->head.version;
        first = lists ? l : first;
    }
    return speak < route->n / 2 + 1 ? UINT64_MAX : differ ? most : 0;
}

static int add_found(htc_kv_server *s, scanning *x, htc_bytes key, found_state state, const htc__kv_listed *shown)
{
    if (x->found_n == x->found_cap) {
        size_t cap = x->found_cap ? 2 * x->found_cap : 64;
        found *more = htc__resize(&s->env, x->found, x->found_cap * sizeof *more, cap * sizeof *more);
        if (!more)
            return 0;
        x->found = more;
        x->found_cap = cap;
    }
    found *f = &x->found[x->found_n++];
    *f = (found){ .state = state, .key_at = x->bytes.len, .key_len = key.len };
    htc_put_raw(&x->bytes, key);
    if (state == FOUND) {
        f->version = shown->version;
        f->value_at = x->bytes.len;
        f->value_len = shown->value.len;
        htc_put_raw(&x->bytes, shown->value);
    }
    return x->bytes.status == HTC_OK;
}

static const listing *lowest(const scanning *x)
{
    const listing *low = NULL;
    for (uint32_t i = 0; i < x->list_n * x->rounds; i++)
        if (x->lists[i].has && (!low || htc_bytes_compare(x->lists[i].head.key, low->head.key) < 0))
            low = &x->lists[i];
    return low;
}

static void pass(scanning *x, htc_bytes key)
{
    for (uint32_t i = 0; i < x->list_n * x->rounds; i++) {
        listing *l = &x->lists[i];
        if (!l->has || !htc_bytes_equal(l->head.key, key))
            continue;
        htc_bytes before = l->head.key;
        l->has = (uint8_t)htc__kv_listed_next(&l->r, &l->head);
        if (l->r.status != HTC_OK || (l->has && htc_bytes_compare(l->head.key, before) <= 0))
            x->failed = HTC_EPROTO;
    }
}

static void merge(htc_kv_server *s, scanning *x)
{
    const listing *low;
    htc_bytes      bound = { NULL, 0 };
    x->merged = 1;
    x->more = 0;
    for (uint32_t i = 0; i < x->list_n * x->rounds; i++) {
        const listing *l = &x->lists[i];
        if (l->answered && l->more && (!x->more || htc_bytes_compare(l->up_to, bound) < 0))
            bound = l->up_to;
        x->more |= l->answered && l->more;
    }
    if (x->more)
        set(x->last, &x->last_len, bound);
    while (x->failed == HTC_OK && (low = lowest(x))) {
        const htc__kv_listed *shown = NULL;
        uint8_t               bytes[HTC_KV_KEY_MAX];
        htc_bytes             key = { bytes, low->head.key.len };
        memcpy(bytes, low->head.key.data, key.len);
        if (bound.data && htc_bytes_compare(key, bound) > 0)
            return;
        found_state state = vote(s, x, key, &shown);
        uint64_t    least = x->watch && !HTC__BROKEN(page_unsettled) ? disputed(s, x, key) : 0;
        state = least ? TO_READ : state;
        if (state != GONE && (x->found_n == x->limit || x->bytes.len > PAGE_BYTES)) {
            const found *end = &x->found[x->found_n - 1];
            x->more = 1;
            set(x->last, &x->last_len, (htc_bytes){ x->bytes.data + end->key_at, end->key_len });
            return;
        }
        if (state == FOUND && x->op == HTC_KV_COUNT)
            x->number++;
        else if (state != GONE && !add_found(s, x, key, state, shown))
            htc__kv_cluster_broken(s, HTC_ENOMEM);
        else if (least)
            x->found[x->found_n - 1].least = least;
        if (s->broken != HTC_OK)
            return;
        pass(x, key);
    }
}

/* ---------------------------------------------------------------- keys that are read */

/* As a request that was tried: the answer is not given before it is certain that nothing else can become final instead. */
static void settle(htc_kv_server *s, scanning *x, size_t at)
{
    found          *f = &x->found[at];
    htc_kv_request  q = { .size = sizeof q, .op = HTC_KV_GET, .key = { x->bytes.data + f->key_at, f->key_len } };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &s->cluster->scans->face, x->tag, at, s->now + s->cluster->request_ns);
    if (!r)
        return;
    x->reading++;
    f->settled = 1;
    r->tried = 1;
    htc__kv_pending_route(s, r);
}

static void read_answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    scanning      *x = find(s, conn);
    if (!x || !x->merged || slot >= x->found_n || x->found[slot].state != READING)
        return;
    found *f = &x->found[slot];
    x->reading--;
    if (result->version < f->least && !f->settled && (result->status == HTC_OK || result->status == HTC_ENOTFOUND)) {
        settle(s, x, (size_t)slot);
        return;
    }
    f->state = result->status == HTC_OK ? FOUND : GONE;
    if (result->status != HTC_OK) {
        if (result->status != HTC_ENOTFOUND)
            x->failed = result->status;
        return;
    }
    f->version = result->version;
    f->value_at = x->bytes.len;
    f->value_len = x->op == HTC_KV_SCAN ? result->value.len : 0;
    htc_put_raw(&x->bytes, (htc_bytes){ result->value.data, f->value_len });
    if (x->bytes.status != HTC_OK)
        htc__kv_cluster_broken(s, x->bytes.status);
}

/* In order, so that a page that grows too long ends before those that were not asked for. */
static void read_some(htc_kv_server *s, scanning *x)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc__kv_cluster           *c = s->cluster;
    c->scans->face = (htc__kv_face){ .answer = read_answered, .ctx = s };
    while (x->reading < READS_AT_ONCE && x->read_next < x->found_n && s->broken == HTC_OK && x->failed == HTC_OK &&
           (x->bytes.len <= PAGE_BYTES || x->read_next == 0)) {
        size_t at = x->read_next++;
        found *f = &x->found[at];
        if (f->state != TO_READ)
            continue;
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = { x->bytes.data + f->key_at, f->key_len } };
        htc_kv_result  now = { .size = sizeof now };
        f->state = READING;
        x->reading++;
        if (htc__kv_cluster_ask(s, &q, &nobody, &c->scans->face, x->tag, at, &now))
            read_answered(s, x->tag, at, &now);
    }
}

/* ---------------------------------------------------------------- the end of a page */

static void count_page(htc_kv_server *s, scanning *x)
{
    for (size_t i = 0; i < x->found_n; i++)
        x->number += x->found[i].state == FOUND;
    if (!x->more) {
        answer(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .number = x->number });
        return;
    }
    set(x->after, &x->after_len, (htc_bytes){ x->last, x->last_len });
    x->pause = retry_of(s) / 2;
    x->until = s->now + s->cluster->request_ns; /* however many there are: it goes forward */
    begin_page(s, x);
}

static void tell_watch(htc_kv_server *s, const scanning *x)
{
    size_t    size = x->list_n * sizeof(uint64_t);
    uint64_t *streams = htc__alloc(&s->env, size);
    if (!streams) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < x->list_n; i++)
        streams[i] = x->lists[i].answered ? x->lists[i].stream : 0;
    htc__kv_cluster_watch_page(s, x->conn, streams, x->list_n);
    htc__free(&s->env, streams, size);
}

static void show_page(htc_kv_server *s, scanning *x)
{
    htc_kv_result result = { .size = sizeof result };
    htc_buf      *b = &s->scratch_items;
    htc_buf_clear(b);
    for (size_t i = 0; i < x->found_n; i++) {
        const found *f = &x->found[i];
        int          over = result.items && b->len + f->key_len + f->value_len + 24 > PAGE_BYTES;
        if (f->state == TO_READ || (f->state == FOUND && over)) { /* the page ends before it */
            const found *end = &x->found[i - 1];
            x->more = 1;
            set(x->last, &x->last_len, (htc_bytes){ x->bytes.data + end->key_at, end->key_len });
            break;
        }
        if (f->state != FOUND)
            continue;
        htc__kv_item_write(b, (htc_bytes){ x->bytes.data + f->key_at, f->key_len }, f->version,
                           (htc_bytes){ x->bytes.data + f->value_at, f->value_len });
        result.items++;
    }
    if (b->status != HTC_OK) {
        htc__kv_cluster_broken(s, b->status);
        return;
    }
    result.items_bytes = htc_buf_bytes(b);
    if (x->more)
        result.cursor = (htc_bytes){ x->last, x->last_len };
    if (x->watch)
        tell_watch(s, x);
    answer(s, x, &result);
}

static int may_go_on(const htc_kv_server *s, const scanning *x)
{
    return x->tag == 0 || (!x->merged && x->list_n != s->cluster->count) || x->failed != HTC_OK || s->now >= x->until || s->now >= x->again_at ||
           (x->merged ? x->reading == 0 : enough(s, x));
}

static void go_on(htc_kv_server *s, scanning *x)
{
    if (x->tag == 0 || (!x->merged && x->list_n != s->cluster->count))
        begin_page(s, x);
    else if (!x->merged && enough(s, x))
        merge(s, x);
    else if (!x->merged && s->now >= x->again_at)
        list_again(s, x);
    if (s->broken != HTC_OK)
        return;
    if (x->failed != HTC_OK) {
        answer(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = x->failed });
        return;
    }
    if (!x->merged)
        return;
    x->again_at = HTC_NEVER;
    read_some(s, x);
    if (x->reading || s->broken != HTC_OK || x->failed != HTC_OK)
        return;
    if (x->op == HTC_KV_COUNT)
        count_page(s, x);
    else
        show_page(s, x);
}

void htc__kv_cluster_scans_hurry(htc_kv_server *s, const htc__kv_face *face)
{
    for (scanning *x = s->cluster->scans->first; x; x = x->next)
        if (x->face == face && x->tag && !x->merged)
            x->again_at = s->now;
}

static void tick(htc_kv_server *s)
{
    int running = 0;
    for (scanning *x = s->cluster->scans->first, *next; x && s->broken == HTC_OK; x = next, running++) {
        next = x->next;
        if (running >= RUNNING_MAX && s->now < x->until)
            return; /* it waits, and so do those behind it, which came later */
        if (is_gone(x)) {
            answer(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ECANCELLED });
            running--;
            continue;
        }
        if (is_to_be_counted(s, x))
            count_covered(s, x);
        if (s->now >= x->until)
            answer(s, x, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ETIMEDOUT });
        else if (may_go_on(s, x))
            go_on(s, x);
    }
}

static htc_ns deadline(const htc_kv_server *s)
{
    htc_ns at = HTC_NEVER;
    int    running = 0;
    for (const scanning *x = s->cluster->scans->first; x; x = x->next, running++) {
        if (running >= RUNNING_MAX)
            return x->until < at ? x->until : at;
        if (may_go_on(s, x))
            return 0;
        htc_ns due = x->merged ? x->until : x->again_at < x->settle_at ? x->again_at : x->settle_at;
        if (!x->merged && s->now >= x->settle_at)
            due = x->again_at;
        due = due < x->until ? due : x->until;
        at = due < at ? due : at;
    }
    return at;
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (kind == HTC__KV_ITEM_LIST ? on_list : on_listed)(s, from, item);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_scans *x = s->cluster->scans = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    x->last = &x->first;
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_scans *x = s->cluster->scans;
    if (!x)
        return;
    while (x->first)
        drop(s, x->first);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->scans = NULL;
}

const htc__kv_component htc__kv_component_scans = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                          .items = { HTC__KV_ITEM_LIST, HTC__KV_ITEM_LISTED } };
