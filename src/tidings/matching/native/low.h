/* What the engine needs of the machine: hashes, order keys, bits and bytes compared sixteen at a
 * time. The only C of the engine; it knows nothing of records and segments.
 *
 * Hashes are our own and seeded, so a file means the same in every process, and nobody can choose
 * texts that collide. Loads are by memcpy, because records may begin at any multiple of eight.
 */
#ifndef TIDINGS_LOW_H
#define TIDINGS_LOW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define TIDINGS_SSE2 1
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__GNUC__)
#define tidings_prefetch(address) __builtin_prefetch(address)
#define TIDINGS_INLINE static inline __attribute__((unused))
#else
#define tidings_prefetch(address) ((void)0)
#define TIDINGS_INLINE static inline
#endif

/* Calls of checked functions cost little beside what they guard, so they stay in every build;
 * NDEBUG takes them out. */
#define tidings_check(condition) assert(condition)

/* Ask for large pages where there is much memory: a search reads it here and there, and the processor
 * knows the addresses of few pages. It is advice; nothing depends on it. The advice is for whole
 * pages, the first and the last too: else the kernel splits the area, and realloc has to copy it. */
TIDINGS_INLINE void tidings_large_pages(void *at, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= (size_t)1 << 22) {
        uintptr_t first = (uintptr_t)at & ~(uintptr_t)4095;
        uintptr_t last = ((uintptr_t)at + size + 4095) & ~(uintptr_t)4095;
        madvise((void *)first, last - first, MADV_HUGEPAGE);
    }
#else
    (void)at, (void)size;
#endif
}

TIDINGS_INLINE uint64_t tidings_load(const void *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* The two halves of a 128-bit product, folded together. */
TIDINGS_INLINE uint64_t tidings_mix(uint64_t a, uint64_t b) {
    a ^= 0x9E3779B97F4A7C15ull;
    b ^= 0xD6E8FEB86659FD93ull;
#if defined(__SIZEOF_INT128__)
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
    uint64_t high, low = _umul128(a, b, &high);
    return low ^ high;
#else
    uint64_t x = (a ^ (a >> 32)) * 0xD6E8FEB86659FD93ull + b;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93ull;
    return x ^ (x >> 29) ^ a;
#endif
}

TIDINGS_INLINE uint64_t tidings_hash(const void *data, size_t size, uint64_t seed) {
    const uint8_t *at = (const uint8_t *)data;
    uint64_t hash = seed ^ (size * 0x9E3779B97F4A7C15ull);
    while (size > 16) {
        hash = tidings_mix(hash ^ tidings_load(at), tidings_load(at + 8));
        at += 16;
        size -= 16;
    }
    uint64_t first = 0, second = 0;
    if (size >= 8) {
        first = tidings_load(at);
        second = tidings_load(at + size - 8);
    } else if (size >= 4) {
        uint32_t a, b;
        memcpy(&a, at, 4);
        memcpy(&b, at + size - 4, 4);
        first = a;
        second = b;
    } else if (size) {
        first = ((uint64_t)at[0] << 16) | ((uint64_t)at[size >> 1] << 8) | at[size - 1];
    }
    return tidings_mix(hash ^ first, second ^ 0xA0761D6478BD642Full);
}

/* A number in the order of doubles: below is smaller. Both zeros must have been made one. */
TIDINGS_INLINE uint64_t tidings_order_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}

/* The first eight bytes of a text as a number in the order of texts; `fill` stands for the rest. */
TIDINGS_INLINE uint64_t tidings_order_of_text(const uint8_t *text, size_t size, uint8_t fill) {
    uint64_t order = 0;
    for (size_t i = 0; i < 8; i++)
        order = order << 8 | (i < size ? text[i] : fill);
    return order;
}

/* The double nearest to digits * 10^exponent, and whether it is known: it is for at most 19 places.
 * Short numbers are a product or a quotient of two exact doubles, which is rounded once. Others are
 * divided with 64 bits to spare, and what remains says on which side of a tie they are. */
TIDINGS_INLINE int tidings_decimal(uint64_t digits, int exponent, double *value) {
    static const double reals[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (digits <= 1ull << 53 && exponent >= -22 && exponent <= 22) {
        *value = exponent < 0 ? (double)digits / reals[-exponent] : (double)digits * reals[exponent];
        return 1;
    }
#if defined(__SIZEOF_INT128__)
    if (exponent < -19 || exponent > 0) return 0;
    uint64_t divisor = 1;
    for (int i = exponent; i < 0; i++) divisor *= 10;
    int shift = 62; /* digits have more than 53 bits here, so the quotient has more than 54 */
    while (digits >> 63 == 0) {
        digits <<= 1;
        shift++;
    }
    __uint128_t dividend = (__uint128_t)digits << 62;
    __uint128_t quotient = dividend / divisor;
    int sticky = dividend % divisor != 0;
    while (quotient >> 62) { /* at most 62 bits: one for what was lost fits behind them */
        sticky |= (int)(quotient & 1);
        quotient >>= 1;
        shift--;
    }
    /* A conversion to double rounds to the nearest, and the last bit keeps ties apart. */
    *value = (double)((uint64_t)quotient << 1 | (uint64_t)sticky);
    for (shift++; shift > 0; shift -= 32)
        *value /= (double)(1ull << (shift < 32 ? shift : 32)); /* exact: no bit is lost */
    return 1;
#else
    return 0;
#endif
}

TIDINGS_INLINE int tidings_lowest(uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int place = 0;
    while (!(bits >> place & 1)) place++;
    return place;
#endif
}

/* Where a text occurs in another; NULL if nowhere. */
TIDINGS_INLINE const void *tidings_find(const void *in, size_t size, const void *what, size_t n) {
#if defined(__GLIBC__) || defined(__APPLE__) || defined(__linux__)
    return memmem(in, size, what, n);
#else
    const uint8_t *at = (const uint8_t *)in, *end = at + size;
    for (; (size_t)(end - at) >= n; at++)
        if (!memcmp(at, what, n)) return at;
    return NULL;
#endif
}

/* Which of 64 ranges [low, high] meet [from, to]; `codes` are 64 low bytes, then 64 high ones. */
TIDINGS_INLINE uint64_t tidings_meet(const uint8_t *codes, uint8_t from, uint8_t to) {
    uint64_t mask = 0;
#if TIDINGS_SSE2
    const __m128i first = _mm_set1_epi8((char)from), last = _mm_set1_epi8((char)to);
    for (int i = 0; i < 4; i++) {
        __m128i low = _mm_loadu_si128((const __m128i *)(codes + 16 * i));
        __m128i high = _mm_loadu_si128((const __m128i *)(codes + 64 + 16 * i));
        __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(low, last), low);
        __m128i above = _mm_cmpeq_epi8(_mm_max_epu8(high, first), high);
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_and_si128(below, above)) << (16 * i);
    }
#else
    for (int i = 0; i < 64; i++)
        mask |= (uint64_t)(codes[i] <= to && codes[64 + i] >= from) << i;
#endif
    return mask;
}

#endif
