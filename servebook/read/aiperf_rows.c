/* AIPerf's record lines as rows of whole numbers, by the shape of lines that were seen before.

   The lines of a run differ in their values alone: names, their order, units and literals are the
   same text. Shapes (aiperf_shapes.py) are a tree of such texts, each followed by a value of one
   kind; a line is taken where it follows the tree to its end and each value is of its kind, written
   as AIPerf writes it and within the limits that Python gives. Every other line is left to
   aiperf_lists.c and msgspec, so that no line becomes anything else than it would without this.

   Spans of ms become whole ns as gaps do (aiperf_lists.c): below 2^41 ns floats are off by less than
   2^41 * 2^-52 < 0.0005 ns, and what lies within 0.001 ns of a half is not taken.

   Plain C, called by ctypes. It allocates nothing and keeps nothing. */

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* From aiperf_lists.c. With so many gaps below 2^31 ns the sum stays below the bound that Python
   looks for. */
enum { MOST_GAPS = 1 << 24 };
int64_t servebook_gaps(const uint8_t *p, int32_t *gaps, int64_t room, const uint8_t **end);
int64_t servebook_line(const uint8_t *p, const uint8_t *stop, uint8_t **rest, int32_t *gaps,
                       int64_t room, const uint8_t **next);

/* What follows the text of a node; the same order as in aiperf_shapes.py. */
enum kind { END, TEXT, NUMBER, GAPS, WHOLE, COUNT, SPAN, PERCENT, NAME, TALK };
/* Of the columns of a row those that are looked at here; the same order as in aiperf_rows.py. */
enum { START, ENDED, TTFT, LATENCY, PERCENT_OF, N_GAPS, NAME_END, TALK_END, SHAPE };

struct node {
    int32_t text, size; /* where in the texts */
    int32_t kind, column;
    int32_t next;  /* behind the value */
    int32_t other; /* where this one does not fit; 0: none */
};

struct shapes {
    const struct node *nodes; /* the first is no node: the tree begins at its next */
    const uint8_t *texts;     /* 16 bytes are readable behind them */
    const int64_t *limits;    /* of each column: least, and what is more than the most */
    const int64_t *missing;   /* of each column: what stands for none */
    int64_t n_columns;
};

/* What is written; each pointer moves on. */
struct out {
    uint8_t *rests;
    int32_t *gaps;
    int64_t n_gaps; /* room for the next line's */
    int64_t *rows;
    uint8_t *names, *talks;
    int64_t n_names, n_talks; /* bytes so far */
};

static inline int is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

static inline int is_plain(uint8_t byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
}

#ifdef __SSE2__

static inline __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Whether the text stands at p. It holds no line feed, so that nothing far behind one is read. */
static inline int stands(const uint8_t *p, const uint8_t *text, int64_t size)
{
    for (; size > 16; size -= 16, p += 16, text += 16)
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(load(p), load(text))) != 0xffff)
            return 0;
    unsigned differ = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(load(p), load(text))) ^ 0xffff;
    return !(differ & ((1u << size) - 1));
}

/* The first byte that no string holds as it is. */
static inline const uint8_t *behind_plain(const uint8_t *p)
{
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' '), delete = _mm_set1_epi8(0x7f);
    for (;; p += 16) {
        __m128i v = load(p); /* as signed numbers: what is not ASCII is below a space */
        __m128i is = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
        is = _mm_or_si128(is, _mm_or_si128(_mm_cmplt_epi8(v, space), _mm_cmpeq_epi8(v, delete)));
        int mask = _mm_movemask_epi8(is);
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
}

/* The first byte that is no digit, of 16; else the sixteenth behind p. */
static inline const uint8_t *behind_digits(const uint8_t *p)
{
    const __m128i shift = _mm_set1_epi8((char)(128 - '0')), ten = _mm_set1_epi8(-128 + 10);
    __m128i is = _mm_cmplt_epi8(_mm_add_epi8(load(p), shift), ten);
    return p + __builtin_ctz(~(unsigned)_mm_movemask_epi8(is));
}

#else

static inline int stands(const uint8_t *p, const uint8_t *text, int64_t size)
{
    int64_t i = 0;
    while (i < size && p[i] == text[i])
        i++;
    return i == size;
}

static inline const uint8_t *behind_plain(const uint8_t *p)
{
    while (is_plain(*p))
        p++;
    return p;
}

static inline const uint8_t *behind_digits(const uint8_t *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

#endif

static const uint8_t *all_digits(const uint8_t *p)
{
    p = behind_digits(p);
    while (is_digit(*p))
        p++;
    return p;
}

/* Behind the digits of a whole number at p; NULL where there are none, or a zero before others. */
static inline const uint8_t *behind_whole(const uint8_t *p)
{
    const uint8_t *end = all_digits(p);
    return end == p || (*p == '0' && end > p + 1) ? NULL : end;
}

/* Behind a number that no float is too small for; NULL where there is none. */
static const uint8_t *behind_number(const uint8_t *p)
{
    p = behind_whole(p + (*p == '-'));
    if (p && *p == '.') {
        const uint8_t *begin = p + 1;
        p = all_digits(begin);
        if (p == begin)
            return NULL;
    }
    if (p && (*p == 'e' || *p == 'E')) {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        const uint8_t *begin = p;
        p = all_digits(begin);
        if (p == begin || p - begin > 2)
            return NULL;
    }
    return p;
}

static inline uint64_t value_of(const uint8_t *p, const uint8_t *end)
{
    uint64_t value = 0;
    for (; p < end; p++)
        value = 10 * value + (uint64_t)(*p - '0');
    return value;
}

/* A whole number below 10^19; with_zeros: ".0" may follow. */
static inline const uint8_t *whole(const uint8_t *p, int with_zeros, int64_t *value)
{
    const uint8_t *end = behind_whole(p);
    if (!end || end - p > 19)
        return NULL;
    uint64_t found = value_of(p, end);
    if (found > INT64_MAX)
        return NULL;
    *value = (int64_t)found;
    if (with_zeros && *end == '.') {
        const uint8_t *begin = ++end;
        while (*end == '0')
            end++;
        if (end == begin)
            return NULL;
    }
    return end;
}

/* Decimal ms as whole ns. */
static const uint8_t *span(const uint8_t *p, int64_t *value)
{
    const uint64_t ns_parts = 10000000000, half = ns_parts / 2, near = 10000000;
    const uint8_t *end = behind_whole(p);
    if (!end || end - p > 7)
        return NULL;
    uint64_t ms = value_of(p, end), parts = 0; /* of 1e-16 ms */
    if (*end == '.') {
        const uint8_t *begin = end + 1;
        end = all_digits(begin);
        if (end == begin)
            return NULL;
        const uint8_t *last = end - begin > 16 ? begin + 16 : end;
        parts = value_of(begin, last);
        for (ptrdiff_t i = last - begin; i < 16; i++)
            parts *= 10;
    }
    uint64_t rest = parts % ns_parts;
    uint64_t ns = ms * 1000000 + parts / ns_parts + (rest >= half);
    if (ns >= (uint64_t)1 << 41 || (rest + near + 1 >= half && rest < half + near))
        return NULL;
    *value = (int64_t)ns;
    return end;
}

/* A decimal as the float that is nearest to it. */
static const uint8_t *decimal(const uint8_t *p, double *value)
{
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15};
    const uint8_t *end = behind_number(p);
    if (!end)
        return NULL;
    uint64_t digits = 0;
    ptrdiff_t n = 0, n_behind = 0;
    for (const uint8_t *at = p + (*p == '-'); at < end && n < 16; at++) {
        if (*at == '.')
            n_behind = end - at - 1;
        else if (is_digit(*at))
            digits = 10 * digits + (uint64_t)(*at - '0'), n++;
        else
            return NULL;
    }
    if (*p == '-' && !digits && !n_behind)
        return NULL; /* the whole number -0 has no sign, the float has */
#if FLT_EVAL_METHOD == 0
    if (n < 16) { /* both numbers are exact in a float, so that it is the nearest one */
        double found = (double)digits / tens[n_behind];
        *value = *p == '-' ? -found : found;
        return end;
    }
#endif
    char *stopped; /* elsewhere, where a point is not what a decimal has */
    *value = strtod((const char *)p, &stopped);
    return (const uint8_t *)stopped == end ? end : NULL;
}

/* Behind the value of a node at p; NULL where it is another one. */
static inline const uint8_t *value(const struct node *node, const uint8_t *p, int64_t *row,
                                   struct out *out, const int64_t *limits, int *is_odd_list)
{
    const uint8_t *end;
    int64_t found = 0;
    double percent;
    switch (node->kind) {
    case END:
        p += *p == '\r';
        return *p == '\n' ? p : NULL;
    case TEXT:
    case NAME:
    case TALK:
        if (*p != '"')
            return NULL;
        end = behind_plain(++p);
        if (*end != '"' || (node->kind == NAME && end == p))
            return NULL;
        if (node->kind == NAME) {
            memcpy(out->names + out->n_names, p, (size_t)(end - p));
            row[NAME_END] = out->n_names + (end - p);
        } else if (node->kind == TALK) {
            memcpy(out->talks + out->n_talks, p, (size_t)(end - p));
            row[TALK_END] = out->n_talks + (end - p);
        }
        return end + 1;
    case NUMBER:
        return behind_number(p);
    case GAPS:
        if (*p != '[')
            return NULL;
        found = servebook_gaps(p + 1, out->gaps, out->n_gaps, &end);
        *is_odd_list = found < 0;
        if (found < 0)
            return NULL;
        row[N_GAPS] = found;
        return end + 1;
    case PERCENT:
        end = decimal(p, &percent);
        /* Just above -100 the length that was asked for has no bound. */
        if (!end || (percent > -100 && percent < -99.99))
            return NULL;
        memcpy(row + PERCENT_OF, &percent, sizeof percent);
        return end;
    case WHOLE:
    case COUNT:
        end = whole(p, node->kind == COUNT, &found);
        break;
    case SPAN:
        end = span(p, &found);
        break;
    default:
        return NULL;
    }
    const int64_t *limit = limits + 2 * node->column;
    if (!end || found < limit[0] || found >= limit[1])
        return NULL;
    row[node->column] = found;
    return end;
}

/* Where the line at p ends, whose values are in out then; NULL where it has no known shape. */
static const uint8_t *shaped(const uint8_t *p, const struct shapes *shapes, struct out *out,
                             int *is_odd_list)
{
    int64_t *row = out->rows;
    memcpy(row, shapes->missing, (size_t)shapes->n_columns * sizeof *row);
    row[TALK_END] = out->n_talks;
    int32_t at = shapes->nodes[0].next;
    while (at) {
        const struct node *node = shapes->nodes + at;
        const uint8_t *behind = NULL;
        if (stands(p, shapes->texts + node->text, node->size))
            behind = value(node, p + node->size, row, out, shapes->limits, is_odd_list);
        if (!behind) {
            if (*is_odd_list)
                return NULL;
            at = node->other;
            continue;
        }
        p = behind;
        if (node->kind != END) {
            at = node->next;
            continue;
        }
        int64_t none = shapes->missing[ENDED];
        if (row[LATENCY] == none && row[ENDED] != none && row[ENDED] < row[START])
            return NULL;
        if (row[LATENCY] != none && row[TTFT] != none && row[TTFT] > row[LATENCY])
            return NULL;
        row[SHAPE] = at;
        out->n_names = row[NAME_END];
        out->n_talks = row[TALK_END];
        out->rows += shapes->n_columns;
        return p;
    }
    return NULL;
}

/* Take lines apart: at most n_lines of a text whose last byte is a line feed and which has 64
   readable bytes behind it. rests, names and talks have room for as many bytes as the text, gaps for
   n_gaps, rows for n_rows. Per line four numbers: where it ends in the text and its rest in rests,
   how many gaps it has (-1: it is not taken, and has no rest), and whether it is the next row, and
   has no rest. From line "until" on the first that has a rest is the last. Returns how many lines. */
int64_t servebook_aiperf_lines(const uint8_t *text, int64_t size, const struct shapes *shapes,
                               uint8_t *rests, int32_t *gaps, int64_t n_gaps, int64_t *rows,
                               int64_t n_rows, uint8_t *names, uint8_t *talks, int64_t *lines,
                               int64_t n_lines, int64_t until)
{
    if (size <= 0 || text[size - 1] != '\n')
        return 0;
    const uint8_t *p = text, *stop = text + size;
    struct out out = {rests, gaps, 0, rows, names, talks, 0, 0};
    int64_t at = 0;
    while (p < stop && at < n_lines && out.rows < rows + n_rows * shapes->n_columns) {
        int64_t left = n_gaps - (out.gaps - gaps), n = -1;
        out.n_gaps = left < MOST_GAPS ? left : MOST_GAPS;
        int is_odd_list = 0;
        const uint8_t *end = shaped(p, shapes, &out, &is_odd_list);
        if (end) {
            n = (out.rows - shapes->n_columns)[N_GAPS];
            p = end + 1;
        } else if (is_odd_list) {
            p = (const uint8_t *)memchr(p, '\n', (size_t)(stop - p)) + 1;
        } else {
            n = servebook_line(p, stop, &out.rests, out.gaps, out.n_gaps, &p);
        }
        out.gaps += n > 0 ? n : 0;
        lines[0] = p - text;
        lines[1] = out.rests - rests;
        lines[2] = n;
        lines[3] = end != NULL;
        lines += 4;
        at++;
        if (!end && n >= 0 && at > until)
            break;
    }
    return at;
}
