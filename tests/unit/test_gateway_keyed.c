/* Users who come with a key of their own: whom it speaks for, what it never makes, and that one key takes nothing of another. */
#include "gateway_far.h"

#include "roles/gateway/admission.h"

static uint32_t op, ada;

static uint32_t with_key(const char *name)
{
    return open_key(name, HTC_KEY_USER, HTC_WIRE_ROLE_USER);
}

static void begin_keyed(void)
{
    begin();
    op = operator_peer();
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"user.add\",\"name\":\"ada\",\"password\":\"x\"}"), ""));
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"user.add\",\"name\":\"bob\",\"password\":\"x\"}"), ""));
    ada = with_key("ada");
}

TestSuite(gateway_keyed, .init = begin_keyed, .fini = end);

/* What is answered to it has text in its message. */
static void refused(uint32_t peer, const char *rq, const char *name, const char *text)
{
    json_t     *a = rig_ask(&r, peer, rq);
    const char *e = json_string_value(json_object_get(a, "error")), *m = json_string_value(json_object_get(a, "message"));
    cr_expect(e && m && strcmp(e, name) == 0 && strstr(m, text), "%s: %s, %s", rq, e ? e : "no error", m ? m : "");
    json_decref(a);
}

static size_t jobs_of(uint32_t peer, const char *rq)
{
    json_t *a = rig_ask(&r, peer, rq);
    size_t  n = json_array_size(json_object_get(a, "jobs"));
    cr_expect(json_object_get(a, "error") == NULL, "%s", rq);
    json_decref(a);
    return n;
}

Test(gateway_keyed, a_key_is_a_login_of_its_user_and_of_nobody_else)
{
    cr_expect(eq(str, (char *)(uintptr_t)refusal(ada, "{\"op\":\"ping\"}"), ""));
    submit(op, "bob", SWEEP(2));
    cr_expect(eq(sz, jobs_of(ada, "{\"op\":\"status\"}"), 0));
    submit(ada, "ada", SWEEP(2));
    cr_expect(eq(sz, jobs_of(ada, "{\"op\":\"status\"}"), 1));
    cr_expect(eq(sz, jobs_of(ada, "{\"op\":\"status\",\"user\":\"ada\"}"), 1));
    cr_expect(eq(sz, jobs_of(op, "{\"op\":\"status\",\"user\":\"bob\"}"), 1));
    refused(ada, "{\"op\":\"status\",\"user\":\"bob\"}", "HTC_EDENIED", "the key is ada's, not bob's");
    refused(ada, "{\"op\":\"cancel\",\"id\":1}", "HTC_ENOTFOUND", "there is no job 1");
}

Test(gateway_keyed, no_key_makes_an_operator)
{
    static const char *const asked[] = { "{\"op\":\"user.add\",\"name\":\"mal\",\"password\":\"x\"}", "{\"op\":\"user.set\",\"name\":\"ada\",\"weight\":9}",
                                         "{\"op\":\"shutdown\"}" };
    uint32_t owner = with_key("olga"); /* who owns the system is a user too */
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        cr_expect(eq(str, (char *)(uintptr_t)refusal(ada, asked[i]), "HTC_EDENIED"), "%s", asked[i]);
        cr_expect(eq(str, (char *)(uintptr_t)refusal(owner, asked[i]), "HTC_EDENIED"), "%s", asked[i]);
    }
}

Test(gateway_keyed, a_key_of_no_user_needs_a_login)
{
    uint32_t lab = with_key("lab");
    refused(lab, "{\"op\":\"status\"}", "HTC_EDENIED", "the key of lab is no user's");
    refused(lab, "{\"op\":\"status\",\"user\":\"ada\"}", "HTC_EDENIED", "the key of lab is no user's");
    json_t     *in = rig_ask(&r, lab, "{\"op\":\"login\",\"name\":\"bob\",\"password\":\"x\"}");
    const char *token = json_string_value(json_object_get(in, "token"));
    char        rq[160];
    cr_assert(token != NULL);
    snprintf(rq, sizeof rq, "{\"op\":\"status\",\"token\":\"%s\"}", token);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(lab, rq), ""));
    json_decref(in);
}

/* The key outlives its user's account, and gets nothing by it. */
Test(gateway_keyed, a_key_whose_user_is_removed_gets_nothing)
{
    cr_expect(eq(str, (char *)(uintptr_t)refusal(ada, "{\"op\":\"status\"}"), ""));
    cr_assert(eq(str, (char *)(uintptr_t)refusal(op, "{\"op\":\"user.rm\",\"name\":\"ada\"}"), ""));
    refused(ada, "{\"op\":\"status\"}", "HTC_EDENIED", "the key of ada is no user's");
}

/* It is not even asked what it wants: the connection ends at the greeting. */
static void turned_away(uint32_t peer, const char *text)
{
    char               said[200] = "";
    const rig_message *m = rig_newest(&r, peer, HTC_WIRE_ERROR);
    cr_assert(m != NULL, "nothing was said");
    htc_reader in = htc_reader_of((htc_bytes){ m->bytes, m->len });
    cr_expect(eq(int, (int)htc_get_u32(&in), HTC_EDENIED));
    htc_get_str(&in, said, sizeof said);
    cr_expect(strstr(said, text) != NULL, "it says: %s", said);
    cr_expect(eq(u32, r.closed, peer));
}

Test(gateway_keyed, the_key_of_a_user_is_no_hosts_and_that_of_a_host_no_users)
{
    turned_away(open_key("local", HTC_KEY_USER, HTC_WIRE_ROLE_JOINED), "no host's");
    turned_away(open_key("ada", HTC_KEY_USER, HTC_WIRE_ROLE_AGENT), "no host's");
    turned_away(open_key("ada", HTC_KEY_HOST, HTC_WIRE_ROLE_USER), "no user's");
    turned_away(open_key("ada", HTC_KEY_MEMBER, HTC_WIRE_ROLE_USER), "no user's");
    turned_away(open_key("ada", HTC_KEY_MEMBER, HTC_WIRE_ROLE_AGENT), "no host's");
}

/* Logins of one key that are not answered are few; those of another key, and of no key, are not among them. */
Test(gateway_keyed, logins_of_one_key_hold_no_other_up)
{
    static const char guess[] = "{\"op\":\"login\",\"name\":\"bob\",\"password\":\"wrong\"}";
    uint32_t          again = with_key("ada"), bob = with_key("bob");
    for (uint32_t i = 0; i < ADMISSION_LOGINS; i++) {
        json_t *a = rig_ask(&r, i % 2 ? ada : again, guess);
        cr_expect(a == NULL, "a wrong login is answered at once");
        json_decref(a);
    }
    cr_expect(eq(str, (char *)(uintptr_t)refusal(ada, guess), "HTC_EBUSY"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(again, guess), "HTC_EBUSY"), "another connection of the same key");
    /* Who has the password comes in by another key while they wait. */
    cr_expect(eq(str, (char *)(uintptr_t)refusal(bob, "{\"op\":\"login\",\"name\":\"bob\",\"password\":\"x\"}"), ""));
}
