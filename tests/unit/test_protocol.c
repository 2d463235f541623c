/* doc/protocol.md shows bytes: each of its blocks ```hex NAME is what the library writes, and what it reads as the page says. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_backup.h"
#include "kvs/cell/cell.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/peer/map_items.h"
#include "kvs/peer/members.h"

#define CLIENT  UINT64_C(0x1122334455667788)
#define SESSION 42

typedef struct bytes {
    size_t  len;
    uint8_t at[512];
} bytes;

static char *read_page(void)
{
    const char *source = getenv("SOURCE");
    char        path[4096];
    cr_assert(source != NULL, "SOURCE names the folder of the sources");
    snprintf(path, sizeof path, "%s/doc/protocol.md", source);
    FILE *f = fopen(path, "r");
    cr_assert(f && fseek(f, 0, SEEK_END) == 0);
    size_t size = (size_t)ftell(f);
    char  *text = calloc(1, size + 1);
    rewind(f);
    cr_assert(text && fread(text, 1, size, f) == size);
    fclose(f);
    return text;
}

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Bytes have one blank between them; behind two blanks stands what they are. */
static void take_line(const char *p, bytes *b)
{
    while (digit(p[0]) >= 0 && digit(p[1]) >= 0 && (p[2] == ' ' || p[2] == '\n')) {
        cr_assert(b->len < sizeof b->at);
        b->at[b->len++] = (uint8_t)(digit(p[0]) << 4 | digit(p[1]));
        if (p[2] == '\n')
            return;
        p += 3;
    }
    cr_assert(p[0] == ' ', "a line of bytes is broken: %.40s", p);
}

static bytes shown(const char *name)
{
    char  head[64], *text = read_page();
    bytes b = { 0 };
    snprintf(head, sizeof head, "\n```hex %s\n", name);
    const char *p = strstr(text, head);
    cr_assert(p != NULL, "the page has no block %s", name);
    for (p += strlen(head); strncmp(p, "```", 3) != 0; p = strchr(p, '\n') + 1) {
        cr_assert(p[0] && strchr(p, '\n'));
        take_line(p, &b);
    }
    free(text);
    return b;
}

static void expect(const char *name, const htc_buf *b)
{
    bytes on_page = shown(name);
    char  is[3 * sizeof on_page.at + 1] = "";
    for (size_t i = 0; i < b->len && i < sizeof on_page.at; i++)
        snprintf(is + 3 * i, 4, "%02x ", b->data[i]);
    cr_expect(b->status == HTC_OK && on_page.len == b->len && memcmp(on_page.at, b->data, b->len) == 0,
              "the block %s shows something else than %s", name, is);
}

/* As a connection carries it. */
static void expect_frame(const char *name, const htc_buf *message)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, (uint32_t)message->len);
    htc_put_raw(&b, htc_buf_bytes(message));
    expect(name, &b);
    htc_buf_free(&b);
}

static htc_reader payload_of(const bytes *frame, uint16_t type, uint64_t id)
{
    uint16_t   found;
    uint64_t   its;
    htc_reader r = htc_reader_of((htc_bytes){ frame->at, frame->len });
    cr_assert(eq(u32, htc_get_u32(&r), (uint32_t)frame->len - 4));
    r = htc_wire_open((htc_bytes){ r.p, htc_reader_left(&r) }, &found, &its);
    cr_assert(r.status == HTC_OK && found == type && its == id);
    return r;
}

Test(protocol, greeting)
{
    htc_buf b;
    uint8_t  role = 0;
    uint16_t version = 0;
    bytes    frame = shown("hello");
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    expect_frame("hello", &b);
    htc_reader r = payload_of(&frame, HTC_WIRE_HELLO, 0);
    cr_expect(htc_wire_read_hello(&r, HTC_WIRE_VERSION, &role, &version) == HTC_OK && role == HTC_WIRE_ROLE_STORE_CLIENT);
    htc_wire_welcome(&b, 0, HTC_WIRE_VERSION);
    expect_frame("welcome", &b);
    htc_buf_free(&b);
}

Test(protocol, a_session_is_asked_for)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 1);
    htc__kv_head_write(&b, &(htc__kv_head){ .client = CLIENT });
    expect_frame("session", &b);
    htc__kv_answer_begin(&b, 1, &(htc__kv_answer_head){ .clock = 6, .session = SESSION });
    htc__kv_answer_end(&b, 0, 0);
    expect_frame("named", &b);
    htc_buf_free(&b);
}

static const htc_kv_request operations[] = {
    { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_NX, .ttl = 3600 * HTC_SECOND, .key = { "greeting", 8 }, .value = { "hello", 5 } },
    { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { "visits", 6 } },
};

Test(protocol, a_request)
{
    htc_buf        b;
    htc_kv_request q = { .size = sizeof q };
    htc__kv_head   head = { .session = SESSION, .client = CLIENT, .since = 6, .sequence = 3, .count = 2 }, read;
    bytes          frame = shown("request");
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 2);
    htc__kv_head_write(&b, &head);
    for (size_t i = 0; i < 2; i++)
        htc__kv_op_write(&b, &operations[i]);
    expect_frame("request", &b);
    htc_reader r = payload_of(&frame, HTC_WIRE_KV_REQUEST, 2);
    htc__kv_head_read(&r, &read);
    cr_expect(read.session == SESSION && read.client == CLIENT && read.since == 6 && !read.flags && read.sequence == 3);
    for (size_t i = 0; i < 2; i++) {
        htc__kv_op_read(&r, &q);
        cr_expect(q.op == operations[i].op && q.flags == operations[i].flags && q.ttl == operations[i].ttl);
        cr_expect(htc_bytes_equal(q.key, operations[i].key) && htc_bytes_equal(q.value, operations[i].value));
    }
    cr_expect(htc_reader_done(&r) == HTC_OK);
    htc_buf_free(&b);
}

Test(protocol, an_answer)
{
    htc_buf             b;
    htc__kv_answer_head head;
    htc_kv_result       put = { .size = sizeof put, .op = HTC_KV_PUT, .version = 7 }, get = { .size = sizeof(htc_kv_result), .op = HTC_KV_GET, .version = 5, .value = { "2", 1 } };
    htc_kv_result       first = { .size = sizeof first }, second = { .size = sizeof(htc_kv_result) };
    bytes               frame = shown("answer");
    htc_buf_init(&b, NULL, 0);
    htc__kv_answer_begin(&b, 2, &(htc__kv_answer_head){ .clock = 7, .session = SESSION });
    htc__kv_result_write(&b, &put);
    htc__kv_result_write(&b, &get);
    htc__kv_answer_end(&b, 2, 0);
    expect_frame("answer", &b);
    htc_reader r = payload_of(&frame, HTC_WIRE_KV_ANSWER, 2);
    htc__kv_answer_read(&r, &head);
    htc__kv_result_read(&r, &first);
    htc__kv_result_read(&r, &second);
    cr_expect(htc_reader_done(&r) == HTC_OK && head.count == 2 && head.clock == 7 && head.session == SESSION);
    cr_expect(first.version == 7 && !first.value.data && second.version == 5 && htc_bytes_equal(second.value, htc_bytes_of("2")));
    htc_buf_free(&b);
}

Test(protocol, a_pack)
{
    htc_buf        b, one;
    htc_kv_request q = { .size = sizeof q };
    htc__kv_head   heads[] = { { .client = CLIENT, .since = 6, .sequence = 5, .count = 1 }, { .client = CLIENT + 1, .sequence = 1, .count = 1 } }, read;
    bytes          frame = shown("pack");
    htc_bytes      request;
    size_t         n = 0;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&one, NULL, 0);
    htc__kv_pack_begin(&b, 5, SESSION);
    for (size_t i = 0; i < 2; i++) {
        htc_buf_clear(&one);
        htc__kv_head_write_packed(&one, &heads[i]);
        htc__kv_op_write(&one, &operations[1]);
        htc_put_bytes(&b, htc_buf_bytes(&one));
    }
    expect_frame("pack", &b);
    htc_reader r = payload_of(&frame, HTC_WIRE_KV_PACK, 5);
    cr_expect(htc_get_u64(&r) == SESSION);
    for (; htc__kv_pack_next(&r, &request); n++) {
        htc_reader in = htc_reader_of(request);
        htc__kv_head_read_packed(&in, &read);
        cr_expect(read.client == heads[n].client && read.since == heads[n].since && read.sequence == heads[n].sequence && read.count == 1);
        htc__kv_op_read(&in, &q);
        cr_expect(htc_reader_done(&in) == HTC_OK && q.op == HTC_KV_GET && htc_bytes_equal(q.key, htc_bytes_of("visits")));
    }
    cr_expect(n == 2 && htc_reader_done(&r) == HTC_OK);
    htc_buf_free(&b);
    htc_buf_free(&one);
}

Test(protocol, cells)
{
    htc_buf      b;
    htc__kv_cell alone = { .present = 1, .version = 7, .count = 1, .value = { "hello", 5 } }, one = alone;
    alone.seen[0] = (htc__kv_seen){ .client = CLIENT, .sequence = 3, .version = 7 };
    one.count = 0;
    one.accepted = (htc__kv_ballot){ 2, 300, 10 };
    one.promise = htc__kv_ballot_next(one.accepted);
    htc_buf_init(&b, NULL, 0);
    htc__kv_cell_write(&b, &alone);
    expect("cell", &b);
    htc_buf_clear(&b);
    htc__kv_cell_write(&b, &one);
    expect("accepted", &b);
    htc_buf_clear(&b);
    htc_put_raw(&b, htc_bytes_of("greeting"));
    htc__kv_seal(&b, (htc_bytes){ "t\0\0\0\0\0\0\0\7", 9 }, 0);
    expect("sealed", &b);
    htc_buf_free(&b);
}

Test(protocol, a_map)
{
    htc_buf            b;
    htc__kv_map       *map = NULL;
    htc__kv_map_member member = { .id = 0xaa, .weight = 1, .address = "unix:/sock" };
    bytes              on_page = shown("map");
    htc_buf_init(&b, NULL, 0);
    cr_assert(htc__kv_map_create(NULL, 0, 1, 3, &member, 1, &map) == HTC_OK);
    htc__kv_map_encode(&b, map);
    expect("map", &b);
    htc__kv_map_destroy(map);
    cr_assert(htc__kv_map_decode(NULL, (htc_bytes){ on_page.at, on_page.len }, &map) == HTC_OK);
    cr_expect(map->members == 1 && map->member[0].id == 0xaa && map->numbers == 1 && map->own.n == 1);
    htc__kv_map_destroy(map);
    htc_buf_free(&b);
}

static void put_item(htc_buf *b, uint8_t kind, htc_buf *item)
{
    htc_put_u8(b, kind);
    htc_put_bytes(b, htc_buf_bytes(item));
    htc_buf_clear(item);
}

Test(protocol, who_wants_to_be_let_in)
{
    htc_buf            b, item;
    htc__kv_map_member member = { .id = 0xaa, .weight = 1, .address = "unix:/sock" };
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&item, NULL, 0);
    htc__kv_members_begin(&b, 1, 0xaa, 0);
    htc__kv_as_of_write(&item, 0);
    put_item(&b, HTC__KV_ITEM_AS_OF, &item);
    htc__kv_join_write(&item, &member, 0);
    put_item(&b, HTC__KV_ITEM_JOIN, &item);
    expect_frame("join", &b);
    htc__kv_members_begin(&b, 1, 0xbb, 0xaa);
    htc__kv_as_of_write(&item, 7);
    put_item(&b, HTC__KV_ITEM_AS_OF, &item);
    htc_put_u32(&item, (uint32_t)HTC_EBUSY);
    put_item(&b, HTC__KV_ITEM_REFUSED, &item);
    expect_frame("refused", &b);
    htc_buf_free(&b);
    htc_buf_free(&item);
}

Test(protocol, a_backup)
{
    htc_buf              b;
    htc_kv_backup_counts counts = { .size = sizeof counts };
    htc_kv_backup_item   item = { .size = sizeof item, .key = { "greeting", 8 }, .value = { "hello", 5 }, .version = 7 };
    htc_buf_init(&b, NULL, 0);
    cr_assert(eq(int, htc_kv_backup_begin(&b, &counts), HTC_OK));
    cr_assert(eq(int, htc_kv_backup_put(&b, &counts, &item), HTC_OK));
    cr_assert(eq(int, htc_kv_backup_end(&b, &counts), HTC_OK));
    expect("backup", &b);
    htc_buf_free(&b);
}
