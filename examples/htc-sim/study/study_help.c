/* What htc-sim says of scale models: in the list of commands, and of each. */
#include <stdio.h>
#include <string.h>

#include "../policies.h"
#include "ini.h"
#include "model.h"
#include "study_command.h"

#define WIDE   100
#define OPTION 22 /* the column in which it is said what an option is, */
#define COLUMN 34 /* and what a key takes */

/* Of which commands an option is. */
enum { ANY_RUN, NOT_RESUMED, WITH_CHECKPOINT, WITH_POLICIES };

/* Of every model; the rest are its own. */
static const struct {
    int         of;
    const char *text;
} common_help[] = {
    { NOT_RESUMED, "  --seed S            of all that is drawn (1) [sim.seed]\n" },
    { ANY_RUN, "  --memory SIZE       a run that needs more is refused (three quarters of this machine's)\n"
               "                      [sim.memory]\n" },
    { NOT_RESUMED, "  --costs FILE        what htc-sim calibrate has measured: the keys of its section [MODEL]; options\n"
                   "                      after it go before them\n"
                   "  --set KEY=VALUE     any key, or the name of an option that sets one;\n"
                   "                      --vary knows the same ones, and FILE.ini the keys\n" },
    { WITH_POLICIES, "  --policy-from FILE  load policies of one's own from a shared object; may be repeated\n"
                     "                      (htc_policy_file(3))\n" },
    { NOT_RESUMED, "  --vary KEY=LIST     run for each value: A,B,C, or A..B:xN (times N), or A..B:+N (plus N); may be\n"
                   "                      repeated\n"
                   "  --seeds A..B        run with each seed, and tell means with 95 % intervals\n"
                   "  --measures A,B,C    columns of the table of many runs (all)\n"
                   "  --csv               that table as comma-separated values, also of one run: of each measure the\n"
                   "                      mean and, as NAME_half, half of the interval\n" },
    { ANY_RUN, "  --jobs N, -j N      processes for many runs, threads of one (as many as there are processors)\n"
               "  --plot DIR          write there the course of a run as CSV and SVG\n" },
    { WITH_CHECKPOINT, "  --checkpoint FILE   write there a run that is interrupted, and every ten minutes; htc-sim resume\n"
                       "                      FILE goes on\n"
                       "  --stop-after N      interrupt the run by itself after so many events\n" },
    { ANY_RUN, "  --config FILE       the same as FILE\n"
               "  --json              one object on standard output\n"
               "  --help              this\n" },
    { NOT_RESUMED, "\n"
                   "Spans are seconds, or have a unit: 250us, 64ms, 2s, 10min, 3h. Counts may end with K, M or G.\n" },
};
static const char last_help[] = "\n"
                                "Ends with 0; 1: a run was not conserved; 2: it was called wrongly; 3: it could not be done;\n"
                                "4: it was interrupted, and what it had is told.\n";

/* m NULL: any model; resumes: of htc-sim resume. */
static void say_common(const model *m, int resumes)
{
    const int is_of[] = { [ANY_RUN] = 1, [NOT_RESUMED] = !resumes, [WITH_CHECKPOINT] = !m || m->resume, [WITH_POLICIES] = !resumes && (!m || model_has_policies(m)) };
    for (size_t i = 0; i < sizeof common_help / sizeof *common_help; i++)
        if (is_of[common_help[i].of])
            fputs(common_help[i].text, stdout);
    if (!resumes)
        printf("%s has examples of FILE.ini.\n", experiments_folder());
    fputs(last_help, stdout);
}

static int has_option(const model *m, const char *key)
{
    for (const model_option *o = m->options; o->name; o++)
        if (strcmp(o->key, key) == 0)
            return 1;
    return strcmp(key, "sim.model") == 0 || strcmp(key, "sim.seed") == 0 || strcmp(key, "sim.memory") == 0;
}

/* Words from the column at on, in lines that begin in the column indent; at behind it: on the next line. */
static void say_words(size_t at, size_t indent, const char *text)
{
    if (indent && at >= indent)
        at = (size_t)printf("\n") - 1;
    printf("%*s", (int)(indent - at), "");
    for (at = indent; *text; text += strspn(text, " ")) {
        size_t n = strcspn(text, " ");
        if (at > indent && at + n + 1 > WIDE) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        }
        at += (size_t)printf("%s%.*s", at > indent ? " " : "", (int)n, text);
        text += n;
    }
    putchar('\n');
}

static void say_key(const setting *s)
{
    char names[200];
    int  n = printf("  %s", s->name);
    if (s->fallback && s->fallback[0])
        n += printf(" = %s", s->fallback);
    if (s->kind == SET_POLICY)
        policies_list((uint32_t)s->min, s->takes, names, sizeof names);
    say_words((size_t)n, COLUMN, s->kind == SET_POLICY ? names : s->takes);
}

static void help_of(const model *m)
{
    int keys = 0;
    char text[400];
    printf("usage: htc-sim %s [FILE.ini] [options]\n\n", m->name);
    snprintf(text, sizeof text, "A scale model: %s. Each option sets a key, in brackets here, of those that stand in FILE.ini (-: standard input).", m->about);
    say_words(0, 0, text);
    putchar('\n');
    for (const model_option *o = m->options; o->name; o++) {
        int n = printf("  --%s %s", o->name, o->takes);
        snprintf(text, sizeof text, "%s [%s]", o->about, o->key);
        say_words((size_t)n, OPTION, text);
    }
    for (const setting *s = m->table; s->name; s++) {
        if (has_option(m, s->name))
            continue;
        if (!keys++)
            printf("\nKeys without an option, with their defaults (--set, --vary, or SECTION and KEY in FILE.ini):\n\n");
        say_key(s);
    }
    printf("\nOf every model:\n\n");
    say_common(m, 0);
}

void study_list(void)
{
    printf("  %-22s run an experiment of any of these models\n", "run FILE.ini");
    for (const model *const *m = models; *m; m++)
        if (*m != &flow_model) /* it is told of among the exact ones */
            say_words((size_t)printf("  %s", (*m)->name), 25, (*m)->about);
    printf("  %-22s go on with a run from its checkpoint\n", "resume FILE");
}

void study_help(const char *name)
{
    const model *m = model_of(name);
    if (m) {
        help_of(m);
        return;
    }
    if (strcmp(name, "resume") == 0) {
        printf("usage: htc-sim resume FILE [options]\n\nGoes on with a run that --checkpoint FILE has written down, and writes its own checkpoints there.\n"
               "Its settings are those in FILE.\n\n");
        say_common(NULL, 1);
        return;
    }
    printf("usage: htc-sim run FILE.ini [options]\n\nRuns the experiment in FILE.ini (-: standard input) by the model that it names as model in [sim].\n\n"
           "Models, each with options of its own (htc-sim MODEL --help):\n\n");
    for (const model *const *one = models; *one; one++)
        say_words((size_t)printf("  %s", (*one)->name), OPTION, (*one)->about);
    printf("\nOf every model:\n\n");
    say_common(NULL, 0);
}
