/* The outputs of a job as one archive, written while it is sent: a page of results after the other, of each output piece after piece. What is held is one
 * page, one piece and the names of what is missing. The length is not known before, so that the answer comes in chunks: one that ends without the last
 * chunk is not whole, which a browser says. */
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "net/portal/portal_private.h"
#include "net/portal/tar_head.h"

#define RESULTS 200               /* in a page, at most */
#define PIECE (1u << 20)
#define TOGETHER ((size_t)256 << 10) /* of small outputs, before they are sent */
#define MISSING_MAX ((size_t)64 << 10)
#define NAME_LEN 4095

struct archive {
    uint64_t job, task; /* task UINT64_MAX: all of them */
    uint64_t from, from_output;
    json_t  *page; /* NULL: to be asked for */
    size_t   result, output; /* the next one of it */
    int      last; /* page is */
    int      over; /* all has been put into body */
    int      in_file; /* the bytes of an output come */
    uint64_t size, at;
    uint32_t attempt;
    uint64_t index, mtime;
    uint8_t  hash[32];
    crypto_generichash_state seen;
    htc_buf  body, name, missing; /* name: of the output whose bytes come */
    uint64_t missing_more;
};

typedef enum next { NEXT_ASKED = 1, NEXT_FULL, NEXT_OVER, NEXT_BROKEN } next;

void htc__portal_archive_free(visitor *v)
{
    archive *a = v->archive;
    if (!a)
        return;
    json_decref(a->page);
    htc_buf_free(&a->body);
    htc_buf_free(&a->name);
    htc_buf_free(&a->missing);
    htc__free(v->portal->host->env, a, sizeof *a);
    v->archive = NULL;
    v->portal->archives--;
}

/* ---- what is asked ---- */

static void ask_for_page(visitor *v)
{
    const archive *a = v->archive;
    char           body[256], task[32] = "";
    if (a->task != UINT64_MAX)
        snprintf(task, sizeof task, ".%" PRIu64, a->task);
    int n = snprintf(body, sizeof body, "{\"id\":\"%" PRIu64 "%s\",\"from\":%" PRIu64 ",\"from_output\":%" PRIu64 ",\"limit\":%d}", a->job, task, a->from,
                     a->from_output, RESULTS);
    htc__portal_ask(v, PORTAL_ASK_ARCHIVE, "results", (htc_bytes){ body, (size_t)n });
}

static void ask_for_piece(visitor *v)
{
    archive *a = v->archive;
    uint64_t left = a->size - a->at;
    htc__portal_ask_piece(v, PORTAL_ASK_ARCHIVE, &(portal_piece){ a->job, a->index, a->attempt, htc_buf_bytes(&a->name), a->at, left < PIECE ? (uint32_t)left : PIECE });
}

/* ---- what goes into it ---- */

static void miss(archive *a, const char *place, const char *why)
{
    if (a->missing.len + strlen(place) + strlen(why) + 3 > MISSING_MAX)
        a->missing_more++;
    else
        htc_put_text(&a->missing, "%s: %s\n", place, why);
}

static int is_relative(const char *name)
{
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/' && p != name;
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
    }
    return 1;
}

/* A link goes up only at the beginning of its target, and no further than its task's own directory. */
static int link_stays(const char *name, const char *target)
{
    size_t depth = 0, up = 0, named = 0;
    for (const char *p = name; *p; p++)
        depth += *p == '/';
    if (!target[0] || target[0] == '/')
        return 0;
    for (const char *p = target; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        int    is_up = n == 2 && p[0] == '.' && p[1] == '.';
        if (is_up && (named || ++up > depth))
            return 0;
        named |= !is_up && (n != 1 || p[0] != '.');
        p += n;
    }
    return 1;
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

/* 1: its bytes have to be asked for. */
static int put_output(archive *a, const json_t *output)
{
    char        place[NAME_LEN + 32];
    const char *name = text_of(output, "name"), *type = text_of(output, "type"), *hash = text_of(output, "hash"), *error = text_of(output, "error");
    const char *target = text_of(output, "target");
    size_t      len = 0;
    tar_entry   entry = { .name = place, .target = "", .mtime = a->mtime, .type = '0',
                          .executable = (strtoul(text_of(output, "mode"), NULL, 8) & 0111) != 0 };
    if (!name[0] || strlen(name) > NAME_LEN || !is_relative(name)) {
        miss(a, "an output", "its name leaves the archive");
        return 0;
    }
    snprintf(place, sizeof place, "%" PRIu64 "/%s", a->index, name);
    if (strcmp(type, "d") == 0) {
        entry.type = '5';
        htc__tar_head(&a->body, &entry);
    } else if (strcmp(type, "l") == 0 && link_stays(name, target)) {
        entry.type = '2';
        entry.target = target;
        htc__tar_head(&a->body, &entry);
    } else if (strcmp(type, "f") != 0 || sodium_hex2bin(a->hash, sizeof a->hash, hash, strlen(hash), NULL, &len, NULL) != 0 || len != sizeof a->hash) {
        miss(a, place, error[0] ? error : strcmp(type, "l") == 0 ? "a link that leaves its task's directory" : "not stored");
    } else {
        a->size = (uint64_t)json_integer_value(json_object_get(output, "size"));
        a->at = 0;
        entry.size = a->size;
        htc__tar_head(&a->body, &entry);
        if (error[0])
            miss(a, place, error);
        htc_buf_clear(&a->name);
        htc_put_raw(&a->name, htc_bytes_of(name));
        crypto_generichash_init(&a->seen, NULL, 0, sizeof a->hash);
        a->in_file = a->size > 0;
        return a->in_file;
    }
    return 0;
}

static void put_missing(archive *a)
{
    if (!a->missing.len)
        return;
    if (a->missing_more)
        htc_put_text(&a->missing, "... and %" PRIu64 " more\n", a->missing_more);
    htc__tar_head(&a->body, &(tar_entry){ .name = "missing.txt", .target = "", .size = a->missing.len, .type = '0' });
    htc_put_raw(&a->body, htc_buf_bytes(&a->missing));
    htc__tar_pad(&a->body, a->missing.len);
}

static next go_through_page(visitor *v)
{
    archive *a = v->archive;
    json_t  *results = json_object_get(a->page, "results"), *result;
    while ((result = json_array_get(results, a->result))) {
        json_t *outputs = json_object_get(result, "outputs"), *output;
        a->index = (uint64_t)json_integer_value(json_object_get(result, "index"));
        a->attempt = (uint32_t)json_integer_value(json_object_get(result, "attempt"));
        a->mtime = (uint64_t)json_number_value(json_object_get(result, "ended"));
        while ((output = json_array_get(outputs, a->output))) {
            if (a->body.len >= TOGETHER)
                return NEXT_FULL;
            a->output++;
            if (put_output(a, output)) {
                ask_for_piece(v);
                return NEXT_ASKED;
            }
        }
        if (json_object_get(result, "outputs_error")) {
            char place[32];
            snprintf(place, sizeof place, "%" PRIu64, a->index);
            miss(a, place, text_of(result, "outputs_error"));
        }
        a->output = 0;
        a->result++;
    }
    json_t *after = json_object_get(a->page, "next");
    a->last = !json_is_integer(after);
    a->from = (uint64_t)json_integer_value(after);
    a->from_output = (uint64_t)json_integer_value(json_object_get(a->page, "next_output"));
    json_decref(a->page);
    a->page = NULL;
    if (a->last) {
        put_missing(a);
        htc__tar_end(&a->body);
        a->over = 1;
        return NEXT_OVER;
    }
    ask_for_page(v);
    return NEXT_ASKED;
}

/* ---- the answer ---- */

static void send_body(visitor *v)
{
    archive *a = v->archive;
    if (a->body.status != HTC_OK || a->missing.status != HTC_OK || a->name.status != HTC_OK) {
        htc__portal_free(v);
        return;
    }
    if (!v->plain && a->body.len)
        htc_put_text(&v->out, "%zx\r\n", a->body.len);
    htc_put_raw(&v->out, htc_buf_bytes(&a->body));
    if (!v->plain && a->body.len)
        htc_put_text(&v->out, "\r\n");
    if (!v->plain && a->over)
        htc_put_text(&v->out, "0\r\n\r\n");
    v->offset += a->body.len; /* what it has time for */
    htc_buf_clear(&a->body);
    v->state = VISITOR_TAKES;
    htc__portal_patience(v);
    htc__portal_push(v);
}

static void go_on(visitor *v)
{
    if (go_through_page(v) != NEXT_ASKED)
        send_body(v);
}

static void begin(visitor *v)
{
    const archive *a = v->archive;
    char           more[256], task[32] = "";
    v->begun = 1;
    v->began = htc_host_now();
    if (a->task != UINT64_MAX)
        snprintf(task, sizeof task, ".%" PRIu64, a->task);
    snprintf(more, sizeof more, "Content-Disposition: attachment; filename=\"job-%" PRIu64 "%s.tar\"\r\n%s", a->job, task,
             v->plain ? "" : "Transfer-Encoding: chunked\r\n");
    htc__portal_head(v, 200, "application/x-tar", UINT64_MAX, more);
}

static void page_came(visitor *v, htc_bytes json)
{
    archive *a = v->archive;
    a->page = json_loadb(json.data, json.len, 0, NULL);
    a->result = a->output = 0;
    if (!json_is_array(json_object_get(a->page, "results"))) {
        if (!v->begun)
            htc__portal_answer_json(v, json);
        else
            htc__portal_free(v);
        return;
    }
    if (!v->begun)
        begin(v);
    go_on(v);
}

static void piece_came(visitor *v, htc_bytes message)
{
    archive   *a = v->archive;
    htc_reader r = htc_reader_of(message);
    uint8_t    hash[sizeof a->hash];
    uint64_t   offset = htc_get_u64(&r), size = htc_get_u64(&r);
    (void)htc_get_u32(&r);
    htc_bytes bytes = htc_get_bytes(&r);
    if (htc_reader_done(&r) != HTC_OK || offset != a->at || size != a->size || bytes.len == 0 || bytes.len > a->size - a->at) {
        htc__portal_free(v); /* its head is out: an archive that ends says that it is not whole */
        return;
    }
    htc_put_raw(&a->body, bytes);
    crypto_generichash_update(&a->seen, bytes.data, bytes.len);
    a->at += bytes.len;
    if (a->at == a->size) {
        crypto_generichash_final(&a->seen, hash, sizeof hash);
        if (memcmp(hash, a->hash, sizeof hash) != 0) {
            htc__portal_free(v);
            return;
        }
        htc__tar_pad(&a->body, a->size);
        a->in_file = 0;
    }
    if (a->body.len >= TOGETHER)
        send_body(v);
    else if (a->in_file)
        ask_for_piece(v);
    else
        go_on(v);
}

void htc__portal_archive_heard(visitor *v, htc_bytes answer)
{
    const archive *a = v->archive;
    int            is_piece = answer.len && ((const uint8_t *)answer.data)[0];
    htc_bytes      body = { answer.len ? (const uint8_t *)answer.data + 1 : NULL, answer.len ? answer.len - 1 : 0 };
    if (!a->page && !is_piece)
        page_came(v, body);
    else if (a->in_file && is_piece)
        piece_came(v, body);
    else
        htc__portal_free(v);
}

int htc__portal_archive_taken(visitor *v)
{
    const archive *a = v->archive;
    if (!a || !v->begun || a->over)
        return 0;
    if (a->in_file)
        ask_for_piece(v);
    else
        go_on(v);
    return 1;
}

void htc__portal_archive(visitor *v, htc_bytes query)
{
    portal   *p = v->portal;
    uint64_t  job, task = UINT64_MAX;
    htc_bytes text;
    uint32_t  n = 0;
    if (!htc__http_request_argument(query, "job", &text) || !htc__portal_number(text, &job) ||
        (htc__http_request_argument(query, "task", &text) && !htc__portal_number(text, &task))) {
        htc__portal_refuse(v, HTC_EINVAL, "say job=ID or job=ID&task=N", "this names no job");
        return;
    }
    for (const visitor *w = p->first; w; w = w->next)
        n += w->archive && strcmp(w->user, v->user) == 0;
    if (p->archives >= PORTAL_ARCHIVES_MAX || n >= PORTAL_ARCHIVES_OF_USER) {
        htc__portal_refuse(v, HTC_EBUSY, "wait until one of them has come", "too many archives are being made");
        return;
    }
    if (!(v->archive = htc__alloc(p->host->env, sizeof *v->archive))) {
        htc__portal_refuse(v, HTC_ENOMEM, "", "out of memory");
        return;
    }
    p->archives++;
    v->archive->job = job;
    v->archive->task = task;
    htc_buf_init(&v->archive->body, p->host->env, 4 * PIECE);
    htc_buf_init(&v->archive->name, p->host->env, NAME_LEN + 1);
    htc_buf_init(&v->archive->missing, p->host->env, 2 * MISSING_MAX);
    ask_for_page(v);
}
