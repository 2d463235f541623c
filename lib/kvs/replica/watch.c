/* The host of watches: what is watched here and who knows it, the versions that are needed, and the backend of the hub. */
#include "kvs/replica/watch.h"

#include <assert.h>
#include <string.h>

#include "core/fault.h"

#define NEEDED_MAX    65536
#define MESSAGE_WISHES 512
#define MESSAGE_BYTES  ((size_t)64 << 10)
/* A read that was too low is repeated so often before its key is settled. */
#define PLAIN_READS 2

/* Something that is watched here, or was and not all know that yet: in the order of numbers. */
typedef struct interest {
    struct interest *older, *newer;
    const htc__node *node; /* that holds this */
    uint64_t         number;
    uint8_t          ended, prefix;
    uint32_t         turn;    /* prefix: it has started over so often */
    uint32_t         in_vain; /* of these the last ones, for a member that did not list then either */
    htc_ns           over_at; /* not before */
    uint32_t         pages;   /* since then */
    uint64_t        *streams; /* by member, those under which it has listed for all these pages; 0: none */
    uint32_t         streams_n;
} interest;

/* Another member, as an owner. */
typedef struct link {
    uint64_t stream;     /* 0: none has begun */
    uint64_t have, said; /* the newest wish that it has heard, that is on its way */
    uint64_t taken;      /* the newest of its marks */
    htc_ns   again_at, probe_at, opened;
    uint8_t  owes;
} link;

/* A key of which an owner has shown a record that a read has to be at or above. */
typedef struct needed {
    uint64_t version, seen, digest;
    uint64_t settler, since; /* who settles it, by number; the highest version that was shown since that began */
} needed;

/* What the hub asks for. */
typedef struct asked {
    const htc__kv_face *face;
    uint64_t            conn, slot;
    uint64_t            number;
    htc_ns              again_at;       /* HTC_NEVER: it is being read */
    uint32_t            tries, turn;
    uint8_t             settle, scan;
    size_t              key_len;
    uint8_t             key[];
} asked;

struct htc__kv_hosting {
    htc__table             interests; /* by name: interest */
    interest              *oldest, *newest;
    uint32_t               live, ended;
    uint64_t               number, life, streams;
    link                  *links; /* by member */
    uint32_t               link_n;
    htc__table             needed; /* by key */
    htc__table             asked;  /* by number: struct asked */
    uint64_t               asked_number;
    uint32_t               waiting; /* of these, so many are to be read again, none before: */
    htc_ns                 again_at;
    uint8_t                settle_all, clean;
    htc__kv_face           face;
    htc__kv_watching_counts counts;
};

typedef struct htc__kv_hosting hosting;

static hosting *of(const htc_kv_server *s)
{
    return s->cluster->hosting;
}

static htc_ns retry_ns(const htc_kv_server *s)
{
    return s->options.member_retry_ns ? s->options.member_retry_ns : 50 * HTC_MS;
}

/* ---------------------------------------------------------------- what is watched here */

static void unlist(hosting *w, interest *i)
{
    *(i->older ? &i->older->newer : &w->oldest) = i->newer;
    *(i->newer ? &i->newer->older : &w->newest) = i->older;
}

/* It is said to all, behind all that was said before. */
static void list(hosting *w, interest *i)
{
    i->number = ++w->number;
    i->newer = NULL;
    i->older = w->newest;
    *(w->newest ? &w->newest->newer : &w->oldest) = i;
    w->newest = i;
}

static htc_bytes key_of(const interest *i)
{
    return htc__kv_watch_name_key(i->node);
}

static void forget_pages(htc_kv_server *s, interest *i)
{
    htc__free(&s->env, i->streams, i->streams_n * sizeof *i->streams);
    i->streams = NULL;
    i->streams_n = 0;
    i->pages = 0;
}

static interest *find(const htc_kv_server *s, int prefix, htc_bytes key)
{
    htc__kv_watch_name name;
    htc__node         *node = htc__table_find(&of(s)->interests, htc__kv_watch_name_of(&name, prefix, key));
    return node ? htc__node_value(node) : NULL;
}

static htc_status begun(void *ctx, int prefix, htc_bytes key)
{
    htc_kv_server     *s = ctx;
    hosting           *w = of(s);
    htc__kv_watch_name name;
    interest          *i = find(s, prefix, key);
    htc__kv_marked     marked;
    if (!prefix && htc__kv_own_key(key))
        return HTC_EINVAL;
    if (w->live >= HTC__KV_INTERESTS_MAX)
        return HTC_EFULL;
    if (i) {
        unlist(w, i);
        assert(w->ended >= i->ended);
        w->ended -= i->ended;
    } else {
        htc__node *node = htc__table_make(&w->interests, htc__kv_watch_name_of(&name, prefix, key), sizeof *i);
        if (!node)
            return HTC_ENOMEM;
        htc__table_link(&w->interests, node);
        i = htc__node_value(node);
        i->node = node;
        i->prefix = prefix != 0;
    }
    i->ended = 0;
    w->live++;
    list(w, i);
    if (!prefix && htc__kv_cluster_held(s, key, &marked))
        htc__kv_cluster_marked(s, &marked);
    return HTC_OK;
}

/* Those that have ended are kept until all who know them have heard that. */
static void clean(htc_kv_server *s)
{
    hosting *w = of(s);
    uint64_t all = UINT64_MAX;
    w->clean = 0;
    for (uint32_t p = 0; p < w->link_n; p++)
        if (w->links[p].stream && w->links[p].have < all)
            all = w->links[p].have;
    for (interest *i = w->oldest, *next; w->ended && i && i->number <= all; i = next) {
        next = i->newer;
        if (!i->ended)
            continue;
        assert(w->ended > 0);
        w->ended--;
        unlist(w, i);
        forget_pages(s, i);
        htc__table_remove(&w->interests, htc__node_key(i->node));
    }
}

/* Who has not heard yet what has ended, of which there is too much: it is told all that is watched, as if it knew nothing. */
static void let_go(htc_kv_server *s)
{
    hosting *w = of(s);
    for (uint32_t p = 0; p < w->link_n; p++)
        if (w->links[p].have < w->number)
            w->links[p].stream = 0;
    clean(s);
}

static void ended(void *ctx, int prefix, htc_bytes key)
{
    htc_kv_server *s = ctx;
    interest      *i = s->cluster && s->cluster->hosting ? find(s, prefix, key) : NULL; /* the server may be ending */
    if (!i || i->ended)
        return;
    hosting *w = of(s);
    forget_pages(s, i);
    unlist(w, i);
    i->ended = 1;
    list(w, i);
    w->clean = 1;
    if (++w->ended > HTC__KV_INTERESTS_MAX)
        let_go(s);
    if (--w->live == 0) {
        htc__table_free(&w->needed);
        w->settle_all = 0;
    }
}

/* ---------------------------------------------------------------- who knows it */

static int is_other(const htc_kv_server *s, uint32_t p)
{
    const htc__kv_cluster *c = s->cluster;
    return p < c->count && p != c->self && c->peers[p].listed && c->peers[p].id;
}

static int knows(const htc_kv_server *s, uint32_t p, const interest *i)
{
    const hosting *w = of(s);
    return is_other(s, p) && p < w->link_n && w->links[p].stream && w->links[p].have >= i->number;
}

static void start_over(htc_kv_server *s, interest *i)
{
    forget_pages(s, i);
    i->turn++;
    of(s)->counts.over++;
    htc__kv_watches_over(&s->native.watches, key_of(i));
}

/* A member that knows the prefix has not listed for all of its pages, as one that knows it without a gap: what it held until then was not
 * looked at. While it is away that cannot be made good; if it is there and does not list it is waited for longer and longer. */
static void check_pages(htc_kv_server *s, interest *i)
{
    const htc__kv_cluster *c = s->cluster;
    const hosting         *w = of(s);
    int                    missing = 0, there = 0;
    for (uint32_t p = 0; p < w->link_n; p++) {
        if (!knows(s, p, i) || (p < i->streams_n && i->streams[p] == w->links[p].stream))
            continue;
        missing = 1;
        there |= !htc__kv_cluster_suspected(s, &c->peers[p]);
    }
    if (!missing && i->pages)
        i->in_vain = 0;
    if (!there || !i->pages || s->now < i->over_at || HTC__BROKEN(page_not_anew))
        return;
    i->over_at = s->now + (c->suspect_ns << i->in_vain);
    i->in_vain += i->in_vain < 6;
    start_over(s, i);
}

static void renew(hosting *w, link *l)
{
    *l = (link){ .stream = ++w->streams, .opened = l->opened };
    w->counts.streams++;
}

static void say(htc_kv_server *s, uint32_t p)
{
    htc__kv_cluster *c = s->cluster;
    hosting         *w = of(s);
    link            *l = &w->links[p];
    size_t           wishes = 0;
    if (l->stream == 0)
        renew(w, l);
    htc__kv_watch_item item = { w->life, l->stream, l->have, l->taken };
    htc_buf_clear(&c->scratch);
    htc__kv_watch_item_write(&c->scratch, &item);
    l->said = l->have;
    for (const interest *i = w->oldest; i && wishes < MESSAGE_WISHES && c->scratch.len < MESSAGE_BYTES; i = i->newer) {
        if (i->number <= l->have)
            continue;
        int flags = (i->prefix ? HTC__KV_WATCH_PREFIX : 0) | (i->ended ? HTC__KV_WATCH_ENDED : 0);
        htc__kv_wanted_write(&c->scratch, &(htc__kv_wanted){ i->number, (uint8_t)flags, key_of(i) });
        l->said = i->number;
        wishes++;
    }
    if (c->scratch.status != HTC_OK) {
        htc__kv_cluster_broken(s, c->scratch.status);
        return;
    }
    htc__kv_cluster_say_to(s, &c->peers[p], HTC__KV_ITEM_WATCH, htc_buf_bytes(&c->scratch));
    l->owes = 0;
    l->again_at = s->now + 4 * retry_ns(s);
    l->probe_at = s->now + c->suspect_ns;
}

static uint64_t newest(const hosting *w)
{
    return w->newest ? w->newest->number : 0;
}

/* When something is to be said to that member. A new connection may be one to a member that has started anew. */
static htc_ns due(const htc_kv_server *s, uint32_t p)
{
    const hosting      *w = of(s);
    const link         *l = &w->links[p];
    const htc__kv_peer *peer = &s->cluster->peers[p];
    if (!is_other(s, p) || !peer->connected || (!l->owes && l->stream == 0 && w->live == 0))
        return HTC_NEVER;
    if (l->owes || l->stream == 0)
        return 0;
    if (l->have < newest(w))
        return l->said <= l->have ? 0 : l->again_at;
    return w->live == 0 ? HTC_NEVER : l->opened != peer->opened ? 0 : l->probe_at;
}

static int make_links(htc_kv_server *s)
{
    hosting *w = of(s);
    uint32_t n = s->cluster->count;
    if (n == w->link_n)
        return 1;
    link *more = htc__resize(&s->env, w->links, w->link_n * sizeof *more, n * sizeof *more);
    if (!more) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return 0;
    }
    memset(more + w->link_n, 0, (n - w->link_n) * sizeof *more);
    w->links = more;
    w->link_n = n;
    return 1;
}

static void has_heard(htc_kv_server *s, link *l, uint64_t have)
{
    hosting *w = of(s);
    if (have > l->have && have <= w->number) {
        l->have = have;
        l->said = l->said > have ? l->said : have;
        w->clean = 1;
        htc__kv_cluster_scans_hurry(s, &w->face);
    }
    for (interest *i = w->oldest; i; i = i->newer)
        if (i->prefix && !i->ended)
            check_pages(s, i);
}

static void on_marks(htc_kv_server *s, uint64_t from, htc_bytes bytes)
{
    hosting            *w = of(s);
    const htc__kv_peer *peer = htc__kv_cluster_peer(s->cluster, from);
    htc_reader          r = htc_reader_of(bytes), whole;
    htc__kv_marks_item  item;
    htc__kv_marked      marked;
    htc__kv_marks_item_read(&r, &item);
    whole = r;
    while (htc__kv_marked_next(&whole, &marked)) {
    }
    if (htc_reader_done(&whole) != HTC_OK || !peer || peer->self || !make_links(s))
        return;
    link *l = &w->links[peer - s->cluster->peers];
    if (item.life != w->life) {
        l->owes = 1; /* of an earlier life of this member: it is told that there is another one */
        return;
    }
    if (item.stream != l->stream)
        return;
    if (!item.known) {
        l->stream = 0;
        l->owes = 1;
        return;
    }
    if (item.have > l->have || item.number == 0)
        has_heard(s, l, item.have);
    if (item.number == 0)
        return;
    for (int news = item.number > l->taken; news && htc__kv_marked_next(&r, &marked);) {
        htc__kv_cluster_marked(s, &marked);
        w->counts.heard++;
    }
    l->taken = item.number > l->taken ? item.number : l->taken;
    l->owes = 1;
}

/* ---------------------------------------------------------------- versions that are needed */

static needed *needed_of(const htc_kv_server *s, htc_bytes key)
{
    htc__node *node = htc__table_find(&of(s)->needed, key);
    return node ? htc__node_value(node) : NULL;
}

/* Room for others: those that were read, or that nobody watches any more. With too many others all is settled from now on. */
static void prune(htc_kv_server *s)
{
    hosting *w = of(s);
    for (htc__node *node = w->needed.head[0], *next; node; node = next) {
        const needed *n = htc__node_value(node);
        next = node->next[0];
        if (n->version <= n->seen || !htc__kv_watches_want(&s->native.watches, htc__node_key(node)))
            htc__table_remove(&w->needed, htc__node_key(node));
    }
    if (w->needed.count <= NEEDED_MAX / 2)
        return;
    w->settle_all = 1;
    htc__table_free(&w->needed);
}

void htc__kv_cluster_marked(htc_kv_server *s, const htc__kv_marked *marked)
{
    hosting *w = of(s);
    if (!htc__kv_watches_want(&s->native.watches, marked->key) || htc__kv_own_key(marked->key))
        return;
    needed *n = needed_of(s, marked->key);
    if (!n && w->needed.count >= NEEDED_MAX)
        prune(s);
    if (!n) {
        htc__node *node = htc__table_make(&w->needed, marked->key, sizeof *n);
        if (!node) {
            htc__kv_cluster_broken(s, HTC_ENOMEM);
            return;
        }
        htc__table_link(&w->needed, node);
        n = htc__node_value(node);
    }
    if (marked->digest && n->digest == marked->digest)
        return; /* another owner has said it, and the hub was told then */
    n->digest = marked->digest;
    n->version = marked->version > n->version ? marked->version : n->version;
    n->since = marked->version > n->since ? marked->version : n->since;
    htc__kv_watches_changed(&s->native.watches, marked->key);
}

/* ---------------------------------------------------------------- what the hub asks for */

static asked *asked_find(const htc_kv_server *s, uint64_t number)
{
    htc__node *node = htc__table_find(&of(s)->asked, (htc_bytes){ &number, sizeof number });
    return node ? htc__node_value(node) : NULL;
}

static asked *asked_add(htc_kv_server *s, const htc_kv_request *q, const htc__kv_face *face, uint64_t conn, uint64_t slot)
{
    hosting   *w = of(s);
    uint64_t   number = w->asked_number + 1;
    htc__node *node = htc__table_make(&w->asked, (htc_bytes){ &number, sizeof number }, sizeof(asked) + q->key.len);
    if (!node) {
        htc__kv_cluster_broken(s, HTC_ENOMEM);
        return NULL;
    }
    w->asked_number = number;
    htc__table_link(&w->asked, node);
    asked *a = htc__node_value(node);
    *a = (asked){ .face = face, .conn = conn, .slot = slot, .number = number, .again_at = HTC_NEVER, .key_len = q->key.len };
    if (q->key.len)
        memcpy(a->key, q->key.data, q->key.len);
    return a;
}

static void asked_drop(htc_kv_server *s, asked *a)
{
    uint64_t number = a->number;
    htc__table_remove(&of(s)->asked, (htc_bytes){ &number, sizeof number });
}

static void read_it(htc_kv_server *s, asked *a)
{
    hosting       *w = of(s);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .key = { a->key, a->key_len } };
    needed        *n = needed_of(s, q.key);
    a->again_at = HTC_NEVER;
    a->settle |= w->settle_all;
    w->counts.settled += a->settle;
    if (a->settle && n && !asked_find(s, n->settler)) {
        n->settler = a->number;
        n->since = 0;
    }
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &w->face, a->number, 0, s->now + s->cluster->request_ns);
    if (!r)
        return;
    r->tried = a->settle;
    htc__kv_pending_route(s, r);
}

/* 1: it is told; 0: an owner holds something newer, which may become final yet. What was shown before a read began that outbids all is final
 * in that read or never will be: an accept under a higher ballot would rest on promises that let that read fail. */
static int is_enough(htc_kv_server *s, const asked *a, const htc_kv_result *result)
{
    needed *n = needed_of(s, (htc_bytes){ a->key, a->key_len });
    if (!n || (result->status != HTC_OK && result->status != HTC_ENOTFOUND) || HTC__BROKEN(mark_not_needed))
        return 1;
    if (a->settle && n->settler == a->number) {
        n->settler = 0;
        n->version = n->since;
    }
    if (result->version < n->version)
        return 0;
    n->seen = result->version > n->seen ? result->version : n->seen;
    return 1;
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    hosting       *w = of(s);
    asked         *a = asked_find(s, conn);
    (void)slot;
    if (!a)
        return;
    if (a->scan || is_enough(s, a, result)) {
        a->face->answer(a->face->ctx, a->conn, a->slot, result);
        asked_drop(s, a);
        return;
    }
    w->counts.again++;
    a->again_at = s->now + (retry_ns(s) << a->tries);
    a->settle = ++a->tries > PLAIN_READS;
    a->tries = a->tries > PLAIN_READS ? PLAIN_READS : a->tries;
    if (w->waiting++ == 0 || a->again_at < w->again_at)
        w->again_at = a->again_at;
}

static int gone(void *ctx, uint64_t conn)
{
    const asked *a = asked_find(ctx, conn);
    return !a || (a->face->gone && a->face->gone(a->face->ctx, a->conn));
}

static void read_again(htc_kv_server *s)
{
    hosting *w = of(s);
    if (!w->waiting || s->now < w->again_at)
        return;
    w->again_at = HTC_NEVER;
    for (htc__node *node = w->asked.head[0], *next; node && s->broken == HTC_OK; node = next) {
        asked *a = htc__node_value(node);
        next = node->next[0];
        if (a->again_at == HTC_NEVER)
            continue;
        if (a->again_at > s->now) {
            w->again_at = a->again_at < w->again_at ? a->again_at : w->again_at;
            continue;
        }
        assert(w->waiting > 0);
        w->waiting--;
        if (gone(s, a->number))
            asked_drop(s, a);
        else
            read_it(s, a);
    }
}

static int ask(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn, uint64_t slot,
               htc_kv_result *result)
{
    htc_kv_server  *s = ctx;
    const interest *i = q->op == HTC_KV_SCAN ? find(s, 1, q->key) : NULL;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_EBUSY };
    (void)stamp;
    asked *a = s->cluster->map ? asked_add(s, q, face, conn, slot) : NULL;
    if (!a)
        return 1; /* it has not been let in yet */
    if (q->op == HTC_KV_GET) {
        read_it(s, a);
        return 0;
    }
    a->scan = 1;
    a->turn = i ? i->turn : 0;
    int told = htc__kv_cluster_scan(s, q, &of(s)->face, a->number, 0, result);
    if (told)
        asked_drop(s, a);
    return told;
}

/* ---------------------------------------------------------------- pages */

int htc__kv_cluster_watch_asks(const htc_kv_server *s, const htc__kv_face *face)
{
    return face == &of(s)->face;
}

int htc__kv_cluster_watch_list(const htc_kv_server *s, uint32_t p, htc__kv_list_ask *ask)
{
    const interest *i = find(s, 1, ask->prefix);
    if (!i || i->ended)
        return 1; /* nobody wants it any more */
    ask->flags |= HTC__KV_LIST_WATCHED;
    ask->life = of(s)->life;
    ask->wish = i->number;
    ask->stream = 1;
    if (p == s->cluster->self)
        return 1;
    if (!knows(s, p, i))
        return 0;
    ask->stream = of(s)->links[p].stream;
    return 1;
}

void htc__kv_cluster_watch_page(htc_kv_server *s, uint64_t conn, const uint64_t *streams, uint32_t n)
{
    const asked *a = asked_find(s, conn);
    interest    *i = a ? find(s, 1, (htc_bytes){ a->key, a->key_len }) : NULL;
    if (!i || i->ended || i->turn != a->turn)
        return;
    if (i->pages == 0) {
        forget_pages(s, i);
        if (!(i->streams = htc__alloc(&s->env, n * sizeof *streams))) {
            htc__kv_cluster_broken(s, HTC_ENOMEM);
            return;
        }
        i->streams_n = n;
        memcpy(i->streams, streams, n * sizeof *streams);
    }
    for (uint32_t p = 0; p < i->streams_n; p++)
        if (p >= n || i->streams[p] != streams[p])
            i->streams[p] = 0;
    i->pages++;
    check_pages(s, i);
}

/* ---------------------------------------------------------------- time and life */

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    hosting         *w = of(s);
    w->life = c->own_client;
    if (!c->map || !make_links(s))
        return;
    for (uint32_t p = 0; p < w->link_n && s->broken == HTC_OK; p++) {
        if (w->links[p].stream && !is_other(s, p)) {
            w->links[p] = (link){ .stream = 0 };
            w->clean = 1;
        }
        if (due(s, p) > s->now)
            continue;
        w->links[p].opened = c->peers[p].opened;
        say(s, p);
    }
    if (w->clean)
        clean(s);
    read_again(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    const htc__kv_cluster *c = s->cluster;
    const hosting         *w = of(s);
    if (c->peers[c->self].items.len)
        return 0; /* what the hub has asked for, behind all else that this step did */
    htc_ns at = w->waiting ? w->again_at : HTC_NEVER;
    for (uint32_t p = 0; p < w->link_n && at; p++) {
        htc_ns say_at = c->map ? due(s, p) : HTC_NEVER;
        at = say_at < at ? say_at : at;
    }
    return at;
}

const htc__kv_watching_counts *htc__kv_cluster_watch_counted(const htc_kv_server *s)
{
    return &of(s)->counts;
}

static htc_status make(htc_kv_server *s)
{
    htc__kv_watches *hub = &s->native.watches;
    hosting         *w = htc__alloc(&s->env, sizeof *w);
    if (!w)
        return HTC_ENOMEM;
    s->cluster->hosting = w;
    htc__table_init(&w->interests, &s->env);
    htc__table_init(&w->needed, &s->env);
    htc__table_init(&w->asked, &s->env);
    w->face = (htc__kv_face){ .answer = answered, .ctx = s, .gone = gone };
    hub->backend = (htc__kv_backend){ .ask = ask, .ctx = s };
    hub->begun = begun;
    hub->ended = ended;
    hub->told_ctx = s;
    s->cluster->marking = htc__kv_cluster_marking_make(s);
    return s->cluster->marking ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    hosting *w = of(s);
    htc__kv_cluster_marking_free(s);
    if (!w)
        return;
    for (interest *i = w->oldest; i; i = i->newer)
        forget_pages(s, i);
    htc__table_free(&w->interests);
    htc__table_free(&w->needed);
    htc__table_free(&w->asked);
    htc__free(&s->env, w->links, w->link_n * sizeof *w->links);
    htc__free(&s->env, w, sizeof *w);
    s->cluster->hosting = NULL;
}

static void on_item(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    (void)kind;
    on_marks(s, from, item);
}

const htc__kv_component htc__kv_component_hosting = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .on_item = on_item,
                                            .items = { HTC__KV_ITEM_MARKS } };
