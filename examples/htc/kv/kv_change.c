/* htc kv join, leave, replace, rebalance, undo: a change of members is begun, and waited for; rate: how fast it may go. */
#include "kv_members.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS  100 /* between two looks at how far it is */
#define TRIES    20  /* of giving up, while the member that is asked has something else on its way */
#define PLACES   16  /* that a store is opened with */

typedef struct change {
    kv_call       *k;
    htc_kv_members all; /* as it was seen last */
    uint64_t       comer, goer;
    uint32_t       buckets; /* that move, as far as was seen */
    int            seen;    /* it was under way; else nobody here knows how many buckets have moved */
    uint64_t       version; /* of the newest map that was seen: members that know less say nothing new */
    const char    *done;    /* what is said in the end: of the id in front of it */
    uint64_t       about;
} change;

static htc_status id_of(kv_call *k, const char *word, uint64_t *id)
{
    *id = strlen(word) == 16 && strspn(word, "0123456789abcdef") == 16 ? strtoull(word, NULL, 16) : 0;
    return *id ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "", "htc kv members shows them", "'%.40s' is no id of a member", word);
}

static int find(const htc_kv_members *all, uint64_t id, htc_kv_member_shown *m)
{
    m->size = sizeof *m;
    for (size_t at = 0; htc_kv_members_next(all, &at, m) == HTC_OK;)
        if (m->id == id)
            return 1;
    return 0;
}

/* Who is to go answers until then and no longer: the others are asked, where they can be reached in the same way. */
static void turn_to_others(change *x)
{
    kv_call            *k = x->k;
    const char         *scheme = k->key ? "tcp://" : "unix:";
    htc_kv_member_shown m = { .size = sizeof m };
    htc_store          *store = NULL;
    htc_store_options   o = kv_reached(k, NULL);
    char               *list = must_dup("");
    uint32_t            n = 0;
    for (size_t at = 0; n < PLACES && htc_kv_members_next(&x->all, &at, &m) == HTC_OK;) {
        size_t len = strlen(scheme);
        if (m.id == x->goer || !m.heard || m.address.len <= len || memcmp(m.address.data, scheme, len) != 0)
            continue;
        const char *where = (const char *)m.address.data + len, *name = k->key ? memchr(where, '@', m.address.len - len) : NULL;
        size_t      skip = name ? (size_t)(name + 1 - where) : 0;
        char       *more = must_print("%s%s%s%.*s", list, n ? "," : "", n && k->key ? "" : scheme, (int)(m.address.len - len - skip), where + skip);
        free(list);
        list = more;
        n++;
    }
    o.address = list;
    if (n && htc_store_open(NULL, &o, &store, NULL) == HTC_OK) {
        htc_store_close(k->store);
        k->store = store;
    }
    free(list);
}

static int about_it(const change *x)
{
    return x->all.change && (x->comer ? x->all.comer == x->comer : x->all.goer == x->goer);
}

/* The map itself follows last. Until it has, the store goes on without those alone that it could do without before. */
static int settled(const htc_kv_members *all)
{
    htc_kv_member_shown m;
    for (uint32_t i = 0; i < all->keepers; i++)
        if (!find(all, all->keeper[i], &m))
            return 0;
    return !all->settles && all->keepers >= all->copies;
}

/* 1: it is over; 0: not yet, -1: it was given up. */
static int over(const change *x)
{
    htc_kv_member_shown m;
    if (x->all.change && about_it(x))
        return 0;
    int in = !x->comer || find(&x->all, x->comer, &m), out = !x->goer || !find(&x->all, x->goer, &m);
    if (in && out)
        return settled(&x->all);
    return x->seen ? -1 : 0;
}

static htc_status tell(change *x)
{
    if (x->k->c->json) {
        json_t *o = kv_members_json(&x->all);
        json_object_set_new(o, "moved", x->seen ? json_integer(x->buckets) : json_null());
        put_json(x->k->c, o);
        json_decref(o);
    } else if (!x->seen || (x->comer && !x->goer)) { /* who joins is told in the same way however late this has begun to look */
        printf("%016" PRIx64 " %s\n", x->about, x->done);
    } else {
        printf("%016" PRIx64 " %s: %" PRIu32 " bucket%s moved\n", x->about, x->done, x->buckets, x->buckets == 1 ? "" : "s");
    }
    return HTC_OK;
}

static htc_status begun(const change *x, const char *what)
{
    if (x->k->c->json) {
        json_t *o = json_pack("{s:s, s:I}", "begun", what, "to_move", (json_int_t)x->buckets);
        put_json(x->k->c, o);
        json_decref(o);
    } else {
        printf("begun: %" PRIu32 " bucket%s will move; htc kv members shows how far it is\n", x->buckets, x->buckets == 1 ? "" : "s");
    }
    return HTC_OK;
}

/* Until over says so; what ends it earlier leaves the change under way. */
static htc_status wait_for(change *x, int (*is_over)(const change *x))
{
    progress   p;
    char       what[80];
    htc_status s;
    int        state = 0;
    progress_begin(&p, x->k->c);
    while ((s = kv_members_ask(x->k, 0, &x->all)) == HTC_OK && (x->all.version < x->version || (state = is_over(x)) == 0)) {
        x->version = x->all.version > x->version ? x->all.version : x->version;
        if (about_it(x)) {
            x->seen = 1;
            x->buckets = x->all.to_move;
        }
        kv_members_change_text(&x->all, what, sizeof what);
        if (x->all.change)
            progress_say(&p, "%s%s ... %" PRIu32 " of %" PRIu32 " bucket%s", what, x->all.back ? ", given up" : "", x->all.moved,
                         x->all.to_move, plural(x->all.to_move));
        else
            progress_say(&p, settled(&x->all) ? "waiting ..." : "waiting until enough members keep the map ...");
        pause_ms(LOOK_MS);
    }
    progress_end(&p);
    if (s != HTC_OK && !x->k->c->error.hint[0])
        snprintf(x->k->c->error.hint, sizeof x->k->c->error.hint, "the change goes on; htc kv members shows how far it is");
    if (s == HTC_OK && state < 0)
        s = cli_error(x->k->c, HTC_ECANCELLED, "", "htc kv members shows what is", "that was given up, and all is as it was");
    return s;
}

static htc_status ask_for(change *x, uint32_t kind, uint64_t id, int64_t weight)
{
    kv_call       *k = x->k;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_CHANGE, .limit = kind, .version = id, .delta = weight };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s = HTC_OK;
    for (int i = 0; i < (kind == HTC_KV_CHANGE_BACK ? TRIES : 1); i++) {
        if (i)
            pause_ms(LOOK_MS);
        if ((s = htc_store_ask(k->store, &q, &r, &k->c->error)) != HTC_OK)
            return s;
        if (r.status != HTC_EBUSY)
            break;
    }
    if (r.status == HTC_OK) {
        x->buckets = (uint32_t)r.number;
        x->seen = 1;
        x->version = r.version;
        return HTC_OK;
    }
    if (r.status == HTC_ETIMEDOUT)
        return cli_error(k->c, r.status, "", "htc kv members shows what is; it may begin yet", "too few members answer in time");
    return cli_error(k->c, r.status, "",
                     r.status == HTC_EBUSY       ? "htc kv members shows it; htc kv undo gives it up"
                     : r.status == HTC_ENOTFOUND && id ? "htc kv members shows them"
                                                 : "",
                     "%.*s", (int)r.value.len, (const char *)r.value.data);
}

/* ---- the commands ---- */

static const char how[] =
    "A member is added by starting it. In a directory of its own, on its host:\n"
    "\n"
    "  htc-kvd --dir DIR --new-member                             draws its id, and prints it\n"
    "  htc-kvd --dir DIR --engine log --join ADDRESS              ADDRESS: where a member answers (htc kv members)\n"
    "  htc-kvd --dir DIR --engine log --join ADDRESS --replaces ID  in the place of a member\n"
    "\n"
    "Members on other hosts are reached with keys: --listen, --key, --ring (htc-kvd --help). Then\n"
    "htc kv join ID waits until it is in.\n";

htc_status kv_join(kv_call *k)
{
    change     x = { .k = k, .done = "is in" };
    htc_status s = k->w.count ? id_of(k, k->w.at[0], &x.comer) : HTC_OK;
    if (s != HTC_OK)
        return s;
    if (!x.comer) {
        if (k->c->json) {
            json_t *o = json_pack("{s:s}", "how", how);
            put_json(k->c, o);
            json_decref(o);
        } else {
            fputs(how, stdout);
        }
        return HTC_OK;
    }
    x.about = x.comer;
    if (k->no_wait) {
        htc_kv_member_shown m;
        s = kv_members_ask(k, 0, &x.all);
        if (s == HTC_OK && (!find(&x.all, x.comer, &m) || x.all.comer == x.comer))
            s = cli_error(k->c, HTC_EBUSY, "", "htc kv join without ID says how one is added", "%016" PRIx64 " is not in yet", x.comer);
        return s == HTC_OK ? tell(&x) : s;
    }
    s = wait_for(&x, over);
    return s == HTC_OK ? tell(&x) : s;
}

htc_status kv_leave(kv_call *k)
{
    change     x = { .k = k, .done = "has left" };
    htc_status s = id_of(k, k->w.at[0], &x.goer);
    if (s == HTC_OK)
        s = kv_members_ask(k, 0, &x.all);
    if (s != HTC_OK)
        return s;
    x.about = x.goer;
    turn_to_others(&x);
    s = ask_for(&x, HTC_KV_CHANGE_LEAVE, x.goer, 0);
    if (s != HTC_OK || k->no_wait)
        return s == HTC_OK ? begun(&x, "leave") : s;
    s = wait_for(&x, over);
    return s == HTC_OK ? tell(&x) : s;
}

htc_status kv_replace(kv_call *k)
{
    change              x = { .k = k, .done = "has taken its place" };
    htc_kv_member_shown m;
    htc_status          s = id_of(k, k->w.at[0], &x.goer);
    if (s == HTC_OK)
        s = id_of(k, k->w.at[1], &x.comer);
    if (s == HTC_OK)
        s = kv_members_ask(k, 0, &x.all);
    if (s != HTC_OK)
        return s;
    x.about = x.comer;
    int old = find(&x.all, x.goer, &m), new = find(&x.all, x.comer, &m);
    if (!old && !new)
        return cli_error(k->c, HTC_ENOTFOUND, "", "htc kv members shows them", "there is no member %016" PRIx64, x.goer);
    if (old && new && !about_it(&x))
        return cli_error(k->c, HTC_EEXISTS, "", "htc kv leave OLD lets it go", "%016" PRIx64 " is a member already, beside %016" PRIx64,
                         x.comer, x.goer);
    if (old && !new) {
        fprintf(stderr, "start the new one: htc-kvd --dir DIR ... --join ADDRESS --replaces %016" PRIx64 "\n", x.goer);
        if (k->no_wait)
            return cli_error(k->c, HTC_EBUSY, "", "", "%016" PRIx64 " is not in yet", x.comer);
    }
    if (k->no_wait)
        return about_it(&x) ? cli_error(k->c, HTC_EBUSY, "", "", "%016" PRIx64 " is not in yet", x.comer) : tell(&x);
    turn_to_others(&x);
    s = wait_for(&x, over);
    return s == HTC_OK ? tell(&x) : s;
}

/* Nothing but a weight changes. */
static int weighed(const change *x)
{
    return !(x->all.change == HTC_KV_CHANGE_WEIGHT && x->all.goer == x->goer);
}

htc_status kv_rebalance(kv_call *k)
{
    change              x = { .k = k, .done = "has another share" };
    htc_kv_member_shown m;
    htc_status          s = id_of(k, k->w.at[0], &x.goer);
    if (s == HTC_OK && (k->weight < 1 || k->weight > HTC_RING_WEIGHT_MAX))
        s = cli_error(k->c, HTC_EUSAGE, "--weight", "", "a weight is 1 to %d", HTC_RING_WEIGHT_MAX);
    if (s != HTC_OK)
        return s;
    x.about = x.goer;
    s = kv_members_ask(k, 0, &x.all); /* or it says why not */
    if (s == HTC_OK)
        s = ask_for(&x, HTC_KV_CHANGE_WEIGHT, x.goer, k->weight);
    if (s != HTC_OK || k->no_wait)
        return s == HTC_OK ? begun(&x, "weight") : s;
    s = wait_for(&x, weighed);
    if (s == HTC_OK && find(&x.all, x.goer, &m) && m.weight != (uint32_t)k->weight)
        s = cli_error(k->c, HTC_ECANCELLED, "", "htc kv members shows what is", "that was given up, and all is as it was");
    return s == HTC_OK ? tell(&x) : s;
}

static int still(const change *x)
{
    return !x->all.change;
}

htc_status kv_undo(kv_call *k)
{
    change     x = { .k = k };
    htc_status s = kv_members_ask(k, 0, &x.all);
    if (s != HTC_OK)
        return s;
    x.comer = x.all.comer;
    x.goer = 0; /* who was to go stays, and who came goes: the others are asked */
    change others = x;
    others.goer = x.comer;
    turn_to_others(&others);
    s = ask_for(&x, HTC_KV_CHANGE_BACK, 0, 0);
    if (s != HTC_OK || k->no_wait)
        return s == HTC_OK ? begun(&x, "undo") : s;
    s = wait_for(&x, still);
    if (s == HTC_OK && !k->c->json)
        printf("given up: all is as it was\n");
    else if (s == HTC_OK)
        return tell(&x);
    return s;
}

htc_status kv_rate(kv_call *k)
{
    change     x = { .k = k };
    char      *end;
    uint64_t   rate = strtoull(k->w.at[0], &end, 10);
    htc_status s = HTC_OK;
    if (!isdigit((unsigned char)k->w.at[0][0]) || *end || rate > UINT32_MAX)
        s = cli_error(k->c, HTC_EUSAGE, "", "0: as many as can", "'%.40s' is no number of buckets a minute", k->w.at[0]);
    if (s == HTC_OK)
        s = kv_members_ask(k, 0, &x.all); /* or it says why not */
    if (s == HTC_OK)
        s = ask_for(&x, HTC_KV_CHANGE_RATE, 0, (int64_t)rate);
    if (s == HTC_OK && k->c->json) {
        json_t *o = json_pack("{s:I}", "rate", (json_int_t)rate);
        put_json(k->c, o);
        json_decref(o);
    } else if (s == HTC_OK) {
        printf(rate ? "at most %" PRIu64 " bucket%s a minute may move\n" : "buckets move as fast as they can\n", rate, rate == 1 ? "" : "s");
    }
    return s;
}
