/* What the store holds of an agent: written and read, as it was written before agents had several slots, and refused. */
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
