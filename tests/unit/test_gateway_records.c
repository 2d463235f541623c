/* What the store holds of an agent: written and read, as it was written before agents had several slots, and refused. And no record that grows with the
 * work of a job is larger than what etcd takes. */
#include "expect.h"

#include "roles/gateway/gateway.h"

static htc_buf b;

static void open_buf(void)
{
    htc_env env = { .size = sizeof env };
    htc_buf_init(&b, &env, 0);
}

static void close_buf(void)
{
    htc_buf_free(&b);
}

TestSuite(gateway_records, .init = open_buf, .fini = close_buf);

static void write_old(uint64_t id, uint32_t number)
{
    htc_put_u8(&b, 2);
    htc_put_u64(&b, id);
    htc_put_str(&b, "olga");
    htc_put_varint(&b, 1);
    htc_put_varint(&b, number);
    htc_put_str(&b, "handle");
    htc_put_str(&b, "process 7");
    htc_put_u64(&b, 99);
}

Test(gateway_records, slots_of_an_agent_read_back)
{
    user  u = { .name = "olga" };
    agent a = { .id = 5,
                .user = &u,
                .site = 1,
                .slots = { 3, 0, 70000 },
                .n_slots = 3,
                .claim = 400,
                .launched_wall = 99 },
          c = { 0 };
    char name[NAME_MAX_BYTES];
    htc__gw_record_agent_write(&b, &a);
    cr_assert(eq(int, htc__gw_record_agent_read(htc_buf_bytes(&b), &c, name), HTC_OK));
    cr_expect(eq(str, name, "olga") && c.id == 5 && c.site == 1 && c.claim == 400 && c.launched_wall == 99 &&
              !c.one_slot);
    cr_expect(c.n_slots == 3 && c.slots[0] == 3 && c.slots[1] == 0 && c.slots[2] == 70000);
}

/* It has one slot, and knows no SLOTS. The next gateway has to know that too. */
Test(gateway_records, a_record_of_one_slot_is_read)
{
    agent a = { 0 };
    char  name[NAME_MAX_BYTES];
    write_old(5, 3);
    cr_assert(eq(int, htc__gw_record_agent_read(htc_buf_bytes(&b), &a, name), HTC_OK));
    cr_expect(a.id == 5 && a.n_slots == 1 && a.slots[0] == 3 && a.one_slot && a.claim == 0);
    user    u = { .name = "olga" };
    htc_buf again;
    a.user = &u;
    htc_buf_init(&again, NULL, 0);
    htc__gw_record_agent_write(&again, &a);
    cr_expect(htc_bytes_equal(htc_buf_bytes(&again), htc_buf_bytes(&b)));
    htc_buf_free(&again);
}

Test(gateway_records, slots_that_no_agent_has_are_refused)
{
    user  u = { .name = "olga" };
    agent twice = { .id = 5, .user = &u, .slots = { 3, 4, 3 }, .n_slots = 3 }, a = { 0 };
    char  name[NAME_MAX_BYTES];
    htc__gw_record_agent_write(&b, &twice);
    cr_expect(eq(int, htc__gw_record_agent_read(htc_buf_bytes(&b), &a, name), HTC_ECORRUPT));
    twice.n_slots = 1;
    htc__gw_record_agent_write(&b, &twice);
    b.data[b.len - 1] = AGENT_SLOTS_MAX; /* one and so many more */
    for (int i = 0; i < AGENT_SLOTS_MAX; i++)
        htc_put_varint(&b, 100 + (uint64_t)i);
    cr_expect(eq(int, htc__gw_record_agent_read(htc_buf_bytes(&b), &a, name), HTC_ECORRUPT));
}

#define ETCD_TAKES ((size_t)1 << 20)

/* A manifest is a file: of outputs the result has a hash and sums. */
Test(gateway_records, the_largest_result_fits_etcd)
{
    char        tail[HTC_STDERR_TAIL_MAX];
    htc_outcome o = { .status = HTC_EEXIT, .exit_code = -1, .cpu_ns = UINT64_MAX, .memory_peak = UINT64_MAX, .started = 1, .ended = UINT64_MAX,
                      .stderr_tail = { tail, sizeof tail }, .final = 1, .outputs = { .files = HTC_OUTPUTS_MAX, .bytes = UINT64_MAX } };
    memset(tail, 'x', sizeof tail);
    memset(o.node, 'n', sizeof o.node - 1);
    memset(o.reason, 'r', sizeof o.reason - 1);
    htc__gw_record_result_write(&b, &o);
    cr_assert(eq(int, b.status, HTC_OK));
    cr_expect(b.len > sizeof tail && b.len < ETCD_TAKES / 64, "%zu bytes", b.len);
}

/* 1024 tasks, each with a result in there and a node of its own, or each that is held or has failed. */
Test(gateway_records, the_largest_chunk_fits_etcd)
{
    char   name[sizeof(((htc_outcome *)0)->node)];
    chunk *c = calloc(1, sizeof *c + CHUNK_TASKS * sizeof(task));
    cr_assert(c != NULL);
    htc_buf_init(&c->nodes, NULL, 0);
    c->n = c->n_nodes = CHUNK_TASKS;
    c->used = (usage){ .core_ns = UINT64_MAX, .bytes = UINT64_MAX };
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (uint32_t i = 0; i < CHUNK_TASKS; i++) {
        htc_put_str(&c->nodes, name);
        c->tasks[i] = (task){ .state = TASK_DONE, .level = 7, .attempt = UINT32_MAX, .tries = UINT16_MAX, .lost = UINT16_MAX };
        memset(c->tasks[i].brief, 0xff, BRIEF_BYTES);
    }
    htc__gw_record_chunk_write(&b, c);
    cr_assert(eq(int, b.status, HTC_OK));
    cr_expect(b.len > CHUNK_TASKS * (BRIEF_BYTES + sizeof name) && b.len < ETCD_TAKES / 4, "%zu bytes", b.len);
    for (uint32_t i = 0; i < CHUNK_TASKS; i++)
        c->tasks[i] = (task){ .state = TASK_LEASED, .level = 7, .cancel = 1, .attempt = UINT32_MAX, .tries = UINT16_MAX, .lost = UINT16_MAX, .status = HTC_ELOST,
                              .agent = UINT64_MAX, .left = { 0, UINT64_MAX } };
    htc__gw_record_chunk_write(&b, c);
    cr_expect(b.status == HTC_OK && b.len > CHUNK_TASKS * 16 && b.len < ETCD_TAKES / 4, "%zu bytes", b.len);
    htc_buf_free(&c->nodes);
    free(c);
}
