/* SET key value [NX | XX | IFEQ value] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]. */
#include "kvs/resp/resp_private.h"

typedef struct options {
    htc_kv_request q;
    int            get, ifeq, ttls; /* ttls: how many words about the time it lives */
    const char    *wrong;
} options;

/* A number of units from now on, or a moment since 1970: either way a ttl of at least 1 ns. */
static htc_ns ttl_of(const htc__resp_call *x, htc_bytes text, int64_t unit_ms, int moment, const char **wrong)
{
    int64_t left;
    int     is = htc__resp_time(x, text, unit_ms, moment, &left);
    if (is == HTC__RESP_NO_NUMBER)
        *wrong = "ERR value is not an integer or out of range";
    else if (is != HTC__RESP_TIME)
        *wrong = "ERR invalid expire time in 'set' command";
    return *wrong ? 0 : htc__resp_life(left);
}

/* Words as htc__resp_word has them. */
enum {
    EX = 'E' << 8 | 'X',
    PX = 'P' << 8 | 'X',
    NX = 'N' << 8 | 'X',
    XX = 'X' << 8 | 'X',
    GET = ('G' << 8 | 'E') << 8 | 'T'
};
#define WORD4(a, b, c, d) ((uint64_t)(a) << 24 | (uint64_t)(b) << 16 | (uint64_t)(c) << 8 | (uint64_t)(d))
#define EXAT              WORD4('E', 'X', 'A', 'T')
#define PXAT              WORD4('P', 'X', 'A', 'T')
#define IFEQ              WORD4('I', 'F', 'E', 'Q')
#define KEEPTTL           (WORD4('K', 'E', 'E', 'P') << 24 | (uint64_t)('T' << 8 | 'T') << 8 | 'L')

/* How many arguments a time takes; 0: it is wrong. */
static uint32_t time_of(htc__resp_call *x, uint32_t i, int64_t unit_ms, int moment, options *o)
{
    if (i + 1 >= x->r->argc)
        return 0;
    o->ttls++;
    o->q.ttl = ttl_of(x, htc__resp_arg(x, i + 1), unit_ms, moment, &o->wrong);
    return o->wrong ? 0 : 2;
}

/* The option at argument i; how many arguments it took, 0: it is wrong. */
static uint32_t option(htc__resp_call *x, uint32_t i, options *o)
{
    switch (htc__resp_word(htc__resp_arg(x, i))) {
    case NX:
        o->q.flags |= HTC_KV_NX;
        return 1;
    case XX:
        o->q.flags |= HTC_KV_XX;
        return 1;
    case GET:
        o->get = 1;
        return 1;
    case KEEPTTL:
        o->ttls++;
        o->q.flags |= HTC_KV_KEEP_TTL;
        return 1;
    case IFEQ:
        if (i + 1 >= x->r->argc || o->ifeq)
            return 0;
        o->ifeq = 1;
        o->q.seen = htc__resp_arg(x, i + 1);
        return 2;
    case EX:
        return time_of(x, i, 1000, 0, o);
    case PX:
        return time_of(x, i, 1, 0, o);
    case EXAT:
        return time_of(x, i, 1000, 1, o);
    case PXAT:
        return time_of(x, i, 1, 1, o);
    default:
        return 0;
    }
}

static int syntax(htc__resp_call *x, const options *o)
{
    return htc__resp_error(x, o->wrong ? o->wrong : "ERR syntax error");
}

int htc__resp_run_set(htc__resp_call *x)
{
    options o = { .q = { .op = HTC_KV_PUT, .key = htc__resp_arg(x, 1), .value = htc__resp_arg(x, 2) } };
    if (x->r->argc == 3) {
        htc__resp_ask(x, &o.q, KIND_OK);
        return 1;
    }
    for (uint32_t i = 3, took; i < x->r->argc; i += took)
        if ((took = option(x, i, &o)) == 0)
            return syntax(x, &o);
    uint32_t conditions = o.q.flags & (HTC_KV_NX | HTC_KV_XX);
    if (o.ttls > 1 || conditions == (HTC_KV_NX | HTC_KV_XX) || (o.ifeq && conditions))
        return syntax(x, &o);
    htc__resp_kind kind = o.get ? KIND_OLD : conditions || o.ifeq ? KIND_OK_OR_NULL : KIND_OK;
    if (o.ifeq) {
        o.q.op = HTC_KV_CAS_VALUE;
        o.q.flags |= o.ttls ? 0 : HTC_KV_KEEP_TTL; /* a compare-and-swap alone would end it */
        kind = o.get ? KIND_SEEN : kind;
    } else if (o.get) {
        o.q.flags |= HTC_KV_WANT_OLD;
    }
    htc__resp_ask(x, &o.q, kind);
    return 1;
}
