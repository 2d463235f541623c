#include "net/exec/outputs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/files/files.h"

#define ID_LENGTH 64

void htc__outputs_at_open(htc__outputs_at *at)
{
    pthread_mutex_init(&at->lock, NULL);
    at->fd = -1;
}

void htc__outputs_at_close(htc__outputs_at *at)
{
    if (at->fd >= 0)
        close(at->fd);
    at->fd = -1;
    pthread_mutex_destroy(&at->lock);
}

int htc__outputs_at_dup(htc__outputs_at *at)
{
    if (!at)
        return -1;
    pthread_mutex_lock(&at->lock);
    int fd = at->fd < 0 ? -1 : fcntl(at->fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&at->lock);
    return fd;
}

void htc__outputs_id_name(const char *id, char name[HTC__OUTPUTS_ID_NAME])
{
    snprintf(name, HTC__OUTPUTS_ID_NAME, "ids/%.16s", id);
}

int htc__outputs_at_find(const char *dir, const char *id, char *why, size_t room)
{
    char text[ID_LENGTH + 2], name[HTC__OUTPUTS_ID_NAME];
    if (strlen(id) != ID_LENGTH || strspn(id, "0123456789abcdef") != ID_LENGTH) {
        snprintf(why, room, "the gateway's id of it is none");
        return -1;
    }
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(why, room, "cannot open %.120s: %s", dir, strerror(errno));
        return -1;
    }
    htc__outputs_id_name(id, name);
    ssize_t n = htc__read_text_below(fd, name, text, sizeof text);
    if (n == ID_LENGTH && memcmp(text, id, ID_LENGTH) == 0)
        return fd;
    if (n < 0 && errno != ENOENT)
        snprintf(why, room, "cannot read %.120s/%s: %s", dir, name, strerror(errno));
    else
        snprintf(why, room, "%.150s here is another directory than the gateway's", dir);
    close(fd);
    return -1;
}

/* --- HTC_CALL_OUTPUTS_AT --- */

typedef struct look {
    htc_agent_host *agent;
    uint64_t        tag, seq;
    char            dir[HTC_AGENT_OUTPUTS_MAX], id[ID_LENGTH + 1], why[256];
    int             fd;
} look;

static void do_look(void *arg)
{
    look *l = arg;
    l->fd = l->dir[0] ? htc__outputs_at_find(l->dir, l->id, l->why, sizeof l->why) : -1;
}

/* Only the newest call says where outputs go. */
static void look_done(void *arg)
{
    look            *l = arg;
    htc_agent_host  *a = l->agent;
    htc__outputs_at *at = &a->outputs_at;
    int              found = l->fd >= 0 || !l->dir[0], old = l->fd;
    pthread_mutex_lock(&at->lock);
    if (l->seq == at->seq) {
        old = at->fd;
        at->fd = l->fd;
    }
    pthread_mutex_unlock(&at->lock);
    if (old >= 0)
        close(old);
    a->in_work--;
    if (a->host)
        (void)htc_host_answer(a->host, HTC_CALL_OUTPUTS_AT, l->tag, found ? HTC_OK : HTC_ENOTFOUND, htc_bytes_of(l->why));
    free(l);
}

htc_status htc__exec_outputs_at(htc_agent_host *a, uint64_t tag, htc_reader *body)
{
    look *l = calloc(1, sizeof *l);
    if (!l)
        return HTC_ENOMEM;
    l->agent = a;
    l->tag = tag;
    htc_get_str(body, l->dir, sizeof l->dir);
    htc_get_str(body, l->id, sizeof l->id);
    htc_status status = htc_reader_done(body) == HTC_OK ? HTC_OK : HTC_EPROTO;
    if (status == HTC_OK) {
        l->seq = ++a->outputs_at.seq;
        status = htc_host_work(a->host, do_look, look_done, l);
    }
    if (status == HTC_OK)
        a->in_work++;
    else
        free(l);
    return status;
}
