/* The gateway writes the documents of commands, and looks at documents that are not submitted. */
#include "gateway_hand.h"

#include "htcsched/work.h"
#include "roles/gateway/admission.h"

TestSuite(gateway_generate, .init = begin, .fini = end);

static htc_status two_lines(void *ctx, const char *path, htc_bytes *content)
{
    (void)ctx, (void)path;
    *content = htc_bytes_of("x\ny\n");
    return HTC_OK;
}

/* The one generator: what the words say is what the answer has. */
Test(gateway_generate, writes_the_document_of_a_command)
{
    uint32_t          p = operator_peer();
    const char *const words[] = { "dock", "-n", "a b", "{l}", "--s={s}", ":::", "l=@L", ":::", "s=1:3" };
    htc_command       command = { .size = sizeof command, .words = words, .n_words = sizeof words / sizeof *words, .limits = { .cores = 2 }, .name = "j" };
    json_t           *answer = rig_ask(&r, p, "{\"op\":\"generate\",\"exe\":\"dock\",\"args\":\" -n 'a b'\\t{l} --s={s}\",\"sweeps\":[\"l=@L\",\"s=1:3\"],"
                                              "\"files\":{\"L\":\"x\\ny\\n\"},\"cores\":2,\"name\":\"j\"}");
    const char       *jsdl = json_string_value(json_object_get(answer, "jsdl"));
    htc_bytes         xml;
    command.read_file = two_lines;
    cr_assert(eq(int, htc_command_to_jsdl(NULL, &command, &xml, NULL), HTC_OK));
    cr_assert(jsdl != NULL);
    cr_expect(htc_bytes_equal(htc_bytes_of(jsdl), xml), "%s", jsdl);
    cr_expect(eq(long, (long)json_integer_value(json_object_get(answer, "count")), 6));
    json_t *again = json_pack("{s:s,s:s}", "op", "validate", "jsdl", jsdl);
    char   *text = json_dumps(again, 0);
    json_t *counted = rig_ask(&r, p, text);
    cr_expect(eq(long, (long)json_integer_value(json_object_get(counted, "count")), 6));
    json_decref(counted);
    json_decref(again);
    free(text);
    htc_work_free(NULL, xml);
    json_decref(answer);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"generate\",\"exe\":\"x\",\"args\":\"'\"}"), "HTC_EUSAGE"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"generate\",\"args\":\"x\"}"), "HTC_EUSAGE"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"generate\",\"exe\":\"x\",\"sweeps\":[1]}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"generate\",\"exe\":\"x\",\"sweeps\":[\"a=@/etc/passwd\"]}"), "HTC_EINPUT"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"validate\",\"jsdl\":\"<x/>\"}"), "HTC_ESCHEMA"));
}

/* Others wait meanwhile: what is large is for the user's own machine. */
Test(gateway_generate, looks_at_small_documents_alone)
{
    uint32_t p = operator_peer();
    size_t   most = ADMISSION_LOOK_BYTES;
    json_t  *asked = json_pack("{s:s,s:s}", "op", "validate", "jsdl", SWEEP(2));
    for (size_t over = 0; over < 2; over++) {
        size_t n = strlen(SWEEP(2));
        char  *text = malloc(most + 2);
        memset(text, ' ', most + 1);
        memcpy(text, SWEEP(2), n);
        text[most + over] = '\0';
        json_object_set_new(asked, "jsdl", json_string(text));
        free(text);
        char *line = json_dumps(asked, 0);
        json_t *answer = rig_ask(&r, p, line);
        const char *e = json_string_value(json_object_get(answer, "error")), *hint = json_string_value(json_object_get(answer, "hint"));
        cr_expect(over ? e && strcmp(e, "HTC_ETOOBIG") == 0 && strncmp(hint, "htc validate ", 13) == 0 : !e, "%zu more: %s", over, e);
        json_decref(answer);
        free(line);
    }
    json_decref(asked);

    /* A file once too long; one that is short and named too often; and one whose document is long. */
    static const struct {
        size_t      bytes, sources, line;
        const char *error;
    } rows[] = { { 1000, 3, 100, "" }, { (1 << 20) + 1, 1, 1000, "HTC_ETOOBIG" }, { 400000, 3, 1000, "HTC_ETOOBIG" }, { 200000, 1, 2, "HTC_ETOOBIG" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char   *text = malloc(rows[i].bytes + 1), args[64] = "", name[32];
        json_t *sweeps = json_array();
        for (size_t at = 0; at < rows[i].bytes; at++)
            text[at] = at % rows[i].line == rows[i].line - 1 ? '\n' : (char)('a' + at % 23);
        text[rows[i].bytes] = '\0';
        for (size_t k = 0; k < rows[i].sources; k++) {
            snprintf(name, sizeof name, "v%zu=@L", k);
            json_array_append_new(sweeps, json_string(name));
            snprintf(args + strlen(args), sizeof args - strlen(args), "{v%zu} ", k);
        }
        asked = json_pack("{s:s,s:s,s:s,s:o,s:{s:s}}", "op", "generate", "exe", "x", "args", args, "sweeps", sweeps, "files", "L", text);
        char *line = json_dumps(asked, 0);
        cr_expect(eq(str, (char *)(uintptr_t)refusal(p, line), (char *)(uintptr_t)rows[i].error), "row %zu", i);
        free(line);
        free(text);
        json_decref(asked);
    }
}

/* Files that were uploaded before stand in the document by their content, otherwise as htc generate -i writes them. */
Test(gateway_generate, brings_uploaded_files_in)
{
#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
    uint32_t          p = operator_peer();
    const char *const words[] = { "./run.sh", "{x}", ":::", "x=1:3" };
    const htc_stage   in[] = { { "data/in.txt", "htc:" HASH, HTC_STAGE_OVERWRITE }, { "run.sh", "htc:" HASH, HTC_STAGE_OVERWRITE | HTC_STAGE_EXECUTABLE } };
    htc_command       command = { .size = sizeof command, .words = words, .n_words = 4, .limits = { .cores = 1 }, .in = in, .n_in = 2 };
    json_t           *answer = rig_ask(&r, p, "{\"op\":\"generate\",\"exe\":\"./run.sh\",\"args\":\"{x}\",\"sweeps\":[\"x=1:3\"],\"inputs\":["
                                              "{\"name\":\"data/in.txt\",\"hash\":\"" HASH "\"},{\"name\":\"run.sh\",\"hash\":\"" HASH "\",\"executable\":true}]}");
    const char       *jsdl = json_string_value(json_object_get(answer, "jsdl"));
    htc_bytes         xml;
    cr_assert(eq(int, htc_command_to_jsdl(NULL, &command, &xml, NULL), HTC_OK));
    cr_assert(jsdl != NULL);
    cr_expect(htc_bytes_equal(htc_bytes_of(jsdl), xml), "%s", jsdl);
    htc_work_free(NULL, xml);
    json_decref(answer);
    static const char *const bad[][2] = {
        { "{}", "HTC_EINVAL" }, { "[1]", "HTC_EINVAL" }, { "[{\"name\":\"a\"}]", "HTC_EINVAL" }, { "[{\"name\":\"a\",\"hash\":\"00\"}]", "HTC_EINVAL" },
        { "[{\"name\":\"../a\",\"hash\":\"" HASH "\"}]", "HTC_EPATH" }, { "[{\"name\":\"/a\",\"hash\":\"" HASH "\"}]", "HTC_EPATH" },
        { "[{\"name\":\"a\",\"hash\":\"" HASH "\"},{\"name\":\"a\",\"hash\":\"" HASH "\"}]", "HTC_EUSAGE" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"op\":\"generate\",\"exe\":\"x\",\"inputs\":%s}", bad[i][0]);
        cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), (char *)(uintptr_t)bad[i][1]), "%s", bad[i][0]);
    }
}
