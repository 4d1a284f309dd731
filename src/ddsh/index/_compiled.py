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

_COST_OF_A_PROBE = 16
"""Cost of one look into a hash table, in codes that a scan compares in the same time."""

_COST_OF_A_CANDIDATE = 8
"""The same for a code from a list of codes with an equal part."""

_PART = 16
"""Bits of a part in multi-index hashing."""

_SORTED_SHARE = 13
"""A level with more rows than all of them >> 13 is sorted by marking bits, which costs one pass over all rows."""

MAX_EQUAL = 64
"""Most equal codes in a hash table without buckets, because each of them has a slot."""

_MAX_DISTANCE = 1024
_ALL = 1 << 62
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ONE, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)
_LOW_PART = np.uint64(0xFFFF)

_INT = types.int64
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_CODE = types.Array(types.uint64, 1, "C")
_OUT_NUMBERS = types.Array(types.uint32, 1, "C")
_OUT_INTEGERS = types.Array(types.int64, 1, "C")
_FOUND = types.Tuple((_OUT_NUMBERS, _OUT_INTEGERS))

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
def _count_1(words, query, limit):
    count = 0
    for row in range(len(words)):
        count += _popcount(words[row] ^ query) <= limit
    return count


@_inner
def _count_2(words, first, second, limit):
    count = 0
    for row in range(len(words) // 2):
        count += _popcount(words[2 * row] ^ first) + _popcount(words[2 * row + 1] ^ second) <= limit
    return count


@_inner
def _count_within(flat, n_words, query, limit):
    """Return how many codes, one after the other in `flat`, lie within a distance; one or two words are vectorised."""
    if n_words == 1:
        return _count_1(flat, query[0], np.uint64(limit))
    if n_words == 2:
        return _count_2(flat, query[0], query[1], np.uint64(limit))
    count = 0
    for start in range(0, len(flat), n_words):
        count += _distance(flat[start : start + n_words], query) <= limit
    return count


@_inner
def _collect(flat, n_words, query, limit, places):
    """Write the places of the codes within a distance; return how many there are."""
    count = 0
    if n_words == 1:
        asked, most = query[0], np.uint64(limit)
        for place in range(len(flat)):
            places[count] = place
            count += _popcount(flat[place] ^ asked) <= most
        return count
    for place in range(len(flat) // n_words):
        places[count] = place
        count += _distance(flat[place * n_words : (place + 1) * n_words], query) <= limit
    return count


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


@_kernel(types.void(_WORDS, _BYTES, _WORDS, _INT, _INT, _OUT_NUMBERS, _OUT_INTEGERS, _OUT_INTEGERS))
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
    for first in range(0, len(words), _BLOCK):
        block = flat[first * n_words : (first + _BLOCK) * n_words]
        for query in range(n_queries):
            limit = limits[query]
            if limit < 0 or _count_within(block, n_words, queries[query], limit) == 0:
                continue
            here, inside = n_found[query], n_inside[query]
            for place in places[: _collect(block, n_words, queries[query], limit, places)]:
                row = first + place
                distance = _distance(words[row], queries[query])
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
    n_blocks = (len(words) + _BLOCK - 1) // _BLOCK
    matches = np.empty(n_blocks, np.uint16)
    total = 0
    for block in range(n_blocks):
        part = flat[block * _BLOCK * n_words : (block + 1) * _BLOCK * n_words]
        matches[block] = _count_within(part, n_words, query, radius)
        total += matches[block]
    found_row, found_distance = np.empty(total, np.uint32), np.empty(total, np.uint16)
    count = 0
    for block in range(n_blocks):
        if matches[block] > 0:
            for row in range(block * _BLOCK, min(len(words), (block + 1) * _BLOCK)):
                distance = _distance(words[row], query)
                if distance <= radius and not _is_skipped(skip, row):
                    found_row[count], found_distance[count] = row, distance
                    count += 1
    rows, distances = np.empty(count, np.uint32), np.empty(count, np.int64)
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
def _cost_of_probes(n_bits, n_words, level):
    """Return the cost of probing a distance, in codes that a scan compares in the same time."""
    if level > 2:
        return 1 << 62
    n_probes = 1 if level == 0 else n_bits if level == 1 else n_bits * (n_bits - 1) // 2
    return n_probes * _COST_OF_A_PROBE * (1 if n_words == 1 else 10)


@_kernel(types.void(_WORDS, _OUT_NUMBERS, _OUT_NUMBERS))
def fill_lists(codes, part_starts, part_lists):
    """Sort the numbers of codes of one word by each of their parts of 16 bits.

    The codes whose part ``j`` is ``v`` become ``part_lists[part_starts[e]:part_starts[e + 1]]``, with
    ``e = j << 16 | v``. `part_starts` must be zero and have one entry more than there are values of all parts.
    """
    n_parts = len(part_starts) >> _PART
    for part in range(n_parts):
        for number in range(len(codes)):
            value = (codes[number, 0] >> np.uint64(_PART * part)) & _LOW_PART
            part_starts[(part << _PART) + np.int64(value)] += 1
    total = 0
    for entry in range(len(part_starts)):
        total += part_starts[entry]
        part_starts[entry] = total
    # From behind, so that each entry ends as the start of its list.
    for part in range(n_parts):
        for number in range(len(codes) - 1, -1, -1):
            entry = (part << _PART) + np.int64((codes[number, 0] >> np.uint64(_PART * part)) & _LOW_PART)
            part_starts[entry] -= np.uint32(1)
            part_lists[part_starts[entry]] = number


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
        rows[:count].sort()
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
def _n_flips(size):
    """Return the number of sets of bits of a part."""
    count = 1
    for taken in range(size):
        count = count * (_PART - taken) // (taken + 1)
    return count


@_inner
def _find_by_parts(table, skip, query, room, nearest, radius, near, near_distance):
    """Find the same as :func:`_scan_buckets` by multi-index hashing; the count is -1 if a scan costs less.

    Codes within a distance of ``r`` agree with the query in one of ``m`` parts up to ``r // m`` bits. So the lists of
    all parts are read in the order of the bits that differ, until all codes within the limit must have been seen.
    """
    _, codes, starts, members, part_starts, part_lists, flips = table
    n_parts = len(part_starts) >> _PART
    at_distance = np.zeros(_MAX_DISTANCE + 1, np.int64)
    state = (radius, 0, 0)
    budget = len(codes)
    asked, flat = query[0], codes.reshape(-1)
    inside = np.empty(len(codes) + 1, np.uint32)
    first_flip, last_flip = 0, 1
    for flipped in range(_PART + 1):
        for part in range(n_parts):
            shift = np.uint64(_PART * part)
            value = (asked >> shift) & _LOW_PART
            base = part << _PART
            budget -= _COST_OF_A_PROBE * (last_flip - first_flip)
            if budget < 0:
                return -1, 0
            for flip in flips[first_flip:last_flip]:
                entry = base + np.int64(value ^ flip)
                budget -= _COST_OF_A_CANDIDATE * np.int64(part_starts[entry + 1] - part_starts[entry])
            if budget < 0:
                return -1, 0
            for flip in flips[first_flip:last_flip]:
                entry = base + np.int64(value ^ flip)
                numbers = part_lists[part_starts[entry] : part_starts[entry + 1]]
                # Without a branch, the CPU waits for many codes at once.
                n_inside, limit = 0, np.uint64(state[0])
                for number in numbers:
                    inside[n_inside] = number
                    n_inside += _popcount(flat[number] ^ asked) <= limit
                for number in inside[:n_inside]:
                    different = flat[number] ^ asked
                    distance = np.int64(_popcount(different))
                    if distance < nearest or distance > state[0]:
                        continue
                    # Each code is counted once, in the first of its parts whose lists are read.
                    is_new = True
                    for other in range(n_parts):
                        bits = np.int64(_popcount((different >> np.uint64(_PART * other)) & _LOW_PART))
                        is_new &= bits > flipped or (bits == flipped and other >= part)
                    if is_new:
                        n_rows = _count_rows(number, starts, members, skip, room)
                        if n_rows > 0:
                            state = _admit(number, distance, n_rows, room, at_distance, near, near_distance, state)
            if n_parts * flipped + part >= state[0]:
                return state[2], state[0]
        first_flip, last_flip = last_flip, last_flip + _n_flips(flipped + 1)
    return state[2], state[0]


@_inner
def _scan_buckets(table, skip, query, room, nearest, radius, near, near_distance):
    """Find the buckets that hold the `room` nearest rows, ties included, at distances from `nearest` to `radius`.

    Returns how many there are and the largest distance that counts; further ones may be among them.
    """
    codes, starts, members = table[1], table[2], table[3]
    n_words, flat = codes.shape[1], codes.reshape(-1)
    at_distance = np.zeros(_MAX_DISTANCE + 1, np.int64)
    places = np.empty(_BLOCK + 1, np.int64)
    state = (radius, 0, 0)
    for first in range(0, len(codes), _BLOCK):
        block = flat[first * n_words : (first + _BLOCK) * n_words]
        if _count_within(block, n_words, query, state[0]) == 0:
            continue
        for place in places[: _collect(block, n_words, query, state[0], places)]:
            bucket = first + place
            distance = _distance(codes[bucket], query)
            if nearest <= distance <= state[0]:
                n_rows = _count_rows(bucket, starts, members, skip, room)
                if n_rows > 0:
                    state = _admit(bucket, distance, n_rows, room, at_distance, near, near_distance, state)
    return state[2], state[0]


@_inner
def _find_buckets(table, skip, query, room, nearest, radius, near, near_distance):
    """Find the nearest buckets by multi-index hashing or by a scan, whichever costs less."""
    if len(table[4]) > 0:
        count, limit = _find_by_parts(table, skip, query, room, nearest, radius, near, near_distance)
        if count >= 0:
            return count, limit
    return _scan_buckets(table, skip, query, room, nearest, radius, near, near_distance)


_TABLE = types.Tuple(
    (_NUMBERS, _WORDS, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, types.Array(types.uint16, 1, "C", readonly=True))
)


@_kernel(types.void(_TABLE, _BYTES, _WORDS, _INT, _INT, _INT, _OUT_NUMBERS, _OUT_INTEGERS, _OUT_INTEGERS))
def table_nearest(table, skip, queries, n_bits, k, radius, rows, distances, counts):
    """Look each query up; write the `k` nearest rows within `radius`, nearest first, as :func:`scan_nearest` does.

    Distances 0, 1 and 2 are probed until there are enough rows, as long as that costs a fraction of a scan. Then the
    nearest buckets are found by multi-index hashing or by a scan of all buckets, whichever costs less.

    A table is a tuple of slots, codes, starts, members, starts and lists of the parts, and flips. Bucket ``b`` has the
    code ``codes[b]`` and the rows ``members[starts[b]:starts[b + 1]]``, ascending; if `starts` is empty, it is row
    ``b``. Flips are all numbers of 16 bits by the number of bits that are set.
    """
    slots, codes, starts, members = table[0], table[1], table[2], table[3]
    has_buckets = len(starts) > 0
    for number in range(len(queries)):
        query = queries[number].copy()
        start, count, level = number * k, 0, 0
        budget = len(codes) // 4
        while count < k and level <= min(radius, 2):
            cost = _cost_of_probes(n_bits, codes.shape[1], level)
            budget -= cost
            if level > 0 and budget < 0:
                break
            size = cost // _COST_OF_A_PROBE
            near = np.empty(size if has_buckets else min(len(codes), MAX_EQUAL * size), np.uint32)
            n_near = _probe(slots, codes, query, n_bits, level, has_buckets, near)
            n_rows = _take_first(near[:n_near], starts, members, skip, rows[start + count : start + k])
            distances[start + count : start + count + n_rows] = level
            count += n_rows
            level += 1
        if count < k and level <= radius:
            all_near, near_distance = np.empty(len(codes), np.uint32), np.empty(len(codes), np.uint16)
            n_all, limit = _find_buckets(table, skip, query, k - count, level, radius, all_near, near_distance)
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
def _append_rows(bucket, starts, members, skip, rows, end):
    """Append the rows of a bucket; return where they end."""
    if len(starts) == 0:
        if _is_skipped(skip, bucket):
            return end
        rows[end] = bucket
        return end + 1
    if len(skip) == 0:
        size = np.int64(starts[bucket + 1] - starts[bucket])
        rows[end : end + size] = members[starts[bucket] : starts[bucket + 1]]
        return end + size
    for member in members[starts[bucket] : starts[bucket + 1]]:
        if not _is_skipped(skip, member):
            rows[end] = member
            end += 1
    return end


@_inner
def _sort_rows(rows, marks):
    """Sort different rows; `marks` has a bit for every row and is zero before and after."""
    if len(rows) <= (64 * len(marks)) >> _SORTED_SHARE:
        rows.sort()
        return
    for row in rows:
        marks[row >> 6] |= _ONE << np.uint64(row & 63)
    count = 0
    for place in range(len(marks)):
        rest = marks[place]
        if rest != 0:
            marks[place] = 0
        while rest != 0:
            lowest = rest & (~rest + _ONE)
            rows[count] = 64 * place + np.int64(_popcount(lowest - _ONE))
            count += 1
            rest ^= lowest


@_kernel(_FOUND(_TABLE, _BYTES, _CODE, _INT, _INT))
def table_within(table, skip, query, n_bits, radius):
    """Look one query up; return all rows within `radius`, nearest first, and their distances."""
    slots, codes, starts, members = table[0], table[1], table[2], table[3]
    has_buckets = len(starts) > 0
    cost = 0
    for level in range(min(radius, 3) + 1):
        cost += _cost_of_probes(n_bits, codes.shape[1], level)
    if cost > len(codes) or radius > 2:
        near, near_distance = np.empty(len(codes), np.uint32), np.empty(len(codes), np.uint16)
        count, _ = _find_buckets(table, skip, query, _ALL, 0, radius, near, near_distance)
    else:
        size = cost // _COST_OF_A_PROBE
        size = size if has_buckets else min(len(codes), MAX_EQUAL * size)
        near, near_distance = np.empty(size, np.uint32), np.empty(size, np.uint16)
        count = 0
        for level in range(radius + 1):
            n_near = _probe(slots, codes, query, n_bits, level, has_buckets, near[count:])
            near_distance[count : count + n_near] = level
            count += n_near
    n_rows = 0
    for place in range(count):
        n_rows += _count_rows(near[place], starts, members, skip, _ALL)
    rows, distances = np.empty(n_rows, np.uint32), np.empty(n_rows, np.int64)
    marks = np.zeros((max(len(members), len(codes)) + 63) >> 6, np.uint64)
    end = 0
    for level in range(radius + 1):
        start, n_near = end, 0
        for place in range(count):
            if near_distance[place] == level:
                n_near += 1
                end = _append_rows(near[place], starts, members, skip, rows, end)
        distances[start:end] = level
        if n_near > 1:
            _sort_rows(rows[start:end], marks)
    return rows, distances


@_inner
def _enter_bucket(bucket, label, first, starts, members, looks, skip, query, rule, best, count):
    """Enter the rows of one bucket, all at the label distance `label`, into the heap `best`; return its size."""
    weight, near_label, near_look, look_bits, radius = rule
    start, stop = bucket, bucket + 1
    if len(starts) > 0:
        start, stop = np.int64(starts[bucket]), np.int64(starts[bucket + 1])
    for place in range(start, stop):
        look = _distance(looks[place], query)
        distance = look
        if look > near_look or label > near_label:
            distance += weight * label
        if distance > radius:
            continue
        row = np.int64(members[place]) if len(starts) > 0 else place + first
        combined = (np.uint64(distance * (look_bits + 1) + look) << _HALF) | np.uint64(row)
        if (count < len(best) or combined < best[0]) and not _is_skipped(skip, row):
            count = _push(best, count, combined)
    return count


@_kernel(
    _INT(
        _WORDS,
        _NUMBERS,
        _NUMBERS,
        _WORDS,
        _BYTES,
        _CODE,
        _CODE,
        types.UniTuple(_INT, 5),
        _INT,
        types.Array(types.uint64, 1, "C"),
        _INT,
    )
)
def pair_nearest(codes, starts, members, looks, skip, label_query, look_query, rule, first, best, count):
    """Find the rows nearest to one query by the distance of label bits and look bits together.

    The label distance bounds the distance of both from below, except within `near_label` bits. So the buckets of the
    label bits are visited by increasing distance, until no row of the next ones can be among the nearest.

    Parameters
    ----------
    codes, starts, members : ndarray
        Buckets of the label bits, as for :func:`table_nearest`.
    looks : ndarray
        Look bits in the order of `members`, or by row.
    skip : ndarray
        Rows to leave out.
    label_query, look_query : ndarray
        The query.
    rule : tuple of int
        Weight of a label bit, ``near_label``, ``near_look``, number of look bits, and the largest distance.
    first : int
        Row of bucket 0, if there are no `starts`.
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
    weight, near_label, _, look_bits, radius = rule
    factor = look_bits + 1
    buckets, labels = np.empty(len(codes) + 1, np.uint32), np.empty(len(codes) + 1, np.uint16)
    n_near = 0
    for bucket in range(len(codes)):
        label = _distance(codes[bucket], label_query)
        buckets[n_near], labels[n_near] = bucket, label
        n_near += label <= near_label
    for level in range(near_label + 1):
        for place in range(n_near):
            if labels[place] == level:
                bucket = np.int64(buckets[place])
                count = _enter_bucket(bucket, level, first, starts, members, looks, skip, look_query, rule, best, count)
    furthest = radius
    if count == len(best):
        furthest = min(radius, np.int64(best[0] >> _HALF) // factor)
    if weight * (near_label + 1) > furthest:
        return count
    for bucket in range(len(codes)):
        label = _distance(codes[bucket], label_query)
        if label > near_label and weight * label <= furthest:
            count = _enter_bucket(bucket, label, first, starts, members, looks, skip, look_query, rule, best, count)
            if count == len(best):
                furthest = min(radius, np.int64(best[0] >> _HALF) // factor)
    return count
