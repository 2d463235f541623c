/* Node lists. The names are kept as they are written, prefix, range of numbers and suffix: a list of 65,536 regular
 * names is one such piece. A hash table of node numbers answers which node a name is, and finds names that come twice.
 */
#include <string.h>

#include "core/util.h"
#include "sched/record/record_private.h"
#include "sched/record/record_text.h"

typedef struct piece {
    size_t   prefix, suffix; /* where they begin in the names' text */
    uint64_t first;          /* number of its first name */
    uint32_t base;           /* node of its first name; the next piece's base is behind its last */
    uint8_t  prefix_len, suffix_len, width;
} piece;

struct htc_record_names {
    const htc_env *env;
    piece         *pieces;
    size_t         n_pieces, pieces_room;
    char          *text;
    size_t         text_len, text_room;
    uint32_t      *table; /* node + 1; 0: empty; at most half full, by hash of the name */
    uint32_t       table_size;
    uint32_t       n;
};

/* ---- Names of nodes ---- */

static htc__hosts hosts_of(const htc_record_names *l, const piece *p)
{
    return (htc__hosts){ .prefix = l->text + p->prefix,
                         .suffix = l->text + p->suffix,
                         .prefix_len = p->prefix_len,
                         .suffix_len = p->suffix_len,
                         .width = p->width };
}

static const piece *piece_of(const htc_record_names *l, uint32_t node)
{
    size_t low = 0, high = l->n_pieces;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (l->pieces[mid].base <= node)
            low = mid;
        else
            high = mid;
    }
    return &l->pieces[low];
}

static size_t write_name(const htc_record_names *l, const piece *p, uint32_t node, char *out)
{
    htc__hosts h = hosts_of(l, p);
    return htc__hosts_name(&h, p->first + (node - p->base), out);
}

static uint32_t hash(const char *name, size_t n)
{
    return (uint32_t)htc_hash64((htc_bytes){ name, n }, 0);
}

/* Where in the table this name is, or would be. */
static uint32_t slot_of(const htc_record_names *l, const char *name, size_t n)
{
    char     other[HTC_RECORD_NAME_MAX];
    uint32_t slot = hash(name, n) & (l->table_size - 1);
    for (; l->table[slot]; slot = (slot + 1) & (l->table_size - 1)) {
        uint32_t node = l->table[slot] - 1;
        if (write_name(l, piece_of(l, node), node, other) == n && memcmp(other, name, n) == 0)
            break;
    }
    return slot;
}

/* ---- Building ---- */

static void *grow(const htc_env *env, void *p, size_t *room, size_t more, size_t size)
{
    size_t next = *room ? 2 * *room : 16;
    while (next < more)
        next *= 2;
    void *grown = htc__resize(env, p, *room * size, next * size);
    if (grown)
        *room = next;
    return grown;
}

static htc_status reserve(htc_record_names *l, size_t text)
{
    if (l->n_pieces == l->pieces_room) {
        piece *pieces = grow(l->env, l->pieces, &l->pieces_room, l->n_pieces + 1, sizeof *pieces);
        if (!pieces)
            return HTC_ENOMEM;
        l->pieces = pieces;
    }
    if (text >= l->text_room - l->text_len) { /* there always is a text, be it of no bytes */
        char *grown = grow(l->env, l->text, &l->text_room, l->text_len + text + 1, 1);
        if (!grown)
            return HTC_ENOMEM;
        l->text = grown;
    }
    return HTC_OK;
}

static htc_status reserve_table(htc_record_names *l, uint64_t nodes)
{
    char     name[HTC_RECORD_NAME_MAX];
    uint32_t size = l->table_size ? l->table_size : 32;
    while (size < 2 * nodes)
        size *= 2;
    if (size == l->table_size)
        return HTC_OK;
    uint32_t *table = htc__alloc(l->env, size * sizeof *table);
    if (!table)
        return HTC_ENOMEM;
    htc__free(l->env, l->table, l->table_size * sizeof *table);
    l->table = table;
    l->table_size = size;
    const piece *p = l->pieces;
    for (uint32_t node = 0; node < l->n; node++) {
        while (p + 1 < l->pieces + l->n_pieces && p[1].base <= node)
            p++;
        uint32_t slot = hash(name, write_name(l, p, node, name)) & (size - 1);
        while (table[slot])
            slot = (slot + 1) & (size - 1);
        table[slot] = node + 1;
    }
    return HTC_OK;
}

static uint32_t digits_of(uint64_t number)
{
    char ignored[32];
    return (uint32_t)htc__hosts_digits(number, 1, ignored);
}

static int same_text(const htc_record_names *l, const piece *p, const htc__hosts *h)
{
    return p->prefix_len == h->prefix_len && p->suffix_len == h->suffix_len &&
           memcmp(l->text + p->prefix, h->prefix, h->prefix_len) == 0 &&
           (h->suffix_len == 0 || memcmp(l->text + p->suffix, h->suffix, h->suffix_len) == 0);
}

/* Whether these names go on where the piece, the last one, ends: "n[008-009],n10" do not, "n[08-09],n10" do. */
static int continues(const htc_record_names *l, const piece *p, const htc__hosts *h)
{
    uint32_t wider = p->width > h->width ? p->width : h->width;
    return p->width && h->width && h->first == p->first + (l->n - p->base) &&
           (p->width == h->width || digits_of(h->first) >= wider) && same_text(l, p, h);
}

static void append_piece(htc_record_names *l, const htc__hosts *h)
{
    const piece *before = l->n_pieces ? &l->pieces[l->n_pieces - 1] : NULL;
    piece        p = { .prefix = l->text_len,
                       .suffix = l->text_len + h->prefix_len,
                       .first = h->first,
                       .base = l->n,
                       .prefix_len = (uint8_t)h->prefix_len,
                       .suffix_len = (uint8_t)h->suffix_len,
                       .width = (uint8_t)h->width };
    if (before && same_text(l, before, h)) {
        p.prefix = before->prefix;
        p.suffix = before->suffix;
    } else {
        memcpy(l->text + p.prefix, h->prefix, h->prefix_len);
        if (h->suffix_len)
            memcpy(l->text + p.suffix, h->suffix, h->suffix_len);
        l->text_len += h->prefix_len + h->suffix_len;
    }
    l->pieces[l->n_pieces++] = p;
}

/* htc__hosts_found. A list that could not be finished is thrown away, so nothing has to be undone. */
static htc_status add(void *ctx, const htc__hosts *h, const char **why, char *name)
{
    htc_record_names *l = ctx;
    uint64_t          count = h->last - h->first + 1;
    if (reserve(l, h->prefix_len + h->suffix_len) != HTC_OK || reserve_table(l, l->n + count) != HTC_OK)
        return HTC_ENOMEM;
    if (l->n_pieces == 0 || !continues(l, &l->pieces[l->n_pieces - 1], h))
        append_piece(l, h);
    for (uint64_t v = h->first; v <= h->last; v++) {
        size_t   n = htc__hosts_name(h, v, name);
        uint32_t slot = slot_of(l, name, n);
        if (l->table[slot]) {
            name[n] = '\0';
            *why = "comes twice";
            return HTC_EEXISTS;
        }
        l->table[slot] = ++l->n;
    }
    return HTC_OK;
}

htc_status htc_record_names_parse(const htc_env *env, htc_bytes text, uint32_t nodes_max, htc_record_names **out,
                                  htc_error *error)
{
    if (!out || (!text.data && text.len) || nodes_max > HTC_RECORD_NODES_MAX)
        return htc__error(error, HTC_EINVAL, "%s", htc_strerror(HTC_EINVAL));
    htc_record_names *l = htc__alloc(env, sizeof *l);
    if (!l)
        return htc__error(error, HTC_ENOMEM, "%s", htc_strerror(HTC_ENOMEM));
    l->env = env;
    htc_status status = htc__hostlist_walk(text, nodes_max ? nodes_max : HTC_RECORD_NODES_MAX, add, l, error);
    if (status == HTC_OK)
        *out = l;
    else
        htc_record_names_destroy(l);
    return status;
}

void htc_record_names_destroy(htc_record_names *names)
{
    if (!names)
        return;
    htc__free(names->env, names->pieces, names->pieces_room * sizeof *names->pieces);
    htc__free(names->env, names->text, names->text_room);
    htc__free(names->env, names->table, names->table_size * sizeof *names->table);
    htc__free(names->env, names, sizeof *names);
}

/* ---- Asking ---- */

uint32_t htc_record_names_count(const htc_record_names *names)
{
    return names ? names->n : 0;
}

htc_status htc_record_names_at(const htc_record_names *names, uint32_t node, char *name)
{
    if (!names || !name)
        return HTC_EINVAL;
    if (node >= names->n)
        return HTC_ENOTFOUND;
    name[write_name(names, piece_of(names, node), node, name)] = '\0';
    return HTC_OK;
}

htc_status htc_record_names_find(const htc_record_names *names, htc_bytes name, uint32_t *node)
{
    if (!names || !node || (!name.data && name.len))
        return HTC_EINVAL;
    if (names->n == 0 || name.len == 0 || name.len > HTC_RECORD_NAME_MAX)
        return HTC_ENOTFOUND;
    uint32_t slot = slot_of(names, name.data, name.len);
    if (names->table[slot] == 0)
        return HTC_ENOTFOUND;
    *node = names->table[slot] - 1;
    return HTC_OK;
}

/* ---- Sets as text ---- */

typedef struct looking_up {
    const htc_record_names *names;
    htc_record_set         *set;
} looking_up;

/* htc__hosts_found */
static htc_status look_up(void *ctx, const htc__hosts *h, const char **why, char *name)
{
    looking_up *l = ctx;
    htc_status  status = HTC_OK;
    for (uint64_t v = h->first; v <= h->last && status == HTC_OK; v++) {
        uint32_t node = 0;
        size_t   n = htc__hosts_name(h, v, name);
        status = htc_record_names_find(l->names, (htc_bytes){ name, n }, &node);
        name[n] = '\0';
        *why = "is not in the node list";
        if (status == HTC_OK)
            status = htc_record_set_add(l->set, node, 1);
    }
    return status;
}

htc_status htc_record_names_set(const htc_record_names *names, htc_bytes text, htc_record_set *set, htc_error *error)
{
    if (!names || !set || (!text.data && text.len))
        return htc__error(error, HTC_EINVAL, "%s", htc_strerror(HTC_EINVAL));
    htc_record_set found = { .env = set->env };
    looking_up     l = { names, &found };
    htc_status     status = htc__hostlist_walk(text, HTC_RECORD_NODES_MAX, look_up, &l, error);
    htc_record_set old = *set;
    if (status == HTC_OK) {
        *set = found;
        found = old;
    }
    htc__free(found.env, found.words, found.n * sizeof *found.words);
    return status;
}

typedef struct writing {
    const htc_record_names *names;
    htc_buf                 out;
    htc_buf                 group; /* what stands in the brackets of the name that is open */
    const piece            *open;
    uint64_t                numbers; /* in the group */
} writing;

static void put_chars(htc_buf *b, const char *p, size_t n)
{
    htc_put_raw(b, (htc_bytes){ p, n });
}

static void put_number(htc_buf *b, uint64_t number, uint32_t width)
{
    char digits[32];
    put_chars(b, digits, htc__hosts_digits(number, width, digits));
}

static void close_name(writing *w)
{
    const piece *p = w->open;
    const char  *text = w->names->text;
    if (!p)
        return;
    if (w->out.len)
        put_chars(&w->out, ",", 1);
    put_chars(&w->out, text + p->prefix, p->prefix_len);
    if (w->numbers > 1)
        put_chars(&w->out, "[", 1);
    htc_put_raw(&w->out, htc_buf_bytes(&w->group));
    if (w->numbers > 1)
        put_chars(&w->out, "]", 1);
    put_chars(&w->out, text + p->suffix, p->suffix_len);
    htc_buf_clear(&w->group);
    w->open = NULL;
    w->numbers = 0;
}

/* Nodes first .. end - 1, all of one piece. */
static void put_nodes(writing *w, const piece *p, uint64_t first, uint64_t end)
{
    htc__hosts h = hosts_of(w->names, p);
    if (w->open && !(w->open->width && p->width && same_text(w->names, w->open, &h)))
        close_name(w);
    w->open = p;
    if (p->width) {
        uint64_t number = p->first + (first - p->base);
        if (w->numbers)
            put_chars(&w->group, ",", 1);
        put_number(&w->group, number, p->width);
        if (end - first > 1) {
            put_chars(&w->group, "-", 1);
            put_number(&w->group, number + (end - first) - 1, p->width);
        }
    }
    w->numbers += end - first;
    if (w->group.status != HTC_OK)
        w->out.status = w->group.status;
}

static void put_run(writing *w, uint64_t first, uint64_t end)
{
    const htc_record_names *l = w->names;
    for (const piece *p = piece_of(l, (uint32_t)first); first < end; p++) {
        uint64_t behind = p + 1 < l->pieces + l->n_pieces ? p[1].base : l->n;
        behind = behind < end ? behind : end;
        put_nodes(w, p, first, behind);
        first = behind;
    }
}

htc_status htc_record_names_text(const htc_env *env, const htc_record_names *names, const htc_record_set *set,
                                 htc_bytes *out)
{
    htc__run run;
    if (!names || !out || (set && htc__bits_run(set->words, set->n, names->n, &run)))
        return HTC_EINVAL;
    writing w = { .names = names };
    htc_buf_init(&w.out, env, 0);
    htc_buf_init(&w.group, env, 0);
    if (!set && names->n)
        put_run(&w, 0, names->n);
    for (uint64_t at = 0; set && htc__bits_run(set->words, set->n, at, &run); at = run.end)
        put_run(&w, run.first, run.end);
    close_name(&w);
    htc_buf_free(&w.group);
    return htc__record_take_bytes(env, &w.out, out);
}
