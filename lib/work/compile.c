/* From a checked document to the stored form: which texts matter, which loops feed them, and what is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "work/compile_private.h"
#include "work/wishes.h"

/* ---- the template ---- */

htc_status htc__compile_refuse(htc__compiler *c, htc_status status, const xmlNode *at, const char *why)
{
    return htc__xml_refuse(c->error, status, at, "%s", why);
}

htc_status htc__compile_spend(htc__compiler *c, const xmlNode *at, uint64_t n)
{
    if (c->work < n)
        return htc__compile_refuse(c, HTC_ETOOBIG, at, "the Match expressions look at too many elements");
    c->work -= n;
    return HTC_OK;
}

static htc_status not_done(htc__compiler *c, const xmlNode *node)
{
    return htc__xml_refuse(c->error, HTC_EUNSUPPORTED, node,
                       "%s asks for something that is not done here", htc__xml_name(node));
}

static void warn(htc__compiler *c, const xmlNode *node)
{
    /* A document full of them must not make a long record: say the first ones. */
    if (c->n_warnings++ < 8)
        htc_put_text(&c->warnings, "line %u: %s of another namespace is ignored\n", htc__xml_line(node),
                     htc__quote(htc_bytes_of(htc__xml_name(node))).text);
}

static htc__element *element_of(htc__compiler *c, const xmlNode *node)
{
    /* _private is the application's: compile_collect left the element's number there. */
    return &c->elements[(size_t)(uintptr_t)node->_private];
}

/* A blank for each tab and line break: what xsd:normalizedString makes of an Argument. */
static void normalize(xmlChar *text)
{
    for (; *text; text++)
        if (*text == '\t' || *text == '\n' || *text == '\r')
            *text = ' ';
}

/* Take the text of an element (or its attribute name) as the next slot. */
static htc_status add_slot(htc__compiler *c, htc__slot_kind kind, const xmlNode *node, int name_attribute)
{
    htc__element *e = element_of(c, node);
    if (c->n_slots == HTC_SLOTS_MAX)
        return htc__compile_refuse(c, HTC_ETOOBIG, node, "the template has too many elements");
    xmlChar *text = name_attribute ? htc__xml_attribute(node, NULL, "name") : htc__xml_text(node);
    if (!text)
        return HTC_ENOMEM;
    if (kind == HTC__SLOT_ARGUMENT) {
        xmlChar *literal = htc__xml_attribute(node, HTC_OWN_NS, "literal");
        if (!literal)
            normalize(text);
        xmlFree(literal);
    }
    htc_put_u8(&c->slots, (uint8_t)kind);
    htc_put_str(&c->slots, (const char *)text);
    xmlFree(text);
    c->n_slots++;
    *(name_attribute ? &e->name_slot : &e->slot) = (uint32_t)c->n_slots;
    uint32_t line = htc__xml_line(node);
    htc_put_raw(&c->lines, (htc_bytes){ &line, sizeof line });
    return c->lines.status != HTC_OK ? c->lines.status : c->slots.status;
}

/* A child of a namespace that is not its parent's own: ours to know, harmless, or one that would change the meaning. */
htc_status htc__compile_foreign(htc__compiler *c, const xmlNode *node)
{
    if (htc__xml_in(node, HTC_JSDL_NS) || htc__xml_in(node, HTC_POSIX_NS) || htc__xml_in(node, HTC_SWEEP_NS) ||
        htc__xml_in(node, HTC_SWEEP_FUNCTIONS_NS) || htc__xml_in(node, HTC_OWN_NS) || htc__xml_in(node, HTC_HPCP_NS) ||
        htc__xml_in(node, HTC_SPMD_NS) || htc__xml_in(node, HTC_FILE_SWEEP_NS) || htc__xml_in(node, HTC_SWEEP_DRAFT_NS))
        return htc__xml_refuse(c->error, HTC_EUNSUPPORTED, node,
                           "%s is not done here, in %s", htc__xml_name(node), htc__xml_name(node->parent));
    warn(c, node);
    return HTC_OK;
}

static htc_status no_file_system(htc__compiler *c, const xmlNode *node)
{
    xmlChar *name = htc__xml_attribute(node, NULL, "filesystemName");
    if (!name)
        return HTC_OK;
    xmlFree(name);
    return htc__xml_refuse(c->error, HTC_EUNSUPPORTED, node,
                       "attribute filesystemName of %s is not done here", htc__xml_name(node));
}

static htc_status posix_application(htc__compiler *c, const xmlNode *application)
{
    static const struct {
        const char    *name;
        htc__slot_kind kind;
    } done[] = {
        { "Executable", HTC__SLOT_EXECUTABLE },
        { "Argument", HTC__SLOT_ARGUMENT },
        { "Input", HTC__SLOT_INPUT },
        { "Output", HTC__SLOT_OUTPUT },
        { "Error", HTC__SLOT_ERROR },
        { "WorkingDirectory", HTC__SLOT_DIRECTORY },
        { "Environment", HTC__SLOT_ENV_VALUE },
        { "WallTimeLimit", HTC__SLOT_WALL },
        { "FileSizeLimit", HTC__SLOT_FILE_SIZE },
        { "CoreDumpLimit", HTC__SLOT_CORE_SIZE },
        { "DataSegmentLimit", HTC__SLOT_DATA },
        { "MemoryLimit", HTC__SLOT_MEMORY },
        { "OpenDescriptorsLimit", HTC__SLOT_OPEN_FILES },
        { "StackSizeLimit", HTC__SLOT_STACK },
        { "CPUTimeLimit", HTC__SLOT_CPU },
        { "ProcessCountLimit", HTC__SLOT_PROCESSES },
        { "VirtualMemoryLimit", HTC__SLOT_VIRTUAL_MEMORY },
    };
    int executables = 0;
    for (const xmlNode *n = htc__xml_first(application); n; n = htc__xml_next(n)) {
        size_t i = 0, count = sizeof done / sizeof done[0];
        while (i < count && strcmp(htc__xml_name(n), done[i].name) != 0)
            i++;
        if (i == count)
            return not_done(c, n);
        htc_status status = no_file_system(c, n);
        if (status == HTC_OK && done[i].kind == HTC__SLOT_ENV_VALUE)
            status = add_slot(c, HTC__SLOT_ENV_NAME, n, 1);
        if (status == HTC_OK)
            status = add_slot(c, done[i].kind, n, 0);
        if (status != HTC_OK)
            return status;
        executables += done[i].kind == HTC__SLOT_EXECUTABLE;
    }
    return executables ? HTC_OK
                       : htc__compile_refuse(c, HTC_ENOEXEC, application, "POSIXApplication has no Executable to run");
}

/* One of another kind, or none. */
static htc_status no_application(htc__compiler *c, const xmlNode *application)
{
    for (const xmlNode *n = htc__xml_first(application); n; n = htc__xml_next(n))
        if (!htc__xml_in(n, HTC_JSDL_NS))
            return htc__xml_refuse(c->error, HTC_ENOEXEC, n, "the application %s of namespace %s is not done here, only POSIXApplication is", htc__xml_name(n),
                                   n->ns ? (const char *)n->ns->href : "\"\"");
    return htc__compile_refuse(c, HTC_ENOEXEC, application, "Application has no POSIXApplication with an Executable to run");
}

static htc_status application(htc__compiler *c, const xmlNode *node)
{
    const xmlNode *posix = NULL;
    int            containers = 0;
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status = HTC_OK;
        if (htc__xml_is(n, HTC_POSIX_NS, "POSIXApplication")) {
            if (posix)
                return htc__compile_refuse(c, HTC_EUNSUPPORTED, n, "a second POSIXApplication is not done here");
            posix = n;
            status = posix_application(c, n);
        } else if (htc__xml_is(n, HTC_OWN_NS, "Container")) {
            status = containers++ ? htc__compile_refuse(c, HTC_EUNSUPPORTED, n, "a second Container is not done here") : add_slot(c, HTC__SLOT_CONTAINER, n, 0);
        } else if (!htc__xml_in(n, HTC_JSDL_NS)) {
            status = htc__compile_foreign(c, n);
        }
        if (status != HTC_OK)
            return status;
    }
    c->has_application = posix != NULL;
    return posix ? HTC_OK : no_application(c, node);
}

/* The one number of a range that says "at least": its lower bound, or what it has to be exactly. An upper bound alone
 * asks for nothing that a task could miss. */
static htc_status range(htc__compiler *c, htc__slot_kind kind, const xmlNode *node)
{
    const xmlNode *n = htc__xml_first(node);
    if (!n || htc__xml_next(n))
        return htc__compile_refuse(c, HTC_EUNSUPPORTED, node, "only a range of one part is done here");
    if (strcmp(htc__xml_name(n), "UpperBoundedRange") == 0)
        return HTC_OK;
    if (strcmp(htc__xml_name(n), "Range") == 0)
        n = htc__xml_first(n);
    return add_slot(c, kind, n, 0);
}

static htc_status named_inside(htc__compiler *c, const xmlNode *node)
{
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status = HTC_OK;
        if (htc__xml_is(n, HTC_JSDL_NS, "OperatingSystemType"))
            status = named_inside(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "OperatingSystemName"))
            status = add_slot(c, HTC__SLOT_SYSTEM, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "CPUArchitectureName"))
            status = add_slot(c, HTC__SLOT_ARCHITECTURE, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "HostName"))
            status = add_slot(c, HTC__SLOT_HOST, n, 0);
        else if (!htc__xml_in(n, HTC_JSDL_NS))
            status = htc__compile_foreign(c, n);
        else if (!htc__xml_is(n, HTC_JSDL_NS, "Description"))
            status = not_done(c, n);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

/* What a site counts, by its name. */
static htc_status counted(htc__compiler *c, const xmlNode *node)
{
    htc_status status = add_slot(c, HTC__SLOT_RESOURCE_NAME, node, 1);
    return status == HTC_OK ? add_slot(c, HTC__SLOT_RESOURCE, node, 0) : status;
}

static htc_status resources(htc__compiler *c, const xmlNode *node)
{
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status;
        if (htc__xml_is(n, HTC_OWN_NS, "Resource"))
            status = counted(c, n);
        else if (!htc__xml_in(n, HTC_JSDL_NS))
            status = htc__compile_foreign(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "CandidateHosts") || htc__xml_is(n, HTC_JSDL_NS, "OperatingSystem") ||
                 htc__xml_is(n, HTC_JSDL_NS, "CPUArchitecture"))
            status = named_inside(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "ExclusiveExecution"))
            status = add_slot(c, HTC__SLOT_EXCLUSIVE, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "IndividualPhysicalMemory"))
            status = range(c, HTC__SLOT_MEMORY_MIN, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "IndividualCPUCount"))
            status = range(c, HTC__SLOT_NODE_CORES, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "TotalCPUCount"))
            status = range(c, HTC__SLOT_CORES, n);
        else
            status = not_done(c, n);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status staging_end(htc__compiler *c, htc__slot_kind kind, const xmlNode *node)
{
    const xmlNode *uri = NULL;
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status;
        if (htc__xml_is(n, HTC_JSDL_NS, "URI")) {
            uri = n;
            status = add_slot(c, kind, n, 0);
        } else {
            status = htc__compile_foreign(c, n);
        }
        if (status != HTC_OK)
            return status;
    }
    return uri ? HTC_OK
               : htc__compile_refuse(c, HTC_EUNSUPPORTED, node, "a Source or Target without URI is not done here");
}

static htc_status data_staging(htc__compiler *c, const xmlNode *node)
{
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status;
        if (htc__xml_is(n, HTC_OWN_NS, "Executable"))
            status = add_slot(c, HTC__SLOT_STAGE_EXECUTABLE, n, 0);
        else if (!htc__xml_in(n, HTC_JSDL_NS))
            status = htc__compile_foreign(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "FileName"))
            status = add_slot(c, HTC__SLOT_STAGE_NAME, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "CreationFlag"))
            status = add_slot(c, HTC__SLOT_STAGE_FLAG, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "DeleteOnTermination"))
            status = add_slot(c, HTC__SLOT_STAGE_DELETE, n, 0);
        else if (htc__xml_is(n, HTC_JSDL_NS, "Source"))
            status = staging_end(c, HTC__SLOT_STAGE_SOURCE, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "Target"))
            status = staging_end(c, HTC__SLOT_STAGE_TARGET, n);
        else
            status = not_done(c, n);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status identification(htc__compiler *c, const xmlNode *node)
{
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status = HTC_OK;
        if (htc__xml_is(n, HTC_JSDL_NS, "JobName"))
            status = add_slot(c, HTC__SLOT_JOB_NAME, n, 0);
        else if (!htc__xml_in(n, HTC_JSDL_NS))
            status = htc__compile_foreign(c, n);
        if (status == HTC_OK && htc__xml_is(n, HTC_JSDL_NS, "JobName"))
            c->job_name = n;
        if (htc__xml_is(n, HTC_JSDL_NS, "JobProject") && !c->job_project)
            c->job_project = n;
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status submission(htc__compiler *c, const xmlNode *node)
{
    if (c->submission)
        return htc__compile_refuse(c, HTC_EUNSUPPORTED, node, "a second Submission is not done here");
    c->submission = node;
    return HTC_OK;
}

static htc_status description(htc__compiler *c, const xmlNode *node)
{
    for (const xmlNode *n = htc__xml_first(node); n; n = htc__xml_next(n)) {
        htc_status status;
        if (htc__xml_is(n, HTC_OWN_NS, "Submission"))
            status = submission(c, n);
        else if (!htc__xml_in(n, HTC_JSDL_NS))
            status = htc__compile_foreign(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "JobIdentification"))
            status = identification(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "Application"))
            status = application(c, n);
        else if (htc__xml_is(n, HTC_JSDL_NS, "Resources"))
            status = resources(c, n);
        else
            status = data_staging(c, n);
        if (status != HTC_OK)
            return status;
    }
    return c->has_application
               ? HTC_OK
               : htc__compile_refuse(c, HTC_ENOEXEC, node, "there is no POSIXApplication with an Executable to run");
}

/* ---- the elements, numbered ---- */

static htc_status collect(htc__compiler *c, xmlNode *node, uint32_t parent)
{
    for (; node; node = (xmlNode *)(uintptr_t)htc__xml_next(node)) {
        /* Expressions are evaluated on the template: a document without its sweeps. */
        if (htc__xml_is(node, HTC_SWEEP_NS, "Sweep") && htc__xml_is(node->parent, HTC_JSDL_NS, "JobDefinition"))
            continue;
        if (c->n_elements == c->cap_elements) {
            size_t        cap = c->cap_elements ? c->cap_elements * 2 : 64;
            htc__element *more = htc__resize(c->env, c->elements, c->cap_elements * sizeof *more, cap * sizeof *more);
            if (!more)
                return HTC_ENOMEM;
            c->elements = more;
            c->cap_elements = cap;
        }
        uint32_t number = (uint32_t)c->n_elements++;
        c->elements[number] = (htc__element){ .node = node, .parent = parent };
        node->_private = (void *)(uintptr_t)number;
        htc_status status = collect(c, (xmlNode *)(uintptr_t)htc__xml_first(node), number);
        if (status != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static htc_status collect_all(htc__compiler *c, const xmlDoc *doc)
{
    c->elements = htc__alloc(c->env, 64 * sizeof *c->elements);
    if (!c->elements)
        return HTC_ENOMEM;
    c->cap_elements = 64;
    c->n_elements = 1; /* the document itself */
    return collect(c, xmlDocGetRootElement((xmlDoc *)(uintptr_t)doc), 0);
}

/* ---- all together ---- */

static htc_status compile_definition(htc__compiler *c, const xmlNode *root)
{
    const xmlNode *job = htc__xml_first(root);
    htc_status     status = description(c, job);
    size_t         tops = 0;
    for (const xmlNode *n = htc__xml_next(job); n && status == HTC_OK; n = htc__xml_next(n))
        tops += htc__xml_is(n, HTC_SWEEP_NS, "Sweep");
    htc_put_varint(&c->tree, tops);
    for (const xmlNode *n = htc__xml_next(job); n && status == HTC_OK; n = htc__xml_next(n)) {
        uint64_t size = 0;
        if (!htc__xml_is(n, HTC_SWEEP_NS, "Sweep")) {
            status = htc__compile_foreign(c, n);
            continue;
        }
        status = htc__compile_sweep(c, n, 1, &size);
        if (status == HTC_OK && __builtin_add_overflow(c->count, size, &c->count))
            status = htc__compile_refuse(c, HTC_ETOOBIG, n, "the document makes more than 2^64 tasks");
        if (status == HTC_OK && c->count > c->tasks_max)
            status = htc__xml_refuse(c->error, HTC_ETOOBIG, n,
                                 "the document makes %" PRIu64 " tasks or more, and %" PRIu64 " are allowed", c->count,
                                 c->tasks_max);
    }
    return status;
}

static void write_all(htc__compiler *c, htc_buf *out)
{
    htc_put_u32(out, HTC__SPEC_MAGIC);
    xmlChar *name = c->job_name ? htc__xml_text(c->job_name) : NULL;
    htc_put_bytes(out, htc__trim(htc_bytes_of((const char *)name)));
    xmlFree(name);
    if (c->n_warnings > 8)
        htc_put_text(&c->warnings, "and %zu more\n", c->n_warnings - 8);
    htc_put_bytes(out, htc_buf_bytes(&c->warnings));
    htc_put_varint(out, c->n_slots);
    htc_put_raw(out, htc_buf_bytes(&c->slots));
    htc_put_varint(out, c->n_sweeps);
    htc_put_varint(out, c->n_assignments);
    htc_put_varint(out, c->n_params);
    htc_put_varint(out, c->n_values);
    htc_put_varint(out, c->n_exceptions);
    htc_put_raw(out, htc_buf_bytes(&c->tree));
}

static htc_status try_task(const htc__compiler *c, const htc_spec *spec, uint64_t index)
{
    htc_task  *task = NULL;
    size_t     slot = SIZE_MAX;
    htc_status status = htc__spec_expand(spec, index, &task, &slot, c->error);
    htc_task_destroy(task);
    if (status != HTC_OK && slot != SIZE_MAX && c->error && slot < c->n_slots) {
        memcpy(&c->error->line, c->lines.data + slot * sizeof(uint32_t), sizeof(uint32_t));
        for (size_t i = 1; i < c->n_elements; i++)
            if (c->elements[i].slot == slot + 1)
                htc__xml_place(c->error, c->elements[i].node);
    }
    return status;
}

/* Slots whose text can be refused. Any text makes an argument. */
static int is_checked(const htc_spec *spec, const htc__param *p)
{
    uint8_t kind = p->slot ? spec->slots[p->slot - 1].kind : HTC__SLOT_JOB_NAME;
    return kind != HTC__SLOT_JOB_NAME && kind != HTC__SLOT_ARGUMENT && kind != HTC__SLOT_ENV_VALUE;
}

static int sweep_is_checked(const htc_spec *spec, const htc__sweep *w)
{
    for (size_t a = 0; a < w->n_assignments; a++) {
        const htc__assignment *one = &spec->assignments[w->assignment_first + a];
        for (size_t i = 0; i < one->n_params; i++)
            if (is_checked(spec, &spec->params[one->param_first + i]))
                return 1;
    }
    return 0;
}

/* Try the values that go into names, numbers and URIs, each once: better refused now than as failing tasks. Where that
 * would take long (patience in slots looked at) the rest shows when those tasks are made. first: the sweep's first
 * task. */
static htc_status try_values(const htc__compiler *c, const htc_spec *spec, size_t from, size_t end, uint64_t first,
                             uint64_t *patience)
{
    htc_status status = HTC_OK;
    for (size_t i = from; i < end && status == HTC_OK; i = spec->sweeps[i].next) {
        const htc__sweep *w = &spec->sweeps[i];
        uint64_t          steps = sweep_is_checked(spec, w) ? w->steps : 0;
        for (uint64_t k = 1; k < steps && status == HTC_OK && *patience > spec->n_slots; k++) {
            *patience -= spec->n_slots + 1;
            status = try_task(c, spec, first + k * w->inner);
        }
        if (status == HTC_OK)
            status = try_values(c, spec, i + 1, w->next, first, patience);
        first += w->size;
    }
    return status;
}

static htc_status try_tasks(const htc__compiler *c, const htc_spec *spec)
{
    uint64_t   patience = 1000000;
    htc_status status = try_task(c, spec, 0);
    if (status == HTC_OK && spec->count > 1)
        status = try_task(c, spec, spec->count - 1);
    return status == HTC_OK ? try_values(c, spec, 0, spec->n_sweeps, 0, &patience) : status;
}

static htc_status take_project(const htc__compiler *c, htc_spec *spec)
{
    xmlChar  *text = c->job_project ? htc__xml_text(c->job_project) : NULL;
    htc_bytes name = htc__trim(htc_bytes_of((const char *)text));
    spec->project = text ? htc__alloc(c->env, name.len + 1) : NULL;
    if (spec->project && name.len)
        memcpy(spec->project, name.data, name.len);
    htc_status status = c->job_project && !spec->project ? HTC_ENOMEM : HTC_OK;
    xmlFree(text);
    return status;
}

static htc_status finish(htc__compiler *c, htc_spec **out)
{
    htc_buf   b;
    htc_spec *spec = NULL;
    htc_buf_init(&b, c->env, 0);
    write_all(c, &b);
    htc_status status = c->warnings.status != HTC_OK ? c->warnings.status : b.status;
    if (status == HTC_OK)
        status = htc_spec_from_bytes(c->env, htc_buf_bytes(&b), &spec);
    htc_buf_free(&b);
    if (status == HTC_OK)
        status = take_project(c, spec);
    if (status == HTC_OK && c->submission)
        status = htc__wishes_read(c->env, c->submission, &spec->wishes, &spec->n_wishes, c->error);
    if (status == HTC_OK)
        status = try_tasks(c, spec);
    if (status != HTC_OK) {
        htc_spec_destroy(spec);
        return status;
    }
    *out = spec;
    return HTC_OK;
}

static htc_status compile(const htc_env *env, const xmlDoc *doc, uint64_t tasks_max, htc_spec **out, htc_error *error)
{
    htc__compiler c = { .env = env, .error = error, .tasks_max = tasks_max, .work = HTC_MATCH_WORK_MAX };
    htc_buf_init(&c.slots, env, 0);
    htc_buf_init(&c.tree, env, 0);
    htc_buf_init(&c.lines, env, 0);
    htc_buf_init(&c.warnings, env, 64u << 10);
    htc_status status = collect_all(&c, doc);
    if (status == HTC_OK)
        status = compile_definition(&c, c.elements[1].node);
    if (status == HTC_OK)
        status = c.tree.status != HTC_OK ? c.tree.status : c.slots.status;
    if (status == HTC_OK)
        status = finish(&c, out);
    htc__free(env, c.elements, c.cap_elements * sizeof *c.elements);
    htc__free(env, c.active, c.cap_active * sizeof *c.active);
    htc_buf_free(&c.slots);
    htc_buf_free(&c.tree);
    htc_buf_free(&c.lines);
    htc_buf_free(&c.warnings);
    return status;
}

htc_status htc_spec_parse(const htc_env *env, htc_bytes xml, const htc_spec_options *options, htc_spec **out,
                          htc_error *error)
{
    htc_spec_options o = { 0 };
    htc_error        ours = { .status = HTC_OK };
    xmlDoc          *doc = NULL;
    htc_status       status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    if (status == HTC_OK)
        status = htc__xml_read(xml, o.bytes_max ? o.bytes_max : HTC_XML_BYTES_MAX, &doc, &ours);
    if (status == HTC_OK) {
        doc->_private = &xml; /* for the columns of errors */
        status = htc__schema_check(doc, &ours);
    }
    if (status == HTC_OK)
        status = compile(env, doc, o.tasks_max ? o.tasks_max : HTC_TASKS_MAX, out, &ours);
    xmlFreeDoc(doc);
    if (status == HTC_EFULL) /* one of our own buffers */
        status = htc__refuse(&ours, HTC_ETOOBIG, 0, "", "the document needs too much room");
    if (status != HTC_OK && error) {
        if (ours.status == HTC_OK)
            htc__refuse(&ours, status, 0, "", "%s", htc_strerror(status));
        *error = ours;
    }
    return status;
}
