/* Mail: handed to a command such as sendmail -i -t, which nothing waits for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/gateway/gateway_private.h"
#include "net/loop/program.h"

#define WITHIN (60 * HTC_SECOND)
#define PRINTED_MAX 4096

struct htc__mailing {
    htc_gateway_host *gateway;
    htc__program     *program;
    uint64_t          tag;
};

/* Words with a zero behind each. */
static htc_status put_words(htc_buf *b, const char *command)
{
    while (*command) {
        size_t n = strcspn(command, " \t");
        if (n) {
            htc_put_raw(b, (htc_bytes){ command, n });
            htc_put_u8(b, 0);
        }
        command += n + (command[n] != '\0');
    }
    return b->status;
}

static void mailed(void *ctx, int exit_code, htc_bytes printed, htc_bytes error)
{
    htc__mailing     *m = ctx;
    htc_gateway_host *g = m->gateway;
    uint64_t          tag = m->tag;
    htc_bytes         said = error.len ? error : printed;
    g->mailing = NULL;
    free(m);
    htc_host_answer(g->host, HTC_CALL_MAIL, tag, exit_code == 0 ? HTC_OK : HTC_EREFUSED, exit_code == 0 ? (htc_bytes){ 0 } : said);
}

/* A line of a header: what would end it, or is no text, is refused, whoever has asked for it. */
static int is_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            return 0;
    return 1;
}

htc_status htc__gateway_mail(htc_gateway_host *g, uint64_t tag, htc_reader *body)
{
    char       to[320], subject[256];
    htc_buf    words, text;
    htc_status status;
    htc_get_str(body, to, sizeof to);
    htc_get_str(body, subject, sizeof subject);
    htc_bytes content = htc_get_bytes(body);
    if (htc_reader_done(body) != HTC_OK || !to[0] || to[0] == '-' || !is_line(to) || !is_line(subject))
        return HTC_EPROTO;
    if (!g->mail_command)
        return HTC_EUNSUPPORTED;
    if (g->mailing)
        return HTC_EBUSY;
    htc__mailing *m = g->mailing = calloc(1, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    *m = (htc__mailing){ .gateway = g, .tag = tag };
    htc_buf_init(&words, g->env, 8192);
    htc_buf_init(&text, g->env, 1 << 20);
    htc_put_text(&text, "To: %s\nSubject: %s\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n", to, subject);
    htc_put_raw(&text, content);
    status = put_words(&words, g->mail_command);
    if (status == HTC_OK)
        status = text.status;
    htc__program_start s = { .words = htc_buf_bytes(&words), .input = htc_buf_bytes(&text), .environ = g->environ, .printed_max = PRINTED_MAX, .within = WITHIN,
                             .ended = mailed, .ctx = m };
    if (status == HTC_OK && !(m->program = htc__program_run(g->host->base, &s)))
        status = htc_host_answer(g->host, HTC_CALL_MAIL, tag, HTC_EREFUSED, htc_bytes_of(strerror(errno)));
    else if (status == HTC_OK)
        m = NULL; /* it is answered when it has ended */
    htc_buf_free(&words);
    htc_buf_free(&text);
    if (m) {
        g->mailing = NULL;
        free(m);
    }
    return status;
}

void htc__gateway_mail_end(htc_gateway_host *g)
{
    if (g->mailing)
        htc__program_free(g->mailing->program);
    free(g->mailing);
    g->mailing = NULL;
}
