/* The calls of objects: each object has a queue, of which one worker thread at a time carries out one call after the other. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/codec.h"
#include "core/util.h"
#include "htcsched/calls.h"
#include "net/exec/objects.h"
#include "net/exec/objects_file.h"
#include "net/files/files.h"

#define EARLY_MAX  64 /* pieces of one object that wait for those before them */
#define PIECE_MAX  (16u << 20)
#define PREFIX_MAX 64
#define OUTPUT_MAX (1u << 20) /* that is read at once */

typedef struct queue queue;

/* One call. The body is a copy; what it says points into it. */
typedef struct op {
    queue      *of;
    struct op  *next; /* in the queue; of those that wait for a piece: the next later one */
    uint32_t    number;
    uint64_t    tag;
    htc_status  status;
    uint64_t    size, offset;
    uint32_t    len;
    htc_bytes   bytes; /* of WRITE; the prefix of READ; the name of ADOPT, OUTPUT and OUTPUT_READ; the user of GIVE */
    uint8_t     content[32]; /* of FINISH, GIVE and DROP */
    htc_attempt attempt;
    htc_buf     answer;
    uint8_t     body[];
} op;

struct queue {
    uint8_t            hash[32];
    htc__objects_host *h;
    op                *first, **last; /* under the host's lock, with running */
    int                running;       /* a thread is at it, or will be */
    op                *unsent;        /* under the lock: done, and for want of memory nobody was told */
    uint32_t           unanswered, works; /* in the loop: calls, and work that was handed to threads */
    /* of whoever carries out */
    htc__object_part part;
    op              *early; /* pieces behind a gap, by offset */
    uint32_t         n_early;
    UT_hash_handle   hh;
};

struct htc__objects_host {
    htc_host          *host;
    htc__objects_place place;
    pthread_mutex_t    lock;
    queue             *queues;
};

/* ---- on a worker thread ---- */

static void answer_op(void *ctx);

static void done(op *x, htc_status status)
{
    x->status = status;
    if (htc_host_post(x->of->h->host, answer_op, x) == HTC_OK)
        return;
    pthread_mutex_lock(&x->of->h->lock);
    x->next = x->of->unsent;
    x->of->unsent = x;
    pthread_mutex_unlock(&x->of->h->lock);
}

static void end_early(queue *q)
{
    while (q->early) {
        op *x = q->early;
        q->early = x->next;
        q->n_early--;
        done(x, HTC_ECANCELLED);
    }
}

static void hold(queue *q, op *x)
{
    op **at = &q->early;
    while (*at && (*at)->offset <= x->offset)
        at = &(*at)->next;
    x->next = *at;
    *at = x;
    q->n_early++;
}

/* What of it is not written yet. */
static htc_status append(queue *q, const op *x)
{
    uint64_t have = q->part.at - x->offset;
    if (have >= x->bytes.len)
        return HTC_OK;
    return htc__object_append(&q->part, (htc_bytes){ (const uint8_t *)x->bytes.data + have, x->bytes.len - (size_t)have });
}

static void write_piece(queue *q, op *x)
{
    if (q->part.fd < 0) {
        done(x, HTC_ENOTFOUND);
    } else if (x->size != q->part.size || x->offset > x->size || x->bytes.len > x->size - x->offset) {
        done(x, HTC_EPROTO);
    } else if (x->offset > q->part.at) {
        if (q->n_early < EARLY_MAX)
            hold(q, x);
        else
            done(x, HTC_EBUSY);
    } else {
        done(x, append(q, x));
        while (q->early && q->early->offset <= q->part.at) {
            x = q->early;
            q->early = x->next;
            q->n_early--;
            done(x, append(q, x));
        }
    }
}

static htc_status room(queue *q, op *x)
{
    end_early(q);
    htc_status status = htc__object_room(&q->h->place, &q->part, q->hash, x->size);
    if (status == HTC_OK)
        htc_put_u64(&x->answer, q->part.at);
    return status;
}

static void name_of(const op *x, char name[HTC_OUTPUT_NAME_MAX])
{
    if (x->bytes.len)
        memcpy(name, x->bytes.data, x->bytes.len);
    name[x->bytes.len] = '\0';
}

static htc_status output(const queue *q, op *x)
{
    char name[HTC_OUTPUT_NAME_MAX];
    name_of(x, name);
    return htc__object_output(&q->h->place, &x->attempt, name, &x->answer);
}

static htc_status output_read(const queue *q, op *x)
{
    char name[HTC_OUTPUT_NAME_MAX];
    name_of(x, name);
    return htc__object_output_read(&q->h->place, &x->attempt, name, x->len, &x->answer);
}

static htc_status give(const queue *q, const op *x)
{
    char name[HTC_OUTPUT_NAME_MAX];
    name_of(x, name);
    return htc__object_give(&q->h->place, q->hash, x->content, name);
}

static htc_status adopt(queue *q, const op *x)
{
    char name[HTC_OUTPUT_NAME_MAX];
    name_of(x, name);
    htc_status status = htc__object_adopt(&q->h->place, q->hash, x->size, &x->attempt, name);
    if (status == HTC_OK) {
        end_early(q);
        htc__object_part_close(&q->part);
    }
    return status;
}

static void carry_out(queue *q, op *x)
{
    switch (x->number) {
    case HTC_CALL_OBJECT_ROOM: done(x, room(q, x)); break;
    case HTC_CALL_OBJECT_WRITE: write_piece(q, x); break;
    case HTC_CALL_OBJECT_FINISH:
        end_early(q);
        done(x, htc__object_finish(&q->h->place, &q->part, q->hash, x->content));
        break;
    case HTC_CALL_OBJECT_READ:
        done(x, htc__object_piece(&q->h->place, q->hash, x->offset, x->len, x->bytes, &x->answer));
        break;
    case HTC_CALL_OBJECT_ADOPT: done(x, adopt(q, x)); break;
    case HTC_CALL_OBJECT_OUTPUT: done(x, output(q, x)); break;
    case HTC_CALL_OUTPUT_READ: done(x, output_read(q, x)); break;
    case HTC_CALL_OBJECT_GIVE: done(x, give(q, x)); break;
    case HTC_CALL_OBJECT_LIST: done(x, htc__object_list(&q->h->place, &x->answer)); break;
    default:
        end_early(q);
        htc__object_part_close(&q->part);
        htc__object_drop(&q->h->place, q->hash, x->content);
        done(x, HTC_OK);
        break;
    }
}

static void carry_out_all(void *ctx)
{
    queue *q = ctx;
    for (;;) {
        pthread_mutex_lock(&q->h->lock);
        op *x = q->first;
        if (x) {
            q->first = x->next;
            if (!q->first)
                q->last = &q->first;
        } else {
            q->running = 0;
        }
        pthread_mutex_unlock(&q->h->lock);
        if (!x)
            return;
        carry_out(q, x);
    }
}

/* ---- in the loop ---- */

static void queue_free(queue *q)
{
    HASH_DEL(q->h->queues, q);
    htc__object_part_close(&q->part);
    free(q);
}

/* Where nothing is under way and nothing open a queue is only memory. */
static void settle(queue *q)
{
    if (!q->unanswered && !q->works && q->part.fd < 0)
        queue_free(q);
}

static void answer_op(void *ctx)
{
    op    *x = ctx;
    queue *q = x->of;
    assert(q->unanswered);
    q->unanswered--;
    (void)htc_host_answer(q->h->host, x->number, x->tag, x->status, x->status == HTC_OK ? htc_buf_bytes(&x->answer) : (htc_bytes){ 0 });
    htc_buf_free(&x->answer);
    free(x);
    settle(q);
}

static void worked(void *ctx)
{
    queue *q = ctx;
    assert(q->works);
    pthread_mutex_lock(&q->h->lock);
    op *unsent = q->unsent;
    q->unsent = NULL;
    pthread_mutex_unlock(&q->h->lock);
    for (op *next; unsent; unsent = next) {
        next = unsent->next;
        answer_op(unsent); /* works holds the queue */
    }
    q->works--;
    settle(q);
}

static queue *queue_of(htc__objects_host *h, const uint8_t hash[32])
{
    queue *q;
    HASH_FIND(hh, h->queues, hash, 32, q);
    if (q || !(q = calloc(1, sizeof *q)))
        return q;
    memcpy(q->hash, hash, sizeof q->hash);
    q->h = h;
    q->last = &q->first;
    q->part.fd = -1;
    HASH_ADD(hh, h->queues, hash, sizeof q->hash, q);
    if (q->hh.tbl)
        return q;
    free(q);
    return NULL;
}

static htc_status add(htc__objects_host *h, const uint8_t hash[32], op *x)
{
    queue *q = queue_of(h, hash);
    if (!q)
        return HTC_ENOMEM;
    x->of = q;
    pthread_mutex_lock(&h->lock);
    int start = !q->running;
    q->running = 1;
    *q->last = x;
    q->last = &x->next;
    pthread_mutex_unlock(&h->lock);
    q->unanswered++;
    if (!start)
        return HTC_OK;
    q->works++;
    htc_status status = htc_host_work(h->host, carry_out_all, worked, q);
    if (status == HTC_OK)
        return HTC_OK;
    q->first = NULL; /* nobody runs: it is alone in there */
    q->last = &q->first;
    q->running = 0;
    q->works--;
    q->unanswered--;
    settle(q);
    return status;
}

/* What stands behind a name; behind a hash nothing does. */
static void read_content(op *x, htc_reader *r, const uint8_t hash[32])
{
    htc_bytes is = htc_reader_left(r) ? htc_get_raw(r, sizeof x->content) : (htc_bytes){ hash, sizeof x->content };
    if (is.data)
        memcpy(x->content, is.data, sizeof x->content);
}

static htc_status read_op(op *x, htc_reader *r, uint8_t hash[32])
{
    memset(hash, 0, 32);
    if (x->number != HTC_CALL_OBJECT_LIST && x->number != HTC_CALL_OBJECT_OUTPUT && x->number != HTC_CALL_OUTPUT_READ) {
        htc_bytes h = htc_get_raw(r, 32);
        if (h.len)
            memcpy(hash, h.data, 32);
    }
    switch (x->number) {
    case HTC_CALL_OBJECT_ROOM: x->size = htc_get_u64(r); break;
    case HTC_CALL_OBJECT_WRITE:
        x->offset = htc_get_u64(r);
        x->size = htc_get_u64(r);
        x->bytes = htc_get_bytes(r);
        break;
    case HTC_CALL_OBJECT_READ:
        x->offset = htc_get_u64(r);
        x->len = htc_get_u32(r);
        x->bytes = htc_get_bytes(r);
        if (x->len > PIECE_MAX || x->bytes.len > PREFIX_MAX)
            return HTC_EPROTO;
        break;
    case HTC_CALL_OBJECT_ADOPT:
    case HTC_CALL_OBJECT_OUTPUT:
    case HTC_CALL_OUTPUT_READ:
        x->size = x->number == HTC_CALL_OBJECT_ADOPT ? htc_get_u64(r) : 0;
        htc_read_attempt(r, &x->attempt);
        x->bytes = htc_get_bytes(r);
        if (x->bytes.len >= HTC_OUTPUT_NAME_MAX || (x->bytes.len && memchr(x->bytes.data, 0, x->bytes.len)))
            return HTC_EPROTO;
        x->len = x->number == HTC_CALL_OUTPUT_READ ? htc_get_u32(r) : 0;
        if (x->len > OUTPUT_MAX)
            return HTC_EPROTO;
        break;
    case HTC_CALL_OBJECT_GIVE:
        x->bytes = htc_get_bytes(r);
        if (x->bytes.len >= 64 || (x->bytes.len && memchr(x->bytes.data, 0, x->bytes.len)))
            return HTC_EPROTO;
        read_content(x, r, hash);
        break;
    case HTC_CALL_OBJECT_FINISH:
    case HTC_CALL_OBJECT_DROP: read_content(x, r, hash); break;
    default: break;
    }
    return htc_reader_done(r) == HTC_OK && x->size <= INT64_MAX ? HTC_OK : HTC_EPROTO;
}

int htc__objects_host_is_call(uint32_t number)
{
    return number >= HTC_CALL_OBJECT_ROOM && number <= HTC_CALL_OBJECT_GIVE;
}

htc_status htc__objects_host_call(htc__objects_host *h, uint32_t number, uint64_t tag, htc_bytes body)
{
    uint8_t hash[32];
    op     *x = malloc(sizeof *x + body.len);
    if (!x)
        return HTC_ENOMEM;
    memset(x, 0, sizeof *x);
    if (body.len)
        memcpy(x->body, body.data, body.len);
    x->number = number;
    x->tag = tag;
    htc_buf_init(&x->answer, NULL, 0);
    htc_reader r = htc_reader_of((htc_bytes){ x->body, body.len });
    htc_status status = read_op(x, &r, hash);
    if (status == HTC_OK)
        status = add(h, hash, x);
    if (status != HTC_OK)
        free(x);
    return status;
}

int htc__objects_host_fd(const htc__objects_host *h, const uint8_t hash[32])
{
    return htc__object_fd(&h->place, hash);
}

/* The directory of this user, nobody else's. */
static int open_own(const char *dir)
{
    char        uid[24];
    struct stat st;
    int         top = htc__make_dirs(dir) != 0 ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
    int fd = top < 0 || (mkdirat(top, uid, 0700) != 0 && errno != EEXIST) ? -1
                                                                           : openat(top, uid, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    if (top >= 0)
        close(top);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077))) {
        close(fd);
        fd = -1;
        why = EACCES;
    }
    errno = why;
    return fd;
}

htc_status htc__objects_host_open(htc_host *host, const char *dir, const char *data_dir, int durable, htc__objects_host **out, htc_error *error)
{
    htc__objects_host *h = calloc(1, sizeof *h);
    if (!h)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    h->host = host;
    h->place.durable = durable;
    h->place.data = open(data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    h->place.dir = open_own(dir);
    if (h->place.dir < 0 || h->place.data < 0) {
        int why = errno;
        if (h->place.dir >= 0)
            close(h->place.dir);
        if (h->place.data >= 0)
            close(h->place.data);
        free(h);
        return htc__error(error, why == EACCES ? HTC_EDENIED : htc__status_of(why, HTC_EIO), "cannot keep objects in %s: %s", dir,
                          strerror(why));
    }
    pthread_mutex_init(&h->lock, NULL);
    *out = h;
    return HTC_OK;
}

void htc__objects_host_outputs_at(htc__objects_host *h, htc__outputs_at *at)
{
    h->place.outputs_at = at;
}

void htc__objects_host_gives(htc__objects_host *h)
{
    h->place.gives = 1;
    htc__object_take_back(&h->place);
}

void htc__objects_host_close(htc__objects_host *h)
{
    queue *q, *next;
    if (!h)
        return;
    HASH_ITER(hh, h->queues, q, next)
    {
        while (q->early) {
            op *x = q->early;
            q->early = x->next;
            free(x);
        }
        queue_free(q);
    }
    close(h->place.dir);
    close(h->place.data);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
