/* The objects of a worker, beside a model that knows everything; and each of its promises by itself. */
#include "alloc_fail.h"
#include "objects_world.h"

#define ROOMY (UINT64_C(1) << 30)

static htc__objects_figures figures(const objects_world *w)
{
    htc__objects_figures f;
    htc__objects_look(w->objects, &f);
    return f;
}

static uint64_t pieces_of(const objects_world *w, int c)
{
    return (w->content[c].size + OBJECT_PIECE_MAX - 1) / OBJECT_PIECE_MAX;
}

/* However many tasks want it, each piece is asked for once, and all sources are used. */
Test(objects, what_several_want_is_asked_for_once)
{
    objects_world *w = world_open(1, ROOMY);
    uint64_t       pieces = 0;
    for (int i = 0; i < 3; i++)
        for (int c = 0; c + 1 < CONTENTS; c += 2)
            want_these(w, 2, (int[]){ c, c + 1 });
    settle_down(w);
    for (uint32_t i = 0; i < w->n_wants; i++)
        cr_expect(w->want[i].decided && w->want[i].status == HTC_OK, "want %u", i);
    for (int c = 0; c < CONTENTS; c++)
        pieces += pieces_of(w, c);
    cr_expect(eq(u64, figures(w).asked, pieces));
    cr_expect(eq(u64, figures(w).fetched, CONTENTS));
    world_close(w);
}

Test(objects, a_want_of_nothing_is_ready)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       id = want_these(w, 0, (int[]){ 0 });
    settle_down(w);
    cr_expect(w->want[id].decided && w->want[id].status == HTC_OK);
    world_close(w);
}

/* A task that reads the same object twice gets it once. */
Test(objects, an_object_may_stand_twice_in_a_want)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       id = want_these(w, 3, (int[]){ 9, 9, 1 });
    settle_down(w);
    cr_expect(w->want[id].decided && w->want[id].status == HTC_OK);
    release(w, id);
    cr_expect(eq(u64, figures(w).cached_bytes, w->content[9].size + 1));
    world_close(w);
}

/* The only one that has it sends something else: it is dropped, said, and not asked for again. */
Test(objects, a_liar_is_found_out_and_not_asked_again)
{
    objects_world *w = world_open(1, ROOMY);
    for (int i = 0; i < OTHERS; i++)
        w->other[i].has[9] = w->other[i].lies[9] = i == 2;
    uint32_t id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(w->want[id].decided && eq(int, w->want[id].status, HTC_ELOST) && w->want[id].which == 0);
    cr_expect(figures(w).wrong >= 1 && figures(w).lost == 1);
    cr_expect(!w->disk[9].bytes, "what was wrong is still there");
    world_close(w);
}

/* Three of four are honest: nobody knows at first who was wrong, and it comes all the same. */
Test(objects, one_liar_among_several_does_not_hide_the_object)
{
    for (int liar = 0; liar < OTHERS; liar++) {
        objects_world *w = world_open(1, ROOMY);
        w->other[liar].lies[9] = 1;
        uint32_t id = want_these(w, 1, (int[]){ 9 });
        settle_down(w);
        cr_expect(w->want[id].decided && eq(int, w->want[id].status, HTC_OK), "liar %d", liar);
        world_close(w);
    }
}

/* One that is broken off is fetched from where it had come to, also after the process has ended. */
Test(objects, a_fetch_that_was_broken_off_goes_on_where_it_was)
{
    objects_world *w = world_open(1, ROOMY);
    (void)want_these(w, 1, (int[]){ 9 });
    while (w->disk[9].at < 3 * OBJECT_PIECE_MAX)
        cr_assert(go_on(w));
    world_stop(w);
    world_start(w);
    uint32_t id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(w->want[id].decided && w->want[id].status == HTC_OK);
    cr_expect(eq(u64, figures(w).asked, 2), "of five pieces three were there");
    world_close(w);
}

/* What a life before has left is wrong: it is fetched anew, and nobody is blamed for it. */
Test(objects, a_rotten_part_is_fetched_anew)
{
    objects_world *w = world_open(1, ROOMY);
    for (int i = 1; i < OTHERS; i++)
        w->other[i].has[9] = 0;
    world_stop(w);
    w->disk[9].bytes = calloc(1, w->content[9].size + 1);
    w->disk[9].at = OBJECT_PIECE_MAX;
    world_start(w);
    uint32_t id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(w->want[id].decided && eq(int, w->want[id].status, HTC_OK));
    cr_expect(eq(u64, figures(w).wrong, 1));
    world_close(w);
}

/* The one used longest ago goes first; what a task has and what is pinned stays. */
Test(objects, the_cache_is_bounded)
{
    objects_world *w = world_open(1, 5 * OBJECT_PIECE_MAX);
    int            made = 8;
    just(w, make_it, &made);
    settle_down(w);
    cr_expect(w->made == 1 && htc__objects_has(w->objects, w->content[8].hash) && eq(u64, figures(w).cached_bytes, 0));
    uint32_t a = want_these(w, 1, (int[]){ 7 }), b = want_these(w, 1, (int[]){ 4 }), c = want_these(w, 1, (int[]){ 3 });
    settle_down(w);
    release(w, b);
    release(w, a);
    uint32_t d = want_these(w, 1, (int[]){ 6 });
    settle_down(w);
    cr_expect(w->want[d].status == HTC_OK && w->want[c].status == HTC_OK);
    cr_expect(!htc__objects_has(w->objects, w->content[4].hash), "used longest ago");
    cr_expect(htc__objects_has(w->objects, w->content[7].hash), "there was room again");
    cr_expect(htc__objects_has(w->objects, w->content[3].hash) && htc__objects_has(w->objects, w->content[8].hash));
    world_close(w);
}

static uint32_t call_for(const objects_world *w, uint32_t op)
{
    uint32_t i = 0;
    while (i < w->n_calls && w->calls[i].op != op)
        i++;
    return i;
}

/* The host has put what a task made in its place when it comes to finish the one that was fetched, of which nothing is left. */
Test(objects, what_is_made_while_its_last_piece_is_stored_is_not_missed)
{
    objects_world *w = world_open(1, ROOMY);
    int            made = 9;
    uint32_t       id = want_these(w, 1, &made);
    while (call_for(w, HTC_CALL_OBJECT_FINISH) == w->n_calls)
        cr_assert(go_on(w));
    just(w, make_it, &made);
    w->disk[made].whole = 1;
    w->disk[made].open = 0;
    carry_out(w, call_for(w, HTC_CALL_OBJECT_FINISH));
    cr_expect(!w->want[id].decided, "whether it is there says the answer about what was made");
    settle_down(w);
    cr_expect(w->made == 1 && w->want[id].decided && eq(int, w->want[id].status, HTC_OK));
    world_close(w);
}

static void unpin_all(objects_world *w, void *ctx)
{
    (void)ctx;
    htc__objects_unpin(w->objects, JOB);
}

/* After its flow what was made here is cached as anything else, so it counts, and may go. */
Test(objects, what_was_made_here_is_kept_while_its_flow_runs)
{
    objects_world *w = world_open(1, OBJECT_PIECE_MAX);
    for (int c = 2; c < 5; c++)
        just(w, make_it, &c);
    settle_down(w);
    cr_expect(eq(u64, figures(w).cached_bytes, 0) && eq(u32, figures(w).here, 3));
    just(w, unpin_all, NULL);
    settle_down(w);
    cr_expect(figures(w).cached_bytes <= OBJECT_PIECE_MAX && figures(w).here == 1);
    world_close(w);
}

/* Two tasks that each hold half of what the other needs would wait for ever: the second is not let in before there is room for all. */
Test(objects, wants_that_do_not_fit_together_come_one_after_the_other)
{
    objects_world *w = world_open(1, 5 * OBJECT_PIECE_MAX);
    uint32_t       a = want_these(w, 2, (int[]){ 7, 4 }), b = want_these(w, 2, (int[]){ 5, 4 });
    uint32_t       c = want_these(w, 2, (int[]){ 9, 1 });
    settle_down(w);
    cr_expect(w->want[a].decided && !w->want[c].decided);
    release(w, a);
    settle_down(w);
    cr_expect(w->want[b].decided && !w->want[c].decided);
    w->refused = 1; /* the third never fits */
    release(w, b);
    settle_down(w);
    cr_expect(w->want[c].decided && eq(int, w->want[c].status, HTC_ENOSPC));
    world_close(w);
}

/* The disk is fuller than the cache knows: what is not used makes room, and where there is nothing the want ends, its bytes with it. */
Test(objects, a_full_disk_is_told_and_survived)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       a = want_these(w, 1, (int[]){ 7 });
    settle_down(w);
    release(w, a);
    w->disk_max = 5 * OBJECT_PIECE_MAX + 10;
    uint32_t b = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(eq(int, w->want[b].status, HTC_OK) && w->refused > 0, "the one before made room");
    uint32_t c = want_these(w, 1, (int[]){ 8 });
    settle_down(w);
    cr_expect(eq(int, w->want[c].status, HTC_ENOSPC));
    cr_expect(eq(u64, w->disk[8].at, 0), "half an object fills the disk");
    release(w, b);
    uint32_t d = want_these(w, 1, (int[]){ 8 });
    settle_down(w);
    cr_expect(eq(int, w->want[d].status, HTC_OK));
    world_close(w);
}

static void hear_ask(objects_world *w, int c, uint64_t offset, uint32_t len)
{
    object_message m = { .offset = offset, .len = len };
    htc_buf        b;
    memcpy(m.hash, w->content[c].hash, 32);
    htc_buf_init(&b, NULL, 0);
    htc__object_write(&b, HTC_WIRE_OBJECT_ASK, &m);
    step(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = ASKER, .body = htc_buf_bytes(&b) }, NULL, NULL);
    htc_buf_free(&b);
}

/* What was said to the one who asks, and is taken from the mail. */
static uint32_t said(objects_world *w, uint16_t wanted, const content *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_mail;) {
        uint16_t       type;
        uint64_t       id;
        object_message m;
        htc_reader     r = htc_wire_open((htc_bytes){ w->mail[i].bytes, w->mail[i].len }, &type, &id);
        cr_assert(w->mail[i].worker == ASKER && htc__object_read(&r, type, &m) == HTC_OK);
        if (type == HTC_WIRE_OBJECT_BYTES)
            cr_expect(memcmp(m.bytes.data, c->bytes + m.offset, m.bytes.len) == 0 && m.size == c->size);
        n += type == wanted;
        free(w->mail[i].bytes);
        w->mail[i] = w->mail[--w->n_mail];
    }
    return n;
}

/* Somebody who asks without end is told to wait; who hangs up is not read for. */
Test(objects, what_is_read_for_others_is_bounded)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    release(w, id);
    for (int i = 0; i < 100; i++)
        hear_ask(w, 9, 0, OBJECT_PIECE_MAX);
    cr_expect(eq(u32, w->n_calls, 16));
    cr_expect(eq(u32, said(w, HTC_WIRE_OBJECT_NONE, &w->content[9]), 100 - 16 - 32), "16 are read, 32 wait");
    while (w->n_calls)
        cr_assert(host_some(w, 0));
    cr_expect(eq(u32, said(w, HTC_WIRE_OBJECT_BYTES, &w->content[9]), 48));
    for (int i = 0; i < 40; i++)
        hear_ask(w, 9, OBJECT_PIECE_MAX, 10);
    step(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = ASKER }, NULL, NULL);
    while (w->n_calls)
        cr_assert(host_some(w, 0));
    cr_expect(eq(u32, said(w, HTC_WIRE_OBJECT_BYTES, &w->content[9]), 16));
    hear_ask(w, 9, w->content[9].size, 1);
    hear_ask(w, 2, 0, 10);
    cr_expect(eq(u32, said(w, HTC_WIRE_OBJECT_NONE, &w->content[9]), 2));
    world_close(w);
}

/* An object whose file is gone is told so, and fetched again when it is wanted. */
Test(objects, a_file_that_vanished_is_fetched_again)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    release(w, id);
    wipe(&w->disk[9]);
    hear_ask(w, 9, 0, 10);
    while (w->n_calls)
        cr_assert(host_some(w, 0));
    cr_expect(eq(u32, said(w, HTC_WIRE_OBJECT_NONE, &w->content[9]), 1));
    cr_expect(!htc__objects_has(w->objects, w->content[9].hash));
    id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(eq(int, w->want[id].status, HTC_OK));
    world_close(w);
}

static void release_spoilt(objects_world *w, void *ctx)
{
    htc__objects_release(w->objects, *(uint32_t *)ctx, 1);
}

Test(objects, what_could_not_be_staged_in_is_fetched_again)
{
    objects_world *w = world_open(1, ROOMY);
    uint32_t       id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    w->want[id].released = 1;
    just(w, release_spoilt, &id);
    settle_down(w);
    cr_expect(!htc__objects_has(w->objects, w->content[9].hash) && !w->disk[9].bytes);
    id = want_these(w, 1, (int[]){ 9 });
    settle_down(w);
    cr_expect(eq(int, w->want[id].status, HTC_OK) && eq(u64, figures(w).fetched, 2));
    world_close(w);
}

/* Made here while it is being fetched: the fetch ends, and what was made is not removed with it. */
Test(objects, made_here_while_it_is_fetched)
{
    for (int steps = 0; steps < 30; steps++)
        for (int gives_up = 0; gives_up < 2; gives_up++) {
            objects_world *w = world_open(1, ROOMY);
            int            c = 9;
            uint32_t       id = want_these(w, 1, (int[]){ 9 });
            for (int i = 0; i < steps; i++)
                (void)go_on(w);
            just(w, make_it, &c);
            if (gives_up)
                release(w, id);
            settle_down(w);
            cr_expect(htc__objects_has(w->objects, w->content[9].hash) && w->disk[9].whole, "after %d steps", steps);
            cr_expect(w->made == 1 && (gives_up || w->want[id].status == HTC_OK));
            world_close(w);
        }
}

Test(objects, mistakes_of_the_caller_are_refused)
{
    objects_world *w = world_open(1, ROOMY);
    htc__object    x = { .size = OBJECT_SIZE_MAX + 1 };
    cr_expect(eq(int, htc__objects_want(w->objects, 1, &x, 1), HTC_EINVAL));
    cr_expect(eq(int, htc__objects_want(w->objects, 1, &x, OBJECT_INPUTS_MAX + 1), HTC_EINVAL));
    (void)want_these(w, 1, (int[]){ 9 });
    cr_expect(eq(int, htc__objects_want(w->objects, 0, NULL, 0), HTC_EEXISTS));
    memcpy(x.hash, w->content[9].hash, 32);
    x.size = 5;
    cr_expect(eq(int, htc__objects_want(w->objects, 1, &x, 1), HTC_EINVAL), "another size");
    cr_expect(eq(int, htc__objects_made(w->objects, &(htc_attempt){ JOB, 1, 1 }, "out", x.hash, 5), HTC_EINVAL));
    htc__objects_release(w->objects, 17, 0);
    settle_down(w);
    world_close(w);
}

/* ---- chance ---- */

static void some_want(objects_world *w)
{
    int c[4], n = (int)htc_rng_below(&w->rng, 5);
    for (int i = 0; i < n; i++)
        c[i] = (int)htc_rng_below(&w->rng, CONTENTS);
    if (w->n_wants < WANTS)
        (void)want_these(w, n, c);
}

static void some_release(objects_world *w)
{
    for (uint32_t i = 0; i < w->n_wants; i++)
        if (!w->want[i].released && (w->want[i].decided || htc_rng_below(&w->rng, 4) == 0) && htc_rng_below(&w->rng, 3) == 0) {
            w->want[i].decided = 1; /* given up, if it was not */
            release(w, i);
            return;
        }
}

static void some_trouble(objects_world *w)
{
    uint32_t i = (uint32_t)htc_rng_below(&w->rng, OTHERS);
    int      c = (int)htc_rng_below(&w->rng, CONTENTS);
    switch (htc_rng_below(&w->rng, 8)) {
    case 0:
    case 1:
    case 2: hang_up(w, i); break;
    case 3: w->other[i].has[c] = 0; break;
    case 4:
        if (i < 2)
            w->other[i].lies[c] = 1;
        break;
    case 5:
        if (htc_rng_below(&w->rng, 20) == 0)
            die(w, i);
        break;
    case 6: just(w, make_it, &c); break;
    case 7:
        if (htc_rng_below(&w->rng, 10) == 0) {
            uint32_t made = w->made;
            world_stop(w);
            world_start(w);
            w->made = made;
        }
        break;
    }
}

static void one_seed(uint64_t seed)
{
    objects_world *w = world_open(seed, (6 + htc_rng_below(&(htc_rng){ seed }, 12)) * OBJECT_PIECE_MAX);
    w->lossy = 1;
    if (seed % 3 == 0) { /* pinned objects are beside the cache, so the disk is to have room for them */
        w->disk_max = 12 * OBJECT_PIECE_MAX;
    }
    w->refused = 1; /* a want of four may be larger than the cache */
    for (int i = 0; i < 1500; i++) {
        for (uint32_t k = 0; k < OTHERS; k++)
            if (!w->other[k].connected && !w->other[k].dead && htc_rng_below(&w->rng, 10) == 0)
                w->other[k].connected = 1;
        switch (htc_rng_below(&w->rng, 20)) {
        case 0: some_want(w); break;
        case 1: some_release(w); break;
        case 2: some_trouble(w); break;
        case 3: w->now += htc_rng_below(&w->rng, HTC_SECOND); just(w, NULL, NULL); break;
        default: (void)go_on(w); break;
        }
        cr_assert(eq(int, w->broken, HTC_OK));
    }
    w->lossy = 0;
    for (int k = 0; k < OTHERS; k++)
        w->other[k].connected = !w->other[k].dead;
    for (int i = 0; i < 100; i++) {
        settle_down(w);
        for (uint32_t k = 0; k < w->n_wants; k++)
            if (w->want[k].decided && !w->want[k].released) {
                release(w, k);
                break;
            }
    }
    for (uint32_t i = 0; i < w->n_wants; i++)
        cr_expect(w->want[i].decided, "seed %llu: want %u is never decided", (unsigned long long)seed, i);
    htc__objects_figures f = figures(w);
    cr_expect(f.fetching == 0 && f.waiting == 0, "seed %llu", (unsigned long long)seed);
    for (int c = 0; c < CONTENTS; c++) /* nothing lies on the disk that it does not know of */
        cr_expect(!!w->disk[c].whole == htc__objects_has(w->objects, w->content[c].hash), "seed %llu: content %d", (unsigned long long)seed, c);
    world_close(w);
}

/* Whatever the others, the messages and the host do: what is promised is there and right, what is said to be lost is, every want is decided
 * once, and nothing is left over. */
Test(objects, promises_hold_whatever_happens)
{
    uint64_t seeds = getenv("HTC_TEST_LIGHT") ? 40 : 200;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        one_seed(seed);
}

/* ---- memory ---- */

/* Each allocation refused: it is said, as a status or by the runtime, and nothing is lost of what was taken. */
Test(objects, without_memory_it_says_so)
{
    htc_runtime_options r = { .size = sizeof r, .name = "objects" };
    ALLOC_FAIL_EVERY (f, 2000) {
        objects_world *w = calloc(1, sizeof *w), *full = world_open(1, ROOMY);
        htc_env        env = alloc_fail_env(&f);
        htc__objects_options o = { .role = w, .self = SELF, .peer_of = world_peer_of, .ready = world_ready };
        memcpy(w->content, full->content, sizeof w->content);
        w->other[0].connected = 1;
        w->n_wants = 1;
        w->want[0] = (asked_want){ .n = 1, .c = { 9 }, .used = 1 };
        w->refused = 1;
        w->cache = ROOMY;
        r.role = w;
        htc_status status = htc_output_create(&env, 0, &w->out);
        if (status == HTC_OK)
            status = htc_runtime_create(&env, &r, &w->runtime);
        o.runtime = w->runtime;
        if (status == HTC_OK)
            status = htc__objects_create(&env, &o, &w->objects);
        if (status == HTC_OK) {
            uint64_t    worker = 2;
            htc__object x = { .size = w->content[9].size, .workers = &worker, .n_workers = 1 };
            memcpy(x.hash, w->content[9].hash, 32);
            w->other[0].has[9] = 1;
            step(w, (htc_input){ .kind = HTC_IN_START }, NULL, NULL);
            htc_status wanted = htc__objects_want(w->objects, 0, &x, 1);
            cr_expect(wanted == HTC_OK || (wanted == HTC_ENOMEM && f.refused));
            for (int i = 0; i < 200 && w->broken == HTC_OK && (w->n_mail || w->n_calls || i == 0); i++) {
                if (i == 0)
                    just(w, NULL, NULL);
                else if (w->n_mail)
                    deliver(w, 0);
                else
                    (void)host_some(w, 0);
            }
            cr_expect(w->broken == HTC_OK || (w->broken == HTC_ENOMEM && f.refused), "%s", htc_status_name(w->broken));
            cr_expect(f.refused || (w->want[0].decided && w->want[0].status == HTC_OK));
        }
        htc__objects_destroy(w->objects);
        htc_runtime_destroy(w->runtime);
        htc_output_destroy(w->out);
        while (w->n_calls)
            call_take(w, 0);
        while (w->n_mail)
            free(w->mail[--w->n_mail].bytes);
        for (int c = 0; c < CONTENTS; c++)
            wipe(&w->disk[c]);
        free(w);
        world_close(full);
        cr_expect(eq(sz, f.live, 0), "lost when allocation %zu was refused", f.fail_at);
        cr_expect(eq(sz, f.wrong_sizes, 0));
    }
}
