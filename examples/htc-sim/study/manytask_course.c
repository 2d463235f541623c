/* A run of many tasks over time: samples, frames of the tile map, the file of tasks, and all of them in a checkpoint. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "course.h"
#include "manytask.h"

/* ---- memory ---- */

static uint32_t side_of(uint64_t tiles)
{
    uint32_t side = 1;
    while ((uint64_t)side * side < tiles)
        side++;
    return side;
}

/* As square as can be, row by row in the order of the nodes' numbers. */
static int open_map(many_study *m)
{
    many_tiles *map = &m->map;
    map->nodes = m->nodes;
    map->share = (m->nodes + MANY_TILES - 1) / MANY_TILES;
    map->tiles = (m->nodes + map->share - 1) / map->share;
    map->columns = side_of(map->tiles);
    map->rows = (uint32_t)((map->tiles + map->columns - 1) / map->columns);
    map->frames_max = MANY_STRIP / map->rows < MANY_FRAMES ? MANY_STRIP / map->rows : MANY_FRAMES;
    map->rate = calloc(map->frames_max, map->tiles);
    map->cores = calloc(map->tiles, sizeof *map->cores);
    if (!map->rate || !map->cores)
        return 0;
    for (uint64_t g = 0, i = 0; g < m->options.n_groups; g++)
        for (uint64_t end = i + m->groups[g].nodes; i < end; i++)
            map->cores[i / map->share] += m->groups[g].cores;
    return 1;
}

int many_course_open(many_study *m, htc_error *error)
{
    m->course = calloc(m->options.grids, sizeof *m->course);
    for (uint32_t g = 0; m->course && g < m->options.grids; g++)
        m->course[g].every = m->course[g].frame_every = 1;
    if (m->course && (!m->options.tiles || open_map(m)))
        return 1;
    return settings_refuse(error, HTC_ENOMEM, "no memory for the course of the run", "make it smaller");
}

void many_course_close(many_study *m)
{
    if (m->log)
        fclose(m->log);
    free(m->course);
    free(m->map.rate);
    free(m->map.cores);
}

/* ---- samples ---- */

static void thin_frames(many_course *c, const many_tiles *map)
{
    for (size_t i = 1; i < (c->frames + 1) / 2; i++) {
        memcpy(map->rate + i * map->tiles, map->rate + 2 * i * map->tiles, map->tiles);
        c->frame_at[i] = c->frame_at[2 * i];
    }
    c->frames = (c->frames + 1) / 2;
    c->frame_every *= 2;
}

static void keep_frame(many_study *m, const htc_sim_manytask_sample *s)
{
    many_course      *c = m->course;
    const many_tiles *map = &m->map;
    if (c->frame_seen++ % c->frame_every)
        return;
    if (c->frames == map->frames_max) {
        thin_frames(c, map);
        if ((c->frame_seen - 1) % c->frame_every)
            return;
    }
    unsigned char *frame = map->rate + c->frames * map->tiles;
    for (uint64_t t = 0, i = 0; t < map->tiles; t++) {
        uint64_t busy = 0, end = i + map->share < s->nodes ? i + map->share : s->nodes;
        for (; i < end; i++)
            busy += s->busy_of[i];
        uint64_t rate = (busy * 255 + map->cores[t] / 2) / map->cores[t];
        frame[t] = (unsigned char)(busy && rate == 0 ? 1 : rate);
    }
    c->frame_at[c->frames++] = (double)s->at / 1e9;
}

static uint64_t working_nodes(const htc_sim_manytask_sample *s)
{
    uint64_t n = 0;
    for (uint64_t i = 0; s->busy_of && i < s->nodes; i++)
        n += s->busy_of[i] > 0;
    return n;
}

void many_course_keep(void *ctx, const htc_sim_manytask_sample *s)
{
    many_study  *m = ctx;
    many_course *c = &m->course[s->grid];
    uint64_t     working = working_nodes(s);
    if (s->busy_of && s->queued) {
        c->starved += 1 - (double)working / (double)s->nodes;
        c->waited++;
    }
    if (m->map.rate && s->busy_of)
        keep_frame(m, s);
    const course_row rows[] = { { c->at, sizeof *c->at }, { c->busy, sizeof *c->busy }, { c->queued, sizeof *c->queued }, { c->ended, sizeof *c->ended },
                                { c->working, sizeof *c->working } };
    if (!course_keeps(&c->n, MANY_SAMPLES, &c->every, &c->seen, rows, sizeof rows / sizeof *rows))
        return;
    c->at[c->n] = (double)s->at / 1e9;
    c->busy[c->n] = s->busy;
    c->queued[c->n] = s->queued;
    c->ended[c->n] = s->ended;
    c->working[c->n++] = working;
}

double many_balanced_s(const many_study *m)
{
    double latest = 0;
    for (uint32_t g = 0; g < m->options.grids; g++) {
        const many_course *c = &m->course[g];
        uint64_t           i = 0, cores = m->report.cores / m->options.grids;
        while (i < c->n && (double)c->busy[i] < 0.95 * (double)cores)
            i++;
        double at = i < c->n ? c->at[i] : (double)m->report.scale.makespan / 1e9;
        latest = at > latest ? at : latest;
    }
    return latest;
}

/* The sample of a course that holds then. */
static size_t sample_at(const many_course *c, double at, size_t from)
{
    while (from + 1 < c->n && c->at[from + 1] <= at)
        from++;
    return from;
}

many_course *many_course_of_all(const many_study *m)
{
    many_course *all = malloc(sizeof *all);
    uint32_t     longest = 0;
    for (uint32_t g = 1; g < m->options.grids; g++)
        if (m->course[g].n && m->course[g].at[m->course[g].n - 1] > m->course[longest].at[m->course[longest].n ? m->course[longest].n - 1 : 0])
            longest = g;
    if (all)
        *all = m->course[longest];
    for (uint32_t g = 0; all && g < m->options.grids; g++)
        for (size_t i = 0, k = 0; g != longest && i < all->n && m->course[g].n; i++) {
            k = sample_at(&m->course[g], all->at[i], k);
            all->busy[i] += m->course[g].busy[k];
            all->queued[i] += m->course[g].queued[k];
            all->ended[i] += m->course[g].ended[k];
        }
    return all;
}

/* ---- the file of tasks ---- */

static int refuse_log(const many_study *m, htc_error *error, const char *what)
{
    settings_refuse(error, HTC_EIO, "", "name a file that can be written, in a folder with room: a task takes some 60 bytes");
    snprintf(error->text, sizeof error->text, "%.150s %.60s: %.80s", m->log_path, what, strerror(errno));
    return 0;
}

int many_log_open(many_study *m, htc_error *error)
{
    if (!m->log_path[0])
        return 1;
    m->log = fopen(m->log_path, m->course->logged ? "r+" : "w");
    if (!m->log || (m->course->logged && (ftruncate(fileno(m->log), (off_t)m->course->logged) != 0 || fseeko(m->log, 0, SEEK_END) != 0)))
        return refuse_log(m, error, "cannot be written");
    if (!m->course->logged)
        fputs("task,node,submitted_s,wait_s,begin_s,end_s,length_s,exit\n", m->log);
    return 1;
}

int many_log_close(many_study *m, htc_error *error)
{
    if (!m->log)
        return 1;
    int bad = ferror(m->log);
    bad |= fclose(m->log) != 0;
    m->log = NULL;
    return !bad || refuse_log(m, error, "could not be written");
}

void many_course_task(void *ctx, const htc_sim_manytask_task *t)
{
    many_study *m = ctx;
    fprintf(m->log, "%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,0\n", t->number, t->node, (double)t->submitted / 1e9, (double)(t->begin - t->submitted) / 1e9, (double)t->begin / 1e9,
            (double)t->end / 1e9, (double)(t->end - t->begin) / 1e9);
}

/* ---- a checkpoint ---- */

static int holds(const many_study *m)
{
    for (const many_course *c = m->course; c < m->course + m->options.grids; c++)
        if (c->n > MANY_SAMPLES || !c->every || !c->frame_every || c->frames > (m->map.rate ? m->map.frames_max : 0))
            return 0;
    return 1;
}

htc_status many_course_move(many_study *m, const htc_scale_tape *tape)
{
    if (!tape->reads && m->log) {
        fflush(m->log);
        off_t at = ftello(m->log);
        m->course->logged = at > 0 ? (uint64_t)at : 0;
    }
    htc_status status = tape->move(tape->ctx, m->course, m->options.grids * sizeof *m->course);
    if (status == HTC_OK && !holds(m))
        status = HTC_ECORRUPT;
    if (status == HTC_OK && m->map.rate)
        status = tape->move(tape->ctx, m->map.rate, m->map.frames_max * m->map.tiles);
    return status;
}
