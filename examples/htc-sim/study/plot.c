#include "plot.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

FILE *plot_open(const char *folder, const char *name, const char *suffix, const char *extension)
{
    char path[4096];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "htc-sim: the folder %s cannot be made: %s\n", folder, strerror(errno));
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s%s.%s", folder, name, suffix, extension);
    FILE *out = fopen(path, "w");
    if (!out)
        fprintf(stderr, "htc-sim: %s cannot be written: %s\n", path, strerror(errno));
    return out;
}

int plot_close(FILE *out)
{
    if (!out)
        return -1;
    int bad = ferror(out);
    bad |= fclose(out) != 0;
    if (bad)
        fprintf(stderr, "htc-sim: a file of the plot could not be written\n");
    return bad ? -1 : 0;
}
