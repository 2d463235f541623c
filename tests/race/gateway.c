/* The gateway's host: passwords on its hashing threads, uploads of the same and of other content, stored outputs read
 * while they are dropped, and agents forked meanwhile. Once to the end, then ended in the middle. */
#include <fcntl.h>

#include "htcsched/client.h"
#include "htcsched/gateway_host.h"
#include "race.h"
#include "roles/runtime/apart.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

enum { HASHES = 4, VERIFICATIONS = 20, UPLOADS = 40, SAME = 8, READS = 40, AGENTS = 4, TASKS = 20 };

typedef struct player {
    uint64_t asked, answered, hashed, read, gone, stored, launched, exits;
    uint64_t stop_after; /* answers; 0: when all is answered and all agents have ended */
} player;

static htc_buf body;

static void call(player *p, htc_output *out, uint32_t op, int answered)
{
    race_check(body.status == HTC_OK, "memory");
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = op, .body = htc_buf_bytes(&body) });
    htc_buf_clear(&body);
    p->asked += answered;
}

static void upload(player *p, htc_output *out, uint32_t number)
{
    char    text[64];
    uint8_t hash[32];
    size_t  n = (size_t)snprintf(text, sizeof text, "content %u", number);
    htc_content_hash((htc_bytes){ text, n }, hash);
    htc_put_str(&body, "ann");
    htc_put_raw(&body, (htc_bytes){ hash, sizeof hash });
    htc_put_u64(&body, n);
    htc_put_u64(&body, 0);
    htc_put_bytes(&body, (htc_bytes){ text, n });
    call(p, out, HTC_CALL_BLOB_WRITE, 1);
    htc_put_str(&body, "ann");
    htc_put_raw(&body, (htc_bytes){ hash, sizeof hash });
    call(p, out, HTC_CALL_BLOB_STAT, 1);
}

static void read_output(player *p, htc_output *out, uint64_t task)
{
    htc_put_u64(&body, 3);
    htc_put_u64(&body, task);
    htc_put_u32(&body, 1);
    htc_put_str(&body, "stdout");
    htc_put_u64(&body, 0);
    htc_put_u32(&body, 100);
    call(p, out, HTC_CALL_FILE_READ, 1);
}

static void ask_all(player *p, htc_output *out)
{
    for (uint32_t i = 0; i < HASHES; i++) {
        htc_put_str(&body, "correct horse");
        call(p, out, HTC_CALL_HASH_PASSWORD, 1);
    }
    for (uint32_t i = 0; i < VERIFICATIONS; i++) {
        htc_put_str(&body, "none");
        htc_put_str(&body, "battery staple");
        call(p, out, HTC_CALL_VERIFY_PASSWORD, 1);
    }
    for (uint32_t i = 0; i < UPLOADS; i++)
        upload(p, out, i % SAME == 0 ? 0 : i);
    for (uint32_t i = 0; i < AGENTS; i++) {
        htc_put_str(&body, "local");
        htc_put_u64(&body, 40 + i);
        htc_put_u32(&body, i);
        htc_put_str(&body, "ada");
        htc_put_u8(&body, HTC_PLACE_OWNER);
        htc_put_u32(&body, HTC_NO_UID);
        htc_put_u32(&body, HTC_NO_UID);
        call(p, out, HTC_CALL_LAUNCH, 1);
    }
    for (uint64_t i = 0; i < READS; i++) {
        read_output(p, out, i % TASKS);
        if (i % 2 == 0) {
            htc_put_u64(&body, 3);
            htc_put_u64(&body, i % TASKS);
            htc_put_u32(&body, 1);
            call(p, out, HTC_CALL_DROP_OUTPUT, 0);
        }
    }
    htc_put_u64(&body, 3);
    call(p, out, HTC_CALL_DROP_JOB, 1);
}

static void on_read(player *p, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    race_check(in->status == HTC_OK || in->status == HTC_ENOTFOUND, "a read: %s", htc_status_name(in->status));
    if (in->status != HTC_OK) {
        p->gone++;
        return;
    }
    p->read++;
    htc_get_u64(&r);
    race_check(htc_bytes_equal(htc_get_bytes(&r), htc_bytes_of("output")), "another content");
}

static htc_status player_step(void *self, const htc_input *in, htc_output *out)
{
    player *p = self;
    if (in->kind == HTC_IN_START)
        ask_all(p, out);
    if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_AGENT_EXIT)
        p->exits++;
    if (in->kind == HTC_IN_RESULT) {
        p->answered++;
        switch (in->op) {
        case HTC_CALL_FILE_READ:
            on_read(p, in);
            break;
        case HTC_CALL_VERIFY_PASSWORD:
            race_check(in->status == HTC_EAUTH, "%s", htc_status_name(in->status));
            break;
        case HTC_CALL_BLOB_STAT: /* beside the upload, not behind it */
            race_check(in->status == HTC_OK || in->status == HTC_ENOTFOUND, "%s", htc_status_name(in->status));
            break;
        default:
            race_check(in->status == HTC_OK, "%s: %s", htc_call_name(in->op), htc_status_name(in->status));
            break;
        }
        p->hashed += in->op == HTC_CALL_HASH_PASSWORD;
        p->stored += in->op == HTC_CALL_BLOB_WRITE;
        p->launched += in->op == HTC_CALL_LAUNCH;
    }
    if (p->stop_after ? p->answered == p->stop_after : p->answered == p->asked && p->exits == AGENTS)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
    return HTC_OK;
}

static const htc_machine_ops player_ops = { sizeof player_ops, player_step, race_never, NULL, 0 };

static void put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    char path[RACE_DIR + 64];
    race_check(htc__make_dirs(dir) == 0, "%s", dir);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    race_check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(fd);
}

static void scene(uint64_t stop_after, const char *what)
{
    static const char *const variables[] = { "PATH=/usr/bin:/bin", NULL };
    char                     dir[RACE_DIR], program[RACE_DIR + 8], data[RACE_DIR + 8], path[RACE_DIR + 48];
    player                   p = { .stop_after = stop_after };
    htc_host                *host;
    htc_gateway_host        *gateway;
    htc_error                error = { 0 };
    race_dir(dir);
    snprintf(program, sizeof program, "%s/agent", dir);
    snprintf(data, sizeof data, "%s/data", dir);
    put_file(dir, "agent", "#!/bin/sh\nexit 0\n", 0755);
    for (uint64_t i = 0; i < TASKS; i++) {
        snprintf(path, sizeof path, "%s/out/3/0/%d.1/files", data, (int)i);
        put_file(path, "stdout", "output", 0600);
    }
    htc_gateway_host_options o = { .size = sizeof o, .state_dir = dir, .agent_path = program, .environ = variables };
    race_check(htc_host_create(NULL, NULL, &host) == HTC_OK, "a host");
    race_check(htc_gateway_host_create(NULL, host, &o, &gateway, &error) == HTC_OK, "%s", error.text);
    race_check(htc_host_run(host, &player_ops, &p) == HTC_OK, "run");
    htc_host_destroy(host);
    htc_gateway_host_destroy(gateway);
    race_check(stop_after ||
                   (p.hashed == HASHES && p.stored == UPLOADS && p.launched == AGENTS && p.read + p.gone == READS),
               "not everything was answered");
    printf("%lu of %lu calls answered: %lu hashed, %lu stored, %lu read, %lu dropped before, %lu agents ended\n",
           (unsigned long)p.answered, (unsigned long)p.asked, (unsigned long)p.hashed, (unsigned long)p.stored,
           (unsigned long)p.read, (unsigned long)p.gone, (unsigned long)p.exits);
    race_said(what);
    race_dir_end(dir);
}

int main(void)
{
    htc_buf_init(&body, NULL, 0);
    scene(0, "every call is answered");
    scene(10, "an end in the middle");
    scene(60, "an end in the middle, later");
    htc_buf_free(&body);
    return 0;
}
