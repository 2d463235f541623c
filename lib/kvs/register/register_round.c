/* One request of one key: what is asked of the owners, and what may be concluded from their answers. */
#include "kvs/wire/kv_wire.h"
#include "kvs/register/register_private.h"

#define LATE_MAX  6
#define AGAIN_MAX 4
#define TRIP_MAX  16 /* times retry_ns */
/* Of long values so much is answered at once, however many reads have joined: whoever is told keeps each answer for a while. */
#define ANSWER_BYTES ((size_t)8 << 20)

static uint32_t bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

static uint32_t majority(const asked *a)
{
    return a->owners.n / 2 + 1;
}

/* A collection needs them all. */
static uint32_t needed(const asked *a)
{
    return a->q.op == OP_COLLECT ? a->owners.n : majority(a);
}

/* It is noted nowhere that it was done, and it does more when it is done twice. */
static int is_once(const asked *a)
{
    return a->stamp.client == 0 && a->q.op != HTC_KV_GET && a->q.op < HTC__KV_EXPIRE;
}

static int is_read(const asked *a)
{
    return a->q.op == HTC_KV_GET;
}

static htc__kv_cell cell_of(const htc_buf *b)
{
    htc__kv_cell cell;
    if (htc__kv_cell_read(htc_buf_bytes(b), NULL, &cell) != HTC_OK)
        cell = (htc__kv_cell){ 0 };
    return cell;
}

/* For a change by this client, or (0) for none: the list stays where it is. */
static void read_noted(const htc_buf *b, uint64_t client, htc__kv_cell *cell)
{
    if (htc__kv_cell_read_for(htc_buf_bytes(b), NULL, client, cell) != HTC_OK)
        *cell = (htc__kv_cell){ 0 };
}

/* to: the cell of an accept; NULL: it is read from where it was noted. */
static void say(htc__kv_register *reg, entry *e, uint32_t mask, const htc__kv_cell *to)
{
    static const htc__kv_ask_kind kinds[] = {
        [READING] = HTC__KV_READ, [PREPARING] = HTC__KV_PREPARE, [ACCEPTING] = HTC__KV_ACCEPT
    };
    const htc__kv_round *r = e->r;
    htc__kv_ask          ask = { .kind = (uint8_t)kinds[r->phase],
                                 .round = r->number,
                                 .epoch = e->head->owners.epoch,
                                 .ballot = r->ballot,
                                 .key = { e->key, e->key_len } };
    if (r->phase == ACCEPTING) {
        if (to)
            htc__kv_cell_copy(&ask.cell, to);
        else
            read_noted(&r->after, 0, &ask.cell);
        ask.next = r->next;
    }
    reg->host.send(reg->host.ctx, &e->head->owners, mask, &ask);
}

static uint32_t all(const entry *e)
{
    return (UINT32_C(1) << e->head->owners.n) - 1;
}

static htc_ns longer(entry *e)
{
    if (e->head->q.value.len > e->longest)
        e->longest = e->head->q.value.len;
    return htc__kv_patience(e->longest);
}

/* As TCP has it (RFC 6298): what waits behind much else is answered late, and whoever said it again meanwhile would make that more. A round that
 * was said again counts from its first message on: one that was lost makes others patient for a while, which costs less. */
static void note_trip(htc__kv_register *reg, entry *e, htc_ns now)
{
    htc_ns took = now - e->r->begun, most = TRIP_MAX * reg->o.retry_ns, patience = longer(e);
    took = took > patience ? took - patience : 0;
    took = took < most ? took : most;
    htc_ns off = took > reg->trip ? took - reg->trip : reg->trip - took;
    reg->trip_varies = reg->trip_varies - reg->trip_varies / 4 + off / 4;
    reg->trip = reg->trip - reg->trip / 8 + took / 8;
}

htc_ns htc__kv_round_retry(const htc__kv_register *reg)
{
    htc_ns trip = reg->trip + 4 * reg->trip_varies, most = TRIP_MAX * reg->o.retry_ns;
    trip = trip < most ? trip : most;
    return trip > reg->o.retry_ns ? trip : reg->o.retry_ns;
}

static htc_ns round_end(const htc__kv_register *reg, entry *e, htc_ns now)
{
    htc_ns round = reg->o.round_ns + (htc__kv_round_retry(reg) - reg->o.retry_ns);
    return now + (round << e->head->late) + 4 * longer(e);
}

static void start(htc__kv_register *reg, entry *e, htc_ns now, phase next, uint64_t number, const htc__kv_cell *to)
{
    htc__kv_round *r = e->r;
    r->phase = next;
    r->number = number;
    r->answered = r->refused = r->again = 0;
    r->grace_at = HTC_NEVER;
    r->begun = now;
    r->retry_at = now + htc__kv_round_retry(reg) + longer(e);
    r->end_at = round_end(reg, e, now);
    *(next == READING     ? &reg->counts.reads
      : next == PREPARING ? &reg->counts.prepares
                          : &reg->counts.accepts) += 1;
    say(reg, e, all(e), to);
}

/* 0: there are no numbers left, and the key waits for more. */
static int draw(htc__kv_register *reg, entry *e, uint64_t *number)
{
    htc__kv_round *r = e->r;
    if (htc__kv_register_draw(reg, number))
        return 1;
    r->phase = RESERVING;
    r->retry_at = r->end_at = r->grace_at = HTC_NEVER;
    return 0;
}

static void prepare(htc__kv_register *reg, entry *e, htc_ns now)
{
    uint64_t number;
    e->cached = 0;
    if (!draw(reg, e, &number))
        return;
    e->r->ballot = (htc__kv_ballot){ e->head->owners.epoch, number, reg->o.self };
    start(reg, e, now, PREPARING, number, NULL);
}

static void read_all(htc__kv_register *reg, entry *e, htc_ns now)
{
    uint64_t number;
    if (draw(reg, e, &number))
        start(reg, e, now, READING, number, NULL);
}

/* A random pause that doubles. */
static void pause(htc__kv_register *reg, entry *e, htc_ns now)
{
    uint32_t shift = e->head->losses < 7 ? e->head->losses : 7;
    htc_ns   most = reg->o.pause_ns << shift;
    e->r->phase = PAUSING;
    e->r->retry_at = now + most / 2 + htc_rng_below(&reg->rng, most / 2 + 1);
    e->r->end_at = e->r->grace_at = HTC_NEVER;
}

/* The head, and the reads that joined it, have this answer; those that are too many are read for once more. */
static void answer(htc__kv_register *reg, entry *e, const htc__kv_outcome *out)
{
    size_t   most = ANSWER_BYTES / (out->result.value.len + 1) + 1;
    uint32_t n = e->r->joined < most ? e->r->joined + 1 : (uint32_t)most;
    e->r->phase = IDLE;
    e->r->joined = 0;
    while (n--) {
        asked          *a = htc__kv_register_pop(reg, e);
        htc__kv_outcome own = *out;
        own.result.op = a->q.op;
        own.tried = a->tried;
        reg->host.done(reg->host.ctx, a->tag, &own);
        htc__kv_register_free_asked(reg, a);
    }
}

static void give_up(htc__kv_register *reg, entry *e, htc_status status)
{
    e->cached = 0;
    e->r->joined = 0;
    reg->counts.given_up += status == HTC_ETIMEDOUT;
    answer(reg, e, &(htc__kv_outcome){ .result.status = status });
}

/* Refused too often to win. After some losses the owner that is to propose gets the request, with the mark whether an
 * accept of it may still be on its way. */
static void lost(htc__kv_register *reg, entry *e, htc_ns now)
{
    asked   *a = e->head;
    uint64_t to = a->owners.id[a->owners.first];
    e->cached = 0;
    a->losses++;
    reg->counts.lost++;
    if (a->losses < reg->o.losses_max || to == reg->o.self || a->q.op == OP_COLLECT) {
        pause(reg, e, now);
        return;
    }
    if (a->tried && is_once(a)) {
        give_up(reg, e, HTC_EUNKNOWN);
        return;
    }
    for (uint32_t n = e->r->joined + 1; n--;) {
        a = htc__kv_register_pop(reg, e);
        reg->counts.handed_over++;
        reg->host.hand_over(reg->host.ctx, a->tag, to, a->tried);
        htc__kv_register_free_asked(reg, a);
    }
    e->r->phase = IDLE;
    e->r->joined = 0;
}

/* The cell of ->to or of a write-back goes to all owners under r->ballot. */
static void accept(htc__kv_register *reg, entry *e, htc_ns now, htc__kv_cell *to)
{
    htc__kv_round *r = e->r;
    htc__kv_ballot ballot = r->ballot, next = htc__kv_ballot_next(ballot);
    /* The next ballot of this key has to come from what is reserved, and behind it nothing is drawn twice. */
    uint8_t promised = next.counter <= reg->reserved;
    htc_buf_clear(&r->after);
    to->accepted = ballot;
    to->promise = promised ? next : ballot;
    htc__kv_cell_write(&r->after, to);
    if (r->after.status != HTC_OK) {
        pause(reg, e, now);
        return;
    }
    if (promised && reg->counter < next.counter)
        reg->counter = next.counter;
    r->next = promised;
    start(reg, e, now, ACCEPTING, ballot.counter, to);
}

/* The cell as the request at the head makes it. */
static void try_it(htc__kv_register *reg, entry *e, htc_ns now, htc__kv_cell *to)
{
    asked *a = e->head;
    if (a->version == 0)
        a->first = e->r->ballot;
    if (a->version == 0 || to->version < a->version)
        a->version = to->version;
    a->last = e->r->ballot;
    a->tried = 1;
    accept(reg, e, now, to);
}

static void keep_outcome(htc__kv_round *r, const htc__kv_changed *c)
{
    r->out = (htc__kv_outcome){
        .result = c->result, .fields = c->fields, .listed = c->effect == HTC__KV_LISTED, .observed = c->observed
    };
    r->out.result.value = (htc_bytes){ NULL, 0 };
}

/* The answer will show the value of this cell: it has to stay. */
static int keep_before(htc__kv_round *r, const htc__kv_cell *cell)
{
    htc_buf_clear(&r->before);
    htc__kv_cell_write(&r->before, cell);
    return r->before.status == HTC_OK;
}

/* What the request does to the cell. Whether a lease lives that the key is bound to is not known here: who asked for it with no other
 * lease in mind is told which one it is, asks for that, and comes again. */
static void change(htc__kv_register *reg, const asked *a, const htc__kv_cell *cell, uint64_t at_least,
                   htc__kv_changed *c)
{
    htc__kv_change_within(cell, &a->q, &a->stamp, at_least, a->value_max, &reg->scratch, c);
    if (!cell->present || cell->deleted || !cell->lease || cell->lease == a->stamp.alive || a->q.op >= HTC__KV_EXPIRE ||
        (c->effect != HTC__KV_CHANGED && c->effect != HTC__KV_UNCHANGED))
        return;
    c->effect = HTC__KV_UNCHANGED;
    c->fields = 0;
    c->observed = cell->version;
    c->result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = a->q.op, .status = HTC_AGAIN, .lease = cell->lease, .version = cell->version };
}

/* From the cached (ballot, value) straight to the accept, if the request changes it. A failure has to be read: the cache knows
 * what was final, not what is. */
static int one_round_trip(htc__kv_register *reg, entry *e, htc_ns now)
{
    asked          *a = e->head;
    htc__kv_changed c;
    htc__kv_cell    cell;
    if (!e->cached || e->epoch != a->owners.epoch || is_read(a) || a->q.op == OP_COLLECT || (a->tried && is_once(a)))
        return 0;
    read_noted(&e->cell, a->stamp.client, &cell);
    change(reg, a, &cell, 0, &c);
    if (c.effect != HTC__KV_CHANGED) {
        if (a->tried)
            prepare(reg, e, now);
        else
            read_all(reg, e, now);
        return 1;
    }
    if ((c.fields & HTC__KV_HAS_VALUE) && !keep_before(e->r, &cell))
        return 0;
    keep_outcome(e->r, &c);
    e->r->ballot = cell.promise;
    e->cached = 0; /* one ballot carries one change: until this one is final, there is no other */
    try_it(reg, e, now, &c.to);
    return 1;
}

void htc__kv_round_begin(htc__kv_register *reg, entry *e, htc_ns now)
{
    while (e->head && e->r->phase == IDLE) {
        asked *a = e->head;
        e->r->joined = 0;
        if (a->until <= now) {
            give_up(reg, e, HTC_ETIMEDOUT);
        } else if (is_read(a)) {
            for (asked *b = a->next;
                 b && is_read(b) && b->owners.epoch == a->owners.epoch && b->stamp.alive == a->stamp.alive && b->tried <= a->tried;
                 b = b->next)
                e->r->joined++;
            read_all(reg, e, now);
        } else if (a->q.op == OP_COLLECT) {
            read_all(reg, e, now);
        } else if (!one_round_trip(reg, e, now)) {
            prepare(reg, e, now);
        }
    }
}

/* ---- what owners showed ---- */

static int alike(const shown *a, const shown *b)
{
    return a->present == b->present && (a->present ? a->hash == b->hash : a->floor == b->floor);
}

/* 0: no memory, as though it had been lost. */
static int note_shown(entry *e, uint32_t from, const htc__kv_reply *reply)
{
    htc__kv_round *r = e->r;
    shown         *s = &r->shown[from];
    htc_buf       *b = &r->bytes[from];
    *s = (shown){ .present = reply->cell.present, .where = from, .floor = reply->floor, .accepted = reply->cell.accepted };
    if (!s->present)
        return 1;
    htc_buf_clear(b);
    htc__kv_cell_write_unpromised(b, reply->held, &reply->cell);
    if (b->status != HTC_OK)
        return 0;
    s->hash = htc_hash64(htc_buf_bytes(b), 0);
    return 1;
}

/* An owner whose answer a majority gave alike; n: none. */
static uint32_t stable(const entry *e)
{
    const htc__kv_round *r = e->r;
    uint32_t             n = e->head->owners.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;
        for (uint32_t j = 0; j < n && (r->answered >> i & 1); j++)
            same += (r->answered >> j & 1) && alike(&r->shown[i], &r->shown[j]);
        if (same >= majority(e->head))
            return i;
    }
    return n;
}

/* The highest ballot counts, and any record beats "absent"; n: all absent. */
static uint32_t highest(const entry *e)
{
    const htc__kv_round *r = e->r;
    uint32_t             n = e->head->owners.n, best = n;
    for (uint32_t i = 0; i < n; i++)
        if ((r->answered >> i & 1) && r->shown[i].present &&
            (best == n || htc__kv_ballot_compare(&r->shown[i].accepted, &r->shown[best].accepted) > 0))
            best = i;
    return best;
}

/* The highest version floor answered with "absent". */
static uint64_t highest_floor(const entry *e)
{
    uint64_t floor = 0;
    for (uint32_t i = 0; i < e->head->owners.n; i++)
        if ((e->r->answered >> i & 1) && !e->r->shown[i].present && e->r->shown[i].floor > floor)
            floor = e->r->shown[i].floor;
    return floor;
}

static htc__kv_cell shown_cell(const entry *e, uint32_t i)
{
    if (i < e->head->owners.n && e->r->shown[i].present)
        return cell_of(&e->r->bytes[i]);
    uint64_t floor = i < e->head->owners.n ? e->r->shown[i].floor : highest_floor(e);
    return htc__kv_cell_absent(&(htc__kv_floors){ .version = floor });
}

/* Every owner holds this tombstone: each may drop it, whoever hears of it. */
static void collect(htc__kv_register *reg, entry *e, const htc__kv_cell *tombstone)
{
    htc__kv_ask ask = { .kind = HTC__KV_COLLECT,
                        .round = e->r->number,
                        .epoch = e->head->owners.epoch,
                        .ballot = tombstone->accepted,
                        .key = { e->key, e->key_len } };
    ask.cell.version = tombstone->version;
    reg->host.send(reg->host.ctx, &e->head->owners, all(e), &ask);
    e->cached = 0;
    answer(reg, e, &(htc__kv_outcome){ .observed = tombstone->version });
}

static void not_collected(htc__kv_register *reg, entry *e, const htc__kv_cell *cell)
{
    answer(
        reg, e,
        &(htc__kv_outcome){ .result.status = cell->present ? HTC_MISMATCH : HTC_ENOTFOUND, .observed = cell->version });
}

/* Alive is alive, as a majority says it. But where one owner alone still holds the tombstone it was not told of a collection, and if a
 * majority has nothing any more that is no reason to leave it there: then all of them get it once more. */
static void collect_read(htc__kv_register *reg, entry *e, htc_ns now)
{
    uint32_t     n = e->head->owners.n, i = stable(e);
    htc__kv_cell cell = shown_cell(e, i);
    if (i < n && cell.present && !cell.deleted) {
        not_collected(reg, e, &cell);
        return;
    }
    if (bits(e->r->answered) < n)
        return;
    for (uint32_t j = 1; j < n; j++)
        if (!alike(&e->r->shown[0], &e->r->shown[j])) {
            prepare(reg, e, now);
            return;
        }
    if (cell.present)
        collect(reg, e, &cell);
    else
        not_collected(reg, e, &cell);
}

/* What a majority showed alike is final. A failure is the answer then, unless an accept of this very request is still about: that
 * has to be outbid first, or it could win after its failure was told. */
static void is_stable(htc__kv_register *reg, entry *e, htc_ns now, const htc__kv_cell *cell)
{
    htc__kv_changed c;
    change(reg, e->head, cell, 0, &c);
    if (c.effect == HTC__KV_CHANGED || c.effect == HTC__KV_NO_MEMORY ||
        (c.effect == HTC__KV_UNCHANGED && e->head->tried)) {
        prepare(reg, e, now);
        return;
    }
    keep_outcome(e->r, &c);
    e->r->out.result.value = c.result.value;
    answer(reg, e, &e->r->out);
}

static void conclude_read(htc__kv_register *reg, entry *e, htc_ns now)
{
    htc__kv_round *r = e->r;
    uint32_t       n = e->head->owners.n, answered = bits(r->answered), i = stable(e);
    if (e->head->q.op == OP_COLLECT) {
        collect_read(reg, e, now);
        return;
    }
    if (i == n && answered >= majority(e->head) && HTC__BROKEN(read_not_written_back))
        i = highest(e);
    if (i < n) {
        htc__kv_cell cell = shown_cell(e, i);
        is_stable(reg, e, now, &cell);
    } else if (answered == n) {
        prepare(reg, e, now);
    } else if (answered >= majority(e->head) && r->grace_at == HTC_NEVER) {
        r->grace_at = now + reg->o.grace_ns + longer(e) / 4;
    }
}

static void write_back(htc__kv_register *reg, entry *e, htc_ns now, htc__kv_cell *cell, uint64_t floor, int as_it_is)
{
    if (!keep_before(e->r, cell)) {
        pause(reg, e, now);
        return;
    }
    htc__kv_cell_lift(cell, floor);
    if (as_it_is && !cell->deleted)
        e->r->out.result.version = cell->version;
    e->r->out.observed = cell->version;
    accept(reg, e, now, cell);
}

/* A change that is noted nowhere was tried, and nobody knows what has become of that. What the owners show tells: what it tried last is
 * seen through as it is; what is above its first try may be that or stand on it; below there is none of it that could still win once
 * it is made anew. */
static int was_tried(htc__kv_register *reg, entry *e, htc_ns now, uint32_t best, uint64_t floor)
{
    asked       *a = e->head;
    htc__kv_cell cell = shown_cell(e, best);
    if (cell.present ? htc__kv_ballot_compare(&cell.accepted, &a->first) < 0 : floor < a->version)
        return 0;
    if (!cell.present || htc__kv_ballot_compare(&cell.accepted, &a->last) != 0) {
        give_up(reg, e, HTC_EUNKNOWN);
        return 1;
    }
    if (cell.version <= floor) {
        htc__kv_cell_lift(&cell, floor);
        e->r->out.result.version = e->r->out.result.version ? cell.version : 0;
        e->r->out.observed = cell.version;
    }
    try_it(reg, e, now, &cell);
    return 1;
}

static void conclude_prepare(htc__kv_register *reg, entry *e, htc_ns now)
{
    asked          *a = e->head;
    uint32_t        best = highest(e), same = stable(e);
    uint64_t        floor = highest_floor(e);
    htc__kv_cell    cell = shown_cell(e, best);
    htc__kv_changed c;
    if (bits(e->r->answered) < needed(a))
        return;
    if (a->tried && is_once(a) && !HTC__BROKEN(sequence_forgotten) && was_tried(reg, e, now, best, floor))
        return;
    if (a->q.op == OP_COLLECT) {
        if (cell.present && cell.deleted) {
            htc__kv_cell_lift(&cell, floor);
            accept(reg, e, now, &cell);
        } else {
            not_collected(reg, e, &cell);
        }
        return;
    }
    change(reg, a, &cell, floor, &c);
    if (c.effect == HTC__KV_NO_MEMORY) {
        pause(reg, e, now);
        return;
    }
    keep_outcome(e->r, &c);
    if (c.effect == HTC__KV_CHANGED) {
        if ((c.fields & HTC__KV_HAS_VALUE) && !keep_before(e->r, &cell)) {
            pause(reg, e, now);
            return;
        }
        try_it(reg, e, now, &c.to);
        return;
    }
    /* The same rule as for a read; and what was tried under an older ballot is outbid for good. */
    int final = same < a->owners.n && (best == a->owners.n || alike(&e->r->shown[same], &e->r->shown[best]));
    if ((final && !(a->tried && c.effect == HTC__KV_UNCHANGED)) || HTC__BROKEN(read_not_written_back)) {
        e->r->out.result.value = c.result.value;
        answer(reg, e, &e->r->out);
        return;
    }
    write_back(reg, e, now, &cell, floor, c.effect == HTC__KV_UNCHANGED);
}

static void conclude_accept(htc__kv_register *reg, entry *e)
{
    htc__kv_round *r = e->r;
    if (bits(r->answered) < needed(e->head)) {
        htc__kv_round_yield(reg, e);
        return;
    }
    if (e->head->q.op == OP_COLLECT) {
        htc__kv_cell cell = cell_of(&r->after);
        collect(reg, e, &cell);
        return;
    }
    e->cached = r->next && r->refused == 0;
    if (e->cached) {
        htc_buf swap = e->cell;
        e->cell = r->after;
        r->after = swap;
        e->epoch = e->head->owners.epoch;
    }
    if (r->out.fields & HTC__KV_HAS_VALUE) {
        htc__kv_cell before;
        read_noted(&r->before, 0, &before);
        r->out.result.value = before.value;
    }
    answer(reg, e, &r->out);
}

/* A collection needs every owner, and one of them may be gone for good: who only needs a majority does not wait behind it. An accept of
 * its own is seen through to a majority first, or the next round would have to do that. */
void htc__kv_round_yield(htc__kv_register *reg, entry *e)
{
    if (!e->head || e->head->q.op != OP_COLLECT || !e->head->next ||
        (e->r->phase == ACCEPTING && bits(e->r->answered) < majority(e->head)))
        return;
    answer(reg, e, &(htc__kv_outcome){ .result.status = HTC_EBUSY });
}

void htc__kv_round_reply(htc__kv_register *reg, entry *e, htc_ns now, uint32_t from, const htc__kv_reply *reply)
{
    htc__kv_round *r = e->r;
    uint32_t       bit = UINT32_C(1) << from;
    int            fits = r->phase == READING     ? reply->kind == HTC__KV_READ
                          : r->phase == PREPARING ? reply->kind == HTC__KV_PREPARE
                                                  : r->phase == ACCEPTING && reply->kind == HTC__KV_ACCEPT;
    if (reply->cell.value.len > e->longest) /* also of a round that is over */
        e->longest = reply->cell.value.len;
    if (!fits || reply->round != r->number || ((r->answered | r->refused) & bit))
        return;
    if (reply->refused) {
        r->refused |= bit;
        htc__kv_register_outbid(reg, &reply->highest);
        if (e->head->owners.n - bits(r->refused) < majority(e->head))
            lost(reg, e, now);
    } else if (r->phase == ACCEPTING || note_shown(e, from, reply)) {
        r->answered |= bit;
        if (bits(r->answered) == needed(e->head))
            note_trip(reg, e, now);
        if (r->phase == READING)
            conclude_read(reg, e, now);
        else if (r->phase == PREPARING)
            conclude_prepare(reg, e, now);
        else
            conclude_accept(reg, e);
    }
    htc__kv_round_begin(reg, e, now);
}

htc_ns htc__kv_round_deadline(const entry *e)
{
    if (!e->head)
        return HTC_NEVER;
    const htc__kv_round *r = e->r;
    htc_ns               at = r->retry_at < r->end_at ? r->retry_at : r->end_at;
    if (r->grace_at < at)
        at = r->grace_at;
    return e->head->until < at ? e->head->until : at;
}

/* Where somebody has refused it a higher ballot is about, and this one may never be accepted by enough: another ballot then, and what was known
 * of the key is not used any more. Else whoever has not answered is slow, or not there: its disk would have to take another ballot as it
 * takes this one, and what it has stored of this one by then would be in vain. A disk that takes longer than a round would hardly ever
 * let one end. */
static void overdue(htc__kv_register *reg, entry *e, htc_ns now)
{
    htc__kv_round *r = e->r;
    reg->counts.overdue++;
    if (e->head->q.op == OP_COLLECT) {
        give_up(reg, e, HTC_EUNREACHABLE);
    } else if (r->phase == READING) {
        r->end_at = HTC_NEVER;
    } else {
        if (e->head->late < LATE_MAX)
            e->head->late++;
        if (r->refused)
            prepare(reg, e, now);
        else
            r->end_at = round_end(reg, e, now);
    }
}

void htc__kv_round_timeout(htc__kv_register *reg, entry *e, htc_ns now)
{
    htc__kv_round *r = e->r;
    if (e->head->until <= now) {
        give_up(reg, e, HTC_ETIMEDOUT);
    } else if (r->phase == PAUSING) {
        if (r->retry_at <= now)
            r->phase = IDLE;
    } else if (r->grace_at <= now) {
        prepare(reg, e, now);
    } else if (r->end_at <= now) {
        overdue(reg, e, now);
    } else if (r->retry_at <= now) {
        uint32_t silent = all(e) & ~(r->answered | r->refused);
        /* What is asked for may be long, and each time it is sent as a whole. */
        r->again += (r->phase == READING || longer(e)) && r->again < AGAIN_MAX;
        r->retry_at = now + ((htc__kv_round_retry(reg) + longer(e)) << r->again);
        reg->counts.said_again += bits(silent);
        say(reg, e, silent, NULL);
    }
    htc__kv_round_begin(reg, e, now);
}
