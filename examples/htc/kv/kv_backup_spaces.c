/* htc kv backup, of eventual namespaces. No member knows all keys of them: each is asked which it holds, in the order of keys, and each key is
 * read where it is held, as any client reads it (R owners answer). What was acknowledged before the backup began is in it where R + W > N. Values
 * that stand beside each other are written behind each other; their clocks stay behind, since another store's members count anew. */
#include "kv_members.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What one member holds, page by page. */
typedef struct holder {
    htc_store  *store;
    uint64_t    id;
    char        address[600];
    uint8_t    *bytes; /* of the page: its items */
    size_t      len, at;
    uint32_t    left; /* of the page, without the one that is shown */
    int         shows, more;
    htc_kv_item item;
    uint8_t     cursor[HTC_KV_KEY_MAX];
    size_t      cursor_len;
} holder;

static htc_status away(kv_call *k, const holder *h, htc_status s)
{
    char why[sizeof k->c->error.text];
    snprintf(why, sizeof why, "%.300s", k->c->error.text[0] ? k->c->error.text : htc_strerror(s));
    return cli_error(k->c, s, "", "every member has to answer; --without-namespaces writes all else",
                     "member %016" PRIx64 " at %.200s does not say what it holds: %.300s", h->id, h->address, why);
}

static htc_status open_holder(kv_call *k, const htc_kv_member_shown *m, holder *h)
{
    const char       *name = h->address + 6, *end;
    htc_store_options o = kv_reached(k, h->address);
    char              plain[620], server[200] = "";
    o.server = NULL; /* each by its own name */
    h->id = m->id;
    snprintf(h->address, sizeof h->address, "%.*s", (int)(m->address.len < 500 ? m->address.len : 0), m->address.len ? (const char *)m->address.data : "");
    if (strncmp(h->address, "tcp://", 6) == 0 && (end = strchr(name, '@'))) {
        snprintf(server, sizeof server, "%.*s", (int)(end - name), name);
        snprintf(plain, sizeof plain, "tcp://%s", end + 1);
        o.address = plain;
        o.server = server;
    }
    htc_status s = h->address[0] ? htc_store_open(NULL, &o, &h->store, &k->c->error) : HTC_EUNREACHABLE;
    return s == HTC_OK ? s : away(k, h, s);
}

/* The next key that it holds. */
static htc_status go_on(kv_call *k, holder *h)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_SCAN, .flags = HTC_KV_EVENTUAL, .cursor = { h->cursor, h->cursor_len } };
    htc_kv_result  r = { .size = sizeof r };
    while (!h->left && h->more) {
        htc_status s = htc_store_ask(h->store, &q, &r, &k->c->error);
        s = s == HTC_OK ? r.status : s;
        if (s == HTC_OK && r.version != h->id) /* another one answers there */
            s = HTC_EUNREACHABLE;
        if (s != HTC_OK)
            return away(k, h, s);
        h->bytes = must(realloc(h->bytes, r.items_bytes.len + 1));
        h->len = r.items_bytes.len;
        if (h->len)
            memcpy(h->bytes, r.items_bytes.data, h->len);
        h->at = 0;
        h->left = r.items;
        h->more = r.cursor.len > 0 && r.cursor.len <= sizeof h->cursor;
        h->cursor_len = h->more ? r.cursor.len : 0;
        if (h->more)
            memcpy(h->cursor, r.cursor.data, r.cursor.len);
        q.cursor = (htc_bytes){ h->cursor, h->cursor_len };
    }
    h->shows = h->left > 0;
    if (!h->shows)
        return HTC_OK;
    htc_kv_result page = { .size = sizeof page, .items = 1, .items_bytes = { h->bytes, h->len } };
    h->left--;
    htc_status s = htc_kv_result_item(&page, &h->at, &h->item);
    return s == HTC_OK ? s : away(k, h, s);
}

static htc_status write_key(kv_call *k, holder *h, htc_bytes key, kv_writer *w, int *ok)
{
    const uint8_t *end = memchr(key.data, 0, key.len);
    htc_kv_result  r = { .size = sizeof r };
    htc_kv_item    one;
    if (!end)
        return HTC_EPROTO;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_GET, .space = { key.data, (size_t)(end - (const uint8_t *)key.data) } };
    q.key = (htc_bytes){ end + 1, key.len - q.space.len - 1 };
    htc_status s = htc_store_ask(h->store, &q, &r, &k->c->error);
    s = s == HTC_OK ? r.status : s;
    if (s == HTC_ENOTFOUND) /* deleted */
        return HTC_OK;
    if (s != HTC_OK)
        return cli_error(k->c, s, "", "htc kv get --namespace asks for it alone", "a key of namespace %.*s cannot be read: %s", (int)q.space.len,
                         (const char *)q.space.data, htc_strerror(s));
    for (size_t at = 0; *ok && htc_kv_result_item(&r, &at, &one) == HTC_OK;)
        *ok = kv_writer_put(w, &(htc_kv_backup_item){ .size = sizeof(htc_kv_backup_item), .space = q.space, .key = q.key, .value = one.value });
    return HTC_OK;
}

/* The lowest key that any of them shows, once, from the first that shows it. */
static htc_status merge(kv_call *k, holder *all, size_t n, kv_writer *w, int *ok)
{
    htc_status s = HTC_OK;
    progress   p;
    progress_begin(&p, k->c);
    for (size_t i = 0; s == HTC_OK && i < n; i++)
        s = go_on(k, &all[i]);
    while (s == HTC_OK && *ok) {
        holder *low = NULL;
        for (holder *h = all; h < all + n; h++)
            if (h->shows && (!low || htc_bytes_compare(h->item.key, low->item.key) < 0))
                low = h;
        if (!low)
            break;
        s = write_key(k, low, low->item.key, w, ok);
        progress_say(&p, "%" PRIu64 " key%s", w->counts.items, plural(w->counts.items));
        for (holder *h = all; s == HTC_OK && h < all + n; h++)
            if (h != low && h->shows && htc_bytes_equal(h->item.key, low->item.key))
                s = go_on(k, h);
        if (s == HTC_OK)
            s = go_on(k, low);
    }
    progress_end(&p);
    return s;
}

htc_status kv_backup_spaces(kv_call *k, kv_writer *w, int *ok)
{
    htc_kv_members      members;
    htc_kv_member_shown m = { .size = sizeof m };
    size_t              n = 0;
    htc_status          s = kv_members_ask(k, 0, &members);
    if (s != HTC_OK)
        return s;
    holder *all = must(calloc(members.count + 1, sizeof *all));
    for (size_t at = 0; s == HTC_OK && n < members.count && htc_kv_members_next(&members, &at, &m) == HTC_OK; n++) {
        all[n].more = 1;
        s = open_holder(k, &m, &all[n]);
    }
    if (s == HTC_OK)
        s = merge(k, all, n, w, ok);
    for (size_t i = 0; i <= members.count; i++) {
        htc_store_close(all[i].store);
        free(all[i].bytes);
    }
    free(all);
    return s;
}
