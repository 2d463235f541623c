/* Submissions that may be repeated. A client that does not know what became of one sends it again under the same key, and is
 * answered with the job that it made. Which keys there are is read from the jobs' records at the start. */
#include <sodium.h>
#include <string.h>

#include "roles/gateway/gateway.h"

static void hash_of(const char *user_name, const char *text, uint8_t hash[16])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 16);
    crypto_generichash_update(&state, (const unsigned char *)user_name, strlen(user_name) + 1);
    crypto_generichash_update(&state, (const unsigned char *)text, strlen(text));
    crypto_generichash_final(&state, hash, 16);
}

known_key *htc__gw_known_key(const htc_gateway *gw, const char *user_name, const char *text)
{
    uint8_t    hash[16];
    known_key *k;
    hash_of(user_name, text, hash);
    HASH_FIND(hh, gw->known_keys, hash, sizeof hash, k);
    return k;
}

void htc__gw_known_key_set(htc_gateway *gw, const char *user_name, const char *text, uint64_t id)
{
    known_key *k = htc__gw_known_key(gw, user_name, text);
    if (!k) {
        k = htc__alloc(&gw->env, sizeof *k);
        if (!k) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a submission");
            return;
        }
        hash_of(user_name, text, k->hash);
        HASH_ADD(hh, gw->known_keys, hash, sizeof k->hash, k);
        if (!k->hh.tbl) {
            htc__free(&gw->env, k, sizeof *k);
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a submission");
            return;
        }
    }
    k->job = id;
}

static void drop(htc_gateway *gw, known_key *k)
{
    HASH_DEL(gw->known_keys, k);
    htc__free(&gw->env, k, sizeof *k);
}

void htc__gw_known_key_drop(htc_gateway *gw, const char *user_name, const char *text)
{
    known_key *k = htc__gw_known_key(gw, user_name, text);
    if (k)
        drop(gw, k);
}

void htc__gw_known_keys_free(htc_gateway *gw)
{
    known_key *k, *next;
    HASH_ITER(hh, gw->known_keys, k, next)
    drop(gw, k);
}

int htc__gw_known_key_ok(const char *text)
{
    size_t n = strlen(text);
    return n >= 1 && n <= KNOWN_KEY_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* What was asked, but for who asked and from where: a key that comes with something else is not a repetition. */
int htc__gw_request_hash(const request *q, uint8_t hash[16])
{
    static const char *const besides[] = { "op", "user", "token", "key", "submit_dir", "jsdl", "begin", "credentials" }; /* begin: now+1hour is another time later; credentials: no hash of a password is kept */
    const json_t            *jsdl = json_object_get(q->body, "jsdl");
    json_t                  *rest = json_copy(q->body);
    for (size_t i = 0; rest && i < sizeof besides / sizeof besides[0]; i++)
        json_object_del(rest, besides[i]);
    char *text = rest ? json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(rest);
    if (!text)
        return 0;
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 16);
    crypto_generichash_update(&state, (const unsigned char *)text, strlen(text) + 1);
    crypto_generichash_update(&state, (const unsigned char *)json_string_value(jsdl), json_string_length(jsdl));
    crypto_generichash_final(&state, hash, 16);
    free(text);
    return 1;
}

int htc__gw_note_asked(htc_gateway *gw, const request *q, job *j)
{
    if (!htc__gw_req_str(q, "key") || htc__gw_request_hash(q, j->asked))
        return 1;
    htc_runtime_break(gw->runtime, HTC_ENOMEM, "taking a submission");
    return 0;
}
