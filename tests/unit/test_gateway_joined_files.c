/* What tasks have left at hosts that join, which is asked of them: here, of those that are there, and what is told of those that are not. */
#include "gateway_far.h"

static void sites(htc_gateway_options *o)
{
    static const htc_site_options all[] = { { .size = sizeof all[0], .name = "local", .cores = 1, .memory = UINT64_C(8) << 30, .speed = 2 },
                                            { .size = sizeof all[0], .name = "far", .cores = 8, .joins = 1 },
                                            { .size = sizeof all[0], .name = "shared", .cores = 8, .joins = 1 } };
    o->sites = all;
    o->n_sites = 3;
    o->heartbeat_ns = HTC_SECOND;
    o->lost_after_ns = 3 * HTC_SECOND;
    o->store_join = "10.0.0.1:7421";
}

static void begin_joined(void)
{
    begin();
    rig_kill(&r);
    r.change = sites;
    rig_start(&r);
}

TestSuite(gateway_joined_files, .init = begin_joined, .fini = end);

/* As "log" of the first task, whose attempt 1 was run at a host. The request goes on until the host answers. */
static uint32_t ask_log(uint64_t job)
{
    char     text[96];
    uint32_t peer = operator_peer();
    snprintf(text, sizeof text, "{\"op\":\"log\",\"id\":\"%llu.0\"}", (unsigned long long)job);
    json_decref(rig_ask(&r, peer, text));
    return peer;
}

static json_t *log_answer(uint32_t peer)
{
    const rig_message *m = rig_newest(&r, peer, HTC_WIRE_USER_ANSWER);
    return m ? json_loadb((const char *)m->bytes, m->len, 0, NULL) : NULL;
}

static uint64_t ended_job(void)
{
    uint64_t    job = submit(operator_peer(), "olga", SWEEP(1));
    htc_attempt at;
    rig_pass(&r, HTC_SECOND);
    hand a = hello(r.launched[r.n_launched - 1].agent);
    cr_assert(eq(u32, pull(&a, &at), HTC_GRANT_TASKS));
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_task_result_write(&b, &(htc_task_result){ .agent = a.id, .attempt = at, .outcome = { .status = HTC_OK, .node = "node-far" } });
    rig_say(&r, a.peer, &b);
    htc_buf_free(&b);
    return job;
}

Test(gateway_joined_files, files_that_are_not_here_are_asked_of_the_hosts_that_are_there)
{
    uint64_t  job = ended_job();
    far_host *h = join("far", 3);
    uint32_t  peer = ask_log(job), tag = 0, op = 0;
    htc_bytes body;
    const rig_message *m = rig_newest(&r, h->peer, HTC_WIRE_JOINED_CALL);
    cr_assert(m != NULL, "the host is not asked");
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_assert(eq(int, htc_joined_call_read(&in, &tag, &op, &body), HTC_OK));
    cr_expect(eq(u32, op, HTC_CALL_FILE_READ));
    htc_buf file, b;
    htc_buf_init(&file, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&file, 6);
    htc_put_bytes(&file, htc_bytes_of("hello\n"));
    htc_joined_answer_write(&b, tag + 1, HTC_OK, htc_buf_bytes(&file)); /* nobody has asked that */
    rig_say(&r, h->peer, &b);
    htc_joined_answer_write(&b, tag, HTC_OK, htc_buf_bytes(&file));
    rig_say(&r, h->peer, &b);
    json_t *a = log_answer(peer);
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(a, "text")), "hello\n"));
    json_decref(a);
    htc_buf_free(&b);
    htc_buf_free(&file);
}

static const char *log_error(uint32_t peer)
{
    static char error[64];
    json_t     *a = log_answer(peer);
    const char *name = json_string_value(json_object_get(a, "error"));
    snprintf(error, sizeof error, "%s", name ? name : "");
    json_decref(a);
    return error;
}

/* Hosts follow to a gateway that goes on in the place of another one within the time in which they would be lost. */
Test(gateway_joined_files, who_asks_for_files_of_hosts_that_have_not_come_to_a_new_gateway_is_to_ask_again_for_a_while)
{
    uint64_t job = ended_job();
    rig_kill(&r);
    rig_start(&r);
    cr_expect(eq(str, (char *)(uintptr_t)log_error(ask_log(job)), "HTC_EBUSY"));
    far_host *h = join("far", 3);
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = h->peer, .status = HTC_ECLOSED });
    cr_expect(eq(str, (char *)(uintptr_t)log_error(ask_log(job)), "HTC_EBUSY"), "the host of shared may have it");
    rig_pass(&r, 3 * HTC_SECOND + 1);
    cr_expect(eq(str, (char *)(uintptr_t)log_error(ask_log(job)), "HTC_ENOTFOUND"));
}

Test(gateway_joined_files, where_files_may_be_is_told_when_their_host_is_away)
{
    uint64_t job = ended_job();
    rig_pass(&r, 3 * HTC_SECOND);
    far_host *h = join("far", 3);
    uint32_t  peer = ask_log(job);
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = h->peer, .status = HTC_ECLOSED });
    json_t     *a = log_answer(peer);
    const char *text = json_string_value(json_object_get(a, "message"));
    cr_assert(text != NULL, "no error");
    cr_expect(strstr(text, "node-far") && strstr(text, "/srv/far/data/out"), "it says: %s", text);
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(a, "error")), "HTC_ENOTFOUND"));
    json_decref(a);
}
