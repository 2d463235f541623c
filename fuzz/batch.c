/* What the commands of a batch system print, and the journal of its jobs. First byte: s, g a list of Slurm's or of Grid Engine's jobs; S, G what submitting
 * printed; j the journal; h a
 * list of hosts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "roles/batch/batch.h"
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
    case 'j': read_journal(text); break;
    case 'h': read_hosts(text); break;
    default: break;
    }
    free(copy);
    return 0;
}
