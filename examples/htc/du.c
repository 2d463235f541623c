/* du: what jobs hold on disk, by user or job. Content that several jobs of a user name is counted once for the user. */
#include "htc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 10 /* jobs in one request: their files are counted before it is answered */

typedef struct holdings {
    json_t *jobs;  /* as the gateway tells */
    json_t *users; /* name -> { jobs, outputs, files, content: { hash: size } } */
} holdings;

static void add(json_t *o, const char *key, uint64_t n)
{
    json_object_set_new(o, key, json_integer((json_int_t)(j_u64(o, key) + n)));
}

static uint64_t take_content(const json_t *job, json_t *known)
{
    uint64_t sum = 0;
    size_t   i;
    json_t  *c;
    json_array_foreach(json_object_get(job, "content"), i, c)
    {
        sum += j_u64(c, "size");
        json_object_set_new(known, j_str(c, "hash"), json_integer((json_int_t)j_u64(c, "size")));
    }
    return sum;
}

static void take_job(holdings *h, const json_t *job)
{
    const char *name = j_str(job, "user");
    json_t     *user = json_object_get(h->users, name);
    if (!user) {
        user = json_pack("{s:s, s:i, s:i, s:i, s:{}}", "user", name, "jobs", 0, "outputs", 0, "files", 0, "content");
        json_object_set_new(h->users, name, user);
    }
    uint64_t content = take_content(job, json_object_get(user, "content"));
    add(user, "jobs", 1);
    add(user, "outputs", j_u64(job, "outputs"));
    add(user, "files", j_u64(job, "files"));
    json_t *kept = json_copy((json_t *)(uintptr_t)job);
    json_object_set_new(kept, "content", json_integer((json_int_t)content));
    json_array_append_new(h->jobs, kept);
}

static htc_status gather(cli *c, const char *selector, json_t *filter, holdings *h)
{
    uint64_t   before = 0;
    json_t    *answer, *job;
    size_t     i;
    progress   p;
    htc_status s;
    progress_begin(&p, c);
    do {
        json_t *r = json_pack("{s:s, s:i}", "op", "du", "limit", PAGE);
        if (selector)
            j_add(&r, "id", selector);
        if (r && filter)
            json_object_update(r, filter);
        if (before)
            json_object_set_new(r, "before", json_integer((json_int_t)before));
        s = api_ask(c, r, 0, 30, &answer);
        if (s != HTC_OK)
            break;
        json_array_foreach(json_object_get(answer, "jobs"), i, job) take_job(h, job);
        before = j_u64(answer, "next");
        json_decref(answer);
        progress_say(&p, "%zu job%s so far", json_array_size(h->jobs), plural(json_array_size(h->jobs)));
    } while (before);
    progress_end(&p);
    return s;
}

static void sum_content(holdings *h)
{
    const char *name, *hash;
    json_t     *user, *size;
    json_object_foreach(h->users, name, user)
    {
        uint64_t sum = 0;
        json_object_foreach(json_object_get(user, "content"), hash, size) sum += (uint64_t)json_integer_value(size);
        json_object_set_new(user, "content", json_integer((json_int_t)sum));
    }
}

static void print_users(cli *c, const holdings *h)
{
    table       t;
    const char *name;
    json_t     *u;
    table_begin(&t, "USER", ">JOBS", ">OUTPUTS", ">FILES", ">INPUTS", NULL);
    json_object_foreach(h->users, name, u) table_row(&t, "%s\t%" PRIu64 "\t%s\t%" PRIu64 "\t%s", name, j_u64(u, "jobs"),
                                                     show_size(j_num(u, "outputs")).s, j_u64(u, "files"),
                                                     show_size(j_num(u, "content")).s);
    table_end(c, &t);
}

static void print_jobs(cli *c, const holdings *h)
{
    table   t;
    size_t  i;
    json_t *j;
    table_begin(&t, ">JOB", "USER", "NAME", "STATE", ">OUTPUTS", ">FILES", ">INPUTS", NULL);
    json_array_foreach(h->jobs, i, j)
        table_row(&t, "%" PRIu64 "\t%s\t%s\t%s\t%s\t%" PRIu64 "\t%s", j_u64(j, "id"), j_str(j, "user"), j_str(j, "name"),
                  j_str(j, "state"), show_size(j_num(j, "outputs")).s, j_u64(j, "files"), show_size(j_num(j, "content")).s);
    table_end(c, &t);
}

static void print_total(const json_t *total)
{
    const json_t *out = json_object_get(total, "outputs"), *content = json_object_get(total, "content");
    const json_t *uploads = json_object_get(total, "uploads");
    printf("on disk: outputs %s in %" PRIu64 " file%s, uploads %s in %" PRIu64 " file%s, unfinished uploads %s\n",
           show_size(j_num(out, "bytes")).s, j_u64(out, "files"), plural(j_u64(out, "files")), show_size(j_num(content, "bytes")).s, j_u64(content, "files"), plural(j_u64(content, "files")),
           show_size(j_num(uploads, "bytes")).s);
}

static void put_all(cli *c, const holdings *h, const json_t *total)
{
    const char *name;
    json_t     *users = json_array(), *u;
    json_object_foreach(h->users, name, u) json_array_append(users, u);
    json_t *o = json_pack("{s:o, s:O, s:O?}", "users", users, "jobs", h->jobs, "total", total);
    put_json(c, o);
    json_decref(o);
}

htc_status run_du(cli *c, int argc, char **argv)
{
    uint32_t       jobs = 0;
    words          w;
    job_filter     f = { 0 };
    const opt      opts[] = { { "jobs", 0, OPT_FLAG, &jobs, NULL, "a line for each job, not for each user" }, FILTER_OPTIONS(f) };
    json_t        *filter = NULL;
    const command *cmd = find_command("du");
    holdings       h = { json_array(), json_object() };
    json_t        *total = NULL;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof opts[0], &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 1);
    if (s == HTC_OK)
        s = filter_request(c, &f, &filter);
    if (s == HTC_OK)
        s = gather(c, w.count ? w.at[0] : NULL, filter, &h);
    if (s == HTC_OK && w.count == 0 && !c->user && !filter) {
        s = api_ask(c, json_pack("{s:s, s:b}", "op", "du", "total", 1), 0, 30, &total);
        s = s == HTC_EDENIED ? HTC_OK : s; /* the operator's to know */
    }
    if (s == HTC_OK) {
        sum_content(&h);
        if (c->json)
            put_all(c, &h, total);
        else if (jobs || w.count)
            print_jobs(c, &h);
        else
            print_users(c, &h);
        if (!c->json && total)
            print_total(total);
    }
    json_decref(filter);
    json_decref(total);
    json_decref(h.jobs);
    json_decref(h.users);
    words_free(&w);
    return s;
}
