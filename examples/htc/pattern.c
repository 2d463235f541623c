/* Names of outputs by pattern, as people of batch systems write them. */
#include "htc.h"
#include "places.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int path_stays(const char *path)
{
    if (!path[0] || path[0] == '/')
        return 0;
    for (const char *p = path;;) {
        size_t len = strcspn(p, "/");
        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        for (size_t i = 0; i < len; i++)
            if (iscntrl((unsigned char)p[i]))
                return 0;
        if (!p[len])
            return 1;
        p += len + 1;
    }
}

htc_status pattern_expand(cli *c, const char *pattern, const pattern_values *v, char **out)
{
    char  *buf = NULL;
    size_t len = 0;
    FILE  *f = must(open_memstream(&buf, &len));
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            fputc(*p, f);
            continue;
        }
        int width = 0;
        for (p++; isdigit((unsigned char)*p); p++)
            width = width * 10 + (*p - '0') > 20 ? 20 : width * 10 + (*p - '0');
        switch (*p) {
        case 'j':
            fprintf(f, "%0*" PRIu64, width, v->job);
            break;
        case 'a':
            fprintf(f, "%0*" PRIu64, width, v->index);
            break;
        case 'u':
            fputs(v->user, f);
            break;
        case 'n':
            for (const char *n = v->name; *n; n++)
                fputc(*n == '/' ? '_' : *n, f);
            break;
        case '%':
            fputc('%', f);
            break;
        default:
            fclose(f);
            free(buf);
            return cli_error(c, HTC_EUSAGE, pattern, "%j job, %a index, %u user, %n name, %% a percent sign; %4a pads",
                             "unknown letter after %% in a pattern");
        }
    }
    fclose(f);
    if (!path_stays(must(buf))) {
        htc_status s = cli_error(c, HTC_EPATH, pattern, "use a relative name without ..",
                                 "'%.100s' leaves the result directory", buf);
        free(buf);
        return s;
    }
    *out = buf;
    return HTC_OK;
}

int pattern_names_task(const char *pattern)
{
    for (const char *p = pattern; (p = strchr(p, '%')); p += p[0] != '\0') {
        p++;
        p += strspn(p, "0123456789");
        if (*p == 'a')
            return 1;
    }
    return 0;
}

htc_status patterns_check(cli *c, const char *output, const char *error_output)
{
    const char          *patterns[] = { output, error_output };
    const pattern_values v = { 1, 0, "user", "name" };
    for (size_t i = 0; i < 2; i++) {
        char      *out;
        htc_status s = patterns[i] ? pattern_expand(c, patterns[i], &v, &out) : HTC_OK;
        if (s != HTC_OK)
            return s;
        if (patterns[i])
            free(out);
    }
    return HTC_OK;
}

/* Where a stream of one task goes; NULL: nowhere that is known. Gives. */
static char *place_of_stream(cli *c, const char *pattern, const char *name, int many)
{
    const pattern_values v = { 1, many ? 1 : 0, "user", name };
    char                *expanded = NULL, *place;
    if (!pattern || !pattern[0] || pattern_expand(c, pattern, &v, &expanded) != HTC_OK)
        return NULL;
    if (!many || pattern_names_task(pattern))
        return expanded;
    place = must_print("%" PRIu64 "/%s", v.index, expanded);
    free(expanded);
    return place;
}

htc_status patterns_meet(cli *c, const char *output, const char *error_output, const char *name, int many)
{
    char *out = place_of_stream(c, output, name, many), *err = place_of_stream(c, error_output, name, many);
    htc_status s = HTC_OK;
    if (out && err && places_meet(out, err))
        s = cli_error(c, HTC_EUSAGE, "--error", "give them two names", "standard output and error in one file");
    else if (out && places_meet(out, "manifest.json"))
        s = cli_error(c, HTC_EUSAGE, "--output", "give it another name", "manifest.json is the list of the results");
    else if (err && places_meet(err, "manifest.json"))
        s = cli_error(c, HTC_EUSAGE, "--error", "give it another name", "manifest.json is the list of the results");
    free(out);
    free(err);
    return s;
}
