/* The words that run a task in a container: bwrap's from a real image, the others' as they are to be. */
#include "expect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/exec/container.h"

static char top[256];

static void begin(void)
{
    snprintf(top, sizeof top, "%s/htc-container.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    cr_assert(mkdtemp(top) != NULL);
}

static void end(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    cr_assert(eq(int, system(command), 0));
}

TestSuite(container, .init = begin, .fini = end);

static void make(const char *format, int mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", top, format);
    if (mode) {
        FILE *f = fopen(path, "w");
        cr_assert(f != NULL);
        fclose(f);
        chmod(path, (mode_t)mode);
    } else {
        cr_assert(eq(int, mkdir(path, 0755), 0), "%s", path);
    }
}

/* All words in one line, top as @. */
static const char *line(htc__container_kind kind, const htc__container *c)
{
    static char text[8000];
    char      **words = htc__container_words(kind, c);
    size_t      n = 0;
    cr_assert(words != NULL, "%s", strerror(errno));
    text[0] = '\0';
    for (char **w = words; *w; w++) {
        const char *at = strncmp(*w, top, strlen(top)) == 0 ? *w + strlen(top) : NULL;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s", n ? " " : "", at ? "@" : "", at ? at : *w);
        free(*w);
    }
    free(words);
    return text;
}

static void is_line(const char *is, const char *wanted)
{
    cr_expect(strcmp(is, wanted) == 0, "%s", is);
}

#define ARGV ((const char *const[]){ "prog", "--rm", "a b", NULL })

Test(container, finds_what_the_node_has_and_the_site_allows)
{
    char path[600], found[600];
    make("one", 0);
    make("two", 0);
    make("one/bwrap", 0755);
    make("one/podman", 0644); /* nobody may execute it */
    make("two/apptainer", 0755);
    snprintf(path, sizeof path, "relative:%s/one::%s/two", top, top);
    cr_expect(eq(int, htc__container_find("auto", path, found, sizeof found), HTC__CONTAINER_APPTAINER));
    cr_expect(strstr(found, "/two/apptainer") != NULL);
    cr_expect(eq(int, htc__container_find("bwrap", path, found, sizeof found), HTC__CONTAINER_BWRAP));
    cr_expect(eq(int, htc__container_find("podman", path, found, sizeof found), HTC__CONTAINER_NONE));
    cr_expect(eq(int, htc__container_find("off", path, found, sizeof found), HTC__CONTAINER_NONE));
    cr_expect(eq(int, htc__container_find("auto", "", found, sizeof found), HTC__CONTAINER_NONE));
}

/* A directory on the way to what the task writes is taken apart; what lies beside is bound whole. */
Test(container, bwrap_binds_the_image_around_what_the_task_writes)
{
    char image[300], run[] = "/var/lib/htc/run", work[] = "/data/here";
    snprintf(image, sizeof image, "%s/image", top);
    make("image", 0);
    make("image/var", 0);
    make("image/var/cache", 0);
    make("image/proc", 0);
    make("image/tmp", 0);
    make("image/data", 0);
    char link[400];
    snprintf(link, sizeof link, "%s/bin", image);
    cr_assert(eq(int, symlink("usr/bin", link), 0));
    htc__container c = { .program = "/usr/bin/bwrap", .image = image, .dir = run, .work = work, .argv = ARGV };
    const char    *is = line(HTC__CONTAINER_BWRAP, &c);
    cr_expect(strncmp(is, "/usr/bin/bwrap --die-with-parent ", 33) == 0, "%s", is);
    cr_expect(strstr(is, "--ro-bind @/image/var/cache /var/cache") != NULL, "%s", is);
    cr_expect(strstr(is, "/image/var /var") == NULL, "%s", is);
    cr_expect(strstr(is, "--symlink usr/bin /bin") != NULL, "%s", is);
    cr_expect(strstr(is, "@/image/proc") == NULL && strstr(is, "@/image/tmp") == NULL && strstr(is, "@/image/data ") == NULL, "%s", is);
    const char *tail = strstr(is, "--ro-bind /proc /proc");
    cr_assert(tail != NULL, "%s", is);
    is_line(tail, "--ro-bind /proc /proc --dev /dev --bind /var/lib/htc/run/tmp /tmp --bind /data/here /data/here "
                                    "--bind /var/lib/htc/run /var/lib/htc/run --chdir /data/here -- prog --rm a b");
    c.image = "/no/such/image";
    cr_expect(htc__container_words(HTC__CONTAINER_BWRAP, &c) == NULL && errno == ENOENT);
}

Test(container, the_words_of_the_others)
{
    htc__container c = { .program = "/usr/bin/apptainer", .image = "el9.sif", .dir = "/s/run", .work = "/s/run/work", .argv = ARGV };
    is_line(line(HTC__CONTAINER_APPTAINER, &c), "/usr/bin/apptainer --silent exec --contain --no-home --bind /s/run --pwd /s/run/work el9.sif prog --rm a b");
    c.dir = c.work = "/s/a,b";
    cr_expect(htc__container_refuses(HTC__CONTAINER_APPTAINER, &c) == c.dir);
    cr_expect(htc__container_refuses(HTC__CONTAINER_PODMAN, &c) == NULL);
    c.dir = "/s/run";
    c.work = "/s/a:b";
    cr_expect(htc__container_refuses(HTC__CONTAINER_APPTAINER, &c) == c.work);
    cr_expect(htc__container_refuses(HTC__CONTAINER_PODMAN, &c) == c.work);
    cr_expect(htc__container_refuses(HTC__CONTAINER_BWRAP, &c) == NULL);
    c.work = "/s/run/work";
    cr_expect(htc__container_refuses(HTC__CONTAINER_APPTAINER, &c) == NULL);
    c.program = "/usr/bin/podman";
    c.image = "docker.io/library/busybox";
    c.gpus = 1;
    is_line(line(HTC__CONTAINER_PODMAN, &c), geteuid() ? "/usr/bin/podman run --rm --network host --cgroups disabled --log-driver none --env-host --userns keep-id --device "
                             "nvidia.com/gpu=all --volume /s/run:/s/run --workdir /s/run/work docker.io/library/busybox prog --rm a b"
                           : "/usr/bin/podman run --rm --network host --cgroups disabled --log-driver none --env-host --device "
                             "nvidia.com/gpu=all --volume /s/run:/s/run --workdir /s/run/work docker.io/library/busybox prog --rm a b");
}
