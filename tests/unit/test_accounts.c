/* Several people and one gateway: who is the operator, and what others may do. */
#include "gateway_hand.h"

#define OPERATOR_TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void with_token(htc_gateway_options *o)
{
    o->operator_token = OPERATOR_TOKEN;
}

static void begin_with_token(void)
{
    begin();
    r.change = with_token;
    rig_kill(&r);
    rig_start(&r);
}

TestSuite(accounts, .init = begin_with_token, .fini = end);

/* A task may run as the owner: that uid is no proof of anything. */
Test(accounts, the_owners_uid_is_no_operator_without_the_token)
{
    static const char *const asked[] = { "{\"op\":\"user.add\",\"name\":\"mal\",\"password\":\"x\"}",
                                         "{\"op\":\"user.set\",\"name\":\"olga\",\"weight\":9}",
                                         "{\"op\":\"shutdown\"}", "{\"op\":\"status\"}", "{\"op\":\"users\"}",
                                         "{\"op\":\"status\",\"token\":\"\"}", "{\"op\":\"status\",\"token\":\"01\"}" };
    uint32_t p = operator_peer();
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        cr_expect(ne(str, (char *)(uintptr_t)refusal(p, asked[i]), ""), "%s", asked[i]);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"ping\"}"), ""));
}

/* And the token makes one, whoever brings it: its file is what is guarded. */
Test(accounts, the_operators_token_acts_for_whom_it_names)
{
    uint32_t p = operator_peer(), other = rig_open(&r, RIG_UID + 1, HTC_WIRE_ROLE_USER);
#define AS_OPERATOR "\"token\":\"" OPERATOR_TOKEN "\""
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"," AS_OPERATOR "}"), ""));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(other, "{\"op\":\"status\",\"user\":\"ann\"," AS_OPERATOR "}"), ""));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"status\",\"user\":\"nobody\"," AS_OPERATOR "}"), "HTC_ENOTFOUND"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.set\",\"name\":\"ann\",\"weight\":3," AS_OPERATOR "}"), ""));
}
