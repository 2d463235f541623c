#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/kv_bridge.h"
#include "htcsched/kv_proxy.h"
#include "htcsched/version.h"
#include "join.h"

enum { STORE_PORT = 2 };

typedef struct proxy {
    member        *m;
    htc_kv_proxy  *machine;
    htc_kv_bridge *bridge; /* instead of it, before a store of others */
    uint32_t       stores[HTC_KV_PROXY_STORES_MAX], count;
} proxy;

/* A store of others: its clients come to a bridge. */
static int is_bridge(const char *address)
{
    return strncmp(address, "redis://", 8) == 0 || strncmp(address, "redis+unix:", 11) == 0 || strncmp(address, "etcd://", 7) == 0;
}

htc_status proxy_check(const member *m)
{
    const member_options *o = &m->o;
    const struct {
        int         is;
        const char *name;
    } others[] = { { o->dir != NULL, "--dir" },
                   { o->resp != NULL, "--resp" },
                   { o->password_file != NULL, "--resp-password-file" },
                   { o->flush != 0, "--resp-allow-flush" },
                   { o->engine != NULL, "--engine" },
                   { o->durability != NULL, "--durability" },
                   { o->sync_ms != 0, "--sync-ms" },
                   { o->bytes_max != 0, "--memory" },
                   { o->value_max != 0, "--value-max" },
                   { o->huge_pages != 0, "--huge-pages" },
                   { o->shards != 0, "--shards" },
                   { o->draw != 0, "--new-member" },
                   { o->bits != 0, "--buckets" },
                   { o->join != NULL, "--join" },
                   { o->replaces != 0, "--replaces" },
                   { o->weight != 0, "--weight" },
                   { o->domain != 0, "--domain" },
                   { m->count != 0, "--member" },
                   { m->space_count + m->strong_count != 0, "--namespace" } };
    member_address at = { .id = 0 };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is)
            return member_wrong(m->d, HTC_EUSAGE, "leave it out", "%s is for a store: a proxy keeps nothing", others[i].name);
    if (!o->at && !o->listen)
        return member_wrong(m->d, HTC_EUSAGE, "give --at unix:PATH, or --listen HOST:PORT with --key and --ring", "%s",
                            "--proxy does not say where its clients come");
    if (o->at && (!identity_where(o->at, &at) || !at.path[0]))
        return member_wrong(m->d, HTC_EUSAGE, "with --proxy it is unix:PATH; --listen is for those who come over TCP",
                            "--at %.100s is not where clients of a proxy may come", o->at);
    if ((o->listen || o->key || o->ring) && (!o->key || !o->ring))
        return member_wrong(m->d, HTC_EUSAGE, "htc keys new makes a key, htc keys add a ring", "%s needs --key and --ring",
                            o->listen ? "--listen" : o->key ? "--key" : "--ring");
    if (o->once && !o->listen)
        return member_wrong(m->d, HTC_EUSAGE, "give --listen HOST:PORT", "%s is for those who come in by --listen", "--once");
    return HTC_OK;
}

static htc_status open_keys(member *m)
{
    htc_host_keys_options ko = {
        .size = sizeof ko, .key_path = m->o.key, .ring_path = m->o.ring, .once_path = m->o.once, .role = HTC_KEY_USER
    };
    return m->o.key ? htc_host_keys_open(m->host, &ko, &m->keys, &m->d->error) : HTC_OK;
}

/* One of the members behind it. */
static htc_status dial(proxy *p, const char *text, size_t len)
{
    member        *m = p->m;
    char           one[4200];
    member_address a = { .id = 0 };
    if (p->count == HTC_KV_PROXY_STORES_MAX || len >= sizeof one)
        return member_wrong(m->d, HTC_EUSAGE, "16 members at most, and one is enough", "--proxy %.100s: too many, or too long", text);
    snprintf(one, sizeof one, "%.*s", (int)len, text);
    if (!identity_where(one, &a))
        return member_wrong(m->d, HTC_EUSAGE, "where a member answers, or several of one store with commas between",
                            "--proxy %.100s is none of unix:PATH and tcp://[NAME@]HOST:PORT", one);
    if (a.path[0])
        return htc_host_dial_unix(m->host, a.path, STORE_PORT, &p->stores[p->count++], &m->d->error);
    if (!m->keys)
        return member_wrong(m->d, HTC_EUSAGE, "give --key and --ring", "%.100s is reached with keys alone", one);
    htc_host_keys_dial_options to = { .size = sizeof to, .address = a.address, .name = a.name[0] ? a.name : NULL, .port = STORE_PORT };
    return htc_host_keys_dial(m->keys, &to, &p->stores[p->count++], &m->d->error);
}

static htc_status dial_all(proxy *p)
{
    htc_status s = p->m->o.proxy[0] ? HTC_OK : member_wrong(p->m->d, HTC_EUSAGE, "where a member answers", "%s", "--proxy names nobody");
    for (const char *at = p->m->o.proxy; s == HTC_OK && *at;) {
        size_t len = join_one_of(at);
        s = dial(p, at, len);
        at += len + (at[len] == ',');
    }
    return s;
}

static void say_what(htc_metrics *metrics)
{
    htc_metrics_family(metrics, HTC_METRIC_INFO, "htc_kv_member", "", "Which program this is, and how it keeps records.");
    htc_metrics_value(metrics, (htc_metric_label[]){ { "engine", htc_bytes_of("none") }, { "version", htc_bytes_of(HTC_VERSION) } }, 2, 1);
}

static void show(void *ctx, htc_metrics *metrics)
{
    const proxy *p = ctx;
    say_what(metrics);
    htc_kv_proxy_metrics(p->machine, metrics);
    if (p->m->keys)
        htc_host_keys_metrics(p->m->keys, metrics);
}

static htc_status listen_all(proxy *p, void (*page)(void *ctx, htc_metrics *metrics))
{
    member                      *m = p->m;
    member_address               at = { .id = 0 };
    htc_host_keys_listen_options lo = { .size = sizeof lo, .address = m->o.listen, .port = NATIVE_PORT };
    htc_status                   s = HTC_OK;
    if (m->o.at && identity_where(m->o.at, &at))
        s = htc_host_listen_unix(m->host, at.path, 0600, NATIVE_PORT, &m->d->error);
    if (s == HTC_OK && m->o.listen)
        s = htc_host_keys_listen(m->keys, &lo, &m->secure_port, &m->d->error);
    if (s == HTC_OK)
        s = member_listen(m, LISTEN_METRICS, page, p);
    if (s == HTC_ELOCKED && m->d->error.hint[0] == 0)
        snprintf(m->d->error.hint, sizeof m->d->error.hint, "end the other one, or take another address");
    return s;
}

static void say_ready(const member *m)
{
    printf("ready: proxy of %s, pid %ld", m->o.proxy, (long)getpid());
    if (m->o.at)
        printf(", at %s", m->o.at);
    if (m->metrics_port)
        printf(", metrics on %.*s:%u", (int)(strrchr(m->o.metrics, ':') - m->o.metrics), m->o.metrics, m->metrics_port);
    else if (m->o.metrics)
        printf(", metrics on %s", m->o.metrics);
    if (m->o.listen)
        printf(", with keys on %.*s:%u", (int)(strrchr(m->o.listen, ':') - m->o.listen), m->o.listen, m->secure_port);
    putchar('\n');
    fflush(stdout);
}

static void bridge_show(void *ctx, htc_metrics *metrics)
{
    const proxy *p = ctx;
    say_what(metrics);
    htc_kv_bridge_metrics(p->bridge, metrics);
    if (p->m->keys)
        htc_host_keys_metrics(p->m->keys, metrics);
}

static htc_status bridge_serve(proxy *p)
{
    member               *m = p->m;
    htc_store            *store = NULL;
    htc_kv_bridge_options o = { .size = sizeof o, .connections_max = CONNECTIONS_MAX };
    htc_store_options     so = { .size = sizeof so, .address = m->o.proxy, .durable = 1 };
    htc_status            s = htc_store_open(&m->d->env, &so, &store, &m->d->error);
    if (s == HTC_OK)
        s = htc_kv_bridge_attach(m->host, store, &m->d->error);
    if (s == HTC_OK)
        s = htc_kv_bridge_create(&m->d->env, &o, &p->bridge);
    if (s == HTC_OK)
        s = listen_all(p, bridge_show);
    if (s == HTC_OK) {
        say_ready(m);
        s = htc_host_run(m->host, htc_kv_bridge_ops(), p->bridge);
    }
    htc_host_destroy(m->host);
    m->host = NULL;
    htc_store_close(store);
    htc_kv_bridge_destroy(p->bridge);
    return s;
}

htc_status proxy_serve(member *m)
{
    proxy            p = { .m = m };
    htc_host_options ho = { .size = sizeof ho, .handle_signals = 1, .output_bytes_max = MEMBER_WAITING,
                             .redial_max_ns = 250 * HTC_MS }; /* its clients wait for it, and then for the store */
    ho.connections_max = member_descriptors() ? CONNECTIONS_MAX : 0;
    htc_status s = htc_host_create(&m->d->env, &ho, &m->host);
    if (s == HTC_OK)
        s = open_keys(m);
    if (s == HTC_OK && is_bridge(m->o.proxy))
        return bridge_serve(&p);
    if (s == HTC_OK)
        s = dial_all(&p);
    htc_kv_proxy_options o = { .size = sizeof o, .stores = p.stores, .store_count = p.count, .connections_max = CONNECTIONS_MAX };
    if (s == HTC_OK)
        s = htc_kv_proxy_create(&m->d->env, &o, &p.machine);
    if (s == HTC_OK)
        s = listen_all(&p, show);
    if (s == HTC_OK) {
        say_ready(m);
        s = htc_host_run(m->host, htc_kv_proxy_ops(), p.machine);
    }
    htc_host_destroy(m->host);
    m->host = NULL;
    htc_kv_proxy_destroy(p.machine);
    return s;
}
