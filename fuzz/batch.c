/* What the commands of a batch system print, and the journal of its jobs. First byte: s, g a list of Slurm's or of Grid Engine's jobs; S, G what submitting
 * printed; r records of Slurm's ended jobs; q what
 * Grid Engine's accounting printed; j the journal; h a
 * list of hosts; e the journal of the emulated batch system; c one of its commands. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"
#include "roles/batch/emu.h"
#include "roles/batch/ssh_hosts.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

typedef struct rows {
    const batch_system *system;
    uint32_t            count;
} rows;

static int is_text(const char *text, size_t room)
{
    return memchr(text, 0, room) != NULL;
}

/* What a row calls its job is what a command that cancels gets: letters that mean something else there are not in it. */
static void on_row(void *ctx, const batch_row *row)
{
    rows *r = ctx;
    must(is_text(row->job, sizeof row->job) && is_text(row->reason, sizeof row->reason));
    must(row->job[0] >= '0' && row->job[0] <= '9' && row->job[strspn(row->job, "0123456789_.")] == '\0');
    must(row->state <= BATCH_JOB_ENDED);
    r->count++;
}

static void read_list(const batch_system *system, htc_bytes text)
{
    rows       r = { .system = system };
    htc_status status = system->read_look(text, "htc-a.", on_row, &r);
    must(status == HTC_OK || status == HTC_EFORMAT);
}

static void on_end(void *ctx, const batch_end *end)
{
    (void)ctx;
    must(is_text(end->job, sizeof end->job) && is_text(end->how, sizeof end->how));
    must(end->job[0] >= '0' && end->job[0] <= '9' && end->job[strspn(end->job, "0123456789_.")] == '\0');
}

static void read_submitted(const batch_system *system, htc_bytes text)
{
    char job[HTC__BATCH_NAME_MAX];
    memset(job, 'x', sizeof job);
    htc_status status = system->read_submitted(text, job);
    must(status == HTC_OK || status == HTC_EFORMAT);
    must(status != HTC_OK || (is_text(job, sizeof job) && job[0] && job[strspn(job, "0123456789")] == '\0'));
}

/* What is taken is written as it was taken, and taken again. */
static void read_journal(htc_bytes text)
{
    htc_env            env = { .size = sizeof env };
    htc__batch_options o = { .system = "slurm", .nonce = 1, .user = "u", .log_dir = "/" };
    uint64_t           agents[HTC__BATCH_AGENTS_MAX];
    uint32_t           count = 0, again = 0;
    htc__batch        *b = NULL, *c = NULL;
    htc_buf            one, two;
    htc_buf_init(&one, NULL, 0);
    htc_buf_init(&two, NULL, 0);
    must(htc__batch_create(&env, &o, &b) == HTC_OK && htc__batch_create(&env, &o, &c) == HTC_OK);
    if (htc__batch_recover(b, text, agents, &count) == HTC_OK) {
        must(count <= HTC__BATCH_AGENTS_MAX);
        htc__batch_journal(b, &one);
        must(htc__batch_recover(c, htc_buf_bytes(&one), NULL, &again) == HTC_OK && again == count);
        htc__batch_journal(c, &two);
        must(htc_bytes_equal(htc_buf_bytes(&one), htc_buf_bytes(&two)));
    }
    htc_buf_free(&one);
    htc_buf_free(&two);
    htc__batch_destroy(b);
    htc__batch_destroy(c);
}

/* No name is an option of ssh, or more than one word. */
static void read_hosts(htc_bytes text)
{
    htc_env         env = { .size = sizeof env };
    htc__ssh_hosts *h = NULL;
    uint32_t        at = 0;
    if (htc__ssh_hosts_read(&env, text, 1, &h, NULL) != HTC_OK)
        return;
    must(htc__ssh_hosts_slots(h) > 0);
    for (uint32_t i = 0; i < 100 && htc__ssh_hosts_take(h, 1, &at) == HTC_OK; i++) {
        const char *name = htc__ssh_hosts_name(h, at);
        must(name[0] && name[0] != '-' && !name[strcspn(name, " \t\n'\"$;|&<>`\\")]);
    }
    htc__ssh_hosts_free(h);
}

static htc__emu *emu(void)
{
    htc_env          env = { .size = sizeof env };
    htc__emu_options o = { .clusters = &(htc__emu_cluster){ "emu", 4 }, .n = 1, .hold = 0.1, .fail = 0.1 };
    htc__emu        *e = NULL;
    must(htc__emu_create(&env, &o, &e) == HTC_OK);
    return e;
}

static void found(void *ctx, uint64_t job, uint32_t step, uint64_t handle)
{
    (void)job, (void)step, (void)handle;
    ++*(uint32_t *)ctx;
}

/* What is taken is written, and taken again. */
static void read_emu(htc_bytes text)
{
    htc__emu        *e = emu(), *f = emu();
    uint32_t         n = 0, again = 0;
    htc_buf          one, two;
    htc__emu_figures figures;
    htc_buf_init(&one, NULL, 0);
    htc_buf_init(&two, NULL, 0);
    if (htc__emu_recover(e, text, found, &n) == HTC_OK) {
        htc__emu_count(e, &figures);
        must(figures.running == n && figures.waiting == 0);
        htc__emu_journal(e, &one);
        must(htc__emu_recover(f, htc_buf_bytes(&one), found, &again) == HTC_OK && again == n);
        htc__emu_journal(f, &two);
        must(htc_bytes_equal(htc_buf_bytes(&one), htc_buf_bytes(&two)));
    }
    htc_buf_free(&one);
    htc_buf_free(&two);
    htc__emu_destroy(e);
    htc__emu_destroy(f);
}

/* Whatever is asked for, the queue is one that is read. */
static void run_emu(htc_bytes words)
{
    static const char look[] = "emu\0queue";
    htc__emu         *e = emu();
    htc__emu_action   a;
    htc_buf           printed, error;
    rows              r = { .system = &htc__batch_emu };
    htc_buf_init(&printed, NULL, 0);
    htc_buf_init(&error, NULL, 0);
    int code = htc__emu_command(e, words, htc_bytes_of("exit 0"), &printed, &error, 1);
    must(code == 0 || htc_buf_bytes(&error).len);
    while (htc__emu_next(e, 2, &a))
        htc__emu_started(e, a.job, a.step, 7);
    htc_buf_clear(&printed);
    must(htc__emu_command(e, (htc_bytes){ look, sizeof look }, (htc_bytes){ 0 }, &printed, &error, 2) == 0);
    must(htc__batch_emu.read_look(htc_buf_bytes(&printed), "htc-a.", on_row, &r) == HTC_OK);
    htc_buf_free(&printed);
    htc_buf_free(&error);
    htc__emu_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = size ? malloc(size) : NULL; /* of its own length: a read behind it is seen */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    htc_bytes text = { copy, size - 1 };
    switch (data[0]) {
    case 's': read_list(&htc__batch_slurm, text); break;
    case 'g': read_list(&htc__batch_sge, text); break;
    case 'S': read_submitted(&htc__batch_slurm, text); break;
    case 'G': read_submitted(&htc__batch_sge, text); break;
    case 'r': htc__batch_slurm_ends(text, "htc-a.", "u", on_end, NULL); break;
    case 'q': htc__batch_sge_ends(text, "htc-a.", "u", on_end, NULL); break;
    case 'j': read_journal(text); break;
    case 'h': read_hosts(text); break;
    case 'e': read_emu(text); break;
    case 'c': run_emu(text); break;
    default: break;
    }
    free(copy);
    return 0;
}
