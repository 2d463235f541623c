/* Projects and reports. One site of four slots, agents in the test's hand. Users: ann, bob and carl.
 *
 * Spec htcaas 7, rows 9 (usage), 19 (weights). */
#include "gateway_users.h"

#include <math.h>

#include "roles/gateway/gateway.h"

TestSuite(gateway_projects, .init = begin_users, .fini = end);
TestSuite(gateway_report, .init = begin_users, .fini = end);

/* ---- projects ---- */

Test(gateway_projects, are_the_operators_and_survive_a_restart)
{
    uint32_t p = rig_open(&r, RIG_UID + 1, HTC_WIRE_ROLE_USER);
    ok("{\"op\":\"project.add\",\"name\":\"physics\",\"shares\":3,\"add\":[\"ann\",\"bob\",\"ann\"]}");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.add\",\"name\":\"physics\"}"), "HTC_EEXISTS"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.set\",\"name\":\"none\"}"), "HTC_ENOTFOUND"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.set\",\"name\":\"physics\",\"add\":[\"nobody\"]}"), "HTC_ENOTFOUND"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.set\",\"name\":\"physics\",\"shares\":0}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.add\",\"name\":\"a/b\"}"), "HTC_EINVAL"));
    cr_expect(ne(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"project.add\",\"name\":\"mine\"}"), ""));
    ok("{\"op\":\"project.set\",\"name\":\"physics\",\"shares\":5,\"rm\":[\"bob\"],\"add\":[\"carl\"]}");
    for (int i = 0; i < 2; i++) {
        cr_expect(number_of("{\"op\":\"projects\"}", "projects.0.shares") == 5);
        cr_expect(is_text("{\"op\":\"projects\"}", "projects.0.users.0", "ann"));
        cr_expect(is_text("{\"op\":\"projects\"}", "projects.0.users.1", "carl"));
        start_again();
    }
    ok("{\"op\":\"project.rm\",\"name\":\"physics\"}");
    ok("{\"op\":\"project.add\",\"name\":\"physics\"}");
    ok("{\"op\":\"project.rm\",\"name\":\"physics\"}");
    start_again();
    json_t *none = asked("{\"op\":\"projects\"}", "projects");
    cr_expect(json_array_size(none) == 0);
    json_decref(none);
}

#define NAMED(n, project) \
    "<jsdl:JobDefinition xmlns:jsdl='http://schemas.ggf.org/jsdl/2005/11/jsdl' xmlns:px='http://schemas.ggf.org/jsdl/2005/11/jsdl-posix'>" \
    "<jsdl:JobDescription><jsdl:JobIdentification><jsdl:JobName>" n "</jsdl:JobName><jsdl:JobProject> " project " </jsdl:JobProject></jsdl:JobIdentification>" \
    "<jsdl:Application><px:POSIXApplication><px:Executable>/bin/true</px:Executable></px:POSIXApplication></jsdl:Application></jsdl:JobDescription></jsdl:JobDefinition>"

static int job_is_in(uint64_t id, const char *name)
{
    json_t *j = job_of(op, id);
    int     same = strcmp(json_string_value(json_object_get(j, "project")), name) == 0;
    json_decref(j);
    return same;
}

Test(gateway_projects, a_job_is_in_one_of_its_user)
{
    ok("{\"op\":\"project.add\",\"name\":\"zoo\",\"add\":[\"ann\",\"bob\"]}");
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    uint64_t named = submit_in("ann", "zoo", SWEEP(3)), document = submit_in("ann", NULL, NAMED("x", "zoo")), first = submit_in("ann", NULL, SWEEP(2)),
             none = submit_in("ann", "", SWEEP(2)), outside = submit_in("carl", NULL, SWEEP(2));
    for (int i = 0; i < 2; i++) {
        cr_expect(job_is_in(named, "zoo") && job_is_in(document, "zoo") && job_is_in(first, "arc") && job_is_in(none, "") && job_is_in(outside, ""));
        start_again();
    }
    cr_expect(try_submit("bob", "arc", SWEEP(2)) == 0);
    cr_expect(strstr(error, "HTC_EDENIED") != NULL, "%s", error);
    char others[400];
    snprintf(others, sizeof others, "%s", error);
    cr_expect(try_submit("bob", "not", SWEEP(2)) == 0);
    cr_expect(strcmp(strchr(error, '\''), strchr(others, '\'')) != 0 && strncmp(error, others, strlen("HTC_EDENIED: bob is in no project")) == 0,
              "one that there is and one that there is not look alike");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"project.rm\",\"name\":\"zoo\"}"), "HTC_EBUSY"));
}

/* ann's project has used 4 slots for an hour, bob's nothing: 2^(1 - 2) and 2, since the typical is the only one that is known, 4 slot hours; with
 * half of it gone the same, for it is that of all. ann and carl have what their project has together. Spec htcaas 7, row 19. */
Test(gateway_projects, weigh_what_their_shares_and_their_usage_say)
{
    ok("{\"op\":\"project.add\",\"name\":\"old\",\"shares\":4,\"add\":[\"ann\",\"carl\"]}");
    ok("{\"op\":\"project.add\",\"name\":\"new\",\"shares\":4,\"add\":[\"bob\"]}");
    submit_in("ann", NULL, SWEEP(400));
    rig_pass(&r, HTC_SECOND);
    cr_expect(user_number("ann", "weight_used") == 4, "nobody has used anything");
    cr_expect(run_once(HOUR) == 4);
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.1.core_s") == 4 * 3600.0);
    submit_in("carl", NULL, SWEEP(400));
    submit_in("bob", NULL, SWEEP(400));
    rig_pass(&r, HTC_SECOND);
    cr_expect(user_number("ann", "weight_used") == 2 && user_number("carl", "weight_used") == 2, "%g and %g", user_number("ann", "weight_used"), user_number("carl", "weight_used"));
    cr_expect(user_number("bob", "weight_used") == 8, "%g", user_number("bob", "weight_used"));
    rig_pass(&r, HOUR);
    cr_expect(fabs(number_of("{\"op\":\"projects\"}", "projects.1.usage_s") - 4 * 1800) < 10, "%g", number_of("{\"op\":\"projects\"}", "projects.1.usage_s"));
    start_again();
    cr_expect(fabs(number_of("{\"op\":\"projects\"}", "projects.1.usage_s") - 4 * 1800) < 10, "it is durable");
    cr_expect(number_of("{\"op\":\"projects\"}", "projects.1.core_s") == 4 * 3600.0);
    rig_pass(&r, HTC_SECOND);
    cr_expect(user_number("bob", "weight_used") == 8, "%g", user_number("bob", "weight_used"));
}

/* ---- reports: spec htcaas 7, row 9 ---- */

#define BY_ALL "{\"op\":\"report\",\"by\":[\"user\",\"site\",\"project\"]}"

Test(gateway_report, adds_up_by_user_site_and_project)
{
    htc_attempt at;
    ok("{\"op\":\"project.add\",\"name\":\"arc\",\"add\":[\"ann\"]}");
    submit_in("ann", "arc", SWEEP(4));
    cr_expect(run_once(100 * HTC_SECOND) == 4);
    let_leave();
    submit_in("bob", NULL, SWEEP(3));
    let_register();
    uint32_t n = 0;
    while (n < n_agents && !(agents[n].id && pull(&agents[n], &at) == HTC_GRANT_TASKS))
        n++;
    ten_seconds();
    report_after(&agents[n], &at, HTC_EINPUT, 10 * HTC_SECOND, "no input");
    for (int i = 0; i < 2; i++) {
        cr_expect(is_text(BY_ALL, "rows.0.user", "ann") && is_text(BY_ALL, "rows.0.site", "local") && is_text(BY_ALL, "rows.0.project", "arc"));
        cr_expect(number_of(BY_ALL, "rows.0.core_s") == 400 && number_of(BY_ALL, "rows.0.done") == 4 && number_of(BY_ALL, "rows.0.attempts") == 4);
        cr_expect(is_text(BY_ALL, "rows.1.user", "bob") && number_of(BY_ALL, "rows.1.failed") == 1 && number_of(BY_ALL, "rows.1.core_s") == 10);
        cr_expect(number_of(BY_ALL, "total.core_s") == 410, "%g", number_of(BY_ALL, "total.core_s"));
        cr_expect(number_of("{\"op\":\"report\",\"by\":[\"project\"],\"project\":\"arc\"}", "total.core_s") == 400);
        cr_expect(number_of("{\"op\":\"report\",\"since\":1e9,\"until\":1.1e9}", "total.core_s") == 0, "another time");
        cr_expect(number_of(BY_ALL, "total.core_s") == user_number("ann", "core_s") + user_number("bob", "core_s"), "as the users' own sums");
        start_again();
    }
    cr_expect(number_of(BY_ALL, "rows.0.wait_s") >= 0 && number_of(BY_ALL, "rows.0.wait_s") < 2);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"report\",\"by\":[\"moon\"]}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"report\",\"since\":5,\"until\":1}"), "HTC_EINVAL"));
}

/* A second passes until it is written down; a kill in it loses no core time, only where it was used. */
Test(gateway_report, a_kill_loses_nothing)
{
    submit_in("ann", NULL, SWEEP(8));
    cr_expect(run_once(100 * HTC_SECOND) == 4);
    rig_pass(&r, 2 * HTC_SECOND);
    cr_expect(run_once(100 * HTC_SECOND) == 4);
    rig_kill(&r);
    rig_start(&r);
    op = operator_peer();
    cr_expect(user_number("ann", "core_s") == 800);
    cr_expect(number_of(BY_ALL, "total.core_s") == 800, "%g", number_of(BY_ALL, "total.core_s"));
    cr_expect(is_text(BY_ALL, "rows.0.site", "-") && number_of(BY_ALL, "rows.0.core_s") == 300, "the first of the four was written down with what was due then");
    start_again();
    cr_expect(number_of(BY_ALL, "total.core_s") == 800, "and it is counted once");
}

Test(gateway_report, outlives_jobs_and_users_and_goes_by_day)
{
    uint64_t id = submit_in("ann", NULL, SWEEP(4));
    char     rm[80];
    cr_expect(run_once(100 * HTC_SECOND) == 4);
    rig_pass(&r, 2 * HTC_SECOND);
    r.wall += 86400 * HTC_SECOND;
    let_leave();
    submit_in("bob", NULL, SWEEP(4));
    cr_expect(run_once(50 * HTC_SECOND) == 4);
    snprintf(rm, sizeof rm, "{\"op\":\"rm\",\"id\":\"%llu\"}", (unsigned long long)id);
    ok(rm);
    rig_pass(&r, 2 * HTC_SECOND);
    ok("{\"op\":\"user.rm\",\"name\":\"ann\"}");
    for (int i = 0; i < 2; i++) {
        cr_expect(number_of("{\"op\":\"report\",\"by\":[\"day\"]}", "rows.0.core_s") == 400);
        cr_expect(number_of("{\"op\":\"report\",\"by\":[\"day\"]}", "rows.1.core_s") == 200);
        cr_expect(number_of("{\"op\":\"report\",\"by\":[\"day\"]}", "rows.1.day") - number_of("{\"op\":\"report\",\"by\":[\"day\"]}", "rows.0.day") == 86400);
        cr_expect(number_of("{\"op\":\"report\",\"since\":1700086400}", "total.core_s") == 200);
        start_again();
    }
}

/* Nobody else's usage. */
Test(gateway_report, shows_a_user_no_other)
{
    submit_in("ann", NULL, SWEEP(4));
    cr_expect(run_once(100 * HTC_SECOND) == 4);
    uint32_t p = rig_open(&r, RIG_UID + 1, HTC_WIRE_ROLE_USER);
    json_t  *login = rig_ask(&r, p, "{\"op\":\"login\",\"name\":\"bob\",\"password\":\"x\"}");
    char     text[200];
    snprintf(text, sizeof text, "{\"op\":\"report\",\"by\":[\"user\",\"day\"],\"token\":\"%s\"}", json_string_value(json_object_get(login, "token")));
    json_t *answer = rig_ask(&r, p, text);
    cr_expect(json_array_size(json_object_get(answer, "rows")) == 0 && json_number_value(json_object_get(json_object_get(answer, "total"), "core_s")) == 0);
    json_decref(answer);
    json_decref(login);
}

/* Days that are not asked for are not read: each range is of a few prefixes, and those are of its days alone. */
Test(gateway_report, reads_the_days_that_are_asked_for)
{
    for (uint32_t first = 0; first < 300; first += 1 + first % 7)
        for (uint32_t last = first; last < first + 600; last += 1 + last % 13) {
            uint32_t from = first, parts = 0, to;
            for (; from <= last; from = to + 1, parts++) {
                key k = htc__gw_key_days(from, last, &to);
                cr_assert(to >= from && to <= last);
                htc_bytes begins = htc__gw_key_bytes(&k);
                for (uint32_t day = first ? first - 1 : 0; day <= last + 1; day++) { /* the slow way */
                    key       d = htc__gw_key_day(day, "ann");
                    htc_bytes b = htc__gw_key_bytes(&d);
                    int       has = b.len >= begins.len && memcmp(b.data, begins.data, begins.len) == 0;
                    cr_assert(has == (day >= from && day <= to), "day %u of %u-%u", day, from, to);
                }
            }
            cr_assert(parts <= 60, "%u parts of %u-%u", parts, first, last);
        }
    uint32_t to;
    (void)htc__gw_key_days(0, UINT32_MAX, &to);
    cr_expect(to == 0x0fffffff, "up to %x", to);
    (void)htc__gw_key_days(UINT32_MAX, UINT32_MAX, &to);
    cr_expect(to == UINT32_MAX);
}

/* What a task could not begin for by its own job's wish is no wait. */
Test(gateway_report, waits_begin_when_a_task_could)
{
    char hold[80];
    uint64_t id = submit_in("ann", NULL, SWEEP(4));
    snprintf(hold, sizeof hold, "{\"op\":\"hold\",\"id\":\"%llu\"}", (unsigned long long)id);
    ok(hold);
    rig_pass(&r, 1000 * HTC_SECOND);
    snprintf(hold, sizeof hold, "{\"op\":\"release\",\"id\":\"%llu\"}", (unsigned long long)id);
    ok(hold);
    cr_expect(run_once(HTC_SECOND) == 4);
    cr_expect(number_of(BY_ALL, "total.wait_s") < 2, "held: %g", number_of(BY_ALL, "total.wait_s"));
    let_leave();
    json_t *rq = submission("ann", NULL, SWEEP(4));
    json_object_set_new(rq, "begin", json_real((double)r.wall / 1e9 + 500));
    char *text = json_dumps(rq, 0);
    ok(text);
    rig_pass(&r, 501 * HTC_SECOND);
    cr_expect(run_once(HTC_SECOND) == 4);
    cr_expect(number_of(BY_ALL, "total.attempts") == 8 && number_of(BY_ALL, "total.wait_s") < 2, "begin: %g", number_of(BY_ALL, "total.wait_s"));
    free(text);
    json_decref(rq);
    let_leave();
    submit_in("ann", NULL, SWEEP(4));
    rig_pass(&r, 100 * HTC_MS);
    r.wall += 700 * HTC_SECOND;
    r.now += 700 * HTC_SECOND;
    cr_expect(run_once(HTC_SECOND) == 4);
    cr_expect(number_of(BY_ALL, "total.wait_s") * 12 >= 2800, "and what it did wait counts: %g in the mean", number_of(BY_ALL, "total.wait_s"));
}

/* ---- what is stored ---- */

/* 0: none. */
static void name_project(int number, char name[20])
{
    snprintf(name, 20, "p%d", number);
    if (number == 0)
        name[0] = '\0';
}

/* Sums of years may have more pairs than rows: sites are given up, and what each project has used stays right, for its quota. */
Test(gateway_report, the_sum_of_each_project_stays_right)
{
    day_usage l = { .day = 20000 }, back = { 0 };
    char      at[20], name[20];
    htc_buf   b;
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; i < 100 * 100; i++) { /* a new project each hundredth time */
        snprintf(at, sizeof at, "s%d", i % 100);
        name_project(i / 100, name);
        cr_assert(htc__day_add(&l, NULL, at, name, &(day_sums){ .core_ns = 7, .done = 1 }) == HTC_OK);
        cr_assert(l.n <= DAY_ROWS_MAX);
    }
    htc__day_write(&b, &l);
    cr_assert(htc__day_read(&back, NULL, htc_buf_bytes(&b)) == HTC_OK);
    for (int i = 0; i < 100; i++) {
        day_sums sum = { 0 };
        name_project(i, name);
        for (uint32_t k = 0; k < back.n; k++)
            if (strcmp(back.rows[k].project, name) == 0)
                htc__day_sum(&sum, &back.rows[k].sums);
        cr_expect(sum.core_ns == 700 && sum.done == 100, "project %d: %llu", i, (unsigned long long)sum.core_ns);
    }
    htc__day_free(&l, NULL);
    htc__day_free(&back, NULL);
    htc_buf_free(&b);
}

/* One of before, in which projects were given up: sites are given up for those that come. */
Test(gateway_report, a_day_that_is_full_takes_the_next_project)
{
    day_usage l = { .day = 20000 };
    char      name[20];
    uint64_t  sum = 0;
    cr_assert(htc__day_add(&l, NULL, "s1", "old", &(day_sums){ .core_ns = 1 }) == HTC_OK);
    for (uint32_t i = 1; i + 2 < DAY_ROWS_MAX; i++) {
        snprintf(name, sizeof name, "p%u", i);
        cr_assert(htc__day_add(&l, NULL, "s1", name, &(day_sums){ .core_ns = 1 }) == HTC_OK);
    }
    cr_assert(htc__day_add(&l, NULL, "s2", "old", &(day_sums){ .core_ns = 1 }) == HTC_OK);
    cr_assert(htc__day_add(&l, NULL, "s2", "p1", &(day_sums){ .core_ns = 1 }) == HTC_OK);
    cr_assert(htc__day_add(&l, NULL, "*", "*", &(day_sums){ .core_ns = 1 }) == HTC_OK);
    for (int i = 0; i < 3; i++)
        cr_assert(htc__day_add(&l, NULL, "s1", "new", &(day_sums){ .core_ns = 1 }) == HTC_OK);
    cr_expect(l.n <= DAY_ROWS_MAX && strcmp(l.rows[0].project, "old") == 0 && strcmp(l.rows[0].site, "*") == 0);
    for (uint32_t i = 0; i < l.n; i++)
        sum += strcmp(l.rows[i].project, "new") == 0 || strcmp(l.rows[i].project, "old") == 0 ? l.rows[i].sums.core_ns : 0;
    cr_expect(eq(u64, sum, 5));
    htc__day_free(&l, NULL);
}

Test(gateway_report, a_day_reads_back_and_is_bounded)
{
    day_usage l = { .day = 20000 }, back = { 0 };
    char      name[20];
    htc_buf   b;
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "p%d", i);
        cr_assert(htc__day_add(&l, NULL, "local", name, &(day_sums){ .core_ns = 7, .done = 1 }) == HTC_OK);
    }
    cr_expect(l.n == DAY_ROWS_MAX + 1);
    cr_expect(eq(str, l.rows[DAY_ROWS_MAX].site, "*") && l.rows[DAY_ROWS_MAX].sums.done == 600 - DAY_ROWS_MAX);
    htc__day_write(&b, &l);
    cr_assert(htc__day_read(&back, NULL, htc_buf_bytes(&b)) == HTC_OK);
    cr_expect(back.n == l.n && back.day == 20000);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < back.n; i++)
        sum += back.rows[i].sums.core_ns;
    cr_expect(sum == 4200);
    htc__day_free(&back, NULL);
    for (size_t cut = 0; cut < 60; cut++)
        cr_expect(htc__day_read(&back, NULL, (htc_bytes){ b.data, cut }) == HTC_ECORRUPT && back.rows == NULL, "cut at %zu", cut);
    htc__day_free(&l, NULL);
    htc_buf_free(&b);
}

/* As they were written before there were projects and bytes. */
Test(gateway_projects, records_of_jobs_and_chunks_of_before_are_read)
{
    user    u = { .name = "olga" };
    job     j = { .id = 7, .user = &u, .count = 2, .max_attempts = 1, .name = "x", .wishes = { .project = "arc" } }, back;
    char    name[NAME_MAX_BYTES];
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    j.base.used.bytes = 99;
    htc__gw_record_job_write(&b, &j);
    memset(&back, 0, sizeof back);
    cr_assert(htc__gw_record_job_read(htc_buf_bytes(&b), &back, name) == HTC_OK);
    cr_expect(eq(str, back.wishes.project, "arc") && back.base.used.bytes == 99);
    cr_expect(htc__gw_record_job_read((htc_bytes){ b.data, b.len - 1 }, &back, name) == HTC_ECORRUPT);
    size_t tail = 1 + 1 + 1 + 3 + 1; /* edges, the field with its length and text, the end */
    b.data[b.len - tail + 1] = 9;
    cr_expect(htc__gw_record_job_read(htc_buf_bytes(&b), &back, name) == HTC_ECORRUPT, "a field that nobody knows");
    b.data[0] = 3;
    memset(&back, 0, sizeof back);
    cr_assert(htc__gw_record_job_read((htc_bytes){ b.data, b.len - tail - 1 }, &back, name) == HTC_OK);
    cr_expect(back.wishes.project[0] == 0 && back.count == 2 && back.base.used.bytes == 0);
    htc_buf_clear(&b);
    htc_put_u8(&b, 3); /* a chunk of one task that is done, without bytes of outputs */
    htc_put_varint(&b, 1);
    htc_put_varint(&b, 1000);
    htc_put_varint(&b, 1);
    htc_put_varint(&b, 0);
    htc_put_u8(&b, 1);
    htc_put_varint(&b, 0);
    htc_put_varint(&b, 0);
    chunk *c = calloc(1, sizeof *c + sizeof c->tasks[0]);
    c->n = 1;
    cr_assert(htc__gw_record_chunk_read(htc_buf_bytes(&b), c) == HTC_OK);
    cr_expect(c->used.core_ns == 1000 && c->used.bytes == 0 && c->tasks[0].state == TASK_DONE);
    c->tasks[0] = (task){ .state = TASK_FAILED, .attempt = 2, .tries = 2, .status = HTC_EEXIT, .left = { 0, 70 } };
    c->used.bytes = 70;
    htc__gw_record_chunk_write(&b, c);
    chunk *read = calloc(1, sizeof *read + sizeof read->tasks[0]);
    read->n = 1;
    cr_assert(htc__gw_record_chunk_read(htc_buf_bytes(&b), read) == HTC_OK);
    cr_expect(read->used.bytes == 70 && read->tasks[0].left[1] == 70 && read->tasks[0].left[0] == 0);
    c->tasks[0].left[1] = 71; /* more than all have */
    htc__gw_record_chunk_write(&b, c);
    cr_expect(htc__gw_record_chunk_read(htc_buf_bytes(&b), read) == HTC_ECORRUPT);
    c->tasks[0].left[1] = 0; /* as before it was told which task's these are */
    htc__gw_record_chunk_write(&b, c);
    cr_expect(b.data[0] == 4);
    memset(&read->tasks[0], 0, sizeof read->tasks[0]);
    cr_assert(htc__gw_record_chunk_read(htc_buf_bytes(&b), read) == HTC_OK);
    cr_expect(read->used.bytes == 70 && read->tasks[0].left[1] == 0);
    free(read);
    free(c);
    htc_buf_free(&b);
}
