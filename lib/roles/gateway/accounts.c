/* Users, passwords and tokens. A password is hashed by the host (Argon2id, bounded); a token is 32 random bytes, of which
 * the store keeps only the BLAKE2b hash. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define TOKEN_BYTES 32

user *htc__gw_user(htc_gateway *gw, const char *name)
{
    user *u = NULL;
    if (name)
        HASH_FIND_STR(gw->users, name, u);
    return u;
}

user *htc__gw_user_new(htc_gateway *gw, const char *name)
{
    user *u = htc__alloc(&gw->env, sizeof *u);
    if (!u) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a user");
        return NULL;
    }
    snprintf(u->name, sizeof u->name, "%s", name);
    u->weight = 1;
    u->created = u->tokens_from = gw->wall;
    u->uid = u->gid = HTC_NO_UID;
    u->quota.room = QUOTA_NONE;
    HASH_ADD_STR(gw->users, name, u);
    if (!u->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a user");
    return u;
}

void htc__gw_user_free(htc_gateway *gw, user *u)
{
    if (u->denied_until)
        htc__free(&gw->env, u->denied_until, gw->n_sites * sizeof *u->denied_until);
    htc__gw_owned_free(gw, u);
    htc__free(&gw->env, u, sizeof *u);
}

/* Letters, digits, '.', '_' and '-', not first a '.' or '-', at most 32: fit for a file name and an environment variable. */
int htc__gw_user_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 32 || name[0] == '.' || name[0] == '-')
        return 0;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* ---- a user is created or changed ---- */

typedef struct change {
    request *q;
    char     name[NAME_MAX_BYTES];
    char     verifier[160];
    uint64_t weight;
    uint32_t uid, gid;
    htc_ns   tokens_from;
    uint8_t  create;
} change;

static void change_over(htc_gateway *gw, change *ch)
{
    user *u = htc__gw_user(gw, ch->name);
    if (u && !ch->create) {
        u->changing = u->removing = 0;
        gw->remove_at = gw->now; /* what waits to write the same record goes on */
    }
    htc_runtime_context_free(gw->runtime, ch);
}

/* A user whose tasks would be refused is better told so now than when there are some. */
static json_t *said_of(const htc_gateway *gw, const user *u, int to_operator)
{
    char    how[240], text[400];
    json_t *o = json_pack("{s:s,s:I}", "name", u->name, "weight", (json_int_t)u->weight);
    if (to_operator && htc__gw_place(gw, u) == HTC_PLACE_REFUSED) {
        htc__gw_place_text(gw, u, how, sizeof how);
        snprintf(text, sizeof text, "tasks of %s are refused: %s", u->name, how);
        json_object_set_new(o, "warnings", json_pack("[s]", text));
    }
    return o;
}

static void user_saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    change ch = *(change *)ctx;
    change_over(gw, ctx);
    if (!ch.create && htc__gw_fenced(gw, r))
        return;
    if (r->status != HTC_OK) {
        if (r->status == HTC_MISMATCH)
            htc__gw_req_fail(gw, ch.q, HTC_EEXISTS, "htc user set changes one", "user %s exists already", ch.name);
        else
            htc__gw_req_fail(gw, ch.q, r->status, "", "user %s could not be stored: %s", ch.name, htc_strerror(r->status));
        return;
    }
    user *u = htc__gw_user(gw, ch.name);
    if (!u)
        u = htc__gw_user_new(gw, ch.name);
    if (!u)
        return;
    u->weight = ch.weight;
    u->uid = ch.uid;
    u->gid = ch.gid;
    u->tokens_from = ch.tokens_from;
    snprintf(u->verifier, sizeof u->verifier, "%s", ch.verifier);
    u->version = r->version;
    htc__gw_reallocate_soon(gw);
    htc__gw_req_answer(gw, ch.q, said_of(gw, u, ch.q->operator_));
}

static void save_change(htc_gateway *gw, change *ch);

static void save_later(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    if (status == HTC_OK)
        save_change(gw, ctx);
}

/* The record has its sums beside what is changed here: one writer at a time. */
static void save_change(htc_gateway *gw, change *ch)
{
    user  u = { .weight = ch->weight, .uid = ch->uid, .gid = ch->gid, .created = gw->wall, .tokens_from = ch->tokens_from };
    user *old = htc__gw_user(gw, ch->name);
    if (old && old->folding) {
        htc_runtime_wait(&old->folded, htc_runtime_waiter_new(gw->runtime, save_later, ch));
        return;
    }
    if (old) {
        u.created = old->created;
        u.folded_core_ns = old->folded_core_ns;
        u.folded_done = old->folded_done;
        u.folded_job = old->folded_job;
    }
    snprintf(u.name, sizeof u.name, "%s", ch->name);
    snprintf(u.verifier, sizeof u.verifier, "%s", ch->verifier);
    htc__gw_record_user_write(&gw->scratch, &u);
    key k = htc__gw_key_user(ch->name);
    htc_kv_request rq = htc__gw_write_op(gw, &k, htc__gw_record_bytes(gw, &gw->scratch), old ? old->version : 0);
    rq.op = ch->create ? HTC_KV_CAS_VERSION : rq.op;
    htc__gw_ask_write(gw, &rq, user_saved, ch);
}

static void password_hashed(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    change    *ch = ctx;
    htc_reader r = htc_reader_of(body);
    if (status == HTC_OK) {
        htc_get_str(&r, ch->verifier, sizeof ch->verifier);
        if (htc_reader_done(&r) != HTC_OK)
            status = HTC_EINTERNAL;
    }
    if (status != HTC_OK) {
        htc__gw_req_fail(gw, ch->q, status, status == HTC_EBUSY ? "try again in a moment" : "", "the password could not be hashed: %s",
                         htc_strerror(status));
        change_over(gw, ch);
        return;
    }
    save_change(gw, ch);
}

/* Another one with each password, also where the clock was set back. */
static htc_ns tokens_from(const htc_gateway *gw, const user *old, const char *password)
{
    if (old && !password)
        return old->tokens_from;
    return old && old->tokens_from >= gw->wall ? old->tokens_from + 1 : gw->wall;
}

static change *change_of(htc_gateway *gw, request *q, user *u)
{
    change *ch = htc_runtime_context(gw->runtime, sizeof *ch);
    if (!ch)
        return NULL;
    *ch = (change){ .q = q, .weight = u->weight, .uid = u->uid, .gid = u->gid, .tokens_from = u->tokens_from };
    snprintf(ch->name, sizeof ch->name, "%s", u->name);
    snprintf(ch->verifier, sizeof ch->verifier, "%s", u->verifier);
    u->changing = 1;
    return ch;
}

void htc__gw_tokens_end(htc_gateway *gw, request *q, user *u)
{
    if (u->changing) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed", u->name);
        return;
    }
    change *ch = change_of(gw, q, u);
    if (!ch)
        return;
    ch->tokens_from = tokens_from(gw, u, "");
    save_change(gw, ch);
}

static void change_user(htc_gateway *gw, change *ch)
{
    const char *password = htc__gw_req_str(ch->q, "password");
    if (!password) {
        save_change(gw, ch);
        return;
    }
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, password);
    htc_runtime_call(gw->runtime, HTC_CALL_HASH_PASSWORD, htc_buf_bytes(&gw->scratch), password_hashed, ch);
}

static void may_change(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    if (status == HTC_OK)
        change_user(gw, ctx);
    else
        htc_runtime_context_free(gw->runtime, ctx);
}

static void set_user(htc_gateway *gw, request *q, int create)
{
    const char *name = htc__gw_req_str(q, "name"), *password = htc__gw_req_str(q, "password");
    user       *old = htc__gw_user(gw, name);
    uint64_t    weight = htc__gw_req_u64(q, "weight", old ? old->weight : 1);
    uint64_t    uid = htc__gw_req_u64(q, "uid", old ? old->uid : HTC_NO_UID), gid = htc__gw_req_u64(q, "gid", old ? old->gid : HTC_NO_UID);
    int         own = old && old == q->user && !json_object_get(q->body, "weight") && !json_object_get(q->body, "uid") &&
                  !json_object_get(q->body, "gid");
    if (!q->operator_ && !(own && !create)) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator may change users");
    } else if (!name || !htc__gw_user_name_ok(name)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "use 1 to 32 letters, digits, '.', '_' or '-'", "'%s' is not a user name", name ? name : "");
    } else if (weight < 1 || weight > UINT64_C(1) << 32) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "a whole number from 1 to 4294967296", "the weight is out of range");
    } else if (uid == 0 || uid > HTC_NO_UID || gid > HTC_NO_UID || (uid == HTC_NO_UID) != (gid == HTC_NO_UID)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "a uid and a gid of the machine", uid == 0 ? "no user is root" : "a uid and a gid belong together");
    } else if (create && old) {
        htc__gw_req_fail(gw, q, HTC_EEXISTS, "htc user set changes one", "user %s exists already", name);
    } else if (!create && !old) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc users lists them", "there is no user %s", name);
    } else if (password && (strlen(password) < 1 || strlen(password) > 1024)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "a password has 1 to 1024 bytes");
    } else if (old && old->changing) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed", name);
    } else {
        change *ch = htc_runtime_context(gw->runtime, sizeof *ch);
        if (!ch)
            return;
        ch->q = q;
        ch->weight = weight;
        ch->uid = (uint32_t)uid;
        ch->gid = (uint32_t)gid;
        ch->tokens_from = tokens_from(gw, old, password);
        ch->create = create != 0;
        snprintf(ch->name, sizeof ch->name, "%s", name);
        if (old)
            snprintf(ch->verifier, sizeof ch->verifier, "%s", old->verifier);
        if (old && (old->uid != uid || old->gid != gid) && strcmp(name, gw->owner_name) != 0) {
            /* The directories of the outputs are the old uid's, also of jobs that have ended. */
            htc__gw_user_quiet(gw, q, old, "given another uid", may_change, ch);
            return;
        }
        if (old)
            old->changing = 1;
        change_user(gw, ch);
    }
}

/* ---- login ---- */

typedef struct login {
    request *q;
    char     name[NAME_MAX_BYTES];
    char     token[2 * TOKEN_BYTES + 1];
    htc_ns   expires, tokens_from;
} login;

void htc__gw_token_hash(const char *token, char hex[2 * TOKEN_BYTES + 1])
{
    unsigned char hash[TOKEN_BYTES];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)token, strlen(token), NULL, 0);
    sodium_bin2hex(hex, 2 * TOKEN_BYTES + 1, hash, sizeof hash);
}

/* A wrong password is told when the pause of its name is over. */
static void login_failed(htc_gateway *gw, login *l, htc_status status)
{
    request *q = l->q;
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", l->name);
    htc__text_clean(name);
    htc__log_with(&gw->env, HTC_LOG_WARN,
                  HTC__FIELDS(HTC__TEXT("user", name), HTC__NUMBER("uid", l->q->uid), HTC__STATUS(status)),
                  "a login as %s by uid %u: %s -> refused", name, l->q->uid,
                  status == HTC_EAUTH ? "wrong user name or password" : htc_strerror(status));
    htc_runtime_context_free(gw->runtime, l);
    if (status != HTC_EAUTH)
        htc__gw_req_fail(gw, q, status, status == HTC_EBUSY ? "try again in a moment" : "", "login failed: %s", htc_strerror(status));
    else if (q->peer == 0 && htc__logins_leave(&gw->logins, q))
        htc__gw_req_free(gw, q);
}

static void token_saved(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    login *l = ctx;
    if (r->status != HTC_OK) {
        login_failed(gw, l, r->status);
        return;
    }
    htc__gw_req_answer(gw, l->q,
                       json_pack("{s:s,s:s,s:f}", "token", l->token, "user", l->name, "expires", (double)l->expires / 1e9));
    sodium_memzero(l, sizeof *l);
    htc_runtime_context_free(gw->runtime, l);
}

static void token_drawn(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    login *l = ctx;
    char   hex[2 * TOKEN_BYTES + 1];
    if (status != HTC_OK || body.len != TOKEN_BYTES) {
        login_failed(gw, l, status != HTC_OK ? status : HTC_EINTERNAL);
        return;
    }
    sodium_bin2hex(l->token, sizeof l->token, body.data, body.len);
    htc__gw_token_hash(l->token, hex);
    l->expires = gw->wall + gw->options.token_life_ns;
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, l->name);
    htc_put_u64(&gw->scratch, l->expires);
    htc_put_u64(&gw->scratch, l->tokens_from);
    key k = htc__gw_key_token(hex);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__gw_key_bytes(&k), .value = htc__gw_record_bytes(gw, &gw->scratch) },
                    1, token_saved, l);
}

static void password_verified(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    (void)body;
    login *l = ctx;
    if (status == HTC_OK && !htc__gw_user(gw, l->name))
        status = HTC_EAUTH;
    htc__logins_looked_at(&gw->logins, l->q, status == HTC_OK ? LOGIN_RIGHT : status == HTC_EAUTH ? LOGIN_WRONG : LOGIN_UNKNOWN, gw->now);
    if (status != HTC_OK) {
        login_failed(gw, l, status);
        return;
    }
    htc_buf_clear(&gw->scratch);
    htc_put_u32(&gw->scratch, TOKEN_BYTES);
    htc_runtime_call(gw->runtime, HTC_CALL_RANDOM, htc_buf_bytes(&gw->scratch), token_drawn, l);
}

/* What an unknown name is checked against, so that its answer takes as long: the hash of a password nobody knows. */
#define NOBODY                                                                                                         \
    "$argon2id$v=19$m=65536,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void look_at_password(htc_gateway *gw, request *q)
{
    const char *name = htc__gw_req_str(q, "name");
    login      *l = htc_runtime_context(gw->runtime, sizeof *l);
    if (!l)
        return;
    const user *u = htc__gw_user(gw, name);
    l->q = q;
    l->tokens_from = u ? u->tokens_from : 0; /* of the password that is looked at now */
    snprintf(l->name, sizeof l->name, "%s", name);
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, u && u->verifier[0] ? u->verifier : NOBODY);
    htc_put_str(&gw->scratch, htc__gw_req_str(q, "password"));
    htc_runtime_call(gw->runtime, HTC_CALL_VERIFY_PASSWORD, htc_buf_bytes(&gw->scratch), password_verified, l);
}

void htc__gw_logins_go(htc_gateway *gw)
{
    request *q;
    while ((q = htc__logins_due(&gw->logins, gw->now)))
        htc__gw_req_fail(gw, q, HTC_EAUTH, "", "wrong user name or password");
    while (htc_runtime_status(gw->runtime) == HTC_OK && (q = htc__logins_next(&gw->logins, gw->now)))
        look_at_password(gw, q);
}

static void log_in(htc_gateway *gw, request *q)
{
    const char *name = htc__gw_req_str(q, "name"), *password = htc__gw_req_str(q, "password");
    if (!name || !password || strlen(name) >= LOGIN_NAME_BYTES || strlen(password) > 1024) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "login needs a name and a password");
        return;
    }
    request *refused = htc__logins_add(&gw->logins, q, q->caller, name, gw->now);
    if (refused)
        htc__gw_req_fail(gw, refused, HTC_EBUSY, "try again in a moment", "too many logins are waiting");
    htc__gw_logins_go(gw);
}

void htc__gw_api_accounts(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "login") == 0)
        log_in(gw, q);
    else
        set_user(gw, q, strcmp(q->op, "user.add") == 0);
}

/* ---- tokens that have expired are of no use to anybody ---- */

#define TOKENS_LOOK_EVERY (600 * HTC_SECOND)

static void tokens_page(void *role, void *ctx, const htc_kv_result *r);

static void tokens_scan(htc_gateway *gw, const htc_runtime_cursor *from)
{
    gw->tokens_busy = 1;
    htc_runtime_scan(gw->runtime, htc_bytes_of("t/"), from, 256, tokens_page, NULL);
}

static void tokens_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    key         expired[256];
    size_t      n = 0, at = 0;
    htc_kv_item item;
    (void)ctx;
    gw->tokens_busy = 0;
    if (r->status != HTC_OK)
        return; /* the next look finds them */
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++) {
        char       name[NAME_MAX_BYTES];
        htc_reader reader = htc_reader_of(item.value);
        htc_get_str(&reader, name, sizeof name);
        htc_ns expires = htc_get_u64(&reader);
        (void)htc_get_u64(&reader);
        /* For a while an expired one is kept, so that its owner is told that, and not that it is unknown. */
        if (htc_reader_done(&reader) != HTC_OK || gw->wall < expires || gw->wall - expires < gw->options.token_life_ns || item.key.len > sizeof expired[0].text || n == 256)
            continue;
        memcpy(expired[n].text, item.key.data, item.key.len);
        expired[n++].len = item.key.len;
    }
    for (size_t i = 0; i < n; i++)
        htc__gw_delete(gw, expired[i]);
    if (next.len)
        tokens_scan(gw, &next);
}

void htc__gw_tokens_sweep(htc_gateway *gw)
{
    if (gw->tokens_busy || gw->now < gw->tokens_at)
        return;
    gw->tokens_at = gw->now + TOKENS_LOOK_EVERY;
    tokens_scan(gw, NULL);
}

/* ---- a token that comes with a request ---- */

static void token_found(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request   *q = ctx;
    char       name[NAME_MAX_BYTES] = "";
    htc_reader reader = htc_reader_of(r->value);
    if (r->status != HTC_OK) {
        if (r->status == HTC_ENOTFOUND)
            htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("uid", q->uid)),
                          "uid %u sends a token that is not known -> refused", q->uid);
        if (r->status == HTC_ENOTFOUND)
            htc__gw_req_fail(gw, q, HTC_EAUTH, "log in again: htc login NAME", "the token is not known here");
        else
            htc__gw_req_fail(gw, q, r->status, "", "the token could not be looked up: %s", htc_strerror(r->status));
        return;
    }
    htc_get_str(&reader, name, sizeof name);
    htc_ns expires = htc_get_u64(&reader), from = htc_get_u64(&reader);
    user  *u = htc_reader_done(&reader) == HTC_OK ? htc__gw_user(gw, name) : NULL;
    if (!u) {
        htc__gw_req_fail(gw, q, HTC_EAUTH, "log in again: htc login NAME", "the token belongs to nobody");
    } else if (u->removing) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed or removed", name);
    } else if (u->tokens_from != from) {
        htc__gw_req_fail(gw, q, HTC_EAUTH, "log in again: htc login NAME", "the token of %s does not count any more: the password was changed, or all logged out", name);
    } else if (expires <= gw->wall) {
        htc__gw_req_fail(gw, q, HTC_EEXPIRED, "log in again: htc login NAME", "the token of %s has expired", name);
    } else {
        const char *wanted = htc__gw_req_str(q, "user");
        q->user = u;
        q->by_token = 1; /* one of the user's logins */
        q->operator_ = 0;
        if (wanted && strcmp(wanted, u->name) != 0)
            htc__gw_req_fail(gw, q, HTC_EDENIED, "leave --user away, or log in as that user", "the token is %s's, not %s's", u->name, wanted);
        else
            htc__gw_request_run(gw, q);
    }
}

/* Hashes are compared: how far two agree says nothing of the token. */
int htc__gw_operator_token(const htc_gateway *gw, const char *token)
{
    char hex[2 * TOKEN_BYTES + 1];
    htc__gw_token_hash(token, hex);
    return gw->operator_hash[0] && strcmp(hex, gw->operator_hash) == 0;
}

key htc__gw_key_token_of(const char *token)
{
    char hex[2 * TOKEN_BYTES + 1];
    htc__gw_token_hash(token, hex);
    return htc__gw_key_token(hex);
}

void htc__gw_token_check(htc_gateway *gw, request *q, const char *token)
{
    key k = htc__gw_key_token_of(token);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, token_found, q);
}
