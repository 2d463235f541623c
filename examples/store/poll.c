/* usage: store-poll [ADDRESS]
 *
 * A store inside a loop that is not the library's: poll(2) watches standard input and the store together. Each line KEY VALUE of the
 * input is put below "notes/", whatever changes there is printed, also what others change. Ends with the input, when all is answered. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "htcsched/host.h"
#include "htcsched/store.h"

static htc_status put(htc_store *store, char *line)
{
    char           key[300];
    char          *value = line + strcspn(line, " ");
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT };
    if (*value)
        *value++ = 0;
    snprintf(key, sizeof key, "notes/%.250s", line);
    q.key = htc_bytes_of(key);
    q.value = htc_bytes_of(value);
    return htc_store_submit(store, &q, 1, 0);
}

/* Whole lines of the input; 0: it has ended. */
static int take_input(htc_store *store)
{
    static char   buffer[4096];
    static size_t len;
    ssize_t       n = read(STDIN_FILENO, buffer + len, sizeof buffer - 1 - len);
    len += n > 0 ? (size_t)n : 0;
    for (char *end; (end = memchr(buffer, '\n', len)); len -= (size_t)(end + 1 - buffer), memmove(buffer, end + 1, len)) {
        *end = 0;
        if (put(store, buffer) != HTC_OK)
            fprintf(stderr, "not put: %s\n", buffer);
    }
    return n > 0 && len < sizeof buffer - 1;
}

/* All that the store has to say. HTC_ETIMEDOUT: answers are outstanding; HTC_EMPTY: none are. */
static htc_status take_answers(htc_store *store)
{
    htc_kv_result result = { .size = sizeof result };
    htc_kv_event  event;
    htc_status    status;
    while ((status = htc_store_next(store, 0, &result)) == HTC_OK) {
        if (result.status != HTC_OK)
            fprintf(stderr, "%s\n", htc_strerror(result.status));
    }
    while (htc_store_event(store, 0, &event) == HTC_OK) {
        if (event.kind == HTC_KV_EVENT_VALUE)
            printf("%.*s is %.*s\n", (int)event.key.len, (const char *)event.key.data, (int)event.value.len,
                   (const char *)event.value.data);
    }
    fflush(stdout);
    return status;
}

static int milliseconds_until(htc_ns moment)
{
    htc_ns now = htc_host_now();
    return moment == HTC_NEVER ? -1 : moment <= now ? 0 : (int)((moment - now) / HTC_MS) + 1;
}

int main(int argc, char **argv)
{
    htc_store_options options = { .size = sizeof options, .address = argc > 1 ? argv[1] : "memory:" };
    htc_kv_watch      watch = { .size = sizeof watch, .key = htc_bytes_of("notes/"), .prefix = 1 };
    htc_store        *store;
    htc_error         error = { 0 };
    int               more = 1;
    if (htc_store_open(NULL, &options, &store, &error) != HTC_OK || htc_store_watch(store, &watch) != HTC_OK) {
        fprintf(stderr, "%s\n", *error.text ? error.text : "no watches there");
        return 1;
    }
    htc_status status = HTC_ETIMEDOUT;
    while (more || status == HTC_ETIMEDOUT) { /* HTC_EMPTY: nothing is outstanding any more */
        int           fd = htc_store_fd(store);
        struct pollfd p[2] = { { more ? STDIN_FILENO : -1, POLLIN, 0 }, { fd, htc_store_events(store), 0 } };
        poll(p, 2, milliseconds_until(htc_store_deadline(store)));
        if (p[0].revents)
            more = take_input(store);
        status = take_answers(store);
    }
    htc_store_close(store);
    return status == HTC_EMPTY ? 0 : 1;
}
