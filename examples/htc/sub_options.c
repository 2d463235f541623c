#include "sub_options.h"

#include <string.h>

typedef struct sheet {
    opt  at[SUB_ROWS_MAX];
    char text[SUB_ROWS_MAX][200]; /* who has it, for those that the command has not */
} sheet;

/* "get, put and delete" */
static void name_commands(const sub_opts *all, uint32_t of, char *text, size_t cap)
{
    size_t len = 0;
    text[0] = 0;
    for (uint32_t i = 0; of && i < all->count && len < cap; of &= ~(1u << i), i++) {
        if (of & 1u << i)
            len += (size_t)snprintf(text + len, cap - len, "%s%s", !len ? "" : of == 1u << i ? " and " : ", ", all->name(i));
    }
}

static uint32_t of_name(const sub_opts *all, const char *name)
{
    uint32_t of = 0;
    for (size_t i = 0; i < all->n; i++)
        of |= strcmp(all->rows[i].o.name, name) == 0 ? all->rows[i].of : 0;
    return of & ((1u << all->count) - 1);
}

/* Every command has it, and some say something else of it. */
static int is_everywhere(const sub_opt *r)
{
    return strcmp(r->o.name, "dir") == 0;
}

/* Its own in front, for the first of a name is found. */
static size_t fill(sheet *s, const sub_opts *all, uint32_t which)
{
    size_t filled = 0;
    for (size_t i = 0; i < all->n; i++)
        if (which == all->count ? !is_everywhere(&all->rows[i]) : (all->rows[i].of & 1u << which) != 0)
            s->at[filled++] = all->rows[i].o;
    for (size_t i = 0; i < all->n && which != all->count; i++) {
        const sub_opt *r = &all->rows[i];
        if (r->of & 1u << which || is_everywhere(r))
            continue;
        name_commands(all, of_name(all, r->o.name), s->text[filled], sizeof s->text[filled]);
        s->at[filled] = (opt){ r->o.name, 0, OPT_ELSEWHERE, NULL, NULL, s->text[filled] };
        filled++;
    }
    return filled;
}

/* With no command --help says of each option whose it is, unless most have it. Those that are everywhere come last in the table, so
 * that the others have the same places in a sheet without them. */
static void say_whose(sheet *s, const sub_opts *all)
{
    char names[120];
    for (size_t i = 0; i < all->n; i++) {
        uint32_t of = all->rows[i].of & ((1u << all->count) - 1);
        if (2 * (uint32_t)__builtin_popcount(of) > all->count || is_everywhere(&all->rows[i]))
            continue;
        name_commands(all, of, names, sizeof names);
        snprintf(s->text[i], sizeof s->text[i], "%s: %s", names, all->rows[i].o.help);
        s->at[i].help = s->text[i];
    }
}

htc_status sub_opt_parse(cli *c, const command *cmd, const sub_opts *all, uint32_t which, int argc, char **argv, words *rest)
{
    sheet  s;
    size_t filled = fill(&s, all, which);
    if (which == all->count)
        say_whose(&s, all);
    return opt_parse(c, cmd, argc, argv, s.at, filled, rest);
}
