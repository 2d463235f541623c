/* Memory in large pages (examples/htc-kvd/huge.h), against what malloc would give: contents through every change of size, no two pieces
 * that share a byte, halves of pages that serve again. */
#include "expect.h"
#include <string.h>

#include "../../examples/htc-kvd/huge.h"
#include "property.h"

enum { PIECES = 24 };

typedef struct piece {
    unsigned char *p;
    size_t         size;
    unsigned char  mark;
} piece;

static const size_t sizes[] = { 1, 64, 4096, 200000, 524288, 524289, 700000, 1048576, 1048577, 2097152, 3000000, 6291456 };

static int is_whole(const piece *x)
{
    for (size_t i = 0; i < x->size; i += i < 64 || i + 64 > x->size ? 1 : 997)
        if (x->p[i] != x->mark)
            return 0;
    return x->size == 0 || x->p[x->size - 1] == x->mark;
}

Test(huge, keeps_what_is_in_it)
{
    huge h;
    huge_init(&h);
    PROPERTY(rng, 20)
    {
        piece pieces[PIECES] = { { 0 } };
        for (int step = 0; step < 200; step++) {
            piece *x = &pieces[htc_rng_below(&rng, PIECES)];
            size_t size = htc_rng_below(&rng, 4) == 0 ? 0 : sizes[htc_rng_below(&rng, sizeof sizes / sizeof *sizes)];
            void  *p = h.alloc.resize(h.alloc.ctx, x->p, x->size, size);
            if (size == 0) {
                *x = (piece){ 0 };
                continue;
            }
            HOLDS(p != NULL && (uintptr_t)p % 16 == 0);
            x->p = p;
            x->size = x->size < size ? x->size : size;
            HOLDS(is_whole(x)); /* what stays of it */
            x->size = size;
            x->mark = (unsigned char)(1 + step % 250);
            memset(x->p, x->mark, size);
        }
        for (int i = 0; i < PIECES; i++) {
            HOLDS(is_whole(&pieces[i]));
            h.alloc.resize(h.alloc.ctx, pieces[i].p, pieces[i].size, 0);
        }
    }
}

Test(huge, halves_serve_again_and_too_much_is_refused)
{
    huge  h;
    void *first[64];
    huge_init(&h);
    for (int i = 0; i < 64; i++)
        cr_assert(first[i] = h.alloc.resize(h.alloc.ctx, NULL, 0, 1 << 20));
    for (int i = 0; i < 64; i++)
        h.alloc.resize(h.alloc.ctx, first[i], 1 << 20, 0);
    for (int i = 0; i < 64; i++) {
        void *p = h.alloc.resize(h.alloc.ctx, NULL, 0, 1 << 20);
        int   known = 0;
        for (int k = 0; k < 64; k++)
            known |= p == first[k];
        cr_expect(known, "new memory for what was given back");
    }
    cr_expect(!h.alloc.resize(h.alloc.ctx, NULL, 0, SIZE_MAX));
    cr_expect(!h.alloc.resize(h.alloc.ctx, NULL, 0, SIZE_MAX / 2));
    cr_expect(!h.alloc.resize(h.alloc.ctx, first[0], 1 << 20, SIZE_MAX - 1));
}
