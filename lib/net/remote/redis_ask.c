/* Redis and Valkey: our records under their keys, changed by a compare-and-swap in Lua.
 *
 * With the prefix P (all keys share the hash tag {P}, so that they lie together in a Redis cluster):
 *   {P}k:KEY   the record of KEY (kvs/cell/cell.h); a deleted one stays for an hour, so that a repeated delete is recognised
 *   {P}i       the keys that exist, in order (a sorted set of equal scores)
 *   {P}c       the newest version ever written: what an absent key counts on from
 *   {P}n       the newest lease's number
 *   {P}l:ID    a lease, by its own expiry; its value is its term in milliseconds
 *
 * A change reads the record, works out the new one here, and swaps it in if the record is still the same; a lost race
 * comes back with the current record and is tried again at once. A key bound to a lease is there as long as that lease is:
 * what is left of it afterwards is taken away when a scan meets it. Commands are pipelined; Redis answers in order. */
#include "net/remote/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "kvs/wire/kv_wire.h"

#define TOMBSTONE_MS "3600000" /* longer than any request lasts */
#define PAGE_BYTES   "1048576"
#define NAME_MAX_LEN (PREFIX_MAX + HTC_KV_KEY_MAX + 8)

enum { READS = 1, READS_LEASE, SWAPS, PLAIN, PAGES, PAGE_LEASES };

/* KEYS: record, clock, index, lease. ARGV: record expected ("" none), new record, 1 if it is present, version, key, 1 if the
 * lease has to be alive. Answers {1}; {0, current record}; {2}: the lease has ended. */
static const char swap_script[] = "local v = redis.call('GET', KEYS[1]) or ''\n"
                                  "if v ~= ARGV[1] then return {0, v} end\n"
                                  "if ARGV[6] == '1' and redis.call('EXISTS', KEYS[4]) == 0 then return {2} end\n"
                                  "if ARGV[3] == '1' then\n"
                                  "  redis.call('SET', KEYS[1], ARGV[2])\n"
                                  "  redis.call('ZADD', KEYS[3], 0, ARGV[5])\n"
                                  "else\n"
                                  "  redis.call('SET', KEYS[1], ARGV[2], 'PX', " TOMBSTONE_MS ")\n"
                                  "  redis.call('ZREM', KEYS[3], ARGV[5])\n"
                                  "end\n"
                                  "local c = tonumber(redis.call('GET', KEYS[2]) or '0')\n"
                                  "if c < tonumber(ARGV[4]) then redis.call('SET', KEYS[2], ARGV[4]) end\n"
                                  "return {1}\n";

/* KEYS: index. ARGV: from, to, limit, name of a record without its key. Answers {1 if there is more, key, record, ...}. */
static const char page_script[] =
    "local r, bytes, more = {0}, 0, 0\n"
    "local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]) + 1)\n"
    "for i, k in ipairs(keys) do\n"
    "  local v = redis.call('GET', ARGV[4] .. k)\n"
    "  if i > tonumber(ARGV[3]) or (i > 1 and bytes + #k + (v and #v or 0) > " PAGE_BYTES ") then r[1] = 1 break end\n"
    "  if v then r[#r + 1] = k r[#r + 1] = v bytes = bytes + #k + #v end\n"
    "end\n"
    "return r\n";

/* KEYS: lease. A renewal counts its term anew. */
static const char renew_script[] = "local t = redis.call('GET', KEYS[1])\n"
                                   "if not t then return 0 end\n"
                                   "redis.call('PEXPIRE', KEYS[1], t)\n"
                                   "return 1\n";

const char *const htc__redis_scripts[SCRIPTS] = { swap_script, page_script, renew_script };

/* ---- names ---- */

typedef struct name {
    size_t len;
    char   data[NAME_MAX_LEN];
} name;

static name name_of(const redis *r, const char *kind, htc_bytes key)
{
    name n;
    n.len = (size_t)snprintf(n.data, sizeof n.data, "{%s}%s", r->prefix, kind);
    if (key.len)
        memcpy(n.data + n.len, key.data, key.len);
    n.len += key.len;
    return n;
}

static name lease_name(const redis *r, uint64_t lease)
{
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)lease);
    return name_of(r, "l:", htc_bytes_of(id));
}

/* ---- commands ---- */

#define ARGS_MAX 16

typedef struct command {
    int         count;
    const char *arg[ARGS_MAX];
    size_t      len[ARGS_MAX];
} command;

static void add(command *c, const void *data, size_t len)
{
    c->arg[c->count] = len ? data : "";
    c->len[c->count++] = len;
}

static void add_text(command *c, const char *text)
{
    add(c, text, strlen(text));
}

static void add_name(command *c, const name *n)
{
    add(c, n->data, n->len);
}

static htc_status owe(redis *r, htc__ask *ask)
{
    if (r->fifo_count == r->fifo_cap) {
        size_t cap = r->fifo_cap ? 2 * r->fifo_cap : 64;
        owed  *fifo = htc__alloc(&r->env, cap * sizeof *fifo);
        if (!fifo)
            return HTC_ENOMEM;
        for (size_t i = 0; i < r->fifo_count; i++)
            fifo[i] = r->fifo[(r->fifo_first + i) % r->fifo_cap];
        htc__free(&r->env, r->fifo, r->fifo_cap * sizeof *fifo);
        r->fifo = fifo;
        r->fifo_cap = cap;
        r->fifo_first = 0;
    }
    r->fifo[(r->fifo_first + r->fifo_count++) % r->fifo_cap].ask = ask;
    return HTC_OK;
}

static htc_status send_command(redis *r, htc__ask *ask, const command *c)
{
    if (redisAppendCommandArgv(r->context, c->count, (const char **)c->arg, c->len) != REDIS_OK)
        return HTC_ENOMEM;
    return owe(r, ask);
}

/* ---- one key ---- */

static htc_status read_record(redis *r, htc__ask *ask)
{
    command c = { 0 };
    name    key = name_of(r, "k:", ask->request.key), clock = name_of(r, "c", (htc_bytes){ NULL, 0 });
    ask->state = READS;
    add_text(&c, "MGET");
    add_name(&c, &key);
    add_name(&c, &clock);
    return send_command(r, ask, &c);
}

static htc_status read_with_lease(redis *r, htc__ask *ask, uint64_t lease)
{
    command c = { 0 };
    name    key = name_of(r, "k:", ask->request.key), of_lease = lease_name(r, lease);
    ask->state = READS_LEASE;
    ask->number = lease;
    add_text(&c, "MGET");
    add_name(&c, &key);
    add_name(&c, &of_lease);
    return send_command(r, ask, &c);
}

static htc_status swap(redis *r, htc__ask *ask, htc_bytes key, htc_bytes expected, const htc__kv_cell *to)
{
    command c = { 0 };
    char    version[24];
    name    record = name_of(r, "k:", key), clock = name_of(r, "c", (htc_bytes){ NULL, 0 });
    name    index = name_of(r, "i", (htc_bytes){ NULL, 0 }), lease = lease_name(r, to->lease);
    snprintf(version, sizeof version, "%llu", (unsigned long long)to->version);
    htc_buf_clear(&r->record);
    htc__kv_cell_write(&r->record, to);
    if (r->record.status != HTC_OK)
        return r->record.status;
    add_text(&c, "EVALSHA");
    add_text(&c, r->sha[SWAP_SCRIPT]);
    add_text(&c, "4");
    add_name(&c, &record);
    add_name(&c, &clock);
    add_name(&c, &index);
    add_name(&c, &lease);
    add(&c, expected.data, expected.len);
    add(&c, r->record.data, r->record.len);
    add_text(&c, to->deleted ? "0" : "1");
    add_text(&c, version);
    add(&c, key.data, key.len);
    add_text(&c, to->lease ? "1" : "0");
    return send_command(r, ask, &c);
}

/* The record is what it is: answer, or swap in the new one. lease_alive: of the record's lease. */
static htc_status apply(redis *r, htc__ask *ask, int lease_alive)
{
    htc__kv_floors  floors = { .version = r->window.clock };
    htc__kv_cell    cell;
    htc__kv_changed changed;
    htc_bytes       held = htc_buf_bytes(&ask->held);
    if (held.len == 0) {
        /* No deletion is forgotten while a request that it concerns may come again: the tombstone outlives it. */
        cell = htc__kv_cell_absent(&floors);
        cell.forgot = 0;
    } else if (htc__kv_cell_read(held, &floors, &cell) != HTC_OK)
        return htc__window_answer(&r->window, ask, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_ECORRUPT });
    if (cell.lease && !lease_alive) {
        cell.deleted = 1;
        cell.lease = 0;
        cell.value = (htc_bytes){ NULL, 0 };
    }
    ask->stamp.fresh = !ask->unsure;
    htc__kv_change(&cell, &ask->request, &ask->stamp, r->window.clock, &r->scratch, &changed);
    if (changed.effect == HTC__KV_NO_MEMORY)
        return HTC_ENOMEM;
    if (changed.effect != HTC__KV_CHANGED)
        return htc__window_answer(&r->window, ask, &changed.result);
    htc_status status = swap(r, ask, ask->request.key, held, &changed.to);
    if (status != HTC_OK)
        return status;
    /* Kept until the swap is confirmed: it is worked out anew only if somebody was faster. */
    ask->state = SWAPS;
    ask->result = changed.result;
    htc_buf_clear(&ask->coming);
    htc_put_raw(&ask->coming, changed.result.value);
    ask->result.value = htc_buf_bytes(&ask->coming);
    return ask->coming.status;
}

/* ---- leases, pages, counts ---- */

static htc_status plain(redis *r, htc__ask *ask, const command *c)
{
    ask->state = PLAIN;
    return send_command(r, ask, c);
}

static htc_status grant(redis *r, htc__ask *ask)
{
    command c = { 0 };
    name    number = name_of(r, "n", (htc_bytes){ NULL, 0 });
    add_text(&c, "INCR");
    add_name(&c, &number);
    return plain(r, ask, &c);
}

static void milliseconds(htc_ns ttl, char text[24])
{
    snprintf(text, 24, "%llu", (unsigned long long)((ttl + HTC_MS - 1) / HTC_MS));
}

/* The number is drawn: the lease begins to count. */
static htc_status begin_lease(redis *r, htc__ask *ask, uint64_t lease)
{
    command c = { 0 };
    char    term[24];
    name    key = lease_name(r, lease);
    milliseconds(ask->request.ttl, term);
    ask->number = lease;
    add_text(&c, "SET");
    add_name(&c, &key);
    add_text(&c, term);
    add_text(&c, "PX");
    add_text(&c, term);
    return plain(r, ask, &c);
}

static htc_status renew(redis *r, htc__ask *ask)
{
    command c = { 0 };
    name    key = lease_name(r, ask->request.lease);
    add_text(&c, "EVALSHA");
    add_text(&c, r->sha[RENEW_SCRIPT]);
    add_text(&c, "1");
    add_name(&c, &key);
    return plain(r, ask, &c);
}

static htc_status end_lease(redis *r, htc__ask *ask)
{
    command c = { 0 };
    name    key = lease_name(r, ask->request.lease);
    add_text(&c, "DEL");
    add_name(&c, &key);
    return plain(r, ask, &c);
}

/* The first text behind all that begin with the prefix, as ZRANGEBYLEX takes it. */
static name range_end(htc_bytes prefix)
{
    name   end = { .len = 1, .data = "+" };
    size_t len = prefix.len;
    while (len > 0 && ((const uint8_t *)prefix.data)[len - 1] == 0xff)
        len--;
    if (len == 0)
        return end;
    end.data[0] = '(';
    memcpy(end.data + 1, prefix.data, len);
    end.data[len] = (char)(end.data[len] + 1);
    end.len = len + 1;
    return end;
}

static htc_status page(redis *r, htc__ask *ask)
{
    const htc_kv_request *q = &ask->request;
    command               c = { 0 };
    char                  limit[24];
    name                  from, to = range_end(q->key);
    name      index = name_of(r, "i", (htc_bytes){ NULL, 0 }), record = name_of(r, "k:", (htc_bytes){ NULL, 0 });
    int       behind = q->cursor.len && htc_bytes_compare(q->cursor, q->key) >= 0;
    htc_bytes first = behind ? q->cursor : q->key;
    from.data[0] = behind ? '(' : '[';
    if (first.len)
        memcpy(from.data + 1, first.data, first.len);
    from.len = first.len + 1;
    snprintf(limit, sizeof limit, "%u", q->limit ? q->limit : 1000);
    ask->state = PAGES;
    add_text(&c, "EVALSHA");
    add_text(&c, r->sha[PAGE_SCRIPT]);
    add_text(&c, "1");
    add_name(&c, &index);
    add_name(&c, &from);
    add_name(&c, &to);
    add_text(&c, limit);
    add_name(&c, &record);
    return send_command(r, ask, &c);
}

/* ---- replies ---- */

static htc_bytes text_of(const redisReply *reply)
{
    return is_text(reply) ? (htc_bytes){ reply->str, (size_t)reply->len } : (htc_bytes){ NULL, 0 };
}

static htc_status hold(htc__ask *ask, const redisReply *reply)
{
    htc_buf_clear(&ask->held);
    htc_put_raw(&ask->held, text_of(reply));
    return ask->held.status;
}

static htc_status fail(redis *r, htc__ask *ask, htc_status why)
{
    return htc__window_answer(&r->window, ask, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = why });
}

/* What an error says; HTC_AGAIN: it is the connection's, begin anew. */
htc_status htc__redis_meaning(const char *text)
{
    static const struct {
        const char *word;
        htc_status  status;
    } words[] = {
        { "NOSCRIPT", HTC_AGAIN },    { "OOM", HTC_EFULL },
        { "MISCONF", HTC_ESTORE },    { "READONLY", HTC_ESTORE },
        { "NOREPLICAS", HTC_ESTORE }, { "LOADING", HTC_EBUSY },
        { "BUSY", HTC_EBUSY },        { "NOAUTH", HTC_EDENIED },
        { "WRONGPASS", HTC_EDENIED }, { "ERR unknown command", HTC_EUNSUPPORTED },
        { "NOPERM", HTC_EDENIED },    { "WRONGTYPE", HTC_ECORRUPT },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(text, words[i].word, strlen(words[i].word)) == 0)
            return words[i].status;
    }
    return HTC_EPROTO;
}

static uint64_t lease_of(const redis *r, const htc__ask *ask)
{
    htc__kv_floors floors = { .version = r->window.clock };
    htc__kv_cell   cell;
    htc_bytes      held = htc_buf_bytes(&ask->held);
    return held.len && htc__kv_cell_read(held, &floors, &cell) == HTC_OK ? cell.lease : 0;
}

/* The record was read, alone or with the lease in ask->number, which is alive or not. */
static htc_status go_on(redis *r, htc__ask *ask, uint64_t asked, int alive)
{
    uint64_t lease = lease_of(r, ask);
    return lease && lease != asked ? read_with_lease(r, ask, lease) : apply(r, ask, alive);
}

static htc_status have_read(redis *r, htc__ask *ask, const redisReply *reply)
{
    if (!is_array(reply, 2))
        return fail(r, ask, HTC_EPROTO);
    htc_status status = hold(ask, reply->element[0]);
    if (status != HTC_OK)
        return status;
    if (ask->state == READS_LEASE)
        return go_on(r, ask, ask->number, is_text(reply->element[1]));
    if (is_text(reply->element[1])) {
        uint64_t clock = strtoull(reply->element[1]->str, NULL, 10);
        r->window.clock = clock > r->window.clock ? clock : r->window.clock;
    }
    return go_on(r, ask, 0, 1);
}

static htc_status have_swapped(redis *r, htc__ask *ask, const redisReply *reply)
{
    if (!is_array(reply, 1) || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return fail(r, ask, HTC_EPROTO);
    switch (reply->element[0]->integer) {
    case 1: {
        htc_kv_result result = ask->result;
        return htc__window_answer(&r->window, ask, &result);
    }
    case 2:
        return fail(r, ask, HTC_ENOTFOUND);
    default: {
        htc_status status = is_array(reply, 2) ? hold(ask, reply->element[1]) : fail(r, ask, HTC_EPROTO);
        return status == HTC_OK && is_array(reply, 2) ? go_on(r, ask, 0, 1) : status;
    }
    }
}

static htc_status have_plain(redis *r, htc__ask *ask, const redisReply *reply)
{
    htc_kv_result result = { .size = sizeof result, .status = HTC_OK };
    int           whole = reply->type == REDIS_REPLY_INTEGER;
    if (ask->request.op == HTC_KV_LEASE_GRANT) {
        if (whole)
            return begin_lease(r, ask, (uint64_t)reply->integer);
        result.lease = ask->number;
        result.status = is_text(reply) ? HTC_OK : HTC_EPROTO;
    } else if (!whole) {
        result.status = HTC_EPROTO;
    } else if (reply->integer == 0) {
        result.status = ask->unsure && ask->request.op == HTC_KV_LEASE_REVOKE ? HTC_EUNKNOWN : HTC_ENOTFOUND;
    }
    return htc__window_answer(&r->window, ask, &result);
}

/* ---- pages: the records come first, then which of their leases are alive ---- */

/* A page as it is held: u8 more, then for each {bytes key, bytes record}. */
static htc_status hold_page(htc__ask *ask, const redisReply *reply)
{
    htc_buf_clear(&ask->held);
    htc_put_u8(&ask->held, reply->element[0]->integer != 0);
    for (size_t i = 1; i + 1 < reply->elements; i += 2) {
        htc_put_bytes(&ask->held, text_of(reply->element[i]));
        htc_put_bytes(&ask->held, text_of(reply->element[i + 1]));
    }
    return ask->held.status;
}

/* Take away what a lease has left. Whoever changed it meanwhile keeps it. */
static htc_status sweep(redis *r, htc_bytes key, htc_bytes record, htc__kv_cell *cell)
{
    cell->deleted = 1;
    cell->lease = 0;
    cell->value = (htc_bytes){ NULL, 0 };
    return swap(r, NULL, key, record, cell);
}

/* alive: an answer for each record with a lease, in order; NULL: there is none. */
static htc_status answer_page(redis *r, htc__ask *ask, const redisReply *alive)
{
    htc__kv_floors floors = { 0 };
    htc_kv_result  result = { .size = sizeof result, .status = HTC_OK };
    htc_reader     list = htc_reader_of(htc_buf_bytes(&ask->held));
    size_t         leased = 0;
    int            more = htc_get_u8(&list);
    htc_buf_clear(&r->scratch);
    while (htc_reader_left(&list)) {
        htc__kv_cell cell;
        htc_bytes    key = htc_get_bytes(&list), record = htc_get_bytes(&list);
        result.cursor = key;
        if (htc__kv_cell_read(record, &floors, &cell) != HTC_OK) {
            result.status = HTC_ECORRUPT; /* said, and the rest is read */
            continue;
        }
        if (cell.lease && !(alive && leased < alive->elements && is_text(alive->element[leased++]))) {
            htc_status status = sweep(r, key, record, &cell);
            if (status != HTC_OK)
                return status;
        } else if (!cell.deleted) {
            htc__kv_item_write(&r->scratch, key, cell.version, cell.value);
            result.items++;
        }
    }
    if (!more)
        result.cursor = (htc_bytes){ NULL, 0 };
    result.items_bytes = htc_buf_bytes(&r->scratch);
    return r->scratch.status != HTC_OK ? r->scratch.status : htc__window_answer(&r->window, ask, &result);
}

static size_t count_leased(const htc__ask *ask)
{
    htc__kv_floors floors = { 0 };
    htc__kv_cell   cell;
    htc_reader     list = htc_reader_of(htc_buf_bytes(&ask->held));
    size_t         n = 0;
    htc_get_u8(&list);
    while (htc_reader_left(&list)) {
        htc_get_bytes(&list);
        n += htc__kv_cell_read(htc_get_bytes(&list), &floors, &cell) == HTC_OK && cell.lease;
    }
    return n;
}

static htc_status ask_leases(redis *r, htc__ask *ask, size_t n)
{
    size_t       size = n * sizeof(name) + (n + 1) * (sizeof(char *) + sizeof(size_t));
    uint8_t     *memory = htc__alloc(&r->env, size);
    const char **arg = (const char **)memory;
    size_t      *len = (size_t *)(arg + n + 1), i = 0;
    name        *names = (name *)(len + n + 1);
    if (!memory)
        return HTC_ENOMEM;
    htc__kv_floors floors = { 0 };
    htc__kv_cell   cell;
    htc_reader     list = htc_reader_of(htc_buf_bytes(&ask->held));
    arg[0] = "MGET";
    len[0] = 4;
    htc_get_u8(&list);
    while (htc_reader_left(&list)) {
        htc_get_bytes(&list);
        if (htc__kv_cell_read(htc_get_bytes(&list), &floors, &cell) != HTC_OK || !cell.lease)
            continue;
        names[i] = lease_name(r, cell.lease);
        arg[i + 1] = names[i].data;
        len[i + 1] = names[i].len;
        i++;
    }
    ask->state = PAGE_LEASES;
    int sent = redisAppendCommandArgv(r->context, (int)(n + 1), arg, len);
    htc__free(&r->env, memory, size);
    return sent == REDIS_OK ? owe(r, ask) : HTC_ENOMEM;
}

static htc_status have_page(redis *r, htc__ask *ask, const redisReply *reply)
{
    if (ask->state == PAGE_LEASES)
        return is_array(reply, 0) ? answer_page(r, ask, reply) : fail(r, ask, HTC_EPROTO);
    if (!is_array(reply, 1) || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return fail(r, ask, HTC_EPROTO);
    htc_status status = hold_page(ask, reply);
    size_t     n = status == HTC_OK ? count_leased(ask) : 0;
    if (status != HTC_OK)
        return status;
    return n ? ask_leases(r, ask, n) : answer_page(r, ask, NULL);
}

htc_status htc__redis_take(redis *r, htc__ask *ask, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        htc_status why = htc__redis_meaning(reply->str);
        if (why == HTC_AGAIN)
            return why;
        htc__log_with(&r->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(why)),
                      "redis says: %s -> %s", reply->str, htc_strerror(why));
        return ask ? fail(r, ask, why) : HTC_OK;
    }
    if (!ask)
        return HTC_OK;
    switch (ask->state) {
    case READS:
    case READS_LEASE:
        return have_read(r, ask, reply);
    case SWAPS:
        return have_swapped(r, ask, reply);
    case PLAIN:
        return have_plain(r, ask, reply);
    default:
        return have_page(r, ask, reply);
    }
}

/* ---- asks ---- */

htc_status htc__redis_begin(redis *r, htc__ask *ask)
{
    const htc_kv_request *q = &ask->request;
    if (q->flags & ~(uint32_t)(HTC_KV_NX | HTC_KV_XX | HTC_KV_WANT_OLD | HTC_KV_IF_VERSION) || (q->ttl && q->op != HTC_KV_LEASE_GRANT))
        return fail(r, ask, HTC_EUNSUPPORTED);
    switch ((htc_kv_op)q->op) {
    case HTC_KV_LEASE_GRANT:
        return grant(r, ask);
    case HTC_KV_LEASE_RENEW:
        return renew(r, ask);
    case HTC_KV_LEASE_REVOKE:
        return end_lease(r, ask);
    case HTC_KV_SCAN:
        return page(r, ask);
    case HTC_KV_COUNT:
    case HTC_KV_MEMBERS:
    case HTC_KV_CHANGE:
        return fail(r, ask, HTC_EUNSUPPORTED);
    default:
        return read_record(r, ask);
    }
}
