#include "brokers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/keys.h"
#include "htcsched/keyring.h"

#define SYSTEM_NAME "gateway" /* of the system's keys, in a broker's ring */

static const htc_env plain = { .size = sizeof plain };

typedef struct publics {
    const char *name;
    uint32_t    role;
    uint8_t     key[HTC_IDENTITY_MAX][HTC_KEY_BYTES];
    size_t      n;
} publics;

static htc_status failed(htc_error *error, htc_status status, const char *where, const char *text, const char *hint)
{
    *error = (htc_error){ .status = status };
    snprintf(error->where, sizeof error->where, "%.159s", where);
    snprintf(error->text, sizeof error->text, "%.319s", text);
    snprintf(error->hint, sizeof error->hint, "%.159s", hint);
    return status;
}

/* The public keys of a key file, which is made if it is missing. */
static htc_status read_publics(const char *path, publics *p, htc_error *error)
{
    uint8_t    secrets[HTC_IDENTITY_MAX * HTC_KEY_BYTES];
    htc_status s = access(path, F_OK) == 0 ? HTC_OK : htc_keys_create(path, NULL, error);
    if (s == HTC_OK || s == HTC_EEXISTS)
        s = htc_keys_read(path, secrets, &p->n, error);
    for (size_t i = 0; s == HTC_OK && i < p->n; i++)
        htc_key_public(secrets + i * HTC_KEY_BYTES, p->key[i]);
    explicit_bzero(secrets, sizeof secrets);
    return s;
}

static int is_among(const publics *p, const uint8_t *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (memcmp(p->key[i], key, HTC_KEY_BYTES) == 0)
            return 1;
    return 0;
}

/* Those of this name are these, and no others. What was revoked stays so. */
static htc_status pin(void *ctx, htc_keyring *ring)
{
    const publics    *p = ctx;
    htc_keyring_entry e;
    htc_status        s = HTC_OK;
    for (size_t i = 0; htc_keyring_at(ring, i, &e) == HTC_OK;) {
        uint8_t key[HTC_KEY_BYTES];
        memcpy(key, e.key, sizeof key);
        if (strcmp(e.name, p->name) == 0 && e.role == p->role && e.state != HTC_KEY_REVOKED && !is_among(p, key))
            (void)htc_keyring_forget(ring, key);
        else
            i++;
    }
    for (size_t i = 0; s == HTC_OK && i < p->n; i++)
        s = htc_keyring_set(ring, p->name, p->role, i ? HTC_KEY_NEXT : HTC_KEY_CURRENT, p->key[i]);
    return s;
}

static htc_status pin_all(const char *ring, publics *p, const char *key_file, htc_error *error)
{
    htc_status s = htc_keys_change_ring(ring, pin, p, error);
    if (s == HTC_EDENIED)
        return failed(error, s, key_file, "this key was revoked, and does not come back", "remove the file: another key is made");
    if (s == HTC_EEXISTS)
        return failed(error, s, ring, "the name of a site has another role there", "give the site another name, or htc keys revoke the other one");
    return s;
}

static htc_status make_dir(const char *path, htc_error *error)
{
    char  text[4200];
    char *slash = text;
    snprintf(text, sizeof text, "%s", path);
    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        if (mkdir(text, 0700) != 0 && errno != EEXIST)
            break;
        *slash = '/';
    }
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return HTC_OK;
    return failed(error, HTC_EIO, path, strerror(errno), "the directory of a site's broker cannot be made: site.NAME.dir names another");
}

static htc_status prepare(htc_state *state, const htc_config_site *site, const char *dir, const publics *system, broker *b, htc_error *error)
{
    publics own = { .name = site->name, .role = HTC_KEY_HOST }, known = *system;
    int     ok = (b->site = strdup(site->name)) != NULL;
    ok = ok && (dir[0] ? (b->dir = strdup(dir)) != NULL
                       : asprintf(&b->dir, "%s/sites/%s", htc_state_dir(state), site->name) > 0);
    ok = ok && asprintf(&b->key, "%s/site.key", b->dir) > 0 && asprintf(&b->ring, "%s/site.ring", b->dir) > 0;
    if (!ok)
        return failed(error, HTC_ENOMEM, "", "out of memory", "");
    htc_status s = make_dir(b->dir, error);
    if (s == HTC_OK)
        s = read_publics(b->key, &own, error);
    if (s == HTC_OK)
        s = pin_all(htc_state_path(state, HTC_STATE_RING), &own, b->key, error);
    if (s == HTC_OK)
        s = pin_all(b->ring, &known, htc_state_path(state, HTC_STATE_KEY), error);
    return s;
}

htc_status brokers_prepare(htc_state *state, const char *config, brokers *out, htc_error *error)
{
    publics     system = { .name = SYSTEM_NAME, .role = HTC_KEY_MEMBER };
    htc_config *c = NULL;
    htc_status  s = config ? htc_config_load(&plain, config, &c, error) : HTC_OK;
    *out = (brokers){ .n = 0 };
    size_t      sites = c ? htc_config_sites(c) : 0;
    out->list = sites ? calloc(sites, sizeof *out->list) : NULL;
    out->join = c ? strdup(htc_config_text(c, "server.join")) : NULL;
    if (s == HTC_OK && sites && (!out->list || !out->join))
        s = failed(error, HTC_ENOMEM, "", "out of memory", "");
    for (size_t i = 0; s == HTC_OK && i < sites; i++) {
        htc_config_site  site = { .size = sizeof site };
        htc_config_batch batch = { .size = sizeof batch };
        htc_config_site_get(c, i, &site);
        if (!site.broker || htc_config_batch_get(c, site.name, &batch) != HTC_OK)
            continue;
        if (system.n == 0)
            s = read_publics(htc_state_path(state, HTC_STATE_KEY), &system, error);
        if (s == HTC_OK)
            s = prepare(state, &site, batch.dir, &system, &out->list[out->n++], error);
    }
    htc_config_destroy(c);
    if (s != HTC_OK)
        brokers_free(out);
    return s;
}

void brokers_free(brokers *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->list[i].site);
        free(b->list[i].dir);
        free(b->list[i].key);
        free(b->list[i].ring);
    }
    free(b->list);
    free(b->join);
    *b = (brokers){ .n = 0 };
}
