/* Cores held by each user over time, as a picture in the terminal and as SVG. Memory does not grow with the tasks. */
#ifndef HTC_EXAMPLES_CHART_H
#define HTC_EXAMPLES_CHART_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHART_BINS  600
#define CHART_USERS 16

typedef struct chart {
    double from, to; /* seconds */
    size_t users;
    char   name[CHART_USERS][64];
    double held[CHART_USERS][CHART_BINS]; /* mean number of cores in the bin */
} chart;

size_t chart_user(chart *c, const char *name); /* finds or adds; those beyond the last place share it */
void   chart_add(chart *c, size_t user, double start, double end, double cores);
int    chart_columns(FILE *out); /* as many as fit a narrow terminal, else 70 */
void   chart_print(const chart *c, FILE *out, uint32_t colour, uint64_t slots, int columns);
/* The second chart may be NULL; else it is drawn below the first, on the same scale of time. The height is that of so many slots, or of what is the
 * most at a time if that is more. */
void chart_svg(const chart *c, const char *title, const chart *second, const char *second_title, uint64_t slots, uint64_t second_slots, FILE *out);

#endif
