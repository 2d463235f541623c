/* htc kv members: who keeps the store, and what changes about that. */
#include "kv_members.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = { "none", "join", "leave", "replace", "weight", "", "", "renew" };
static const char *const states[] = { "?", "in", "coming", "going" };

htc_status kv_members_ask(kv_call *k, int buckets, htc_kv_members *all)
{
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_MEMBERS, .limit = buckets != 0 };
    htc_kv_result  r = { .size = sizeof r };
    htc_status     s;
    /* One that is no member yet does not know what the others do. */
    while ((s = htc_store_ask(k->store, &q, &r, &k->c->error)) == HTC_OK && r.status == HTC_EBUSY && kv_turn_to_next(k) == HTC_OK)
        ;
    if (s != HTC_OK)
        return s;
    if (r.status == HTC_EUNSUPPORTED)
        return cli_error(k->c, r.status, "", "several keep it together if each was started with --member or --join: htc-kvd --help",
                         "this store has no members: it was made as a whole store of one process");
    if (r.status == HTC_EBUSY)
        return cli_error(k->c, r.status, "", "it asks to be let in until it is; ask one that is a member",
                         "this one is no member yet");
    if (r.status != HTC_OK)
        return r.status;
    all->size = sizeof *all;
    s = htc_kv_members_read(r.value, all);
    return s == HTC_OK ? HTC_OK
                       : cli_error(k->c, s, "", "take the htc of the same version as the member", "the answer cannot be read");
}

/* The text of an address, its control characters replaced; to be freed. */
static char *text_of(htc_bytes bytes)
{
    char *text = must(malloc(bytes.len + 1));
    memcpy(text, bytes.len ? bytes.data : "", bytes.len);
    text[bytes.len] = 0;
    htc_text_show(text);
    return text;
}

static json_t *json_id(uint64_t id)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    return id ? json_string(text) : json_null();
}

static json_t *json_member(const htc_kv_member_shown *m)
{
    json_t *o = json_object();
    char   *address = text_of(m->address);
    json_object_set_new(o, "id", json_id(m->id));
    json_object_set_new(o, "state", json_string(states[m->state]));
    json_object_set_new(o, "heard", json_boolean(m->heard));
    json_object_set_new(o, "weight", json_integer(m->weight));
    json_object_set_new(o, "owned", json_integer(m->owned));
    json_object_set_new(o, "first", json_integer(m->first));
    json_object_set_new(o, "planned", json_integer(m->planned));
    json_object_set_new(o, "process", json_id(m->process));
    json_object_set_new(o, "domain", json_id(m->domain));
    json_object_set_new(o, "address", m->address.len ? json_string(address) : json_null());
    free(address);
    return o;
}

json_t *kv_members_json(const htc_kv_members *all)
{
    json_t             *o = json_object(), *list = json_array(), *keepers = json_array(), *change = json_null();
    htc_kv_member_shown m = { .size = sizeof m };
    for (size_t at = 0; htc_kv_members_next(all, &at, &m) == HTC_OK;)
        json_array_append_new(list, json_member(&m));
    for (uint32_t i = 0; i < all->keepers; i++)
        json_array_append_new(keepers, json_id(all->keeper[i]));
    if (all->change) {
        change = json_object();
        json_object_set_new(change, "kind", json_string(kinds[all->change]));
        json_object_set_new(change, "back", json_boolean(all->back));
        json_object_set_new(change, "comer", json_id(all->comer));
        json_object_set_new(change, "goer", json_id(all->goer));
        if (all->change == HTC_KV_CHANGE_WEIGHT)
            json_object_set_new(change, "weight", json_integer(all->weight));
        json_object_set_new(change, "moved", json_integer(all->moved));
        json_object_set_new(change, "to_move", json_integer(all->to_move));
        json_object_set_new(change, "driver", json_id(all->driver));
    }
    json_object_set_new(o, "version", json_integer((json_int_t)all->version));
    json_object_set_new(o, "epoch", json_integer((json_int_t)all->epoch));
    json_object_set_new(o, "asked", json_id(all->asked));
    json_object_set_new(o, "buckets", json_integer(all->buckets));
    json_object_set_new(o, "copies", json_integer(all->copies));
    json_object_set_new(o, "rate", json_integer(all->rate));
    json_object_set_new(o, "members", list);
    json_object_set_new(o, "keepers", keepers);
    json_object_set_new(o, "change", change);
    return o;
}

/* [epoch, [owner, ...]] of each bucket, from the first on. */
static json_t *json_table(const htc_kv_members *all)
{
    json_t             *list = json_array();
    htc_kv_bucket_shown b = { .size = sizeof b };
    for (size_t at = 0; htc_kv_members_bucket(all, &at, &b) == HTC_OK;) {
        json_t *owners = json_array();
        for (uint32_t i = 0; i < b.owners; i++)
            json_array_append_new(owners, json_id(b.owner[i]));
        json_array_append_new(list, json_pack("[I, o]", (json_int_t)b.epoch, owners));
    }
    return list;
}

void kv_members_change_text(const htc_kv_members *all, char *text, size_t cap)
{
    switch ((htc_kv_change_kind)all->change) {
    case HTC_KV_CHANGE_NONE:
    case HTC_KV_CHANGE_BACK: /* neither is under way */
    case HTC_KV_CHANGE_RATE:
        snprintf(text, cap, "nothing changes");
        break;
    case HTC_KV_CHANGE_JOIN:
        snprintf(text, cap, "%016" PRIx64 " joins", all->comer);
        break;
    case HTC_KV_CHANGE_LEAVE:
        snprintf(text, cap, "%016" PRIx64 " leaves", all->goer);
        break;
    case HTC_KV_CHANGE_REPLACE:
        snprintf(text, cap, "%016" PRIx64 " replaces %016" PRIx64, all->comer, all->goer);
        break;
    case HTC_KV_CHANGE_WEIGHT:
        snprintf(text, cap, "%016" PRIx64 " gets the weight %" PRIu32, all->goer, all->weight);
        break;
    case HTC_KV_CHANGE_RENEW:
        snprintf(text, cap, "what %016" PRIx64 " has damaged is renewed", all->goer);
        break;
    }
}

static void show(kv_call *k, const htc_kv_members *all)
{
    htc_kv_member_shown m = { .size = sizeof m };
    char                what[80], driver[40] = "";
    table               t;
    printf("%" PRIu32 " member%s, %" PRIu32 " bucket%s with %" PRIu32 " cop%s each, version %" PRIu64 " of the map\n", all->count,
           all->count == 1 ? "" : "s", all->buckets, plural(all->buckets), all->copies, all->copies == 1 ? "y" : "ies", all->version);
    kv_members_change_text(all, what, sizeof what);
    if (all->driver)
        snprintf(driver, sizeof driver, ", by %016" PRIx64, all->driver);
    if (all->change)
        printf("%s%s: %" PRIu32 " of %" PRIu32 " bucket%s %s moved%s\n", what, all->back ? ", given up" : "", all->moved,
               all->to_move, plural(all->to_move), all->moved == 1 ? "has" : "have", driver);
    if (all->rate)
        printf("at most %" PRIu32 " bucket%s a minute may move\n", all->rate, all->rate == 1 ? "" : "s");
    table_begin(&t, "MEMBER", "STATE", ">WEIGHT", ">BUCKETS", ">PLANNED", ">FIRST", "HEARD", "ADDRESS", NULL);
    for (size_t at = 0; htc_kv_members_next(all, &at, &m) == HTC_OK;) {
        char *address = text_of(m.address);
        table_row(&t, "%016" PRIx64 "\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%s\t%s", m.id, states[m.state], m.weight,
                  m.owned, m.planned, m.first, m.heard ? "yes" : "no", m.address.len ? address : "-");
        free(address);
    }
    table_end(k->c, &t);
}

htc_status kv_members(kv_call *k)
{
    htc_kv_members all;
    htc_status     s = kv_members_ask(k, k->buckets != 0, &all);
    if (s != HTC_OK)
        return s;
    if (k->c->json) {
        json_t *o = kv_members_json(&all);
        if (k->buckets)
            json_object_set_new(o, "table", json_table(&all));
        put_json(k->c, o);
        json_decref(o);
    } else {
        show(k, &all);
    }
    return HTC_OK;
}
