/* The one error of a command: kept where it is met, printed once at the end, as a line or as an object. */
#include "htc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

htc_status cli_error(cli *c, htc_status status, const char *where, const char *hint, const char *format, ...)
{
    c->error = (htc_error){ .status = status };
    va_list ap;
    va_start(ap, format);
    vsnprintf(c->error.text, sizeof c->error.text, format, ap);
    va_end(ap);
    snprintf(c->error.where, sizeof c->error.where, "%s", where);
    snprintf(c->error.hint, sizeof c->error.hint, "%s", hint);
    return status;
}

void cli_print_error(cli *c, htc_status status)
{
    htc_error *e = &c->error;
    if (e->status == HTC_OK)
        cli_error(c, status, "", "", "%s", htc_strerror(status));
    htc_text_show(e->text);
    htc_text_show(e->where);
    htc_text_show(e->hint);
    if (c->json && !c->json_done) {
        json_t *o = json_pack("{s:s, s:s}", "error", htc_status_name(status), "message", e->text);
        json_t *where = json_object();
        if (c->file)
            json_object_set_new(where, "file", json_string(c->file));
        if (e->where[0])
            json_object_set_new(where, "element", json_string(e->where));
        if (e->line)
            json_object_set_new(where, "line", json_integer(e->line));
        if (e->column)
            json_object_set_new(where, "column", json_integer(e->column));
        if (json_object_size(where))
            json_object_set(o, "where", where);
        json_decref(where);
        if (e->hint[0])
            json_object_set_new(o, "hint", json_string(e->hint));
        if (c->found)
            json_object_update_missing(o, c->found);
        put_json(c, o);
        json_decref(o);
    }
    fprintf(stderr, "htc: ");
    if (c->file)
        fprintf(stderr, "%s: ", c->file);
    if (e->where[0])
        fprintf(stderr, "%s: ", e->where);
    char number[24];
    snprintf(number, sizeof number, ":%u", e->line);
    size_t where = strlen(e->where), end = strlen(number);
    if (e->line && !(where > end && strcmp(e->where + where - end, number) == 0)) /* FILE:LINE says it already */
        fprintf(stderr, e->column ? "line %u, column %u: " : "line %u: ", e->line, e->column);
    fprintf(stderr, "%s%s%s\n", e->text, e->hint[0] ? ": " : "", e->hint);
}
