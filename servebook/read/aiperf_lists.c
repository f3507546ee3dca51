/* Lists of gaps in AIPerf's record lines: each list as whole ns, and the line without it.

   Nine tenths of such a line are one list of ms, some 13 characters each. Here they become 32-bit
   ns without a float in between. Taken is only what AIPerf writes; every other line is refused, and
   aiperf_columns.py reads it, so that no line becomes anything else than it would without this.

   Why the ns are those of floats. Python gives rint(fl(x) * 1e6) of x ms, each step rounded as IEEE
   754 says. Here x * 1e6 < 2^31, so that both roundings together are off by less than
   2^31 * 2^-52 < 5e-7 ns. Whatever lies within 1e-6 ns of a half is refused; all else lies farther
   from a half than floats are off, so that both ways round it to the same side.

   Plain C of little-endian machines, called by ctypes. It allocates nothing, and keeps
   only whether a processor takes more bytes at once. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From aiperf_wide.c. */
int servebook_is_wide(void);
int64_t servebook_wide_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end);

int servebook_use_wide(int wanted);
int64_t servebook_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end);
int64_t servebook_line(const uint8_t *p, const uint8_t *stop, uint8_t **rest, int32_t *gaps,
                       int64_t room, const uint8_t **next);

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char NAME[] = "inter_chunk_latency";
static const char BEFORE[] = "\"inter_chunk_latency\":{\"value\":[";
static const char AFTER[] = "],\"unit\":\"ms\"}";
#define SIZE(text) (sizeof(text) - 1)
/* Where "k_l" stands in the name, which few other names hold. */
enum { K = 10 };

static inline int is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

/* As servebook_gaps. A line feed must stand somewhere behind p. */
static int64_t careful(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end)
{
    const uint64_t ns_parts = 10000000000, half = ns_parts / 2, near = 10000;
    for (int64_t n = 0; n < room; p++) {
        const uint8_t *begin = p;
        uint64_t ms = 0, parts = 0; /* of 1e-16 ms */
        for (; is_digit(*p) && p - begin < 5; p++)
            ms = 10 * ms + (uint64_t)(*p - '0');
        if (p == begin || p - begin > 4 || (*begin == '0' && p - begin > 1) || *p != '.')
            return -1;
        begin = ++p;
        for (int i = 0; i < 16; i++)
            parts = 10 * parts + (is_digit(*p) ? (uint64_t)(*p++ - '0') : 0);
        for (; is_digit(*p); p++)
            ;
        if (p == begin)
            return -1;
        uint64_t rest = parts % ns_parts;
        uint64_t ns = ms * 1000000 + parts / ns_parts + (rest >= half);
        if (ns >= INT32_MAX || (rest + near + 1 >= half && rest < half + near))
            return -1;
        gaps[n++] = (int32_t)ns;
        if (*p == ']') {
            *end = p;
            return n;
        }
        if (*p != ',')
            return -1;
    }
    return -1;
}

#ifdef __SSE2__

static inline __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Bit i: byte i of 64 is no digit. */
static inline uint64_t no_digits(const uint8_t *p)
{
    const __m128i shift = _mm_set1_epi8((char)(128 - '0')), ten = _mm_set1_epi8(-128 + 10);
    uint64_t digits = 0;
    for (int i = 0; i < 4; i++) {
        __m128i is = _mm_cmplt_epi8(_mm_add_epi8(load(p + 16 * i), shift), ten);
        digits |= (uint64_t)(uint32_t)_mm_movemask_epi8(is) << (16 * i);
    }
    return ~digits;
}

/* As above for numbers of the usual length; -1 also for what careful() may take. The 16 bytes from
   three before a point on hold what counts: up to 3 digits, the point, 8 digits. */
static int64_t usual(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end)
{
    enum { X = 15, MOST_DIGITS = 62, TOGETHER = 4 };
    /* What is kept of the bytes before the point, by their number, and of those behind it. */
    static const uint8_t before[4][16] = {
        {0}, {0, 0, X, 0, X, X, X, X, X, X, X, X}, {0, X, X, 0, X, X, X, X, X, X, X, X},
        {X, X, X, 0, X, X, X, X, X, X, X, X}};
    static const uint8_t behind[MOST_DIGITS + 4 + 16] = {
        X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
        X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
        X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X};
    const __m128i low = _mm_set1_epi16(0xff), ten = _mm_set1_epi16(10);
    /* Pairs of digits become: tenths of ms, ns / 100 of the next four, hundredths of ns. */
    const __m128i weights = _mm_setr_epi16(100, 1, 10000, 100, 100, 1, 0, 0);
    const __m128i round = _mm_setr_epi32(0, 0, 50, 0);
    const __m128i scale = _mm_setr_epi32(100000, 0, 42949673, 0); /* 2^32 / 100 */
    /* Of hundredths 49 and 50 the product's lower half is next to 0. */
    const __m128i bias = _mm_setr_epi32(0, 0, INT32_MIN + 43000000, 0);
    const __m128i least = _mm_setr_epi32(INT32_MIN, INT32_MIN, INT32_MIN + 60000000, INT32_MIN);
    __m128i near_half = _mm_setzero_si128();
    for (int64_t n = 0; n < room;) {
        /* Of so many numbers the 64 bytes from here on hold all, or nearly always. */
        uint64_t mask = no_digits(p);
        const uint8_t *from = p;
        for (int k = 0; k < TOGETHER && n < room; k++) {
            uint64_t behind_it = mask & (mask - 1);
            if (!behind_it) {
                if (!k)
                    return -1;
                break;
            }
            const uint8_t *point = from + __builtin_ctzll(mask);
            const uint8_t *at = from + __builtin_ctzll(behind_it);
            mask = behind_it & (behind_it - 1);
            size_t n_before = (size_t)(point - p), n_behind = (size_t)(at - point) - 1;
            if (*point != '.' || n_before - 1 > 2 || !n_behind || (*p == '0' && n_before > 1))
                return -1;
            __m128i v = load(point - 3);
            v = _mm_and_si128(v, load(before[n_before]));
            v = _mm_and_si128(v, load(behind + MOST_DIGITS - n_behind));
            v = _mm_add_epi16(_mm_mullo_epi16(_mm_and_si128(v, low), ten), _mm_srli_epi16(v, 8));
            v = _mm_madd_epi16(v, weights);
            __m128i product = _mm_mul_epu32(_mm_add_epi32(v, round), scale);
            __m128i ns = _mm_add_epi32(product, _mm_shuffle_epi32(v, 1));
            ns = _mm_add_epi32(ns, _mm_shuffle_epi32(product, 3));
            gaps[n++] = _mm_cvtsi128_si32(ns);
            product = _mm_add_epi32(product, bias);
            near_half = _mm_or_si128(near_half, _mm_cmplt_epi32(product, least));
            p = at + 1;
            if (*at != ',') {
                *end = at;
                return *at == ']' && !_mm_movemask_epi8(near_half) ? n : -1;
            }
        }
    }
    return -1;
}

/* Where the next byte stands that ends or forbids a line, or a "k" that may be the name's. */
static inline const uint8_t *special(const uint8_t *p)
{
    const __m128i slash = _mm_set1_epi8('\\'), end = _mm_set1_epi8('\n');
    const __m128i k = _mm_set1_epi8('k'), l = _mm_set1_epi8('l');
    for (;; p += 16) {
        __m128i v = load(p), after = load(p + 2);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(v, slash), _mm_cmpeq_epi8(v, end));
        __m128i name = _mm_and_si128(_mm_cmpeq_epi8(v, k), _mm_cmpeq_epi8(after, l));
        int mask = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(found, name), v));
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
}

#else

static int64_t usual(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end)
{
    (void)p, (void)gaps, (void)room, (void)end;
    return -1;
}

static inline const uint8_t *special(const uint8_t *p)
{
    while (*p != '\\' && *p != '\n' && *p < 0x80 && !(*p == 'k' && p[2] == 'l'))
        p++;
    return p;
}

#endif

static int use_wide;

/* Whether lists are read by aiperf_wide.c from now on: where it is wanted and this processor can. */
int servebook_use_wide(int wanted)
{
    return use_wide = wanted && servebook_is_wide();
}

/* The gaps of the list that begins at p, room for at most so many; -1 where it is not taken.
   *end becomes the bracket behind it. */
int64_t servebook_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end)
{
    int64_t n = (use_wide ? servebook_wide_gaps : usual)(p, gaps, room, end);
    return n < 0 ? careful(p, gaps, room, end) : n;
}

/* The line at p: how many gaps its list holds (0: no list), and *rest behind the rest of it, which
   has null for the list; -1 where it is not taken. *next becomes the line behind it. */
int64_t servebook_line(const uint8_t *p, const uint8_t *stop, uint8_t **rest, int32_t *gaps,
                       int64_t room, const uint8_t **next)
{
    const uint8_t *begin = p, *copied = p; /* up to there */
    uint8_t *out = *rest;
    int64_t n = 0;
    for (;; p++) {
        p = special(p);
        if (*p == '\n')
            break;
        if (*p != 'k')
            goto refused;
        if (p - begin < K || memcmp(p - K, NAME, SIZE(NAME)))
            continue;
        if (n || p - begin == K || memcmp(p - K - 1, BEFORE, SIZE(BEFORE)))
            goto refused;
        const uint8_t *list = p - K - 1 + SIZE(BEFORE), *end;
        n = servebook_gaps(list, gaps, room, &end);
        if (n < 0 || memcmp(end, AFTER, SIZE(AFTER)))
            goto refused;
        memcpy(out, begin, (size_t)(list - 1 - begin));
        out += list - 1 - begin;
        memcpy(out, "null", 4);
        out += 4;
        p = end;
        copied = end + 1;
    }
    memcpy(out, copied, (size_t)(p - copied));
    *rest = out + (p - copied);
    *next = p + 1;
    return n;
refused:
    p = memchr(p, '\n', (size_t)(stop - p));
    *next = p + 1;
    return -1;
}
