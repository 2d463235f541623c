#include "settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "values.h"

#define NAME_MAX_LEN 96

typedef struct item {
    char    *name, *value;
    char    *file; /* NULL: of the command line */
    uint32_t line;
} item;

struct settings {
    const setting *table;
    item          *items;
    size_t         n, room;
    size_t         last; /* which was set last */
    char         **sections; /* "user.ada" */
    size_t         n_sections;
    char          *folder; /* with its slash; NULL: none */
    char           name[3 * NAME_MAX_LEN];
};

/* ---- the table ---- */

/* The pattern of the table that a name has; NULL: none. */
static const setting *rule_of(const settings *s, const char *name)
{
    for (const setting *r = s->table; r->name; r++) {
        const char *star = strchr(r->name, '*');
        size_t      head = star ? (size_t)(star - r->name) : 0, tail = star ? strlen(star + 1) : 0, n = strlen(name);
        if (star ? n > head + tail && strncmp(name, r->name, head) == 0 && strcmp(name + n - tail, star + 1) == 0 : strcmp(name, r->name) == 0)
            return r;
    }
    return NULL;
}

static const char *nearest(const settings *s, const char *name)
{
    const char *best = NULL;
    size_t      least = 5;
    for (const setting *r = s->table; r->name; r++)
        if (value_distance(name, r->name) < least) {
            least = value_distance(name, r->name);
            best = r->name;
        }
    return best;
}

static int choice_of(const char *words, const char *text, uint32_t *place)
{
    size_t n = strlen(text);
    for (*place = 0;; (*place)++) {
        size_t len = strcspn(words, "|");
        if (len == n && strncmp(words, text, n) == 0)
            return 1;
        if (!words[len])
            return 0;
        words += len + 1;
    }
}

static int allowed(const setting *r, const char *text)
{
    uint64_t      count, more, size;
    double        real;
    htc_ns        span;
    htc_scale_law law;
    uint32_t      place;
    switch (r->kind) {
    case SET_COUNT:
        return value_count(text, &count) && (double)count >= r->min && (double)count <= r->max;
    case SET_COUNTS:
        return value_counts(text, &count, &more) && (double)count >= r->min && (double)more <= r->max;
    case SET_REAL:
        return value_real(text, &real) && real >= r->min && real <= r->max;
    case SET_SIZE:
        return value_size(text, &size);
    case SET_SPAN_OR_AUTO:
        return strcmp(text, "auto") == 0 || value_span(text, &span);
    case SET_SPAN:
        return value_span(text, &span) && (double)span >= r->min;
    case SET_LAW:
        return value_law(text, &law);
    case SET_CHOICE:
        return choice_of(r->takes, text, &place);
    case SET_WORD:
    case SET_FILE:
        return text[0] != '\0';
    case SET_POLICY:
        return policies_have((uint32_t)r->min, text) || (r->takes && choice_of(r->takes, text, &place));
    }
    return 0;
}

static void say_takes(const setting *r, const char *name, htc_error *error)
{
    static const char others[] = "; --policy-from FILE adds others";
    size_t            n = (size_t)snprintf(error->hint, sizeof error->hint, "%.60s takes ", name);
    if (r->kind != SET_POLICY) {
        snprintf(error->hint + n, sizeof error->hint - n, "%s", r->takes);
        return;
    }
    policies_list((uint32_t)r->min, r->takes, error->hint + n, sizeof error->hint - n);
    n = strlen(error->hint);
    if (!policies_are_added() && n + sizeof others <= sizeof error->hint)
        memcpy(error->hint + n, others, sizeof others);
}

/* ---- all of them ---- */

settings *settings_create(const setting *table)
{
    settings *s = calloc(1, sizeof *s);
    if (s)
        s->table = table;
    return s;
}

void settings_destroy(settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        free(s->items[i].name);
        free(s->items[i].value);
        free(s->items[i].file);
    }
    free(s->folder);
    for (size_t i = 0; i < s->n_sections; i++)
        free(s->sections[i]);
    free(s->items);
    free(s->sections);
    free(s);
}

static int no_memory(htc_error *e)
{
    e->status = HTC_ENOMEM;
    snprintf(e->text, sizeof e->text, "no memory for the settings");
    return 0;
}

static item *find(const settings *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return &s->items[i];
    return NULL;
}

/* A section with a name is there from now on. */
static int note_section(settings *s, const char *name, size_t n)
{
    if (!memchr(name, '.', n))
        return 1;
    for (size_t i = 0; i < s->n_sections; i++)
        if (strlen(s->sections[i]) == n && strncmp(s->sections[i], name, n) == 0)
            return 1;
    char **more = realloc(s->sections, (s->n_sections + 1) * sizeof *more);
    if (!more)
        return 0;
    s->sections = more;
    if (!(more[s->n_sections] = strndup(name, n)))
        return 0;
    s->n_sections++;
    return 1;
}

static int add(settings *s, const char *name, const char *value)
{
    item *found = find(s, name);
    char *copy = strdup(value);
    if (!copy)
        return 0;
    if (found) {
        free(found->value);
        free(found->file);
        found->value = copy;
        found->file = NULL;
        s->last = (size_t)(found - s->items);
        return 1;
    }
    if (s->n == s->room) {
        item *more = realloc(s->items, (s->room = s->room ? 2 * s->room : 32) * sizeof *more);
        if (!more) {
            free(copy);
            return 0;
        }
        s->items = more;
    }
    s->items[s->n] = (item){ .name = strdup(name), .value = copy };
    if (!s->items[s->n].name) {
        free(copy);
        return 0;
    }
    s->last = s->n++;
    return note_section(s, name, (size_t)(strrchr(name, '.') - name));
}

/* So that it can stand in a file, and on a terminal. */
static int is_line(const char *text)
{
    size_t n = 0;
    while ((unsigned char)text[n] >= ' ' && text[n] != 0x7f)
        n++;
    return text[n] == '\0' && n <= 900;
}

static int add_beside(settings *s, const char *name, const char *value, htc_error *error)
{
    char path[1024];
    if ((size_t)snprintf(path, sizeof path, "%s%s", s->folder, value) < sizeof path)
        return add(s, name, path) || no_memory(error);
    snprintf(error->text, sizeof error->text, "the name of a file is too long: %.100s", name);
    snprintf(error->hint, sizeof error->hint, "move it to a folder with a shorter name");
    return 0;
}

int settings_beside(settings *s, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    free(s->folder);
    s->folder = slash ? strndup(file, (size_t)(slash - file) + 1) : NULL;
    return !slash || s->folder;
}

int settings_set(settings *s, const char *name, const char *value, htc_error *error)
{
    const setting *rule = strlen(name) <= NAME_MAX_LEN ? rule_of(s, name) : NULL;
    *error = (htc_error){ .status = HTC_ECONFIG };
    if (!is_line(name) || !is_line(value)) {
        snprintf(error->text, sizeof error->text, "a key or its value has a control character, or more than 900 bytes");
        snprintf(error->hint, sizeof error->hint, "write it in one short line");
        return 0;
    }
    if (!rule) {
        const char *near = nearest(s, name);
        snprintf(error->text, sizeof error->text, "there is no key %.100s", name);
        snprintf(error->hint, sizeof error->hint, near ? "did you mean %s?" : "htc-sim MODEL --help lists the keys of a model", near ? near : "");
        return 0;
    }
    if (!allowed(rule, value)) {
        snprintf(error->text, sizeof error->text, "%.100s cannot be \"%.80s\"", name, value);
        say_takes(rule, name, error);
        return 0;
    }
    if (rule->kind == SET_FILE && s->folder && value[0] != '/')
        return add_beside(s, name, value, error);
    return add(s, name, value) || no_memory(error);
}

/* ---- where they stand ---- */

void settings_stands(settings *s, const char *file, uint32_t line)
{
    item *i = s->n ? &s->items[s->last] : NULL;
    if (!i)
        return;
    free(i->file);
    i->file = strdup(file); /* without memory it is not known */
    i->line = line;
}

static int goes_on(const char *text)
{
    return isalnum((unsigned char)*text) || *text == '_' || (*text == '.' && isalnum((unsigned char)text[1]));
}

/* Where the text has this name as a whole; NULL: it does not. */
static const char *names(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at++)
        if ((at == text || !strchr("._", at[-1])) && (at == text || !isalnum((unsigned char)at[-1])) && !goes_on(at + n))
            return at;
    return NULL;
}

/* Its key, or the section that it stands in, if that has a name. */
static const char *names_item(const char *text, const item *i)
{
    char        section[NAME_MAX_LEN + 1];
    const char *at = names(text, i->name), *dot = strrchr(i->name, '.');
    snprintf(section, sizeof section, "%.*s", (int)(dot ? dot - i->name : 0), i->name);
    return at || !strchr(section, '.') ? at : names(text, section);
}

static const item *first_named(const settings *s, const char *text)
{
    const item *first = NULL;
    const char *least = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const char *at = s->items[i].file ? names_item(text, &s->items[i]) : NULL;
        if (at && (!least || at < least)) {
            least = at;
            first = &s->items[i];
        }
    }
    return first;
}

void settings_place(const settings *s, htc_error *e)
{
    const item *i = first_named(s, e->text), *of_file = NULL;
    if (e->where[0] || (e->status != HTC_ECONFIG && e->status != HTC_EINVAL && e->status != HTC_ETOOBIG && e->status != HTC_ENOFIT))
        return;
    i = i ? i : first_named(s, e->hint);
    for (size_t k = 0; k < s->n && !of_file; k++)
        of_file = s->items[k].file ? &s->items[k] : NULL;
    if (i)
        e->line = i->line;
    if (i)
        snprintf(e->where, sizeof e->where, "%.140s:%u", i->file, (unsigned)i->line);
    else if (of_file)
        snprintf(e->where, sizeof e->where, "%.150s", of_file->file);
}

/* As far as there is room. */
static void list_sections(const settings *s, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "sections are");
    for (const setting *r = s->table; r->name; r++) {
        size_t len = strcspn(r->name, "."), before = 0;
        for (const setting *b = s->table; b != r; b++)
            before |= strncmp(b->name, r->name, len + 1) == 0;
        if (!before && n < room)
            n += (size_t)snprintf(out + n, room - n, "%s [%.*s%s]", r == s->table ? "" : ",", (int)len, r->name, strchr(r->name, '*') ? ".NAME" : "");
    }
}

int settings_section_begins(settings *s, const char *section, htc_error *error)
{
    const char *dot = strchr(section, '.');
    size_t      n = strlen(section), kind = dot ? (size_t)(dot - section) : n;
    *error = (htc_error){ .status = HTC_ECONFIG };
    for (const setting *r = s->table; r->name && n <= NAME_MAX_LEN; r++) {
        const char *star = strchr(r->name, '*');
        if (strncmp(r->name, section, kind) != 0 || r->name[kind] != '.' || !star != !dot || (dot && !dot[1]))
            continue;
        return note_section(s, section, n) || no_memory(error);
    }
    snprintf(error->text, sizeof error->text, "there is no section [%.100s]", section);
    list_sections(s, error->hint, sizeof error->hint);
    return 0;
}

/* Sections first, so that they stay in their order. */
settings *settings_copy(const settings *s)
{
    settings *copy = settings_create(s->table);
    int       good = copy != NULL && settings_beside(copy, s->folder);
    for (size_t i = 0; good && i < s->n_sections; i++)
        good = note_section(copy, s->sections[i], strlen(s->sections[i]));
    for (size_t i = 0; good && i < s->n; i++)
        if ((good = add(copy, s->items[i].name, s->items[i].value)) && s->items[i].file)
            settings_stands(copy, s->items[i].file, s->items[i].line);
    if (good)
        return copy;
    settings_destroy(copy);
    return NULL;
}

/* ---- values ---- */

const char *settings_text(const settings *s, const char *name)
{
    const item    *found = find(s, name);
    const setting *rule = found ? NULL : rule_of(s, name);
    return found ? found->value : rule && rule->fallback ? rule->fallback : "";
}

int settings_keep(const settings *s, const char *name, char *into, size_t room, htc_error *error)
{
    char text[160];
    if ((size_t)snprintf(into, room, "%s", settings_text(s, name)) < room)
        return 1;
    snprintf(text, sizeof text, "%.100s has more than %zu bytes", name, room - 1);
    return settings_refuse(error, HTC_ECONFIG, text, "choose a shorter name");
}

int settings_is_fallback(const settings *s, const char *name)
{
    const setting *rule = rule_of(s, name);
    return rule && rule->fallback && strcmp(settings_text(s, name), rule->fallback) == 0;
}

void settings_counts(const settings *s, const char *name, uint64_t *min, uint64_t *max)
{
    *min = *max = 0;
    (void)value_counts(settings_text(s, name), min, max);
}

uint64_t settings_count(const settings *s, const char *name)
{
    uint64_t v = 0;
    (void)value_count(settings_text(s, name), &v);
    return v;
}

double settings_real(const settings *s, const char *name)
{
    double v = 0;
    (void)value_real(settings_text(s, name), &v);
    return v;
}

uint64_t settings_size(const settings *s, const char *name)
{
    uint64_t v = 0;
    (void)value_size(settings_text(s, name), &v);
    return v;
}

htc_ns settings_span(const settings *s, const char *name)
{
    htc_ns v = 0;
    (void)value_span(settings_text(s, name), &v);
    return v;
}

htc_scale_law settings_law(const settings *s, const char *name)
{
    htc_scale_law v = { 0 };
    (void)value_law(settings_text(s, name), &v);
    return v;
}

uint32_t settings_choice(const settings *s, const char *name)
{
    const setting *rule = rule_of(s, name);
    uint32_t       place = 0;
    return rule && choice_of(rule->takes, settings_text(s, name), &place) ? place : 0;
}

const char *settings_section(const settings *s, const char *kind, size_t i)
{
    size_t n = strlen(kind);
    for (size_t k = 0; k < s->n_sections; k++)
        if (strncmp(s->sections[k], kind, n) == 0 && s->sections[k][n] == '.' && i-- == 0)
            return s->sections[k] + n + 1;
    return NULL;
}

const char *settings_any_section(const settings *s, size_t i)
{
    return i < s->n_sections ? s->sections[i] : NULL;
}

const char *settings_item(const settings *s, size_t i, const char **value)
{
    if (i >= s->n)
        return NULL;
    *value = s->items[i].value;
    return s->items[i].name;
}

const char *settings_in(settings *s, const char *kind, const char *name, const char *key)
{
    snprintf(s->name, sizeof s->name, "%s.%s.%s", kind, name, key);
    return s->name;
}

size_t settings_sections(const settings *s, const char *kind)
{
    size_t n = 0;
    while (settings_section(s, kind, n))
        n++;
    return n;
}

int settings_refuse(htc_error *error, htc_status status, const char *text, const char *hint)
{
    *error = (htc_error){ .status = status };
    snprintf(error->text, sizeof error->text, "%s", text);
    snprintf(error->hint, sizeof error->hint, "%s", hint);
    return 0;
}
