/* Several people and one gateway: who is the operator, and what others may do. */
#include "gateway_hand.h"
#include "roles/runtime/apart.h"

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

/* ---- what keeps tasks apart: the tables ---- */

Test(apart, a_level_needs_all_that_it_rests_on)
{
    for (unsigned bits = 0; bits < 16; bits++) {
        htc__apart_facts f = { .root = bits & 1, .reachable = bits >> 1 & 1, .allowed = bits >> 2 & 1, .confinable = bits >> 3 & 1 };
        const char      *why = NULL;
        uint32_t         level = htc__apart_level(&f, &why);
        uint32_t         right = f.root ? (f.reachable ? HTC_APART_UID : HTC_APART_REFUSED)
                                        : (f.allowed && f.confinable ? HTC_APART_CONFINED : HTC_APART_REFUSED);
        cr_expect(eq(u32, level, right), "facts %x", bits);
        cr_expect((why[0] == 0) == (level != HTC_APART_REFUSED), "facts %x: %s", bits, why);
    }
}

Test(apart, a_user_without_a_uid_or_with_roots_is_refused)
{
    static const struct {
        uint32_t apart;
        int      owner;
        uint32_t uid, place;
    } rows[] = {
        { HTC_APART_UID, 0, 1001, HTC_PLACE_UID },           { HTC_APART_UID, 0, HTC_NO_UID, HTC_PLACE_REFUSED },
        { HTC_APART_UID, 0, 0, HTC_PLACE_REFUSED },          { HTC_APART_UID, 1, HTC_NO_UID, HTC_PLACE_OWNER },
        { HTC_APART_CONFINED, 0, 1001, HTC_PLACE_CONFINED }, { HTC_APART_CONFINED, 1, 0, HTC_PLACE_OWNER },
        { HTC_APART_REFUSED, 0, 1001, HTC_PLACE_REFUSED },   { HTC_APART_REFUSED, 1, HTC_NO_UID, HTC_PLACE_OWNER },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(eq(u32, htc__place_of(rows[i].apart, rows[i].owner, rows[i].uid), rows[i].place), "row %zu", i);
}

/* ---- refused, and launched as whom ---- */

static void refused(htc_gateway_options *o)
{
    o->apart = HTC_APART_REFUSED;
    o->apart_why = "nobody has said so";
}

static void with_uids(htc_gateway_options *o)
{
    o->apart = HTC_APART_UID;
}

static void restart_with(void (*change)(htc_gateway_options *o))
{
    r.change = change;
    rig_kill(&r);
    rig_start(&r);
}

TestSuite(people, .init = begin, .fini = end);

static json_t *submission_of(const char *user, const char *jsdl)
{
    return json_pack("{s:s,s:s,s:s}", "op", "submit", "user", user, "jsdl", jsdl);
}

static const char *refusal_of(uint32_t p, json_t *request)
{
    char       *text = json_dumps(request, 0);
    const char *status = refusal(p, text);
    free(text);
    json_decref(request);
    return status;
}

Test(people, tasks_of_others_do_not_run_where_nothing_keeps_them_apart)
{
    uint32_t p = operator_peer();
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    submit(p, "ann", SWEEP(3)); /* of a time when they did */
    restart_with(refused);
    p = operator_peer();
    r.n_launched = 0;
    cr_expect(eq(str, (char *)(uintptr_t)refusal_of(p, submission_of("ann", SWEEP(3))), "HTC_EDENIED"));
    rig_pass(&r, 20 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 0), "an agent of ann's was launched");
    json_t *answer = rig_ask(&r, p, "{\"op\":\"why\",\"user\":\"ann\"}");
    cr_expect(eq(str, (char *)(uintptr_t)json_string_value(json_object_get(answer, "code")), "Refused"));
    cr_expect(strstr(json_string_value(json_object_get(answer, "why")), "nobody has said so") != NULL);
    json_decref(answer);
    submit(p, "olga", SWEEP(1));
    rig_pass(&r, 5 * HTC_SECOND);
    cr_expect(eq(sz, r.n_launched, 1), "the owner's own tasks run");
}

Test(people, an_agent_is_launched_as_its_user_and_speaks_with_that_uid)
{
    restart_with(with_uids);
    uint32_t p = operator_peer();
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\",\"uid\":1001,\"gid\":1002}");
    refusal(p, "{\"op\":\"user.add\",\"name\":\"bob\",\"password\":\"x\"}");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.set\",\"name\":\"bob\",\"uid\":0,\"gid\":0}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.set\",\"name\":\"bob\",\"uid\":7}"), "HTC_EINVAL"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal_of(p, submission_of("bob", SWEEP(1))), "HTC_EDENIED"));
    submit(p, "ann", SWEEP(1));
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 1));
    cr_expect(eq(u32, r.launched[0].place, HTC_PLACE_UID));
    cr_expect(eq(u32, r.launched[0].uid, 1001));
    cr_expect(eq(u32, r.launched[0].gid, 1002));
    cr_expect(eq(u32, r.calls[HTC_CALL_JOB_PLACE], 1), "where its outputs go");
    hand owner = hello(r.launched[0].agent); /* RIG_UID: the owner's */
    cr_expect(ne(int, welcome_of(&owner), HTC_OK), "another uid registers as ann's agent");
}

/* ---- logins end ---- */

static void log_in(uint32_t peer, const char *password, char *token, size_t room)
{
    char text[128];
    snprintf(text, sizeof text, "{\"op\":\"login\",\"name\":\"ann\",\"password\":\"%s\"}", password);
    json_t *answer = rig_ask(&r, peer, text);
    cr_assert(json_object_get(answer, "token") != NULL);
    snprintf(token, room, "%s", json_string_value(json_object_get(answer, "token")));
    json_decref(answer);
}

static const char *with_login(uint32_t peer, const char *request, const char *token)
{
    char text[256];
    snprintf(text, sizeof text, "{%s,\"token\":\"%s\"}", request, token);
    return refusal(peer, text);
}

/* The error of the newest answer to peer; "": it is none; NULL: nothing has come since the last look. */
static const char *newest_error(uint32_t peer)
{
    static size_t seen;
    static char   name[64];
    for (size_t i = r.n_inbox; i > seen; i--) {
        const rig_message *m = &r.inbox[(i - 1) % 256];
        if (m->peer != peer || m->type != HTC_WIRE_USER_ANSWER)
            continue;
        json_t     *o = json_loadb((const char *)m->bytes, m->len, 0, NULL);
        const char *e = json_string_value(json_object_get(o, "error"));
        snprintf(name, sizeof name, "%s", e ? e : "");
        json_decref(o);
        seen = r.n_inbox;
        return name;
    }
    return NULL;
}

static void guess(uint32_t peer, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "{\"op\":\"login\",\"name\":\"%s\",\"password\":\"wrong\"}", name);
    json_t *answer = rig_ask(&r, peer, text);
    cr_expect(answer == NULL, "a wrong login as %s is answered at once", name);
    json_decref(answer);
}

Test(people, a_wrong_password_is_told_after_a_pause_that_grows)
{
    char        token[80];
    uint32_t    p = operator_peer(), far = rig_open(&r, UINT32_MAX, HTC_WIRE_ROLE_USER), near = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    const char *names[] = { "ann", "nobody" };
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    refusal(p, "{\"op\":\"user.add\",\"name\":\"bob\",\"password\":\"y\"}");
    for (size_t i = 0; i < 2; i++)
        for (htc_ns pause = HTC_SECOND / 2; pause <= 32 * HTC_SECOND; pause *= 2) {
            htc_ns right = pause < 30 * HTC_SECOND ? pause : 30 * HTC_SECOND;
            guess(far, names[i]);
            (void)newest_error(far);
            cr_expect(eq(str, (char *)(uintptr_t)refusal(far, "{\"op\":\"login\",\"name\":\"bob\",\"password\":\"y\"}"), ""), "others are not held up");
            log_in(near, "x", token, sizeof token); /* nor ann by the socket */
            (void)newest_error(far);
            rig_pass(&r, right - 1);
            cr_expect(newest_error(far) == NULL, "%s after %llu", names[i], (unsigned long long)right);
            rig_pass(&r, 1);
            const char *e = newest_error(far);
            cr_expect(e && strcmp(e, "HTC_EAUTH") == 0, "%s after %llu: %s", names[i], (unsigned long long)right, e ? e : "nothing");
        }
    log_in(far, "x", token, sizeof token); /* and it begins anew */
    guess(far, "ann");
    (void)newest_error(far);
    rig_pass(&r, HTC_SECOND / 2);
    cr_expect(newest_error(far) != NULL);
}

Test(people, logins_without_a_uid_wait_and_a_user_is_before_those_who_guess)
{
    char        token[80];
    uint32_t    p = operator_peer(), far = rig_open(&r, UINT32_MAX, HTC_WIRE_ROLE_USER), ann = rig_open(&r, UINT32_MAX, HTC_WIRE_ROLE_USER);
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    for (int i = 0; i < 12; i++)
        guess(far, "ann");
    (void)newest_error(far);
    cr_expect(rig_ask(&r, ann, "{\"op\":\"login\",\"name\":\"ann\",\"password\":\"x\"}") == NULL, "the name has its pause");
    uint32_t before = r.calls[HTC_CALL_VERIFY_PASSWORD];
    rig_pass(&r, HTC_SECOND / 2);
    const char *e = newest_error(ann);
    cr_expect(e && e[0] == '\0', "ann is answered %s", e ? e : "nothing");
    cr_expect(eq(u32, r.calls[HTC_CALL_VERIFY_PASSWORD], before + 2), "hers, and one of the others");
    /* Who goes away takes along what waits. */
    rig_gateway(&r, &(htc_input){ .size = sizeof(htc_input), .now = r.now, .wall = r.wall, .kind = HTC_IN_CLOSED, .peer = far, .status = HTC_ECLOSED });
    before = r.calls[HTC_CALL_VERIFY_PASSWORD];
    rig_pass(&r, 100 * HTC_SECOND);
    cr_expect(eq(u32, r.calls[HTC_CALL_VERIFY_PASSWORD], before));
    log_in(ann, "x", token, sizeof token);
}

#define STATUS "\"op\":\"status\""

Test(people, a_new_password_and_a_logout_end_tokens)
{
    char     one[80], two[80], three[80];
    uint32_t p = operator_peer(), ann = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    log_in(ann, "x", one, sizeof one);
    log_in(ann, "x", two, sizeof two);
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, "\"op\":\"logout\"", one), ""));
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, one), "HTC_EAUTH"), "after the logout");
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, two), ""), "the other login goes on");
    refusal(p, "{\"op\":\"user.set\",\"name\":\"ann\",\"weight\":2}");
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, two), ""), "another weight is no other password");
    refusal(p, "{\"op\":\"user.set\",\"name\":\"ann\",\"password\":\"y\"}");
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, two), "HTC_EAUTH"), "after the new password");
    log_in(ann, "y", three, sizeof three);
    restart_with(NULL);
    ann = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, two), "HTC_EAUTH"), "after a restart as well");
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, three), ""));
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, "\"op\":\"logout\",\"all\":true", three), ""));
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, three), "HTC_EAUTH"));
}

Test(people, a_user_without_jobs_can_be_removed_and_takes_the_logins_along)
{
    char     token[80];
    uint32_t p = operator_peer(), ann = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    log_in(ann, "x", token, sizeof token);
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, "\"op\":\"user.rm\",\"name\":\"ann\"", token), "HTC_EDENIED"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.rm\",\"name\":\"olga\"}"), "HTC_EDENIED"));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.rm\",\"name\":\"nobody\"}"), "HTC_ENOTFOUND"));
    uint64_t job = submit(p, "ann", SWEEP(1));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.rm\",\"name\":\"ann\"}"), "HTC_EBUSY"), "with an open job");
    char text[96];
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":\"%llu\"}", (unsigned long long)job);
    refusal(p, text);
    rig_pass(&r, 60 * HTC_SECOND);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.rm\",\"name\":\"ann\"}"), "HTC_EBUSY"), "with one that has ended");
    snprintf(text, sizeof text, "{\"op\":\"rm\",\"id\":\"%llu\"}", (unsigned long long)job);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), ""));
    rig_pass(&r, 700 * HTC_SECOND); /* agents that never came are given up */
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, "{\"op\":\"user.rm\",\"name\":\"ann\"}"), ""));
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, token), "HTC_EAUTH"));
    r.wall += HTC_SECOND;
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\"}");
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, token), "HTC_EAUTH"), "a new user of that name");
}

/* The directories of the outputs belong to the uid of before, those of ended jobs too. */
Test(people, a_user_with_jobs_keeps_the_uid)
{
    static const char other[] = "{\"op\":\"user.set\",\"name\":\"ann\",\"uid\":1003,\"gid\":1003,\"password\":\"y\"}",
                      same[] = "{\"op\":\"user.set\",\"name\":\"ann\",\"uid\":1001,\"gid\":1001,\"weight\":2}";
    char text[96], token[80];
    restart_with(with_uids);
    uint32_t p = operator_peer(), ann = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    refusal(p, "{\"op\":\"user.add\",\"name\":\"ann\",\"password\":\"x\",\"uid\":1001,\"gid\":1001}");
    uint64_t job = submit(p, "ann", SWEEP(1));
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, other), "HTC_EBUSY"), "with an open job");
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, same), ""));
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"id\":\"%llu\"}", (unsigned long long)job);
    refusal(p, text);
    rig_pass(&r, 60 * HTC_SECOND);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, other), "HTC_EBUSY"), "with one that has ended");
    rig_kill(&r);
    rig_start(&r);
    p = operator_peer();
    ann = rig_open(&r, 2000, HTC_WIRE_ROLE_USER);
    rig_pass(&r, 700 * HTC_SECOND); /* agents that never came are given up */
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, other), "HTC_EBUSY"), "with one that only the store knows");
    log_in(ann, "x", token, sizeof token);
    snprintf(text, sizeof text, "{\"op\":\"rm\",\"id\":\"%llu\"}", (unsigned long long)job);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, text), ""));
    rig_pass(&r, 10 * HTC_SECOND);
    cr_expect(eq(str, (char *)(uintptr_t)refusal(p, other), ""));
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, token), "HTC_EAUTH"), "the password changed with it");
    log_in(ann, "y", token, sizeof token);
    cr_expect(eq(str, (char *)(uintptr_t)with_login(ann, STATUS, token), ""), "and requests are taken again");
    r.n_launched = 0;
    submit(p, "ann", SWEEP(1));
    rig_pass(&r, 5 * HTC_SECOND);
    cr_assert(eq(sz, r.n_launched, 1));
    cr_expect(eq(u32, r.launched[0].uid, 1003));
}

/* ---- one uid among others ---- */

Test(people, an_idle_stranger_is_closed_and_an_agent_or_the_owner_is_not)
{
    uint32_t stranger = rig_open(&r, 2000, HTC_WIRE_ROLE_USER), p = operator_peer();
    rig_pass(&r, 200 * HTC_SECOND);
    cr_expect(eq(u32, r.closed, 0));
    refusal(stranger, "{\"op\":\"ping\"}");
    rig_pass(&r, 200 * HTC_SECOND);
    cr_expect(eq(u32, r.closed, 0), "it has asked since");
    rig_pass(&r, 200 * HTC_SECOND);
    cr_expect(eq(u32, r.closed, stranger));
    rig_pass(&r, 1000 * HTC_SECOND);
    cr_expect(ne(u32, r.closed, p));
}

/* ---- text of others ---- */

Test(text, nothing_that_a_terminal_obeys_is_shown)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        { "plain", "plain" },       { "gr\xc3\xb6\xc3\x9f" "e", "gr\xc3\xb6\xc3\x9f" "e" },
        { "a\033[31mb", "a?[31mb" }, { "a\xc2\x9b" "31mb", "a?31mb" }, /* U+009B, a control sequence of one character */
        { "\xe2\x80\xae" "dcba", "?dcba" },                         /* U+202E, right to left */
        { "\xe2\x81\xa6x\xe2\x81\xa9", "?x?" },                     /* U+2066 and U+2069 */
        { "a\xe2\x80\x8e\xe2\x80\x8f" "b", "a??b" },                /* U+200E, U+200F */
        { "a\xe2\x80\xa8" "b\xe2\x80\xa9", "a?b?" },               /* U+2028, U+2029 */
        { "\xd8\x9c", "?" },       { "tab\there\n", "tab?here?" },
        { "\xff\xfe", "??" },      { "\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i].text);
        htc_text_show(text);
        cr_expect(eq(str, text, (char *)(uintptr_t)rows[i].shown), "row %zu", i);
        snprintf(text, sizeof text, "%s", rows[i].text);
        htc__text_clean(text);
        for (size_t at = 0, len; text[at]; at += len ? len : 1) {
            len = htc_text_shown(text + at, strlen(text + at));
            cr_expect(len > 0, "row %zu: cleaned text is shown as it is", i);
        }
    }
}
