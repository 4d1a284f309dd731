"""Search kernels that numba compiles for the CPU at hand.

Rows are numbered in the order of their ids, so the smaller row comes first among equal distances. A bitmap `skip` marks
rows to leave out, eight to a byte; an empty one leaves out none. All kernels release the GIL, and all types are given,
so that nothing is compiled while searching.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_BLOCK = 128
"""Codes that are compared by vector instructions before the next decision."""

_COST_OF_A_PROBE = 32
"""Cost of one look into a hash table, in codes that a scan compares in the same time."""

_COST_OF_RINGS = 256
"""Cost of visiting the rings of a centre, in the same unit."""

_CHUNK = 32 * _BLOCK
"""Codes that many queries are compared with before the next ones, so that they stay in the cache."""

_FEW = 8
"""Rows that are copied in less time than it takes to prepare the copy of many."""

_DIGIT = 12
"""Most bits of a digit when rows are sorted by counting."""

MAX_EQUAL = 64
"""Most equal codes in a hash table without buckets, because each of them has a slot."""

_MAX_DISTANCE = 1024
_ALL = 1 << 62
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ONE, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)
_SIGN = np.uint64(63)

_INT = types.int64
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_CODE = types.Array(types.uint64, 1, "C", readonly=True)
_OUT_NUMBERS = types.Array(types.uint32, 1, "C")
_OUT_INTEGERS = types.Array(types.int64, 1, "C")
_FOUND = types.Tuple((_OUT_INTEGERS, _OUT_INTEGERS))

_inner = njit(nogil=True)


def _kernel(signature: Any) -> Any:
    return njit([signature], cache=True, nogil=True)


@intrinsic
def _popcount(_context: Any, _value: Any) -> Any:
    """Return the number of bits that are set in a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_inner
def _distance(code, query):
    total = np.uint64(0)
    for word in range(len(query)):
        total += _popcount(code[word] ^ query[word])
    return np.int64(total)


@_inner
def _next_near(flat, n_words, start, stop, query, limit):
    """Return the first block of codes, from `start` on, in which one lies within a distance; `stop` if there is none.

    The difference to the limit is negative for such a code; its sign costs less than a comparison. Loops over codes of
    one or two words become vector instructions.
    """
    beyond = np.uint64(limit + 1)
    for first in range(start, stop, _BLOCK):
        block = flat[first * n_words : min(first + _BLOCK, stop) * n_words]
        signs = np.uint64(0)
        if n_words == 1:
            asked = query[0]
            for place in range(len(block)):
                signs |= _popcount(block[place] ^ asked) - beyond
        elif n_words == 2:
            one, two = query[0], query[1]
            for place in range(len(block) // 2):
                signs |= _popcount(block[2 * place] ^ one) + _popcount(block[2 * place + 1] ^ two) - beyond
        else:
            for place in range(0, len(block), n_words):
                signs |= np.uint64(_distance(block[place : place + n_words], query)) - beyond
        if signs >> _SIGN == 1:
            return first
    return stop


@_inner
def _collect(flat, n_words, start, stop, query, limit, places):
    """Write the codes of one block that lie within a distance; return the end of the block and how many there are."""
    end, count = min(start + _BLOCK, stop), 0
    block = flat[start * n_words : end * n_words]
    if n_words == 1:
        asked, most = query[0], np.uint64(limit)
        for place in range(len(block)):
            places[count] = start + place
            count += _popcount(block[place] ^ asked) <= most
    elif n_words == 2:
        one, two, most = query[0], query[1], np.uint64(limit)
        for place in range(end - start):
            places[count] = start + place
            count += _popcount(block[2 * place] ^ one) + _popcount(block[2 * place + 1] ^ two) <= most
    else:
        for place in range(end - start):
            places[count] = start + place
            count += _distance(block[place * n_words : (place + 1) * n_words], query) <= limit
    return end, count


@_inner
def _is_skipped(skip, row):
    return len(skip) > 0 and (skip[row >> 3] >> (row & 7)) & 1 == 1


@_inner
def _sort_by_distance(found_row, found_distance, rows, distances):
    """Write rows, which are ascending, by distance and then by row; return how many there was room for."""
    starts = np.zeros(_MAX_DISTANCE + 2, np.int64)
    for distance in found_distance:
        starts[distance + 1] += 1
    for distance in range(1, len(starts)):
        starts[distance] += starts[distance - 1]
    for place in range(len(found_row)):
        distance = found_distance[place]
        target = starts[distance]
        starts[distance] += 1
        if target < len(rows):
            rows[target], distances[target] = found_row[place], distance
    return min(len(rows), len(found_row))


@_inner
def _drop_far(rows, distances, count, furthest, room):
    """Keep all rows nearer than `furthest`, and the first `room` at that distance; return how many are kept."""
    kept = 0
    for place in range(count):
        is_last = distances[place] == furthest
        if distances[place] < furthest or (is_last and room > 0):
            rows[kept], distances[kept] = rows[place], distances[place]
            kept += 1
            room -= is_last
    return kept


@_kernel(types.void(_WORDS, _BYTES, _WORDS, _INT, _INT, _OUT_INTEGERS, _OUT_INTEGERS, _OUT_INTEGERS))
def scan_nearest(words, skip, queries, k, radius, rows, distances, counts):
    """Compare each query with every code; write the `k` nearest rows within `radius`, nearest first.

    Query ``i`` writes to ``rows[i * k:]`` and ``distances[i * k:]``, and the number of its rows to ``counts[i]``.
    """
    n_queries, n_words, flat = len(queries), words.shape[1], words.reshape(-1)
    size = min(len(words), 4 * k + _BLOCK)
    found_row, found_distance = np.empty((n_queries, size), np.uint32), np.empty((n_queries, size), np.uint16)
    n_found, n_inside = np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64)
    limits = np.full(n_queries, radius)
    at_distance = np.zeros((n_queries, 64 * n_words + 1), np.int64)
    places = np.empty(_BLOCK + 1, np.int64)
    for chunk in range(0, len(words), _CHUNK):
        stop = min(chunk + _CHUNK, len(words))
        for query in range(n_queries):
            asked, limit, here, inside = queries[query], limits[query], n_found[query], n_inside[query]
            first = stop if limit < 0 else _next_near(flat, n_words, chunk, stop, asked, limit)
            while first < stop:
                first, n_places = _collect(flat, n_words, first, stop, asked, limit, places)
                for row in places[:n_places]:
                    distance = _distance(words[row], asked)
                    if distance > limit or _is_skipped(skip, row):
                        continue
                    found_row[query, here], found_distance[query, here] = row, distance
                    here += 1
                    inside += 1
                    at_distance[query, distance] += 1
                    # Later rows lose ties: with k rows within a distance, only nearer ones count from here on.
                    while inside >= k and limit >= 0:
                        inside -= at_distance[query, limit]
                        limit -= 1
                if here + _BLOCK > size:
                    here = _drop_far(found_row[query], found_distance[query], here, limit + 1, k - inside)
                first = stop if limit < 0 else _next_near(flat, n_words, first, stop, asked, limit)
            n_found[query], n_inside[query], limits[query] = here, inside, limit
    for query in range(n_queries):
        count, first, last = n_found[query], query * k, query * k + k
        counts[query] = _sort_by_distance(
            found_row[query, :count], found_distance[query, :count], rows[first:last], distances[first:last]
        )


@_kernel(_FOUND(_WORDS, _BYTES, _CODE, _INT))
def scan_within(words, skip, query, radius):
    """Compare one query with every code; return all rows within `radius`, nearest first, and their distances."""
    n_words, flat = words.shape[1], words.reshape(-1)
    found_row, found_distance = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint16)
    places = np.empty(_BLOCK + 1, np.int64)
    count, first = 0, _next_near(flat, n_words, 0, len(words), query, radius)
    while first < len(words):
        if count + _BLOCK > len(found_row):
            more_row, more_distance = np.empty(2 * count + _BLOCK, np.uint32), np.empty(2 * count + _BLOCK, np.uint16)
            more_row[:count], more_distance[:count] = found_row[:count], found_distance[:count]
            found_row, found_distance = more_row, more_distance
        first, n_places = _collect(flat, n_words, first, len(words), query, radius, places)
        for row in places[:n_places]:
            if not _is_skipped(skip, row):
                found_row[count], found_distance[count] = row, _distance(words[row], query)
                count += 1
        first = _next_near(flat, n_words, first, len(words), query, radius)
    rows, distances = np.empty(count, np.int64), np.empty(count, np.int64)
    _sort_by_distance(found_row[:count], found_distance[:count], rows, distances)
    return rows, distances


@_inner
def _hash(code):
    mixed = np.uint64(0)
    for word in code:
        mixed = (mixed ^ word) * _MULTIPLIER
        mixed ^= mixed >> _HALF
    return mixed * _MULTIPLIER


@_inner
def _home(mixed, n_slots):
    """Return the slot where the search for a code begins."""
    return np.int64(((mixed >> _HALF) * np.uint64(n_slots)) >> _HALF)


@_inner
def _tag_mask(n_codes):
    """Return the bits of a slot that hold bits of the hash; the others hold the number of the code plus one."""
    used = np.uint64(n_codes)
    bits = np.uint64(0)
    while used > 0:
        used >>= _ONE
        bits += _ONE
    return np.uint32((_LOW >> bits) << bits)


@_inner
def _next_slot(slots, codes, code, mixed, mask, slot):
    """Return the first slot from one on that holds a code or is empty."""
    tag = np.uint32(mixed & _LOW) & mask
    while True:
        if slot == len(slots):
            slot = 0
        content = slots[slot]
        if content == 0:
            return slot
        if content & mask == tag:
            number = np.int64(content & ~mask) - 1
            is_equal = True
            for word in range(len(code)):
                is_equal &= codes[number, word] == code[word]
            if is_equal:
                return slot
        slot += 1


@_kernel(types.void(_WORDS, _OUT_NUMBERS))
def fill_slots(codes, slots):
    """Enter every code into an open hash table; equal codes get a slot each."""
    mask = _tag_mask(len(codes))
    for number in range(len(codes)):
        mixed = _hash(codes[number])
        slot = _home(mixed, len(slots))
        while slots[slot] != 0:
            slot = slot + 1 if slot + 1 < len(slots) else 0
        slots[slot] = (np.uint32(mixed & _LOW) & mask) | np.uint32(number + 1)


@_inner
def _look_up(slots, codes, code, mask, has_buckets, near, count):
    """Append the numbers of all codes that are equal to `code`; return how many there are then."""
    mixed = _hash(code)
    slot = _next_slot(slots, codes, code, mixed, mask, _home(mixed, len(slots)))
    while slots[slot] != 0:
        near[count] = (slots[slot] & ~mask) - np.uint32(1)
        count += 1
        if has_buckets:
            break
        slot = _next_slot(slots, codes, code, mixed, mask, slot + 1)
    return count


@_inner
def _look_up_all(slots, flat, wanted, mask, has_buckets, near):
    """Write the numbers of all codes of one word that are equal to one of those `wanted`; return how many there are.

    All slots are read before the first one is compared, so that the CPU waits for many of them at once.
    """
    n_slots = np.uint64(len(slots))
    mixed, contents = np.empty(len(wanted), np.uint64), np.empty(len(wanted), np.uint32)
    for place in range(len(wanted)):
        product = wanted[place] * _MULTIPLIER
        mixed[place] = (product ^ (product >> _HALF)) * _MULTIPLIER
    for place in range(len(wanted)):
        contents[place] = slots[((mixed[place] >> _HALF) * n_slots) >> _HALF]
    count = 0
    for place in range(len(wanted)):
        content = contents[place]
        if content == 0:
            continue
        tag = np.uint32(mixed[place] & _LOW) & mask
        slot = ((mixed[place] >> _HALF) * n_slots) >> _HALF
        while content != 0:
            if content & mask == tag and flat[np.int64(content & ~mask) - 1] == wanted[place]:
                near[count] = (content & ~mask) - np.uint32(1)
                count += 1
                if has_buckets:
                    break
            slot += _ONE
            if slot == n_slots:
                slot = np.uint64(0)
            content = slots[slot]
    return count


@_inner
def _probe(slots, codes, query, n_bits, level, has_buckets, near):
    """Find the codes at exactly the distance `level`, 0 to 2; return how many there are."""
    mask, count = _tag_mask(len(codes)), 0
    if codes.shape[1] == 1:
        wanted = np.empty(1 if level == 0 else n_bits if level == 1 else n_bits * (n_bits - 1) // 2, np.uint64)
        wanted[0] = query[0]
        for first in range(n_bits if level > 0 else 0):
            once = query[0] ^ (_ONE << np.uint64(first))
            if level == 1:
                wanted[first] = once
            else:
                for second in range(first):
                    wanted[count] = once ^ (_ONE << np.uint64(second))
                    count += 1
        return _look_up_all(slots, codes.reshape(-1), wanted, mask, has_buckets, near)
    if level == 0:
        return _look_up(slots, codes, query, mask, has_buckets, near, 0)
    changed = query.copy()
    for first in range(n_bits):
        changed[first >> 6] ^= _ONE << np.uint64(first & 63)
        if level == 1:
            count = _look_up(slots, codes, changed, mask, has_buckets, near, count)
        else:
            for second in range(first):
                changed[second >> 6] ^= _ONE << np.uint64(second & 63)
                count = _look_up(slots, codes, changed, mask, has_buckets, near, count)
                changed[second >> 6] ^= _ONE << np.uint64(second & 63)
        changed[first >> 6] ^= _ONE << np.uint64(first & 63)
    return count


@_inner
def _n_probes(n_bits, level):
    """Return the number of codes at a distance of 0 to 2."""
    return 1 if level == 0 else n_bits if level == 1 else n_bits * (n_bits - 1) // 2


@_kernel(types.void(_WORDS, _WORDS, _INT, _OUT_NUMBERS))
def fill_rings(codes, centres, n_bits, rings):
    """Write the ring of each code: the number of its nearest centre times ``n_bits + 1``, plus its distance to it."""
    for number in range(len(codes)):
        nearest, at = n_bits + 1, 0
        for centre in range(len(centres)):
            distance = _distance(codes[number], centres[centre])
            if distance < nearest:
                nearest, at = distance, centre
        rings[number] = at * (n_bits + 1) + nearest


@_inner
def _sort_rows(rows, spare):
    """Sort rows; `spare` has room for as many."""
    if len(rows) <= 64:
        for place in range(1, len(rows)):
            row = rows[place]
            while place > 0 and rows[place - 1] > row:
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = row
        return
    largest, n_bits = rows.max(), 1
    while largest >> n_bits > 0:
        n_bits += 1
    n_passes = (n_bits + _DIGIT - 1) // _DIGIT
    width = (n_bits + n_passes - 1) // n_passes
    mask = (1 << width) - 1
    source, target = rows, spare[: len(rows)]
    for digit in range(n_passes):
        shift = digit * width
        starts = np.zeros((1 << width) + 1, np.int64)
        for row in source:
            starts[((row >> shift) & mask) + 1] += 1
        for value in range(mask):
            starts[value + 1] += starts[value]
        for row in source:
            value = (row >> shift) & mask
            target[starts[value]] = row
            starts[value] += 1
        source, target = target, source
    if n_passes & 1:
        rows[:] = source


@_inner
def _push(heap, size, value):
    """Keep the smallest numbers in a heap, as many as it has room for; return its size, or -1 if `value` is larger."""
    if size < len(heap):
        child = size
        while child > 0 and heap[(child - 1) >> 1] < value:
            heap[child] = heap[(child - 1) >> 1]
            child = (child - 1) >> 1
        heap[child] = value
        return size + 1
    if value >= heap[0]:
        return -1
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if value >= heap[child]:
            break
        heap[parent] = heap[child]
        parent = child
    heap[parent] = value
    return size


@_inner
def _take_first(near, starts, members, skip, rows):
    """Write the smallest rows of some buckets, ascending; return how many there was room for."""
    count = 0
    for bucket in near:
        if len(starts) == 0:
            if not _is_skipped(skip, bucket):
                count = max(count, _push(rows, count, bucket))
            continue
        for place in range(starts[bucket], starts[bucket + 1]):
            row = members[place]
            if _is_skipped(skip, row):
                continue
            if len(near) == 1:
                rows[count] = row
                count += 1
                if count == len(rows):
                    return count
                continue
            size = _push(rows, count, row)
            if size < 0:
                break
            count = size
    if len(near) > 1:
        _sort_rows(rows[:count], np.empty(count, np.int64))
    return count


@_inner
def _count_rows(bucket, starts, members, skip, most):
    """Return the number of rows of a bucket; `most` is enough."""
    if len(starts) == 0:
        return 0 if _is_skipped(skip, bucket) else 1
    if len(skip) == 0:
        return np.int64(starts[bucket + 1] - starts[bucket])
    count = 0
    for place in range(starts[bucket], starts[bucket + 1]):
        count += not _is_skipped(skip, members[place])
        if count == most:
            break
    return count


@_inner
def _admit(bucket, distance, n_rows, room, at_distance, near, near_distance, state):
    """Keep a bucket; then lower the limit as long as nearer buckets hold enough rows, ties included."""
    limit, inside, count = state
    near[count], near_distance[count] = bucket, distance
    inside += n_rows
    at_distance[distance] += n_rows
    while inside - at_distance[limit] >= room:
        inside -= at_distance[limit]
        limit -= 1
    return limit, inside, count + 1


@_inner
def _visit(first, last, table, skip, query, room, nearest, at_distance, places, near, near_distance, state):
    """Keep the buckets from `first` to `last` that can hold one of the `room` nearest rows, ties included."""
    codes, starts, members = table[1], table[2], table[3]
    n_words, flat = codes.shape[1], codes.reshape(-1)
    start = _next_near(flat, n_words, first, last, query, state[0])
    while start < last:
        start, n_places = _collect(flat, n_words, start, last, query, state[0], places)
        for bucket in places[:n_places]:
            distance = _distance(codes[bucket], query)
            if nearest <= distance <= state[0]:
                n_rows = _count_rows(bucket, starts, members, skip, room)
                if n_rows > 0:
                    state = _admit(bucket, distance, n_rows, room, at_distance, near, near_distance, state)
        start = _next_near(flat, n_words, start, last, query, state[0])
    return state


@_inner
def _to_centres(table, query):
    """Return the distance of the query to each centre."""
    centres = table[4]
    distances = np.empty(len(centres), np.int64)
    for centre in range(len(centres)):
        distances[centre] = _distance(centres[centre], query)
    return distances


@_inner
def _ring(table, n_bits, centre, distance):
    """Return where the codes at a distance from a centre begin and end; nowhere if there is no such distance."""
    if distance < 0 or distance > n_bits:
        return 0, 0
    ring = centre * (n_bits + 1) + distance
    return np.int64(table[5][ring]), np.int64(table[5][ring + 1])


@_inner
def _n_in_rings(table, n_bits, to_centres, gap):
    """Return the number of codes that may lie within the distance `gap`."""
    if len(to_centres) == 0:
        return len(table[1])
    count = 0
    for centre in range(len(to_centres)):
        first = _ring(table, n_bits, centre, max(0, to_centres[centre] - gap))[0]
        count += _ring(table, n_bits, centre, min(n_bits, to_centres[centre] + gap))[1] - first
    return count


@_inner
def _limit_by_centres(table, skip, n_bits, to_centres, room, nearest, radius):
    """Return the distance, at most `radius`, within which the buckets of the centres alone hold `room` rows."""
    starts, members = table[2], table[3]
    at_distance, limit, inside = np.zeros(n_bits + 1, np.int64), radius, 0
    for centre in range(len(to_centres)):
        if nearest <= to_centres[centre] <= radius:
            bucket = _ring(table, n_bits, centre, 0)[0]
            n_rows = _count_rows(bucket, starts, members, skip, room)
            at_distance[to_centres[centre]] += n_rows
            inside += n_rows
    while inside - at_distance[limit] >= room:
        inside -= at_distance[limit]
        limit -= 1
    return limit


@_inner
def _find_buckets(table, skip, query, n_bits, to_centres, room, nearest, radius, near, near_distance):
    """Find the buckets that hold the `room` nearest rows, ties included, at distances from `nearest` to `radius`.

    A code at distance ``e`` from a centre, which is at distance ``d`` from the query, is ``abs(d - e)`` from the query
    or further. So only the rings of a centre from ``d - limit`` to ``d + limit`` are visited, which lie side by side;
    those of near centres come first, because they lower the limit.

    Returns how many there are and the largest distance that counts; further ones may be among them.
    """
    at_distance, places = np.zeros(n_bits + 1, np.int64), np.empty(_BLOCK + 1, np.int64)
    if len(to_centres) == 0:
        state = (radius, 0, 0)
        n_codes = len(table[1])
        state = _visit(0, n_codes, table, skip, query, room, nearest, at_distance, places, near, near_distance, state)
        return state[2], state[0]
    state = (_limit_by_centres(table, skip, n_bits, to_centres, room, nearest, radius), 0, 0)
    for centre in np.argsort(to_centres):
        inner, outer = max(0, to_centres[centre] - state[0]), min(n_bits, to_centres[centre] + state[0])
        first, last = _ring(table, n_bits, centre, inner)[0], _ring(table, n_bits, centre, outer)[1]
        if first < last:
            state = _visit(
                first, last, table, skip, query, room, nearest, at_distance, places, near, near_distance, state
            )
    return state[2], state[0]


_TABLE = types.Tuple((_NUMBERS, _WORDS, _NUMBERS, _NUMBERS, _WORDS, _NUMBERS))


@_kernel(types.void(_TABLE, _BYTES, _WORDS, _INT, _INT, _INT, _OUT_INTEGERS, _OUT_INTEGERS, _OUT_INTEGERS))
def table_nearest(table, skip, queries, n_bits, k, radius, rows, distances, counts):
    """Look each query up; write the `k` nearest rows within `radius`, nearest first, as :func:`scan_nearest` does.

    Distances 0, 1 and 2 are probed until there are enough rows, as long as that costs a fraction of comparing the codes
    in the rings that can hold one. Then rings are compared by increasing distance; without centres, all codes are.

    A table is a tuple of slots, codes, starts, members, centres and starts of the rings. Bucket ``b`` has the code
    ``codes[b]`` and the rows ``members[starts[b]:starts[b + 1]]``, ascending; if `starts` is empty, it is row ``b``.
    """
    slots, codes, starts, members = table[0], table[1], table[2], table[3]
    has_buckets = len(starts) > 0
    for number in range(len(queries)):
        query = queries[number]
        start, count, level = number * k, 0, 0
        to_centres = np.empty(0, np.int64)
        while count < k and level <= min(radius, 2):
            if level == 1:
                to_centres = _to_centres(table, query)
            size = _n_probes(n_bits, level)
            if level > 0:
                cost = 4 * _COST_OF_A_PROBE * codes.shape[1] * size
                if cost > _n_in_rings(table, n_bits, to_centres, level + 1):
                    break
            near = np.empty(size if has_buckets else min(len(codes), MAX_EQUAL * size), np.uint32)
            n_near = _probe(slots, codes, query, n_bits, level, has_buckets, near)
            n_rows = _take_first(near[:n_near], starts, members, skip, rows[start + count : start + k])
            distances[start + count : start + count + n_rows] = level
            count += n_rows
            level += 1
        if count < k and level <= radius:
            all_near, near_distance = np.empty(len(codes), np.uint32), np.empty(len(codes), np.uint16)
            n_all, limit = _find_buckets(
                table, skip, query, n_bits, to_centres, k - count, level, radius, all_near, near_distance
            )
            near = np.empty(n_all, np.uint32)
            for distance in range(level, limit + 1):
                n_near = 0
                for place in range(n_all):
                    near[n_near] = all_near[place]
                    n_near += near_distance[place] == distance
                if n_near > 0 and count < k:
                    n_rows = _take_first(near[:n_near], starts, members, skip, rows[start + count : start + k])
                    distances[start + count : start + count + n_rows] = distance
                    count += n_rows
        counts[number] = count


@_inner
def _append_rows(first, last, members, skip, rows, end):
    """Append the members from `first` to `last`, or these rows themselves if there are no members; return the end."""
    if len(skip) == 0 and len(members) > 0:
        if last - first <= _FEW:
            for place in range(first, last):
                rows[end + place - first] = members[place]
        else:  # vector instructions copy them
            inside, target = members[first:last], rows[end : end + last - first]
            for place in range(len(inside)):
                target[place] = inside[place]
        return end + last - first
    for place in range(first, last):
        row = np.int64(members[place]) if len(members) > 0 else place
        if not _is_skipped(skip, row):
            rows[end] = row
            end += 1
    return end


@_kernel(_FOUND(_TABLE, _BYTES, _CODE, _INT, _INT))
def table_within(table, skip, query, n_bits, radius):
    """Look one query up; return all rows within `radius`, nearest first, and their distances."""
    slots, codes, starts, members = table[0], table[1], table[2], table[3]
    has_buckets = len(starts) > 0
    to_centres = _to_centres(table, query)
    size = 0
    for level in range(min(radius, 2) + 1):
        size += _n_probes(n_bits, level)
    cost = _COST_OF_A_PROBE * codes.shape[1] * size
    scanned = _n_in_rings(table, n_bits, to_centres, radius) + _COST_OF_RINGS * len(to_centres)
    if radius > 2 or cost > scanned:
        near, near_distance = np.empty(len(codes), np.uint32), np.empty(len(codes), np.uint16)
        count, _ = _find_buckets(table, skip, query, n_bits, to_centres, _ALL, 0, radius, near, near_distance)
    else:
        size = size if has_buckets else min(len(codes), MAX_EQUAL * size)
        near, near_distance = np.empty(size, np.uint32), np.empty(size, np.uint16)
        count = 0
        for level in range(radius + 1):
            n_near = _probe(slots, codes, query, n_bits, level, has_buckets, near[count:])
            near_distance[count : count + n_near] = level
            count += n_near
    # Before the first row is copied, so that the CPU waits for many buckets at once.
    first, last = np.empty(count, np.int64), np.empty(count, np.int64)
    n_rows = 0
    for place in range(count):
        bucket = np.int64(near[place])
        first[place], last[place] = bucket, bucket + 1
        if has_buckets:
            first[place], last[place] = starts[bucket], starts[bucket + 1]
        n_rows += last[place] - first[place]
    rows, distances = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    spare = np.empty(0, np.int64)
    end = 0
    for level in range(radius + 1):
        start, n_near = end, 0
        for place in range(count):
            if near_distance[place] == level:
                n_near += 1
                end = _append_rows(first[place], last[place], members, skip, rows, end)
        distances[start:end] = level
        if n_near > 1:
            if len(spare) < end - start:
                spare = np.empty(end - start, np.int64)
            _sort_rows(rows[start:end], spare)
    return rows[:end], distances[:end]


@_inner
def _look_limit(label, distances, furthest, best, count):
    """Return the most look bits by which a row may differ that is among the nearest, at a label distance or more."""
    look_bits = distances.shape[1] - 1
    if count == len(best):
        furthest = min(furthest, np.int64(best[0] >> _HALF) // (look_bits + 1))
    low, high = np.int64(0), np.int64(look_bits + 1)
    while low < high:
        middle = (low + high) >> 1
        if distances[label, middle] <= furthest:
            low = middle + 1
        else:
            high = middle
    return low - 1


@_inner
def _enter_rings(
    start, stop, gap, table, looks, skip, label_query, look_query, distances, radius, first, places, best, count
):
    """Enter the rows of the buckets from `start` to `stop` into the heap `best`; return its size.

    All of them are at the label distance `gap` or further. Their look bits lie side by side.
    """
    codes, starts, members = table[1], table[2], table[3]
    n_words, flat = looks.shape[1], looks.reshape(-1)
    has_buckets = len(starts) > 0
    last = np.int64(starts[stop]) if has_buckets else stop
    limit = _look_limit(gap, distances, radius, best, count)
    if limit < 0:
        return count
    block = _next_near(flat, n_words, np.int64(starts[start]) if has_buckets else start, last, look_query, limit)
    bucket = start
    while block < last:
        if has_buckets:
            step = 1
            while bucket + step < stop and starts[bucket + step] <= block:
                bucket += step
                step <<= 1
            above = min(bucket + step, stop)
            while above - bucket > 1:
                middle = (bucket + above) >> 1
                if starts[middle] <= block:
                    bucket = middle
                else:
                    above = middle
        block, n_places = _collect(flat, n_words, block, last, look_query, limit, places)
        for place in places[:n_places]:
            look = _distance(looks[place], look_query)
            row = place + first
            if has_buckets:
                row = np.int64(members[place])
                while starts[bucket + 1] <= place:
                    bucket += 1
            else:
                bucket = place
            label = _distance(codes[bucket], label_query)
            distance = np.int64(distances[label, look])
            combined = (np.uint64(distance * distances.shape[1] + look) << _HALF) | np.uint64(row)
            if distance <= radius and (count < len(best) or combined < best[0]) and not _is_skipped(skip, row):
                count = _push(best, count, combined)
        limit = _look_limit(gap, distances, radius, best, count)
        if limit < 0:
            break
        block = _next_near(flat, n_words, block, last, look_query, limit)
    return count


@_kernel(
    _INT(
        _TABLE,
        _INT,
        _WORDS,
        _BYTES,
        _CODE,
        _CODE,
        types.Array(types.int32, 2, "C"),
        types.UniTuple(_INT, 3),
        _INT,
        types.Array(types.uint64, 1, "C"),
        _INT,
    )
)
def pair_nearest(table, n_bits, looks, skip, label_query, look_query, distances, rule, first, best, count):
    """Find the rows nearest to one query by the distance of label bits and look bits together.

    The distance rises with both Hamming distances. So the rings of the label bits are visited by increasing label
    distance, until no row of the next ones can be among the nearest.

    Parameters
    ----------
    table : tuple of ndarray
        Buckets of the label bits, as for :func:`table_nearest`.
    n_bits : int
        Number of label bits.
    looks : ndarray
        Look bits in the order of the table's members, or by row.
    skip : ndarray
        Rows to leave out.
    label_query, look_query : ndarray
        The query.
    distances : ndarray of int32
        The distance for every label distance (rows) and look distance (columns).
    rule : tuple of int
        ``near_label``, ``far_look``, and the largest distance.
    first : int
        Row of bucket 0, if the table has no members.
    best : ndarray of uint64
        Heap of the nearest rows, of the size that is wanted. The upper half of an entry is the distance times the
        number of look bits plus one, plus the look distance; the lower half is the row.
    count : int
        Number of entries that the heap holds already.

    Returns
    -------
    int
        Number of entries; the heap is not sorted.
    """
    near_label, far_look, radius = rule
    to_centres, places = _to_centres(table, label_query), np.empty(_BLOCK + 1, np.int64)
    if len(to_centres) == 0:
        n_codes = len(table[1])
        return _enter_rings(
            0, n_codes, 0, table, looks, skip, label_query, look_query, distances, radius, first, places, best, count
        )
    order, gap = np.argsort(to_centres), 0
    while gap <= n_bits:
        limit, furthest_gap = _look_limit(gap, distances, radius, best, count), gap
        if limit < 0:
            break
        # Where only near copies can count, that is up to `near_label`: the rings of a centre lie side by side.
        if 0 < gap < near_label and limit < far_look:
            furthest_gap = near_label
        for centre in order:
            for side in range(2 if gap > 0 else 1):
                distance = to_centres[centre]
                inner = max(0, distance - furthest_gap) if side == 0 else distance + gap
                outer = distance - gap if side == 0 else min(n_bits, distance + furthest_gap)
                if inner <= outer:
                    start, stop = _ring(table, n_bits, centre, inner)[0], _ring(table, n_bits, centre, outer)[1]
                    if start < stop:
                        count = _enter_rings(
                            start,
                            stop,
                            gap,
                            table,
                            looks,
                            skip,
                            label_query,
                            look_query,
                            distances,
                            radius,
                            first,
                            places,
                            best,
                            count,
                        )
        gap = furthest_gap + 1
    return count
