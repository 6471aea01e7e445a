#include "_digests.h"

#include <string.h>

static inline uint32_t read_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* --- MD5 ---------------------------------------------------------------------------------------------------- */

#define F(x, y, z) (((y ^ z) & x) ^ z)
#define G(x, y, z) (((x ^ y) & z) ^ y)
#define H(x, y, z) (x ^ y ^ z)
#define I(x, y, z) (y ^ (x | ~z))
#define STEP(f, a, b, c, d, word, constant, shift)                                                                 \
    a += f(b, c, d) + words[word] + constant##u;                                                                   \
    a = (a << shift | a >> (32 - shift)) + b;

static void md5_block(uint32_t state[4], const uint8_t *block)
{
    uint32_t words[16];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++)
        words[i] = read_le32(block + 4 * i);
    STEP(F, a, b, c, d,  0, 0xd76aa478,  7)
    STEP(F, d, a, b, c,  1, 0xe8c7b756, 12)
    STEP(F, c, d, a, b,  2, 0x242070db, 17)
    STEP(F, b, c, d, a,  3, 0xc1bdceee, 22)
    STEP(F, a, b, c, d,  4, 0xf57c0faf,  7)
    STEP(F, d, a, b, c,  5, 0x4787c62a, 12)
    STEP(F, c, d, a, b,  6, 0xa8304613, 17)
    STEP(F, b, c, d, a,  7, 0xfd469501, 22)
    STEP(F, a, b, c, d,  8, 0x698098d8,  7)
    STEP(F, d, a, b, c,  9, 0x8b44f7af, 12)
    STEP(F, c, d, a, b, 10, 0xffff5bb1, 17)
    STEP(F, b, c, d, a, 11, 0x895cd7be, 22)
    STEP(F, a, b, c, d, 12, 0x6b901122,  7)
    STEP(F, d, a, b, c, 13, 0xfd987193, 12)
    STEP(F, c, d, a, b, 14, 0xa679438e, 17)
    STEP(F, b, c, d, a, 15, 0x49b40821, 22)
    STEP(G, a, b, c, d,  1, 0xf61e2562,  5)
    STEP(G, d, a, b, c,  6, 0xc040b340,  9)
    STEP(G, c, d, a, b, 11, 0x265e5a51, 14)
    STEP(G, b, c, d, a,  0, 0xe9b6c7aa, 20)
    STEP(G, a, b, c, d,  5, 0xd62f105d,  5)
    STEP(G, d, a, b, c, 10, 0x02441453,  9)
    STEP(G, c, d, a, b, 15, 0xd8a1e681, 14)
    STEP(G, b, c, d, a,  4, 0xe7d3fbc8, 20)
    STEP(G, a, b, c, d,  9, 0x21e1cde6,  5)
    STEP(G, d, a, b, c, 14, 0xc33707d6,  9)
    STEP(G, c, d, a, b,  3, 0xf4d50d87, 14)
    STEP(G, b, c, d, a,  8, 0x455a14ed, 20)
    STEP(G, a, b, c, d, 13, 0xa9e3e905,  5)
    STEP(G, d, a, b, c,  2, 0xfcefa3f8,  9)
    STEP(G, c, d, a, b,  7, 0x676f02d9, 14)
    STEP(G, b, c, d, a, 12, 0x8d2a4c8a, 20)
    STEP(H, a, b, c, d,  5, 0xfffa3942,  4)
    STEP(H, d, a, b, c,  8, 0x8771f681, 11)
    STEP(H, c, d, a, b, 11, 0x6d9d6122, 16)
    STEP(H, b, c, d, a, 14, 0xfde5380c, 23)
    STEP(H, a, b, c, d,  1, 0xa4beea44,  4)
    STEP(H, d, a, b, c,  4, 0x4bdecfa9, 11)
    STEP(H, c, d, a, b,  7, 0xf6bb4b60, 16)
    STEP(H, b, c, d, a, 10, 0xbebfbc70, 23)
    STEP(H, a, b, c, d, 13, 0x289b7ec6,  4)
    STEP(H, d, a, b, c,  0, 0xeaa127fa, 11)
    STEP(H, c, d, a, b,  3, 0xd4ef3085, 16)
    STEP(H, b, c, d, a,  6, 0x04881d05, 23)
    STEP(H, a, b, c, d,  9, 0xd9d4d039,  4)
    STEP(H, d, a, b, c, 12, 0xe6db99e5, 11)
    STEP(H, c, d, a, b, 15, 0x1fa27cf8, 16)
    STEP(H, b, c, d, a,  2, 0xc4ac5665, 23)
    STEP(I, a, b, c, d,  0, 0xf4292244,  6)
    STEP(I, d, a, b, c,  7, 0x432aff97, 10)
    STEP(I, c, d, a, b, 14, 0xab9423a7, 15)
    STEP(I, b, c, d, a,  5, 0xfc93a039, 21)
    STEP(I, a, b, c, d, 12, 0x655b59c3,  6)
    STEP(I, d, a, b, c,  3, 0x8f0ccc92, 10)
    STEP(I, c, d, a, b, 10, 0xffeff47d, 15)
    STEP(I, b, c, d, a,  1, 0x85845dd1, 21)
    STEP(I, a, b, c, d,  8, 0x6fa87e4f,  6)
    STEP(I, d, a, b, c, 15, 0xfe2ce6e0, 10)
    STEP(I, c, d, a, b,  6, 0xa3014314, 15)
    STEP(I, b, c, d, a, 13, 0x4e0811a1, 21)
    STEP(I, a, b, c, d,  4, 0xf7537e82,  6)
    STEP(I, d, a, b, c, 11, 0xbd3af235, 10)
    STEP(I, c, d, a, b,  2, 0x2ad7d2bb, 15)
    STEP(I, b, c, d, a,  9, 0xeb86d391, 21)
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

#undef F
#undef G
#undef H
#undef I
#undef STEP

void md5(const uint8_t *data, size_t size, uint8_t digest[16])
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t tail[128] = {0};
    size_t left = size;
    for (; left >= 64; data += 64, left -= 64)
        md5_block(state, data);
    if (left)
        memcpy(tail, data, left);
    tail[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    uint64_t bits = (uint64_t)size << 3;
    for (int i = 0; i < 8; i++, bits >>= 8)
        tail[end - 8 + i] = (uint8_t)bits;
    md5_block(state, tail);
    if (end == 128)
        md5_block(state, tail + 64);
    for (int i = 0; i < 16; i++)
        digest[i] = (uint8_t)(state[i / 4] >> 8 * (i % 4));
}

/* --- CRC-32C ------------------------------------------------------------------------------------------------ */

static uint32_t crc_tables[8][256];

void crc_prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_tables[0][i] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int i = 0; i < 256; i++) {
            uint32_t crc = crc_tables[table - 1][i];
            crc_tables[table][i] = crc >> 8 ^ crc_tables[0][crc & 0xff];
        }
}

/* Eight bytes at a time through eight tables. */
static uint32_t crc_by_tables(uint32_t crc, const uint8_t *p, size_t size)
{
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t low = crc ^ read_le32(p), high = read_le32(p + 4);
        crc = crc_tables[7][low & 0xff] ^ crc_tables[6][low >> 8 & 0xff] ^ crc_tables[5][low >> 16 & 0xff] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][high & 0xff] ^ crc_tables[2][high >> 8 & 0xff] ^
              crc_tables[1][high >> 16 & 0xff] ^ crc_tables[0][high >> 24];
    }
    for (; size; p++, size--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p) & 0xff];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* The instruction of SSE 4.2. */
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t size)
{
    uint64_t wide = crc;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size; p++, size--)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#endif

uint32_t crc32c(const uint8_t *data, size_t size)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_by_instruction(~0u, data, size);
#endif
    return ~crc_by_tables(~0u, data, size);
}
