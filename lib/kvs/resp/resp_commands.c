/* The table of commands, and the way from a name to its row. */
#include "kvs/resp/resp_private.h"

#define R         0
#define W         HTC__RESP_WRITES
#define F         (HTC__RESP_FREE | HTC__RESP_OUTSIDE)
#define NOW       HTC__RESP_NOW
#define O         HTC__RESP_OUTSIDE
#define RUN(name) htc__resp_run_##name

static const htc__resp_command commands[] = {
    { "GET", 2, R, RUN(get), 1, 1, 1, "The value of a key." },
    { "SET", -3, W, RUN(set), 1, 1, 1, "Set a value; NX, XX, IFEQ value, GET, EX, PX, EXAT, PXAT, KEEPTTL." },
    { "GETDEL", 2, W, RUN(getdel), 1, 1, 1, "The value of a key, which is deleted." },
    { "DEL", -2, W, RUN(del), 1, -1, 1, "Delete keys; how many there were." },
    { "UNLINK", -2, W, RUN(del), 1, -1, 1, "The same as DEL." },
    { "TOUCH", -2, R, RUN(exists), 1, -1, 1, "The same as EXISTS." },
    { "EXISTS", -2, R, RUN(exists), 1, -1, 1, "How many of these keys exist." },
    { "APPEND", 3, W, RUN(append), 1, 1, 1, "Add bytes at a value's end; its length." },
    { "STRLEN", 2, R, RUN(strlen), 1, 1, 1, "The length of a value." },
    { "INCR", 2, W, RUN(incr), 1, 1, 1, "Add 1." },
    { "DECR", 2, W, RUN(decr), 1, 1, 1, "Subtract 1." },
    { "INCRBY", 3, W, RUN(incrby), 1, 1, 1, "Add a number." },
    { "DECRBY", 3, W, RUN(decrby), 1, 1, 1, "Subtract a number." },
    { "MGET", -2, R, RUN(mget), 1, -1, 1, "The values of keys, each read by itself." },
    { "MSET", -3, W, RUN(mset), 1, -1, 2, "Set keys, each by itself." },
    { "SETNX", 3, W, RUN(setnx), 1, 1, 1, "Set a key that does not exist." },
    { "MSETNX", -3, W, RUN(msetnx), 1, -1, 2, "Set keys if none of them exists; with several members one key." },
    { "SETEX", 4, W, RUN(setex), 1, 1, 1, "Set a key that lives for seconds." },
    { "PSETEX", 4, W, RUN(psetex), 1, 1, 1, "Set a key that lives for milliseconds." },
    { "GETSET", 3, W, RUN(getset), 1, 1, 1, "Set a key; what was there before." },
    { "GETEX", -2, W, RUN(getex), 1, 1, 1, "The value of a key, whose time is set; EX, PX, EXAT, PXAT, PERSIST." },
    { "GETRANGE", 4, R, RUN(getrange), 1, 1, 1, "A part of a value." },
    { "SUBSTR", 4, R, RUN(getrange), 1, 1, 1, "The same as GETRANGE." },
    { "SETRANGE", 4, W, RUN(setrange), 1, 1, 1, "Write over a part of a value; its length." },
    { "INCRBYFLOAT", 3, W, RUN(incrbyfloat), 1, 1, 1, "Add a number that is no integer." },
    { "EXPIRE", -3, W, RUN(expire), 1, 1, 1, "Let a key live for seconds; NX, XX, GT, LT." },
    { "PEXPIRE", -3, W, RUN(expire), 1, 1, 1, "Let a key live for milliseconds; NX, XX, GT, LT." },
    { "EXPIREAT", -3, W, RUN(expire), 1, 1, 1, "Let a key live until a moment, in seconds since 1970; NX, XX, GT, LT." },
    { "PEXPIREAT", -3, W, RUN(expire), 1, 1, 1, "The same in milliseconds." },
    { "EXPIRETIME", 2, R, RUN(expiretime), 1, 1, 1, "When a key ends, in seconds since 1970." },
    { "PEXPIRETIME", 2, R, RUN(pexpiretime), 1, 1, 1, "The same in milliseconds." },
    { "TTL", 2, R, RUN(ttl), 1, 1, 1, "Seconds that a key has left." },
    { "PTTL", 2, R, RUN(pttl), 1, 1, 1, "Milliseconds that a key has left." },
    { "PERSIST", 2, W, RUN(persist), 1, 1, 1, "Let a key live on." },
    { "TYPE", 2, R, RUN(type), 1, 1, 1, "string, or none." },
    { "SCAN", -2, O, RUN(scan), 0, 0, 0, "Keys, page by page; MATCH, COUNT, TYPE." },
    { "KEYS", 2, O, RUN(keys), 0, 0, 0, "All keys that a pattern fits." },
    { "RANDOMKEY", 1, O, RUN(randomkey), 0, 0, 0, "Some key." },
    { "DBSIZE", 1, O, RUN(dbsize), 0, 0, 0, "How many keys there are." },
    { "FLUSHALL", -1, W | O, RUN(flush), 0, 0, 0, "Delete everything, where that is allowed." },
    { "FLUSHDB", -1, W | O, RUN(flush), 0, 0, 0, "The same as FLUSHALL." },
    { "MULTI", 1, NOW, RUN(multi), 0, 0, 0, "Queue commands until EXEC." },
    { "EXEC", 1, NOW, RUN(exec), 0, 0, 0, "Execute what is queued, all or nothing; with several members of one key." },
    { "DISCARD", 1, NOW, RUN(discard), 0, 0, 0, "Forget what is queued, and what is watched." },
    { "WATCH", -2, NOW, RUN(watch), 1, -1, 1, "EXEC does nothing if one of these keys has changed by then." },
    { "UNWATCH", 1, R, RUN(unwatch), 0, 0, 0, "Watch no key any more." },
    { "HELLO", -1, F, RUN(hello), 0, 0, 0, "Choose the protocol, AUTH, SETNAME." },
    { "AUTH", -2, F, RUN(auth), 0, 0, 0, "Show the password." },
    { "PING", -1, R, RUN(ping), 0, 0, 0, "PONG, or what was said." },
    { "ECHO", 2, R, RUN(echo), 0, 0, 0, "What was said." },
    { "SELECT", 2, R, RUN(select), 0, 0, 0, "0 is the only number there is." },
    { "INFO", -1, O, RUN(info), 0, 0, 0, "How the server is." },
    { "CLIENT", -2, O, RUN(client), 0, 0, 0, "ID, INFO, LIST, KILL, GETNAME, SETNAME, SETINFO, NO-EVICT, NO-TOUCH." },
    { "COMMAND", -1, R, RUN(command), 0, 0, 0, "The commands; COUNT, DOCS, INFO." },
    { "TIME", 1, R, RUN(time), 0, 0, 0, "Seconds since 1970, and microseconds." },
    { "ROLE", 1, R, RUN(role), 0, 0, 0, "master: changes can be sent here." },
    { "CONFIG", -2, R, RUN(config), 0, 0, 0, "GET a few things that tools ask for." },
    { "QUIT", -1, HTC__RESP_FREE | NOW, RUN(quit), 0, 0, 0, "Close the connection." },
    { "RESET", 1, HTC__RESP_FREE | NOW, RUN(reset), 0, 0, 0, "Be as a new connection." },
};

/* Of names of up to 16 letters; longer ones than 8 are compared when they are found. */
static uint64_t number_of(htc_bytes name)
{
    htc_bytes first = { name.data, name.len < 8 ? name.len : 8 };
    if (name.len <= 8)
        return htc__resp_word(name);
    uint64_t a = htc__resp_word(first), b = htc__resp_word((htc_bytes){ (const uint8_t *)name.data + 8, name.len - 8 });
    return a && b ? a ^ b * UINT64_C(0x9e3779b97f4a7c15) : 0;
}

static int is_name(htc_bytes given, const char *name)
{
    for (size_t i = 0; i < given.len; i++)
        if ((((const uint8_t *)given.data)[i] & 0xdf) != name[i])
            return 0;
    return !name[given.len];
}

static size_t row(uint64_t k)
{
    return (size_t)((k * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

void htc__resp_commands_init(htc__resp *f)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        uint64_t k = number_of(htc_bytes_of(commands[i].name));
        size_t   at = row(k);
        while (f->by_hash[at])
            at = (at + 1) % 256;
        f->by_hash[at] = &commands[i];
        f->names[at] = k;
    }
}

const htc__resp_command *htc__resp_command_find(const htc__resp *f, htc_bytes name)
{
    uint64_t k = number_of(name);
    for (size_t at = row(k); k && f->by_hash[at]; at = (at + 1) % 256)
        if (f->names[at] == k && (name.len <= 8 || is_name(name, f->by_hash[at]->name)))
            return f->by_hash[at];
    return NULL;
}

const htc__resp_command *htc__resp_command_at(size_t i)
{
    return i < sizeof commands / sizeof *commands ? &commands[i] : NULL;
}
