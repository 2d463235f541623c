/* In place of a fuzzing engine: runs the target on nothing, on every file of the directories and files named, and on
 * every beginning of the short ones. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ALL_BEGINNINGS_OF 512

/* A copy of exactly this size, so that AddressSanitizer sees a byte too far. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = calloc(1, size ? size : 1);
    if (!copy)
        exit(2);
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long  size = -1;
    if (!f || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) != 0) {
        perror(path);
        exit(2);
    }
    uint8_t *data = malloc((size_t)size + 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    run(data, (size_t)size);
    for (size_t n = 0; size <= ALL_BEGINNINGS_OF && n < (size_t)size; n++)
        run(data, n);
    free(data);
    return 1;
}

static int run_directory(const char *path)
{
    DIR *d = opendir(path);
    int  count = 0;
    if (!d)
        return run_file(path);
    for (struct dirent *e; (e = readdir(d));) {
        char file[4096];
        if (e->d_name[0] == '.' || snprintf(file, sizeof file, "%s/%s", path, e->d_name) >= (int)sizeof file)
            continue;
        count += run_file(file);
    }
    closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    run((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        count += run_directory(argv[i]);
    printf("%d files\n", count);
    /* An empty corpus is a mistake in the tree, not a success. */
    return count > 0 ? 0 : 1;
}
