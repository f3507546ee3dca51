/* Lists of gaps where a processor takes 64 bytes at once (AVX-512 with VBMI2): as aiperf_lists.c.

   First the places of all that is no digit: it must be a point and a comma in turn. Then 16 numbers
   at a time: of each the 16 bytes from three before its point on, which hold what counts (up to 3
   digits, the point, 8 digits), four numbers in one register. Whatever is not as AIPerf usually
   writes it is not taken, and neither is what lies within a hundredth of a ns of a half. */

#include <stdint.h>

#if defined(__x86_64__) && ((defined(__GNUC__) && __GNUC__ >= 9) || \
                            (defined(__clang_major__) && __clang_major__ >= 9))
#define HAS_WIDE
#include <immintrin.h>
#endif

int servebook_is_wide(void);
int64_t servebook_wide_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end);

#ifdef HAS_WIDE

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")))

/* Places that are held at once, and room for those of 64 more bytes and for what lies behind. */
enum { TOGETHER = 16, HELD = 512, ROOM = HELD + 128 };
/* Bytes that are asked for before they are needed: no processor looks into the next page itself. */
enum { AHEAD = 4096 };

/* Whether this processor can do it. */
int servebook_is_wide(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}

/* Four numbers of 16, each four behind the one before, as ms, and two times four digits of ns. */
WIDE static inline __m512i four(const uint8_t *p, const int32_t *places, int at, __m512i first,
                                __m512i behind)
{
    const __m512i number = _mm512_set4_epi32(0x0f0e0d0c, 0x0b0a0908, 0x07060504, 0x03020100);
    const __m512i tens = _mm512_set4_epi32(0, 0x010a010a, 0x010a010a, 0x00010a64);
    const __m512i hundreds = _mm512_set4_epi32(0, 0x00010064, 0x00010064, 0x00010001);
    const __m512i own = _mm512_set1_epi8((char)(4 * at));
    const uint8_t *from = p - 3;
    places += 2 * at;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(from + places[0])));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + places[8])), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + places[16])), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + places[24])), 3);
    __mmask64 digits = _mm512_cmple_epu8_mask(_mm512_shuffle_epi8(first, own), number);
    digits = _mm512_mask_cmplt_epu8_mask(digits, number, _mm512_shuffle_epi8(behind, own));
    v = _mm512_maskz_sub_epi8(digits, v, _mm512_set1_epi8('0'));
    return _mm512_madd_epi16(_mm512_maddubs_epi16(v, tens), hundreds);
}

/* The gaps of 16 numbers, whose points and ends are the places. *bad: those that are not taken;
   *last: where each of the 16 before ended. */
WIDE static inline __m512i sixteen(const uint8_t *p, const int32_t *places, __m512i *last,
                                   __mmask16 *bad)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i one = _mm512_set1_epi32(1), hundred = _mm512_set1_epi32(100);
    __m512i a = _mm512_loadu_si512(places), b = _mm512_loadu_si512(places + 16);
    __m512i point = _mm512_permutex2var_epi32(a, even, b);
    __m512i end = _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, one), b);
    __m512i before = _mm512_sub_epi32(point, _mm512_alignr_epi32(end, *last, 15));
    __m512i behind = _mm512_sub_epi32(end, point); /* both one more than there are digits */
    *last = end;
    __mmask16 wrong = _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(before, _mm512_set1_epi32(2)),
                                              _mm512_set1_epi32(2));
    wrong |= _mm512_cmple_epi32_mask(behind, one);
    __m512i first = _mm512_sub_epi32(_mm512_set1_epi32(4), before);
    behind = _mm512_add_epi32(_mm512_min_epi32(behind, _mm512_set1_epi32(64)), _mm512_set1_epi32(3));
    __m512i r0 = four(p, places, 0, first, behind), r1 = four(p, places, 1, first, behind);
    __m512i r2 = four(p, places, 2, first, behind), r3 = four(p, places, 3, first, behind);
    __m512i low = _mm512_unpacklo_epi32(r0, r1), high = _mm512_unpacklo_epi32(r2, r3);
    __m512i ms = _mm512_unpacklo_epi64(low, high), upper = _mm512_unpackhi_epi64(low, high);
    low = _mm512_unpackhi_epi32(r0, r1), high = _mm512_unpackhi_epi32(r2, r3);
    __m512i lower = _mm512_unpacklo_epi64(low, high);
    /* A zero before other digits: below 10 of two digits, below 100 of three. */
    __m512i least = _mm512_permutexvar_epi32(
        before, _mm512_setr_epi32(0, 0, 0, 10, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    wrong |= _mm512_cmplt_epi32_mask(ms, least);
    /* Hundredths become whole ns; those of 49 and 50 are next to a half. 2^19 / 100 is 5243. */
    lower = _mm512_add_epi32(lower, _mm512_set1_epi32(50));
    __m512i ns = _mm512_srli_epi32(_mm512_mulhi_epu16(lower, _mm512_set1_epi32(5243)), 3);
    __m512i rest = _mm512_sub_epi32(lower, _mm512_mullo_epi16(ns, hundred));
    wrong |= _mm512_cmpeq_epi32_mask(rest, _mm512_setzero_si512());
    wrong |= _mm512_cmpeq_epi32_mask(rest, _mm512_set1_epi32(99));
    *bad = wrong;
    ns = _mm512_add_epi32(ns, _mm512_mullo_epi32(upper, hundred));
    return _mm512_add_epi32(ns, _mm512_mullo_epi32(ms, _mm512_set1_epi32(1000000)));
}

/* The gaps of the list that begins at p, room for at most so many; -1 where it is not taken.
   *end becomes the bracket behind it. A line feed must stand somewhere behind p, and 64 bytes more. */
WIDE int64_t servebook_wide_gaps(const uint8_t *p, int32_t *gaps, int64_t room,
                                 const uint8_t **end)
{
    int32_t places[ROOM];
    int64_t n = 0;
    int32_t held = 0, at = 0; /* places that wait; the next byte */
    const __m512i iota = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40,
        39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i last = _mm512_set1_epi32(-1);
    for (int is_end = 0; !is_end;) {
        while (held < HELD && !is_end) {
            _mm_prefetch((const char *)p + at + AHEAD, _MM_HINT_T0);
            __m512i v = _mm512_loadu_si512(p + at);
            __m512i digit = _mm512_sub_epi8(v, _mm512_set1_epi8('0'));
            __mmask64 found = _mm512_cmpgt_epu8_mask(digit, _mm512_set1_epi8(9));
            __mmask64 points = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('.'));
            __mmask64 others = found & ~points & ~_mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(','));
            if (others) {
                uint64_t first = others & -others;
                is_end = 1;
                *end = p + at + __builtin_ctzll(others);
                found &= first | (first - 1);
            }
            __m512i own = _mm512_maskz_compress_epi8(found, iota);
            int32_t n_found = (int32_t)__builtin_popcountll(found);
            uint64_t turn = held & 1 ? 0xaaaaaaaaaaaaaaaa : 0x5555555555555555;
            if (_pext_u64(points, found) != _bzhi_u64(turn, (unsigned)n_found))
                return -1;
            const __m512i base = _mm512_set1_epi32(at);
            for (int32_t i = 0; i < n_found; i += 16) {
                __m512i some = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(own));
                _mm512_storeu_si512(places + held + i, _mm512_add_epi32(some, base));
                own = _mm512_alignr_epi32(own, own, 4);
            }
            held += n_found;
            at += 64;
        }
        if (is_end && (held & 1 || **end != ']'))
            return -1;
        if (n + held / 2 > room || at > 1 << 30)
            return -1;
        int32_t done = 0;
        __mmask16 bad = 0, wrong;
        for (; done + 2 * TOGETHER <= held; done += 2 * TOGETHER, n += TOGETHER) {
            _mm512_storeu_si512(gaps + n, sixteen(p, places + done, &last, &wrong));
            bad |= wrong;
        }
        int32_t left = held - done;
        if (is_end && left) {
            for (int32_t i = left; i < 2 * TOGETHER; i++)
                places[done + i] = places[done];
            __mmask16 own = (__mmask16)((1u << left / 2) - 1);
            __m512i ns = sixteen(p, places + done, &last, &wrong);
            _mm512_mask_storeu_epi32(gaps + n, own, ns);
            bad |= wrong & own;
            n += left / 2;
        } else
            for (int32_t i = 0; i < left; i++)
                places[i] = places[done + i];
        if (bad)
            return -1;
        held = left;
    }
    return n;
}

#else

int servebook_is_wide(void)
{
    return 0;
}

int64_t servebook_wide_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end)
{
    (void)p, (void)gaps, (void)room, (void)end;
    return -1;
}

#endif
