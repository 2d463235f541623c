/* What the uploads of each user come to: those that are stored, and what unfinished ones are announced with. On a worker thread.
 *
 * A directory is counted once, when it is asked for first; then each upload that is stored or swept is added or taken away. It is counted anew
 * before an upload is refused, and for CONTENT_SUM, as a gateway asks that begins to serve: another gateway, or the user, may have
 * changed it. All other uploads wait meanwhile, so that a refusal counts at most once in COUNT_EVERY. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/gateway/gateway_private.h"

#define COUNT_EVERY (30 * HTC_SECOND)

static htc__stored *stored_of(htc_gateway_host *g, const char *user)
{
    htc__stored *s = g->stored;
    while (s && strcmp(s->user, user) != 0)
        s = s->next;
    if (!s && (s = calloc(1, sizeof *s)) != NULL) {
        snprintf(s->user, sizeof s->user, "%.63s", user);
        s->next = g->stored;
        g->stored = s;
    }
    return s;
}

static void count_anew(const htc_gateway_host *g, htc__stored *s)
{
    char           path[PATH_MAX];
    struct stat    st;
    struct dirent *e;
    snprintf(path, sizeof path, "%.3900s/blobs/%s", g->data_dir, s->user);
    int  fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    s->bytes = 0;
    s->known = 1;
    s->counted = htc_host_now();
    while (d && (e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            s->bytes += (uint64_t)st.st_size;
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

static uint64_t unfinished_of(const htc_gateway_host *g, const char *user)
{
    uint64_t bytes = 0;
    for (const htc__upload *u = g->uploads; u; u = u->next)
        if (strcmp(u->user, user) == 0)
            bytes += u->size;
    return bytes;
}

static uint64_t left_of(const htc_gateway_host *g, const htc__stored *s, uint64_t most)
{
    uint64_t taken = s->bytes + unfinished_of(g, s->user);
    return taken < most ? most - taken : 0;
}

htc_status htc__stored_room(htc__job *j, const char *user, uint64_t size, uint64_t most)
{
    htc_gateway_host *g = j->gateway;
    htc__stored      *s = most == UINT64_MAX ? NULL : stored_of(g, user);
    if (!s)
        return most == UINT64_MAX ? HTC_OK : HTC_ENOMEM;
    if (!s->known || (left_of(g, s, most) < size && htc_host_now() - s->counted >= COUNT_EVERY))
        count_anew(g, s);
    if (left_of(g, s, most) >= size)
        return HTC_OK;
    snprintf(j->text, sizeof j->text, "%llu bytes are left", (unsigned long long)left_of(g, s, most));
    return HTC_EDENIED;
}

void htc__stored_add(htc_gateway_host *g, const char *user, uint64_t bytes, int removed)
{
    htc__stored *s = stored_of(g, user);
    if (s && s->known && removed)
        s->bytes -= bytes < s->bytes ? bytes : s->bytes;
    else if (s && s->known)
        s->bytes += bytes;
}

void htc__stored_forget(htc_gateway_host *g, const char *user)
{
    htc__stored *s = stored_of(g, user);
    if (s)
        s->known = 0;
}

static void put_sums(htc_gateway_host *g, htc_buf *b, const htc__stored *s)
{
    htc_put_u64(b, ++g->told);
    htc_put_u64(b, s->bytes);
    htc_put_u64(b, unfinished_of(g, s->user));
}

htc_status htc__stored_tell(htc__job *j, const char *user)
{
    htc__stored *s = stored_of(j->gateway, user);
    if (!s)
        return HTC_ENOMEM;
    if (!s->known)
        count_anew(j->gateway, s);
    put_sums(j->gateway, &j->answer, s);
    return HTC_OK;
}

/* Every directory has an entry. HTC_ENOMEM. */
static htc_status note_users(htc_gateway_host *g)
{
    char           path[PATH_MAX];
    struct dirent *e;
    htc_status     status = HTC_OK;
    snprintf(path, sizeof path, "%.3900s/blobs", g->data_dir);
    DIR *d = opendir(path);
    while (status == HTC_OK && d && (e = readdir(d)))
        if (e->d_type != DT_REG && htc__content_user_ok(e->d_name)) {
            pthread_mutex_lock(&g->blobs);
            status = stored_of(g, e->d_name) ? HTC_OK : HTC_ENOMEM;
            pthread_mutex_unlock(&g->blobs);
        }
    if (d)
        closedir(d);
    return status;
}

/* What is known of one user. */
static htc_status sum_of(htc__job *j, htc_reader *r)
{
    char user[64];
    htc_get_str(r, user, sizeof user);
    if (htc_reader_done(r) != HTC_OK || !htc__content_user_ok(user))
        return HTC_EPROTO;
    htc_put_u64(&j->answer, 0);
    htc_put_str(&j->answer, user);
    pthread_mutex_lock(&j->gateway->blobs);
    htc_status status = htc__stored_tell(j, user);
    pthread_mutex_unlock(&j->gateway->blobs);
    return status;
}

/* One user at a time, so that uploads go on. Entries are added at the front and never removed. */
htc_status htc__stored_sum(htc__job *j, htc_reader *r)
{
    htc_gateway_host *g = j->gateway;
    if (htc_reader_left(r))
        return sum_of(j, r);
    pthread_mutex_lock(&g->blobs);
    htc_put_u64(&j->answer, ++g->told);
    pthread_mutex_unlock(&g->blobs);
    htc_status status = note_users(g);
    pthread_mutex_lock(&g->blobs);
    htc__stored *s = g->stored;
    pthread_mutex_unlock(&g->blobs);
    for (; status == HTC_OK && s; s = s->next) {
        pthread_mutex_lock(&g->blobs);
        count_anew(g, s);
        htc_put_str(&j->answer, s->user);
        put_sums(g, &j->answer, s);
        pthread_mutex_unlock(&g->blobs);
    }
    return status;
}

void htc__stored_end(htc_gateway_host *g)
{
    while (g->stored) {
        htc__stored *s = g->stored;
        g->stored = s->next;
        free(s);
    }
}
