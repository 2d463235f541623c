#include "plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int plot_folder(const char *folder, htc_error *error)
{
    if ((mkdir(folder, 0777) == 0 || errno == EEXIST) && access(folder, W_OK | X_OK) == 0)
        return 1;
    *error = (htc_error){ .status = HTC_EINPUT };
    snprintf(error->where, sizeof error->where, "%.150s", folder);
    snprintf(error->text, sizeof error->text, "nothing can be drawn there: %s", strerror(errno));
    snprintf(error->hint, sizeof error->hint, "give --plot a folder that can be written, or made");
    return 0;
}

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
    int bad = ferror(out), now = fclose(out) != 0;
    if (bad || now) {
        fprintf(stderr, "htc-sim: a file of the plot could not be written: %s\n", now ? strerror(errno) : "a part of it is lost");
        fprintf(stderr, "htc-sim: next: give --plot a folder on a disk with room\n");
    }
    return bad || now ? -1 : 0;
}

chart *plot_chart(const char *name, double to, const double *at, const uint64_t *values, size_t n)
{
    chart *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->to = to;
    (void)chart_user(c, name);
    for (size_t bin = 0, i = 0; bin < CHART_BINS && n; bin++) {
        double middle = to * ((double)bin + 0.5) / CHART_BINS;
        while (i + 1 < n && at[i + 1] <= middle)
            i++;
        c->held[0][bin] = (double)values[i];
    }
    return c;
}
