/* The search for the gateway that serves, on hosts in threads which answer as gateways do: of several addresses the one that serves is taken, one that
 * a waiting gateway names is followed, and what each said is told. */
#include "host_keys_rig.h"

#include "net/loop/client_way.h"

static char answers[2][200]; /* of the gateways, to a ping */

/* Answers each request in JSON, as its gateway was told to; "": hangs up. Anything else is the rig's. */
static htc_status gateway_step(void *self, const htc_input *in, htc_output *out)
{
    rig       *r = self;
    uint16_t   type = 0;
    uint64_t   id = 0;
    htc_buf    b;
    const char *answer = answers[r->enough];
    if (in->kind == HTC_IN_MESSAGE)
        (void)htc_wire_open(in->body, &type, &id);
    if (type != HTC_WIRE_HELLO && type != HTC_WIRE_USER_REQUEST)
        return rig_step(self, in, out);
    htc_buf_init(&b, NULL, 0);
    if (type == HTC_WIRE_HELLO) {
        htc_wire_welcome(&b, id, HTC_WIRE_VERSION);
    } else {
        htc_wire_begin(&b, HTC_WIRE_USER_ANSWER, id);
        htc_put_raw(&b, htc_bytes_of(answer));
    }
    if (type == HTC_WIRE_USER_REQUEST && !*answer)
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_ECLOSED });
    else
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    return HTC_OK;
}

static const htc_machine_ops gateway_ops = { sizeof gateway_ops, gateway_step, rig_never, NULL, 0 };

static void *gateway_run(void *arg)
{
    rig *r = arg;
    cr_assert(eq(int, htc_host_run(r->host, &gateway_ops, r), HTC_OK));
    return NULL;
}

static rig    gateways[2];
static caller operators[2];
static char   dir[64], key[96], ring[96], at[2][32];
static int    dead; /* a port that is taken, and where nobody listens */
static char   dead_at[32];

static htc_status pin_gateways(void *ctx, htc_keyring *k)
{
    (void)ctx;
    htc_status s = htc_keyring_set(k, "one", HTC_KEY_MEMBER, HTC_KEY_CURRENT, gateways[0].public);
    return s == HTC_OK ? htc_keyring_set(k, "two", HTC_KEY_MEMBER, HTC_KEY_CURRENT, gateways[1].public) : s;
}

static void begin(void)
{
    static htc_host_keys_options o[2];
    uint8_t                      mine[HTC_KEY_BYTES];
    struct sockaddr_in           a = { .sin_family = AF_INET };
    socklen_t                    len = sizeof a;
    snprintf(dir, sizeof dir, "/tmp/htc-way-XXXXXX");
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(ring, sizeof ring, "%s/ring", dir);
    cr_assert(eq(int, htc_keys_create(key, mine, NULL), HTC_OK));
    for (uint32_t i = 0; i < 2; i++) {
        o[i] = (htc_host_keys_options){ 0 };
        rig_make(&gateways[i], &o[i], NULL);
        gateways[i].enough = i;
        caller_friend(&operators[i], &gateways[i], "operator");
        rig_pin(&gateways[i], "ada", HTC_KEY_USER, HTC_KEY_CURRENT, mine);
        rig_listen(&gateways[i], &o[i]);
        cr_assert(eq(int, pthread_create(&gateways[i].thread, NULL, gateway_run, &gateways[i]), 0));
        snprintf(at[i], sizeof at[i], "127.0.0.1:%u", gateways[i].port);
        snprintf(answers[i], sizeof answers[i], "{\"ok\":true}");
    }
    cr_assert(eq(int, htc_keys_change_ring(ring, pin_gateways, NULL, NULL), HTC_OK));
    dead = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert(dead >= 0 && bind(dead, (struct sockaddr *)&a, sizeof a) == 0 && getsockname(dead, (struct sockaddr *)&a, &len) == 0);
    snprintf(dead_at, sizeof dead_at, "127.0.0.1:%u", ntohs(a.sin_port));
}

static void end(void)
{
    char command[128];
    for (uint32_t i = 0; i < 2; i++)
        rig_close(&gateways[i], &operators[i]);
    close(dead);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    cr_assert(eq(int, system(command), 0));
}

TestSuite(client_way, .init = begin, .fini = end, .timeout = 60);

static htc_error told;

static htc_status find_as(const char *addresses, const char *server, htc_ns timeout, htc__way *w)
{
    htc__way_options o = { .addresses = addresses, .key_path = key, .ring_path = ring, .server = server, .timeout_ns = timeout };
    told = (htc_error){ 0 };
    *w = (htc__way){ .fd = -1 };
    return htc__way_find(NULL, &o, w, &told);
}

static void takes(const char *addresses, const char *right)
{
    htc__way   w;
    htc_status status = find_as(addresses, NULL, 30 * HTC_SECOND, &w);
    cr_expect(eq(int, status, HTC_OK), "%s: %s", addresses, told.text);
    cr_expect(eq(str, w.address, (char *)(uintptr_t)right), "of %s", addresses);
    htc__way_end(&w);
}

static void finds_none(const char *addresses, htc_status right, const char *text)
{
    htc__way   w;
    htc_status status = find_as(addresses, NULL, 30 * HTC_SECOND, &w);
    cr_expect(eq(int, status, right), "%s: %s", addresses, told.text);
    cr_expect(strstr(told.text, text) != NULL, "%s: %s", addresses, told.text);
    cr_expect(w.fd == -1);
}

static const char *both(const char *a, const char *b)
{
    static char text[2][80];
    static int  n;
    n = !n;
    snprintf(text[n], sizeof text[n], "%s,%s", a, b);
    return text[n];
}

Test(client_way, an_address_where_nobody_listens_does_not_matter_beside_one_that_serves)
{
    takes(at[0], at[0]);
    takes(both(dead_at, at[0]), at[0]);
    takes(both(at[0], dead_at), at[0]);
    finds_none(dead_at, HTC_EUNREACHABLE, "refused");
    finds_none(both(dead_at, "127.0.0.1:0"), HTC_EUNREACHABLE, "no gateway serves: ");
}

Test(client_way, a_gateway_that_waits_is_passed_over_and_the_one_it_names_is_followed)
{
    snprintf(answers[0], sizeof answers[0], "{\"waiting\":true,\"active\":\"two\",\"at\":\"%s\"}", at[1]);
    takes(both(at[0], at[1]), at[1]);
    takes(at[0], at[1]);
    /* Both wait, and each names the other: that ends. */
    snprintf(answers[1], sizeof answers[1], "{\"waiting\":true,\"active\":\"one\",\"at\":\"%s\"}", at[0]);
    finds_none(at[0], HTC_EUNREACHABLE, "it waits: two at ");
    cr_expect(strstr(told.text, "it waits: one at ") != NULL, "%s", told.text);
    snprintf(answers[1], sizeof answers[1], "{\"waiting\":true}");
    finds_none(at[1], HTC_EUNREACHABLE, "does not know yet who is active");
}

Test(client_way, one_that_names_what_is_no_address_is_not_believed)
{
    snprintf(answers[0], sizeof answers[0], "{\"waiting\":true,\"active\":\"x\",\"at\":\"nowhere\"}");
    finds_none(at[0], HTC_EUNREACHABLE, "nowhere: ");
    snprintf(answers[0], sizeof answers[0], "{\"waiting\":true,\"at\":7}");
    finds_none(at[0], HTC_EUNREACHABLE, "it waits");
    snprintf(answers[0], sizeof answers[0], "[1]");
    finds_none(at[0], HTC_EPROTO, "not JSON");
    snprintf(answers[0], sizeof answers[0], "{\"error\":\"HTC_EBUSY\",\"message\":\"too \\u001b[31mmuch\"}");
    finds_none(at[0], HTC_EUNREACHABLE, "too ");
    cr_expect(strchr(told.text, '\033') == NULL, "what a terminal obeys is told");
    answers[0][0] = '\0';
    finds_none(at[0], HTC_EUNREACHABLE, "hangs up");
}

/* That a key is not let in weighs more than that another address is away: it does not change by itself. */
Test(client_way, a_key_that_is_not_let_in_is_told_before_all_else)
{
    htc__way w;
    rig_pin(&gateways[0], "ada", HTC_KEY_USER, HTC_KEY_REVOKED, (uint8_t[HTC_KEY_BYTES]){ 1 });
    cr_assert(unlink(key) == 0);
    cr_assert(eq(int, htc_keys_create(key, NULL, NULL), HTC_OK));
    finds_none(both(dead_at, at[0]), HTC_EDENIED, "refused");
    cr_expect(strstr(told.hint, "htc keys enrol") != NULL, "%s", told.hint);
    cr_expect(strstr(told.hint, "and a new --key if this one was revoked") != NULL, "%s", told.hint);
    cr_expect(eq(int, find_as(at[0], "nobody", 30 * HTC_SECOND, &w), HTC_EDENIED), "%s", told.text);
}

/* Another one's key than that which is expected. */
Test(client_way, a_gateway_under_anothers_name_is_not_talked_to)
{
    htc__way w;
    cr_expect(eq(int, find_as(at[0], "one", 30 * HTC_SECOND, &w), HTC_OK), "%s", told.text);
    htc__way_end(&w);
    cr_expect(ne(int, find_as(at[0], "two", 30 * HTC_SECOND, &w), HTC_OK));
    cr_expect(eq(u32, __atomic_load_n(&gateways[1].opened, __ATOMIC_SEQ_CST), 0));
}

Test(client_way, one_that_says_nothing_takes_its_time_and_no_more)
{
    htc__way w;
    cr_assert(eq(int, listen(dead, 8), 0)); /* it takes connections, and does not talk */
    takes(both(dead_at, at[1]), at[1]);
    cr_expect(eq(int, find_as(dead_at, NULL, 50 * HTC_MS, &w), HTC_ETIMEDOUT));
    cr_expect(strstr(told.text, "no answer within 0.05 s") != NULL, "%s", told.text);
}

Test(client_way, what_is_no_list_of_addresses_is_refused)
{
    finds_none("", HTC_EINVAL, "no address");
    finds_none(",", HTC_EINVAL, "no list");
    finds_none("127.0.0.1:1,,127.0.0.1:2", HTC_EINVAL, "no list");
    finds_none("a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1", HTC_EINVAL, "no list");
}
