/* The cluster map's bytes: what is taken for a map is written to the same bytes, and every step of it leaves one that can be read. */
#include <string.h>

#include "check.h"
#include "kvs/map/map.h"

static void readable(const htc__kv_map *map)
{
    htc__kv_map *again = NULL;
    htc_buf      b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_map_encode(&b, map);
    CHECK(b.status == HTC_OK && htc__kv_map_decode(NULL, htc_buf_bytes(&b), &again) == HTC_OK);
    htc__kv_map_destroy(again);
    htc_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc__kv_map     *map = NULL;
    htc__kv_map_move move;
    uint64_t         number;
    if (htc__kv_map_decode(NULL, (htc_bytes){ data, size }, &map) != HTC_OK)
        return 0;
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_map_encode(&b, map);
    CHECK(b.len == size && memcmp(b.data, data, size) == 0);
    htc_buf_free(&b);
    if (map->numbers < HTC__KV_MAP_NUMBERS - 8) {
        if (htc__kv_map_next(map, &move) && htc__kv_map_take(map, 2, &number) == HTC_OK) {
            CHECK(htc__kv_map_batch(map, 0, &move) && move.mover == number);
            readable(map);
            CHECK(htc__kv_map_activate(map, number) == HTC_OK);
            readable(map);
        }
        if (htc__kv_map_take(map, 3, &number) == HTC_OK && htc__kv_map_take(map, 1, &number) == HTC_OK) {
            CHECK(htc__kv_map_roll_back(map, number) == HTC_OK);
            readable(map);
        }
        htc__kv_map_begin_leave(map, map->member[0].id);
        readable(map);
    }
    htc__kv_map_destroy(map);
    return 0;
}
