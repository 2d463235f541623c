/* logs: what a task has written so far, also while it runs. */
#include "htc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_PIECE (256u << 10)

/* Standard alphabet with padding; answers the length, or SIZE_MAX for something else. In place. */
static size_t unbase64(char *s)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t          bits = 0, have = 0;
    size_t            n = 0;
    for (const char *p = s; *p && *p != '='; p++) {
        const char *at = strchr(alphabet, *p);
        if (!at)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)(at - alphabet);
        have += 6;
        if (have >= 8) {
            have -= 8;
            s[n++] = (char)(bits >> have & 0xFF);
        }
    }
    return n;
}

static void write_piece(const json_t *answer, uint64_t *offset)
{
    const char *encoded = j_str(answer, "base64");
    if (encoded[0]) {
        char  *copy = must_dup(encoded);
        size_t len = unbase64(copy);
        if (len != SIZE_MAX) {
            fwrite(copy, 1, len, stdout);
            *offset += len;
        }
        free(copy);
    } else {
        size_t len = json_string_length(json_object_get(answer, "text"));
        fwrite(j_str(answer, "text"), 1, len, stdout);
        *offset += len;
    }
}

htc_status run_logs(cli *c, int argc, char **argv)
{
    uint32_t  follow = 0, from_stderr = 0;
    words     w;
    const opt opts[] = {
        { "follow", 'f', OPT_FLAG, &follow, NULL, "go on as the task writes, until it has ended" },
        { "stderr", 0, OPT_FLAG, &from_stderr, NULL, "standard error instead of standard output" },
    };
    const command *cmd = find_command("logs");
    json_t        *answer;
    uint64_t       offset = 0, attempt = 0;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 2, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 1, 1);
    int more = s == HTC_OK;
    while (more) {
        s = api_ask(c,
                    json_pack("{s:s, s:s, s:s, s:I, s:i}", "op", "log", "id", w.at[0], "stream",
                              from_stderr ? "stderr" : "stdout", "offset", (json_int_t)offset, "length",
                              (int)LOG_PIECE),
                    0, 60, &answer);
        if (s == HTC_ENOTFOUND && follow && attempt == 0 && strstr(c->error.text, "started")) {
            pause_ms(300);
            continue;
        }
        if (s != HTC_OK)
            break;
        if (c->json) {
            put_json(c, answer);
            json_decref(answer);
            break;
        }
        uint64_t now = j_u64(answer, "attempt"), before = offset;
        if (attempt && now != attempt) { /* it was tried again: from the start */
            fprintf(stderr, "htc: attempt %" PRIu64 "\n", now);
            offset = 0;
            attempt = now;
            json_decref(answer);
            continue;
        }
        attempt = now;
        write_piece(answer, &offset);
        int at_end = offset >= j_u64(answer, "size") || offset == before;
        more = !at_end || (follow && !j_bool(answer, "final"));
        if ((at_end && more && fflush(stdout) != 0) || ferror(stdout)) {
            more = 0;
            if (errno == EPIPE) /* whoever read this has gone: `| head` */
                clearerr(stdout);
        } else if (at_end && more)
            pause_ms(300);
        json_decref(answer);
    }
    words_free(&w);
    return s;
}
