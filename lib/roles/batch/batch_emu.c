/* The emulated first-level scheduler (emu.h): it is spoken to by commands that no program carries out, and prints as Slurm does. */
#include "roles/batch/batch.h"

#include <inttypes.h>
#include <stdio.h>

static void submit(htc_buf *words, const batch_submission *s)
{
    char text[64];
    htc__batch_words(words, "emu submit --name");
    htc__batch_word(words, s->name);
    snprintf(text, sizeof text, "--steps %" PRIu32 " --cores %" PRIu32, s->count, s->cores);
    htc__batch_words(words, text);
    if (s->time_ns) {
        snprintf(text, sizeof text, "--time %" PRIu64, (uint64_t)((s->time_ns + HTC_SECOND - 1) / HTC_SECOND));
        htc__batch_words(words, text);
    }
    htc__batch_word(words, "--output");
    htc_put_raw(words, htc_bytes_of(s->log_dir));
    htc_put_raw(words, htc_bytes_of("/"));
    htc_put_raw(words, htc_bytes_of(s->name));
    htc__batch_word(words, ".%a.out");
    htc__batch_words(words, s->words);
}

static void look(htc_buf *words, const char *user)
{
    (void)user;
    htc__batch_words(words, "emu queue");
}

static void cancel(htc_buf *words)
{
    htc__batch_words(words, "emu cancel");
}

const batch_system htc__batch_emu = { .name = "emu", .index_variable = "EMU_STEP", .submit = submit, .look = look, .cancel = cancel,
                                      .element = htc__batch_slurm_element, .read_submitted = htc__batch_slurm_submitted, .read_look = htc__batch_slurm_look };
