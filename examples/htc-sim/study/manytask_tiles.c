/* The tile map of a run: the load of every node, row by row in the order of their numbers, as an animated SVG. Its frames are one picture, a strip of
 * which one frame shows at a time; so the file is as large as the pixels are many, whatever browser shows it. */
#include <math.h>
#include <stdlib.h>

#include "manytask.h"
#include "plot.h"

#define FRAMES_A_SECOND 20
#define BLOCK           65535u /* of a stream that is not compressed */
#define SIDE            640    /* of the map on the screen */

/* ---- PNG in base 64 ---- */

typedef struct writer {
    FILE    *out;
    uint32_t held, n; /* bytes that are not three yet */
    uint32_t crc, a, b; /* of the chunk; Adler's sums of the pixels */
    uint32_t table[256];
} writer;

static void put_byte(writer *w, unsigned char byte)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    w->crc = w->table[(w->crc ^ byte) & 255] ^ w->crc >> 8;
    w->held = w->held << 8 | byte;
    if (++w->n < 3)
        return;
    for (int shift = 18; shift >= 0; shift -= 6)
        putc(digits[w->held >> shift & 63], w->out);
    w->held = w->n = 0;
}

/* The last group is of three bytes too: what follows the end of a picture is ignored. */
static void put_end(writer *w)
{
    while (w->n)
        put_byte(w, 0);
}

static void put_bytes(writer *w, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        put_byte(w, p[i]);
}

static void put_number(writer *w, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(w, (unsigned char)(v >> shift & 255));
}

static void begin_chunk(writer *w, const char *name, uint32_t n)
{
    put_number(w, n);
    w->crc = UINT32_MAX;
    put_bytes(w, name, 4);
}

static void end_chunk(writer *w)
{
    put_number(w, ~w->crc);
}

static void put_pixel(writer *w, unsigned char byte)
{
    w->a = (w->a + byte) % 65521;
    w->b = (w->b + w->a) % 65521;
    put_byte(w, byte);
}

/* White, and from green to red: hue (1 - rate) * 0.36, saturation 1 - 0.4 * (1 - rate), brightness 1. */
static void put_palette(writer *w)
{
    begin_chunk(w, "PLTE", 768);
    for (int i = 0; i < 256; i++) {
        double rate = i / 255.0, hue = (1 - rate) * 0.36 * 6, s = i ? 1 - 0.4 * (1 - rate) : 0;
        for (int k = 0; k < 3; k++) {
            double at = fmod(hue + 5 - 2 * k, 6), part = fmax(0, fmin(1, fmin(at, 4 - at)));
            put_byte(w, (unsigned char)(255 * (1 - s * part) + 0.5));
        }
    }
    end_chunk(w);
}

static void put_rows(writer *w, const many_tiles *map, uint64_t frames)
{
    uint64_t rows = frames * map->rows, width = map->columns + 1, raw = rows * width, blocks = (raw + BLOCK - 1) / BLOCK, at = 0;
    begin_chunk(w, "IDAT", (uint32_t)(2 + raw + 5 * blocks + 4));
    put_bytes(w, "\x78\x01", 2);
    w->a = 1;
    w->b = 0;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t x = 0; x < width; x++, at++) {
            uint64_t tile = row % map->rows * map->columns + x - 1;
            if (at % BLOCK == 0) {
                uint32_t n = raw - at < BLOCK ? (uint32_t)(raw - at) : BLOCK;
                unsigned char head[] = { raw - at <= BLOCK, (unsigned char)(n & 255), (unsigned char)(n >> 8), (unsigned char)(~n & 255), (unsigned char)(~n >> 8 & 255) };
                put_bytes(w, head, sizeof head);
            }
            put_pixel(w, x == 0 || tile >= map->tiles ? 0 : map->rate[row / map->rows * map->tiles + tile]);
        }
    put_number(w, w->b << 16 | w->a);
    end_chunk(w);
}

static void put_strip(FILE *out, const many_tiles *map, uint64_t frames)
{
    writer w = { .out = out };
    for (uint32_t i = 0; i < 256; i++) {
        w.table[i] = i;
        for (int k = 0; k < 8; k++)
            w.table[i] = w.table[i] & 1 ? UINT32_C(0xedb88320) ^ w.table[i] >> 1 : w.table[i] >> 1;
    }
    put_bytes(&w, "\x89PNG\r\n\x1a\n", 8);
    begin_chunk(&w, "IHDR", 13);
    put_number(&w, map->columns);
    put_number(&w, (uint32_t)(frames * map->rows));
    put_bytes(&w, "\x08\x03\0\0", 5); /* a byte for each pixel, of a palette */
    end_chunk(&w);
    put_palette(&w);
    put_rows(&w, map, frames);
    begin_chunk(&w, "IEND", 0);
    end_chunk(&w);
    put_end(&w);
}

/* ---- SVG ---- */

/* values="0;-20;-40", a step for each frame. */
static void put_steps(FILE *out, uint64_t frames, double step)
{
    fprintf(out, "<animate attributeName=\"y\" calcMode=\"discrete\" dur=\"%.2fs\" repeatCount=\"indefinite\" values=\"0", (double)frames / FRAMES_A_SECOND);
    for (uint64_t f = 1; f < frames; f++)
        fprintf(out, ";%g", -step * (double)f);
    fputs("\"/>", out);
}

static void put_times(FILE *out, const many_course *c)
{
    fputs("<svg x=\"10\" y=\"28\" width=\"640\" height=\"18\"><svg y=\"0\" overflow=\"visible\">", out);
    for (uint64_t f = 0; f < c->frames; f++)
        fprintf(out, "<text y=\"%d\">%.6g s</text>", 14 + 18 * (int)f, c->frame_at[f]);
    put_steps(out, c->frames, 18);
    fputs("</svg></svg>\n", out);
}

int many_tiles_plot(const many_study *m, const char *folder, const char *suffix)
{
    const many_course *c = m->course;
    const many_tiles  *map = &m->map;
    FILE              *out = plot_open(folder, "tiles", suffix, "svg");
    int                scale = map->columns < SIDE ? SIDE / (int)map->columns : 1, width = scale * (int)map->columns, height = scale * (int)map->rows;
    if (!out)
        return -1;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ddd\"/>\n"
                 "<text x=\"10\" y=\"20\">busy cores of each ",
            width + 20 > 660 ? width + 20 : 660, height + 60);
    if (map->share == 1)
        fprintf(out, "of %llu nodes", (unsigned long long)map->nodes);
    else
        fprintf(out, "%llu nodes of %llu", (unsigned long long)map->share, (unsigned long long)map->nodes);
    fprintf(out, ", row by row: white none, green few, red all; seed %llu</text>\n", (unsigned long long)m->options.seed);
    put_times(out, c);
    fprintf(out, "<svg x=\"10\" y=\"50\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %u %u\"><image width=\"%u\" height=\"%llu\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,",
            width, height, map->columns, map->rows, map->columns, (unsigned long long)(map->rows * c->frames));
    put_strip(out, map, c->frames);
    fputs("\">", out);
    put_steps(out, c->frames, map->rows);
    fputs("</image></svg>\n</svg>\n", out);
    return plot_close(out);
}
