/* A prefix that starts over, while the backend takes its time with the page: what is lost on its way is told again, as it is then. The
 * connection is played by hand, message by message, and so is what there is to read. */
#include "expect.h"

#include "core/fault.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/front/watch.h"

#define PEER    3u
#define SESSION UINT64_C(77)
#define WATCH   5u

static htc_bytes B(const char *s)
{
    return htc_bytes_of(s);
}

typedef struct scene {
    htc__kv_watches      w;
    htc_output          *out;
    const htc__kv_face  *face; /* of the newest page that was asked for */
    uint64_t             conn, slot;
    uint32_t             pages; /* so many were */
    size_t               cursor_len;
    uint64_t             sent, taken, told; /* messages of the watcher; of the member: the newest that was taken, that was told */
    char                 seen[100];
} scene;

/* A page is answered when a test says so; each key that is looked at is deleted. */
static int asked(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face, uint64_t conn,
                 uint64_t slot, htc_kv_result *result)
{
    scene *s = ctx;
    (void)stamp;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op, .status = HTC_ENOTFOUND, .version = 9 };
    if (q->op == HTC_KV_GET)
        return 1;
    s->face = face;
    s->conn = conn;
    s->slot = slot;
    s->pages++;
    s->cursor_len = q->cursor.len;
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    return 0;
}

static void note(scene *s, const htc_kv_event *e)
{
    static const char *const words[] = { [HTC_KV_EVENT_VALUE] = "", [HTC_KV_EVENT_DELETED] = "-", [HTC_KV_EVENT_CURRENT] = "now",
                                         [HTC_KV_EVENT_START_OVER] = "over", [HTC_KV_EVENT_ENDED] = "ended" };
    size_t at = strlen(s->seen);
    cr_assert(eq(u64, e->tag, WATCH));
    snprintf(s->seen + at, sizeof s->seen - at, "%s%s%.*s", at ? " " : "", words[e->kind], (int)e->key.len, (const char *)e->key.data);
}

/* What the member says now; "": nothing, or only that it has heard. */
static const char *says(scene *s)
{
    htc_effect   e;
    htc_kv_event event;
    uint64_t     session, heard, number;
    uint16_t     type;
    s->seen[0] = '\0';
    htc_output_clear(s->out);
    cr_assert(eq(int, htc__kv_watches_flush(&s->w, s->w.now, s->out), HTC_OK));
    cr_assert(htc_output_count(s->out) <= 1, "one message is on its way at most");
    if (htc_output_get(s->out, 0, &e) != HTC_OK)
        return s->seen;
    htc_reader r = htc_wire_open(e.body, &type, &number);
    htc__kv_events_read(&r, &session, &heard);
    while (htc__kv_event_next(&r, &event))
        note(s, &event);
    cr_assert(eq(int, htc_reader_done(&r), HTC_OK));
    cr_assert(eq(u64, number, ++s->told));
    return s->seen;
}

static void hears(scene *s, int repeated, const htc__kv_watch_wish *wish)
{
    htc_buf  b;
    uint16_t type;
    uint64_t id;
    htc_buf_init(&b, NULL, 0);
    htc__kv_watch_begin(&b, ++s->sent, SESSION, repeated, s->taken);
    if (wish)
        htc__kv_watch_wish_write(&b, wish);
    cr_assert(eq(int, htc__kv_watches_input(&s->w, PEER, SESSION, s->sent, htc_wire_open(htc_buf_bytes(&b), &type, &id)), HTC_OK));
    htc_buf_free(&b);
}

/* The watcher has all that was told, and asks for more. */
static void takes(scene *s)
{
    s->taken = s->told;
    hears(s, 0, NULL);
}

/* What was told since it last took something did not come: it asks again. */
static void misses(scene *s)
{
    hears(s, 1, NULL);
}

/* The page that was asked for last: those keys, one letter each. */
static void page(scene *s, htc_status status, const char *keys, const char *cursor)
{
    htc_kv_result r = { .size = sizeof r, .op = HTC_KV_SCAN, .status = status, .cursor = B(cursor) };
    htc_buf       items;
    htc_buf_init(&items, NULL, 0);
    for (const char *k = keys; *k; k++, r.items++)
        htc__kv_item_write(&items, (htc_bytes){ k, 1 }, 7, B("v"));
    r.items_bytes = htc_buf_bytes(&items);
    s->face->answer(s->face->ctx, s->conn, s->slot, &r);
    htc_buf_free(&items);
}

/* All keys are watched, and those of them have been told. */
static void open_scene(scene *s, const char *keys)
{
    memset(s, 0, sizeof *s);
    s->w.backend = (htc__kv_backend){ .ask = asked, .ctx = s };
    s->w.watches_max = s->w.marks_max = 10;
    htc__kv_watches_init(&s->w);
    cr_assert(eq(int, htc_output_create(NULL, 0, &s->out), HTC_OK));
    hears(s, 0, &(htc__kv_watch_wish){ .watch = WATCH, .kind = HTC__KV_WISH_PREFIX });
    cr_assert(eq(str, (char *)says(s), ""));
    takes(s);
    page(s, HTC_OK, keys, "");
    says(s);
    takes(s);
    cr_assert(eq(str, (char *)says(s), ""));
    cr_assert(eq(u32, s->pages, 1));
}

static void close_scene(scene *s)
{
    htc__kv_watches_free(&s->w);
    htc_output_destroy(s->out);
}

static void start_over(scene *s)
{
    htc__kv_watches_over(&s->w, B(""));
}

/* Whatever is lost between the start and the page: who holds a key that has gone meanwhile is told to forget it. 1: so it is. */
static int over_comes_with_the_page(void)
{
    scene s;
    open_scene(&s, "ab");
    start_over(&s);
    says(&s); /* nothing, or what is lost */
    misses(&s);
    says(&s);
    page(&s, HTC_OK, "a", "");
    int right = strcmp(says(&s), "over a now") == 0;
    close_scene(&s);
    return right;
}

Test(kvs_watch_pages, that_it_starts_over_is_told_with_its_first_page)
{
    cr_expect(over_comes_with_the_page());
}

Test(kvs_watch_pages, a_broken_rule_is_noticed)
{
    htc__broken_set(htc__broken_find("over_before_page"), 1);
    cr_expect(!over_comes_with_the_page());
    htc__broken_set(htc__broken_find("over_before_page"), 0);
}

/* Another start for each message that is lost, whichever page it brings; what changes meanwhile is told behind the page. */
Test(kvs_watch_pages, a_page_that_is_lost_starts_over)
{
    scene s;
    open_scene(&s, "abc");
    start_over(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    page(&s, HTC_OK, "ab", "b");
    cr_expect(eq(str, (char *)says(&s), "over a b"));
    misses(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_expect(s.pages == 3 && s.cursor_len == 0, "page %u, behind %zu bytes", s.pages, s.cursor_len);
    htc__kv_watches_changed(&s.w, B("c"));
    page(&s, HTC_OK, "ab", "b");
    cr_expect(eq(str, (char *)says(&s), "over a b -c"));
    takes(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_expect(s.pages == 4 && s.cursor_len == 1);
    page(&s, HTC_OK, "d", "");
    cr_expect(eq(str, (char *)says(&s), "d now"), "it has said already that it starts over");
    misses(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_expect(s.pages == 5 && s.cursor_len == 0);
    page(&s, HTC_OK, "", "");
    cr_expect(eq(str, (char *)says(&s), "over now"), "there is nothing left");
    takes(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_expect(eq(u32, s.pages, 5));
    close_scene(&s);
}

/* What the backend cannot answer is asked again; what it answers for an earlier start is dropped. */
Test(kvs_watch_pages, a_page_that_fails_leaves_it_to_the_next)
{
    scene s;
    open_scene(&s, "ab");
    start_over(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    page(&s, HTC_ETIMEDOUT, "", "");
    cr_expect(eq(str, (char *)says(&s), ""));
    s.w.now = htc__kv_watches_deadline(&s.w);
    cr_assert(s.w.now > 0 && s.w.now < HTC_NEVER);
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_assert(eq(u32, s.pages, 3));
    start_over(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    page(&s, HTC_OK, "ab", "");
    cr_expect(eq(str, (char *)says(&s), ""));
    cr_assert(eq(u32, s.pages, 4));
    page(&s, HTC_OK, "a", "");
    cr_expect(eq(str, (char *)says(&s), "over a now"));
    close_scene(&s);
}

/* It may end before its page comes. */
Test(kvs_watch_pages, an_end_leaves_nothing_to_say)
{
    scene s;
    open_scene(&s, "ab");
    start_over(&s);
    cr_expect(eq(str, (char *)says(&s), ""));
    s.taken = s.told;
    hears(&s, 0, &(htc__kv_watch_wish){ .watch = WATCH, .kind = HTC__KV_WISH_END });
    cr_expect(eq(str, (char *)says(&s), ""));
    page(&s, HTC_OK, "ab", "");
    cr_expect(eq(str, (char *)says(&s), ""));
    close_scene(&s);
}
