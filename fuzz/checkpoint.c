/* Files that htc-sim resume is given, from anybody: refused with a cause and a next step, or their settings are those of a model, and what stands behind them is read
 * as far as the file goes. The first byte says what is done to the rest: 1: the first line is put in front; 2: its checksum is put behind, so that it counts as whole. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../examples/htc-sim/study/checkpoint.h"
#include "../examples/htc-sim/study/model.h"
#include "check.h"

#define FIRST "htc-sim checkpoint 1\n"
#define BLOCK ((size_t)1 << 20)

static int is_line(const char *text)
{
    return text[0] && !strpbrk(text, "\n\r\033");
}

static void put(int fd, const void *data, size_t n)
{
    CHECK(write(fd, data, n) == (ssize_t)n);
}

static int file_of(const uint8_t *data, size_t size, char *path, size_t room)
{
    static unsigned char all[BLOCK];
    size_t               n = 0;
    int                  fd = memfd_create("checkpoint", MFD_CLOEXEC), how = size ? data[0] : 0;
    CHECK(fd >= 0 && fchmod(fd, 0600) == 0);
    if (how & 1) {
        memcpy(all, FIRST, strlen(FIRST));
        n = strlen(FIRST);
    }
    size_t rest = size ? size - 1 : 0;
    rest = rest < BLOCK - n ? rest : BLOCK - n;
    if (rest)
        memcpy(all + n, data + 1, rest);
    n += rest;
    put(fd, all, n);
    uint64_t sum = htc_hash64((htc_bytes){ all, n }, 0);
    if (how & 2)
        put(fd, &sum, sizeof sum);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_settings(const settings *s)
{
    settings   *copy = settings_copy(s);
    htc_error   e = { 0 };
    const char *name, *value;
    CHECK(copy != NULL);
    for (size_t i = 0; (name = settings_item(s, i, &value)); i++)
        CHECK(strcmp(settings_text(s, name), value) == 0 && settings_set(copy, name, value, &e));
    settings_destroy(copy);
}

static void read_to_its_end(checkpoint *c, size_t size)
{
    unsigned char piece[16];
    size_t        n = 0;
    while (c->tape.move(c->tape.ctx, piece, sizeof piece) == HTC_OK)
        CHECK((n += sizeof piece) <= size + sizeof FIRST + sizeof(uint64_t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int  fd = file_of(data, size, path, sizeof path);
    for (const model *const *m = models; *m; m++) {
        checkpoint c;
        htc_error  e = { 0 };
        settings  *s = settings_create((*m)->table);
        CHECK(s && settings_set(s, "sim.model", (*m)->name, &e));
        if (checkpoint_read(&c, path, s, &e)) {
            check_settings(s);
            read_to_its_end(&c, size);
        } else {
            CHECK(e.status < 0 && is_line(e.text) && is_line(e.hint) && !c.file);
        }
        checkpoint_close(&c);
        settings_destroy(s);
    }
    close(fd);
    return 0;
}
