/* A log that several threads write to while it is replaced again and again: every line arrives once, and whole. */
#include "race.h"

enum { WRITERS = 5, LINES = 400, FILES = 64 };

typedef struct writer {
    const htc_log *log;
    uint32_t       number;
} writer;

static void *writes(void *arg)
{
    writer *w = arg;
    for (uint32_t i = 0; i < LINES; i++) {
        char line[64];
        snprintf(line, sizeof line, "writer %u line %u.", w->number, i);
        w->log->write(w->log->ctx, HTC_LOG_INFO, line);
    }
    return NULL;
}

/* 1 for each line that was seen in this file. */
static uint32_t read_lines(const char *path, uint8_t seen[WRITERS][LINES])
{
    char     line[200];
    uint32_t lines = 0;
    FILE    *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned    w = WRITERS, i = LINES;
        char        dot = 0;
        const char *text = strstr(line, "writer ");
        int         whole = text && sscanf(text, "writer %u line %u%c\n", &w, &i, &dot) == 3 && dot == '.';
        race_check(whole && w < WRITERS && i < LINES, "%s: not one of ours: %s", path, line);
        race_check(!seen[w][i], "twice: %s", line);
        seen[w][i] = 1;
        lines++;
    }
    if (f)
        fclose(f);
    return lines;
}

int main(void)
{
    static uint8_t seen[WRITERS][LINES];
    char           dir[RACE_DIR], path[RACE_DIR + 8], one[RACE_DIR + 16];
    htc_logfile   *file;
    htc_error      error = { 0 };
    pthread_t      threads[WRITERS];
    writer         writers[WRITERS];
    uint32_t       lines = 0, files = 0;
    race_dir(dir);
    snprintf(path, sizeof path, "%s/log", dir);
    /* About 55 bytes a line: 2000 lines are some 30 files of 4096. */
    htc_logfile_options o = { .size = sizeof o, .path = path, .bytes_max = 4096, .files_max = FILES };
    race_check(htc_logfile_open(&o, &file, &error) == HTC_OK, "%s", error.text);
    for (uint32_t i = 0; i < WRITERS; i++)
        writers[i] = (writer){ htc_logfile_log(file), i };
    race_threads(threads, WRITERS, writes, writers, sizeof *writers);
    race_threads_join(threads, WRITERS);
    htc_logfile_close(file);
    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(one, sizeof one, i ? "%s.%u" : "%s", path, i);
        uint32_t n = read_lines(one, seen);
        lines += n;
        files += n > 0;
    }
    race_check(lines == WRITERS * LINES, "%u lines of %d", lines, WRITERS * LINES);
    race_check(files > 10, "only %u files", files);
    printf("%u lines in %u files\n", lines, files);
    race_said("every line is there once, and whole");
    race_dir_end(dir);
    return 0;
}
