/* A command line, its words one a line; lines that begin with "< " are the content of every file. What is written is
 * a document that our own reader takes, or refuses for its values; never one that is no XML or breaks the schema. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "work/work_private.h"

#define WORDS_MAX 100

typedef struct lines {
    const char *words[WORDS_MAX];
    size_t      n;
    char        content[4096];
    size_t      len;
} lines;

static htc_status read_file(void *ctx, const char *path, htc_bytes *content)
{
    lines *l = ctx;
    (void)path;
    *content = (htc_bytes){ l->content, l->len };
    return HTC_OK;
}

static void split(char *text, lines *l)
{
    while (text && l->n < WORDS_MAX) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        size_t n = strlen(text);
        if (n > 1 && text[0] == '<' && text[1] == ' ' && l->len + n < sizeof l->content) {
            memcpy(l->content + l->len, text + 2, n - 2);
            l->len += n - 2;
            l->content[l->len++] = '\n';
        } else {
            l->words[l->n++] = text;
        }
        text = end ? end + 1 : NULL;
    }
}

static void check_document(htc_bytes xml)
{
    htc_spec  *spec = NULL;
    htc_error  e = { .status = HTC_OK };
    htc_status status = htc_spec_parse(NULL, xml, NULL, &spec, &e);
    CHECK(status != HTC_EXML && status != HTC_ESCHEMA && status != HTC_EXPATH && status != HTC_EINTERNAL);
    htc_spec_destroy(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lines l;
    htc_bytes    xml;
    htc_error    e = { .status = HTC_OK };
    char        *text = malloc(size + 1);
    CHECK(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    l.n = l.len = 0;
    split(text, &l);
    /* The last words again as what else may hold places. */
    const char *last = l.n ? l.words[l.n - 1] : "";
    const char *env[] = { "PLACE={1}", NULL };
    htc_command c = {
        .size = sizeof c, .words = l.words, .n_words = l.n, .read_file = read_file, .ctx = &l, .name = last
    };
    if (size % 5 == 1)
        c.env = env;
    if (size % 7 == 1) {
        c.pairs_a = "f";
        c.pairs_unordered = size % 2;
    }
    htc_status status = htc_command_to_jsdl(NULL, &c, &xml, &e);
    if (status == HTC_OK) {
        check_document(xml);
        htc_work_free(NULL, xml);
    } else {
        CHECK(e.status == status && e.text[0]);
    }
    free(text);
    return 0;
}
