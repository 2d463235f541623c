/* What comes to the port of Redis' clients and is none of theirs. */
#include "resp_rig.h"

/* Requests of a browser, whose body is commands: none of them is executed, and the connection ends. */
Test(resp_strangers, http_ends_the_connection_before_anything_of_it_is_executed)
{
    static const char *const requests[] = {
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nContent-Length: 20\r\n\r\nSET k evil\r\nSET k2 evil\r\n",
        "post /x\r\nSET k evil\r\n",
        "GET / HTTP/1.1\r\nX-Header: a\r\nSET k evil\r\n",
        "GET /\r\nhost: localhost\r\nSET k evil\r\n",
        "PUT /SET HTTP/1.0\r\nSET k evil\r\n",
        "DEL / HTTP/1.1\r\nSET k evil\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nSET k evil\r\n",
        "*1\r\n$5\r\nHost:\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\nevil\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            rig    r;
            size_t n = strlen(requests[i]), piece = one_by_one ? 1 : n;
            rig_make(&r, &(htc__resp_options){ 0 }, NULL);
            converse(&r, "SET k kept\r\n", "+OK\r\n");
            htc_buf_clear(&r.said[1]);
            for (size_t at = 0; at < n; at += piece)
                rig_input(&r, HTC_IN_BYTES, 1, (htc_bytes){ requests[i] + at, piece }, 0);
            rig_settle(&r);
            static const char end[] = "-ERR this is no HTTP server: the connection ends\r\n";
            cr_expect(r.closed[1], "%s", requests[i]);
            cr_expect(r.said[1].len >= sizeof end - 1 &&
                      memcmp(r.said[1].data + r.said[1].len - (sizeof end - 1), end, sizeof end - 1) == 0);
            cr_expect(r.m.count == 1 && r.m.keys[0].len == 4 && memcmp(r.m.keys[0].value, "kept", 4) == 0, "%s",
                      requests[i]);
            rig_free(&r);
        }
}

/* Values may look like it. */
Test(resp_strangers, what_only_looks_like_http_is_kept)
{
    rig r;
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    converse(&r, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8\r\nHTTP/1.1\r\n", "+OK\r\n");
    converse(&r, "SET Host: POST\r\n", "+OK\r\n");
    converse(&r, "GET Host:\r\n", "$4\r\nPOST\r\n");
    rig_free(&r);
}

static size_t lines, lines_of_three;

static void count_line(void *ctx, uint32_t level, const char *line)
{
    (void)ctx, (void)level;
    lines++;
    lines_of_three += strstr(line, "(3 since the last line)") != NULL;
}

static void opens(rig *r, uint32_t peer, htc_ns now)
{
    cr_assert(htc__resp_input(r->f, &(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_OPENED, .peer = peer }, r->out) == HTC_OK);
    htc_output_clear(r->out);
}

/* Who is refused is in the log, but cannot fill it. */
Test(resp_strangers, refusals_are_told_once_in_a_while)
{
    htc_log           log = { .write = count_line, .level = HTC_LOG_WARN };
    htc__resp_options o = { .password = htc_bytes_of("open sesame"), .connections_max = 1 };
    rig               r;
    rig_make(&r, &o, NULL);
    htc__resp_destroy(r.f);
    r.env.log = &log;
    cr_assert(htc__resp_create(&r.env, &o, model_backend(&r.m), &r.f) == HTC_OK);
    rig_open(&r, 1);
    for (int i = 0; i < 3; i++) {
        converse(&r, "AUTH wrong\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
        converse(&r, "HELLO 3 AUTH default wrong\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    }
    cr_expect(eq(sz, lines, 1));
    for (int i = 0; i < 3; i++)
        opens(&r, 7, 1000 * HTC_SECOND);
    cr_expect(eq(sz, lines, 2));
    opens(&r, 7, 1010 * HTC_SECOND);
    cr_expect(eq(sz, lines, 3));
    cr_expect(eq(sz, lines_of_three, 1));
    converse(&r, "AUTH \"open sesame\"\r\n", "+OK\r\n");
    cr_expect(eq(sz, lines, 3));
    rig_free(&r);
}
