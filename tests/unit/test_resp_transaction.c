/* MULTI, EXEC, DISCARD and WATCH, word for word: of one member alone, and of several. */
#include "resp_rig.h"

static void make(rig *r, int alone)
{
    rig_make(r, &(htc__resp_options){ 0 }, NULL);
    r->m.alone = alone;
    rig_open(r, 2);
}

static void other(rig *r, const char *said)
{
    cr_assert(rig_input(r, HTC_IN_BYTES, 2, htc_bytes_of(said), 0) == HTC_OK);
    rig_settle(r);
}

#define SEVERAL                                                                                                        \
    "-EXECABORT this store has several members, and each key is a register of its own: a transaction is about one "    \
    "key, "                                                                                                            \
    "which alone may be watched (redis-py: pipeline(transaction=False))\r\n"
#define ABORTED "-EXECABORT Transaction discarded because of previous errors.\r\n"

Test(resp_transaction, words)
{
    static const char *const lines[][2] = {
        { "EXEC\r\n", "-ERR EXEC without MULTI\r\n" },
        { "DISCARD\r\n", "-ERR DISCARD without MULTI\r\n" },
        { "MULTI\r\nEXEC\r\n", "+OK\r\n*0\r\n" },
        { "MULTI\r\nMULTI\r\nWATCH k\r\nPING\r\nEXEC\r\n",
          "+OK\r\n-ERR MULTI calls can not be nested\r\n-ERR WATCH inside MULTI is not "
          "allowed\r\n+QUEUED\r\n*1\r\n+PONG\r\n" },
        { "MULTI\r\nINCR k\r\nNONSENSE\r\nEXEC\r\nGET k\r\n",
          "+OK\r\n+QUEUED\r\n-ERR unknown command 'NONSENSE', with args beginning with: \r\n" ABORTED "$-1\r\n" },
        { "MULTI\r\nINCR k\r\nGET\r\nEXEC\r\nGET k\r\n",
          "+OK\r\n+QUEUED\r\n-ERR wrong number of arguments for 'get' command\r\n" ABORTED "$-1\r\n" },
        { "MULTI\r\nINCR k\r\nSCAN 0\r\nEXEC\r\nGET k\r\n",
          "+OK\r\n+QUEUED\r\n-ERR Command not allowed inside a transaction\r\n" ABORTED "$-1\r\n" },
        { "MULTI\r\nINCR k\r\nDISCARD\r\nGET k\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n$-1\r\n" },
        { "MULTI\r\nINCR k\r\nRESET\r\nGET k\r\n", "+OK\r\n+QUEUED\r\n+RESET\r\n$-1\r\n" },
        /* A command that fails when it is executed leaves the others as they are. */
        { "MULTI\r\nSET k x\r\nINCR k\r\nAPPEND k y\r\nGET k\r\nEXEC\r\n",
          "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
          "*4\r\n+OK\r\n-ERR value is not an integer or out of range\r\n:2\r\n$2\r\nxy\r\n" },
        { "GET k\r\n", "$2\r\nxy\r\n" },
        { "MULTI\r\nEXPIRE k 100\r\nTTL k\r\nEXEC\r\nTTL k\r\n",
          "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:100\r\n:100\r\n" },
        { "MULTI\r\nAPPEND k z\r\nEXEC\r\nTTL k\r\nGET k\r\n", "+OK\r\n+QUEUED\r\n*1\r\n:3\r\n:100\r\n$3\r\nxyz\r\n" },
        { "MULTI\r\nSET k 1\r\nDEL k\r\nGET k\r\nEXEC\r\nEXISTS k\r\n",
          "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:1\r\n$-1\r\n:0\r\n" },
        { "WATCH k\r\nMULTI\r\nSET k 1\r\nEXEC\r\nDEL k\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n:1\r\n" },
        { "WATCH k\r\nSET k 2\r\nMULTI\r\nSET k 1\r\nEXEC\r\nGET k\r\nDEL k\r\n",
          "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n2\r\n:1\r\n" },
        { "WATCH k\r\nSET k 2\r\nUNWATCH\r\nMULTI\r\nSET k 1\r\nEXEC\r\nDEL k\r\n",
          "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n:1\r\n" },
        { "HELLO 3 SETNAME x\r\n", NULL },
        { "WATCH k\r\nSET k 2\r\nMULTI\r\nGET k\r\nEXEC\r\n", "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n_\r\n" },
        { "WATCH \"\"\r\n", "-ERR a key of this store has 1 to 400 bytes: this one is empty\r\n" },
    };
    for (int alone = 0; alone < 2; alone++) {
        rig r;
        make(&r, alone);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            if (lines[i][1])
                converse(&r, lines[i][0], lines[i][1]);
            else
                rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(lines[i][0]), 0), rig_settle(&r);
        }
        rig_free(&r);
    }
}

/* One member alone: any keys, all or nothing, and nobody sees half of it. */
Test(resp_transaction, alone_it_is_about_any_keys)
{
    rig r;
    make(&r, 1);
    converse(&r, "MULTI\r\nMSET a 1 b 2\r\nINCR a\r\nMGET a b c\r\nDEL b\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+OK\r\n:2\r\n*3\r\n$1\r\n2\r\n$1\r\n2\r\n$-"
             "1\r\n:1\r\n");
    converse(&r, "MGET a b\r\n", "*2\r\n$1\r\n2\r\n$-1\r\n");
    /* What is queued is not executed before EXEC, also while it waits for room. */
    r.m.is_busy = 1;
    converse(&r, "WATCH a b\r\nMULTI\r\nSET a 3\r\nSET b 3\r\nEXEC\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    r.m.is_busy = 0;
    htc_buf_clear(&r.said[1]);
    rig_settle(&r);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[1]), htc_bytes_of("*2\r\n+OK\r\n+OK\r\n")));
    converse(&r, "WATCH a b\r\n", "+OK\r\n");
    other(&r, "SET b 4\r\n");
    converse(&r, "MULTI\r\nSET a 5\r\nEXEC\r\nGET a\r\n", "+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n3\r\n");
    r.m.room = 5;
    converse(&r, "MULTI\r\nSET a 123\r\nSET c 456\r\nEXEC\r\nMGET a c\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT Transaction discarded: its replies are more than 16777216 bytes, "
             "or the values that it "
             "writes more than 33554432, or the keys that it looks at take more than 67108864, or it is more than the log takes at "
             "once\r\n*2\r\n$1\r\n3\r\n$-1\r\n");
    r.m.room = SIZE_MAX;
    r.m.refuse = HTC_ENOSPC;
    converse(&r, "MULTI\r\nSET a 9\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded: the disk is full\r\n");
    rig_free(&r);
}

/* A full disk takes deletions, also several at once; a transaction with anything else in it is refused as a whole. */
Test(resp_transaction, a_full_disk_takes_deletions)
{
    rig r;
    make(&r, 1);
    converse(&r, "MSET a 1 b 2 c 3 d 4\r\n", "+OK\r\n");
    r.m.refuse = HTC_ENOSPC;
    converse(&r, "MULTI\r\nDEL a\r\nGET b\r\nDEL b\r\nEXEC\r\nMGET a b\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n$1\r\n2\r\n:1\r\n*2\r\n$-1\r\n$-1\r\n");
    converse(&r, "MULTI\r\nSET e x\r\nDEL e\r\nDEL c\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:1\r\n:1\r\n");
    converse(&r, "MULTI\r\nDEL d\r\nSET e \"\"\r\nEXEC\r\nEXISTS d\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT Transaction discarded: the disk is full\r\n:1\r\n");
    rig_free(&r);
}

/* Several members: of one key it is a transaction, of several it is refused before anything is executed. */
Test(resp_transaction, several_members_take_one_key)
{
    rig r;
    make(&r, 0);
    converse(&r, "MULTI\r\nINCR n\r\nEXPIRE n 50\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:1\r\n");
    converse(&r, "MULTI\r\nINCR n\r\nINCR m\r\nEXEC\r\nMGET n m\r\nTTL n\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n" SEVERAL "*2\r\n$1\r\n1\r\n$-1\r\n:50\r\n");
    converse(&r, "MULTI\r\nINCR n\r\nGET m\r\nEXEC\r\nGET n\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n" SEVERAL "$1\r\n1\r\n");
    converse(&r, "WATCH m\r\nMULTI\r\nINCR n\r\nEXEC\r\nGET n\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n" SEVERAL "$1\r\n1\r\n");
    converse(&r, "MULTI\r\nMSET n 1 n 2\r\nGET n\r\nTTL n\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n$1\r\n2\r\n:-1\r\n");
    converse(&r, "MULTI\r\nGET n\r\nDEL n\r\nEXEC\r\nEXISTS n\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\n2\r\n:1\r\n:0\r\n");
    converse(&r, "WATCH n\r\n", "+OK\r\n");
    other(&r, "SET n 7\r\n");
    converse(&r, "MULTI\r\nINCR n\r\nEXEC\r\nGET n\r\n", "+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n7\r\n");
    rig_free(&r);
}

/* Two that change one key in transactions, their answers late in any order: none of the changes is lost, and none is made twice. */
Test(resp_transaction, compare_and_swap_loses_nothing)
{
    for (uint64_t seed = 1; seed < 60; seed++) {
        htc_rng rng = { seed };
        rig     r;
        int     done = 0;
        rig_make(&r, &(htc__resp_options){ 0 }, &rng);
        rig_open(&r, 2);
        for (int i = 0; i < 20; i++)
            for (uint32_t peer = 1; peer <= 2; peer++)
                rig_input(&r, HTC_IN_BYTES, peer, htc_bytes_of("MULTI\r\nINCR n\r\nGET n\r\nINCRBY n 2\r\nEXEC\r\n"),
                          0);
        rig_settle(&r);
        for (uint32_t peer = 1; peer <= 2; peer++) {
            htc_put_u8(&r.said[peer], 0);
            for (const char *p = (char *)r.said[peer].data; (p = strstr(p, "*3\r\n")); p++)
                done++;
            cr_expect(!strstr((char *)r.said[peer].data, "TRYAGAIN"));
        }
        model_key *k = model_find(&r.m, htc_bytes_of("n"));
        cr_expect(k && k->len == 3 && memcmp(k->value, "120", 3) == 0);
        cr_expect(done == 40, "seed %llu: %d", (unsigned long long)seed, done);
        rig_free(&r);
    }
}

/* A queue is bounded, of one connection and of all; what it took is given back. */
Test(resp_transaction, queues_are_bounded)
{
    htc__resp_options o = { .input_max = 100000 };
    rig               r;
    char              text[20100] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n";
    size_t            head = strlen(text);
    memset(text + head, 'x', 20000);
    memcpy(text + head + 20000, "\r\n", 3);
    rig_make(&r, &o, NULL);
    r.m.alone = 1;
    for (int round = 0; round < 3; round++) {
        converse(&r, "MULTI\r\n", "+OK\r\n");
        for (int i = 0; i < 5; i++)
            converse(&r, text, "+QUEUED\r\n");
        converse(&r, text, "-ERR too many bytes of transactions are held for all clients\r\n");
        converse(&r, "EXEC\r\nEXISTS k\r\n", ABORTED ":0\r\n");
    }
    rig_free(&r);
    rig_make(&r, &(htc__resp_options){ 0 }, NULL);
    r.m.alone = 1;
    converse(&r, "MULTI\r\n", "+OK\r\n");
    for (int i = 0; i < 32768; i += 1024) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        for (int k = 0; k < 1024; k++)
            htc_put_text(&b, "INCR k\r\n");
        rig_input(&r, HTC_IN_BYTES, 1, htc_buf_bytes(&b), 0);
        rig_settle(&r);
        htc_buf_free(&b);
    }
    converse(&r, "INCR k\r\n", "-ERR a transaction has at most 32768 commands and 25165824 bytes of them\r\n");
    converse(&r, "EXEC\r\nEXISTS k\r\n", ABORTED ":0\r\n");
    rig_free(&r);
}

/* What connections watch counts as what they queue, and is given back. */
Test(resp_transaction, watched_names_are_bounded)
{
    rig  r;
    char text[500], name[401];
    rig_make(&r, &(htc__resp_options){ .input_max = 8000 }, NULL);
    r.m.alone = 1;
    for (int round = 0; round < 3; round++) {
        int watched = 0;
        for (; watched < 100; watched++) {
            snprintf(name, sizeof name, "%0400d", watched);
            snprintf(text, sizeof text, "WATCH %s\r\n", name);
            size_t before = r.said[1].len;
            rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(text), 0);
            rig_settle(&r);
            if (r.said[1].data[before] == '-')
                break;
        }
        cr_expect(watched >= 8 && watched <= 20, "%d names of 400 bytes in 8000", watched);
        snprintf(name, sizeof name, "%0400d", 0);
        snprintf(text, sizeof text, "WATCH %s\r\n", name); /* what is watched already takes no room */
        converse(&r, text, "+OK\r\n");
        converse(&r, round == 0 ? "UNWATCH\r\n" : round == 1 ? "MULTI\r\nEXEC\r\n" : "MULTI\r\nDISCARD\r\n",
                 round == 0 ? "+OK\r\n" : round == 1 ? "+OK\r\n" ABORTED : "+OK\r\n+OK\r\n");
    }
    rig_free(&r);
}

/* Who has queued much and does not go on does not keep others from transactions of their own; who speaks is refused, not ended. */
Test(resp_transaction, an_idle_queue_makes_room_for_others)
{
    static const char ended[] = "-ERR too many bytes of unfinished requests and transactions are held for all clients, and most of them for "
                                "longest for this one\r\n";
    char   text[20100] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n";
    size_t head = strlen(text);
    rig    r;
    memset(text + head, 'x', 20000);
    memcpy(text + head + 20000, "\r\n", 3);
    rig_make(&r, &(htc__resp_options){ .input_max = 100000 }, NULL);
    r.m.alone = 1;
    rig_open(&r, 2);
    other(&r, "WATCH w\r\nMULTI\r\n");
    for (int i = 0; i < 4; i++)
        other(&r, text);
    cr_expect(!r.closed[2]);
    htc_buf_clear(&r.said[2]);
    converse(&r, "MULTI\r\n", "+OK\r\n");
    for (int i = 0; i < 5; i++)
        converse(&r, text, "+QUEUED\r\n");
    cr_expect(r.closed[2]);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[2]), htc_bytes_of(ended)));
    converse(&r, text, "-ERR too many bytes of transactions are held for all clients\r\n");
    cr_expect(!r.closed[1]);
    rig_free(&r);
}

/* Its share is its own, however long it keeps it. */
Test(resp_transaction, a_small_idle_transaction_is_left_alone)
{
    char   text[20100] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n";
    size_t head = strlen(text);
    rig    r;
    memset(text + head, 'x', 20000);
    memcpy(text + head + 20000, "\r\n", 3);
    rig_make(&r, &(htc__resp_options){ .input_max = 100000, .connections_max = 100 }, NULL);
    r.m.alone = 1;
    rig_open(&r, 2);
    other(&r, "WATCH w\r\nMULTI\r\nGET w\r\n");
    converse(&r, "MULTI\r\n", "+OK\r\n");
    for (int i = 0; i < 5; i++)
        converse(&r, text, "+QUEUED\r\n");
    converse(&r, text, "-ERR too many bytes of transactions are held for all clients\r\n");
    htc_buf_clear(&r.said[2]);
    other(&r, "EXEC\r\n");
    cr_expect(!r.closed[2]);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[2]), htc_bytes_of("*1\r\n$-1\r\n")));
    rig_free(&r);
}

/* While there is no room for what a transaction writes it is not worked out again and again, and what was worked out for nothing does not
 * count as executed. */
Test(resp_transaction, one_that_waits_for_room_is_worked_out_when_there_is_some)
{
    static const char *const forms[][2] = { { "MULTI\r\nGET k\r\nGET none\r\nSET k 12345\r\nEXEC\r\n",
                                              "*3\r\n$1\r\n0\r\n$-1\r\n+OK\r\n" },
                                            { "MSETNX a 123 b 45\r\n", ":1\r\n" } };
    for (size_t i = 0; i < 2; i++) {
        htc__resp_stats before, after;
        rig             r;
        make(&r, 1);
        converse(&r, "SET k 0\r\n", "+OK\r\n");
        htc__resp_stats_get(r.f, &before);
        r.m.room_now = 3;
        r.m.looked = 0;
        rig_input(&r, HTC_IN_BYTES, 1, htc_bytes_of(forms[i][0]), 0);
        rig_flush(&r);
        size_t looked = r.m.looked;
        cr_expect(gt(sz, looked, 0));
        htc_buf_clear(&r.said[1]);
        for (int k = 0; k < 20; k++)
            rig_flush(&r);
        cr_expect(le(sz, r.m.looked, looked));
        cr_expect(eq(sz, r.said[1].len, 0));
        r.m.room_now = 5;
        rig_settle(&r);
        cr_expect(htc_bytes_equal(htc_buf_bytes(&r.said[1]), htc_bytes_of(forms[i][1])));
        htc__resp_stats_get(r.f, &after);
        cr_expect(eq(u64, after.commands - before.commands, i == 0 ? 8 : 1));
        cr_expect(eq(u64, after.hits - before.hits, i == 0 ? 1 : 0));
        cr_expect(eq(u64, after.misses - before.misses, i == 0 ? 1 : 0));
        rig_free(&r);
    }
}

/* Who may not watch what it wants to is not executed as if it did; so many names are watched, however often they are named. */
Test(resp_transaction, a_refused_watch_lets_no_transaction_through)
{
    enum { MAX = 1024 };
    rig     r;
    htc_buf all;
    char    text[500] = "WATCH b ";
    make(&r, 1);
    htc_buf_init(&all, NULL, 0);
    htc_put_text(&all, "WATCH");
    for (int i = 0; i < MAX; i++)
        htc_put_text(&all, " k%d", i);
    htc_put_text(&all, "\r\n%c", 0);
    memset(text + 8, 'k', 401);
    strcpy(text + 409, "\r\n");
    converse(&r, "WATCH a\r\n", "+OK\r\n");
    converse(&r, (char *)all.data, "-ERR a connection watches at most 1024 keys\r\n");
    converse(&r, "MULTI\r\nSET x 1\r\nEXEC\r\nEXISTS x\r\n", "+OK\r\n+QUEUED\r\n" ABORTED ":0\r\n");
    for (int i = 0; i < 3; i++)
        converse(&r, (char *)all.data, "+OK\r\n");
    converse(&r, "WATCH k1 k2 k1\r\nWATCH a\r\nUNWATCH\r\n", "+OK\r\n-ERR a connection watches at most 1024 keys\r\n+OK\r\n");
    converse(&r, "WATCH a a a\r\nMULTI\r\nSET x 1\r\nEXEC\r\nDEL x\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n:1\r\n");
    converse(&r, text, "-ERR a key of this store has 1 to 400 bytes: this one is longer\r\n");
    converse(&r, "MULTI\r\nSET x 1\r\nEXEC\r\nEXISTS x\r\n", "+OK\r\n+QUEUED\r\n" ABORTED ":0\r\n");
    htc_buf_free(&all);
    rig_free(&r);
}
