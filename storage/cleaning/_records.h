/* What both halves of the compactor read: the offset map (format in offset_map.py), batches and records (format in
 * protocol/records.py).
 *
 * No batch is believed before its CRC was computed, and every read is bounded by the end of the batch.
 */

#ifndef KAFKAPY_RECORDS_H
#define KAFKAPY_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_digests.h"

extern PyMethodDef key_index_functions[];
extern PyType_Spec batch_filter_spec;

static inline uint32_t read_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t read_be64(const uint8_t *p)
{
    return (uint64_t)read_be32(p) << 32 | read_be32(p + 4);
}

static inline void write_be32(uint8_t *p, uint32_t value)
{
    for (int i = 3; i >= 0; i--, value >>= 8)
        p[i] = (uint8_t)value;
}

static inline void write_be64(uint8_t *p, uint64_t value)
{
    write_be32(p, (uint32_t)(value >> 32));
    write_be32(p + 4, (uint32_t)value);
}

/* Why a walk over batches ended; as in key_index.py. */
enum stop { END, SPECIAL, FULL, BAD };

enum {
    BASE_OFFSET = 0,
    LENGTH = 8,
    MAGIC = 16,
    CRC = 17,
    ATTRIBUTES = 21,
    LAST_DELTA = 23,
    BASE_TIMESTAMP = 27,
    MAX_TIMESTAMP = 35,
    PRODUCER_ID = 43,
    RECORD_COUNT = 57,
    HEADER_SIZE = 61,
    LOG_OVERHEAD = 12
};

enum { CODEC = 0x07, LOG_APPEND_TIME = 0x08, TRANSACTIONAL = 0x10, CONTROL = 0x20, DELETE_HORIZON = 0x40 };

#define NO_TIMESTAMP (-1)
#define HASH_SIZE 16
#define SLOT_SIZE 24

/* --- the offset map ----------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *slots;
    uint64_t count;
} Map;

/* The slot of a key: its own, or the empty one that would be. At least one slot is always empty. */
static inline uint8_t *find_slot(const Map *map, const uint8_t hash[HASH_SIZE])
{
    uint64_t at = 0;
    for (unsigned probe = 0;; probe++) {
        if (probe <= HASH_SIZE - 4)
            at = read_be32(hash + probe) % map->count;
        else if (++at == map->count)
            at = 0;
        uint8_t *slot = map->slots + at * SLOT_SIZE;
        int64_t stored;
        memcpy(&stored, slot + HASH_SIZE, sizeof stored);
        if (stored == 0 || memcmp(slot, hash, HASH_SIZE) == 0)
            return slot;
    }
}

/* --- records ------------------------------------------------------------------------------------------------ */

typedef struct {
    const uint8_t *start;           /* where its length begins */
    const uint8_t *body;            /* after the length */
    const uint8_t *after_timestamp; /* where the offset delta begins */
    const uint8_t *end;
    int64_t timestamp_delta;
    int32_t offset_delta;
    const uint8_t *key; /* NULL without one */
    int32_t key_size;
    int has_value;
} Record;

/* Read a varint of at most `bits` bits; whether there was one before `stop`. */
static inline int read_varint(const uint8_t **p, const uint8_t *stop, unsigned bits, int64_t *value)
{
    uint64_t raw = 0;
    for (unsigned shift = 0; *p < stop; shift += 7) {
        uint8_t byte = *(*p)++;
        if (shift + 7 > bits && byte >> (bits - shift))
            return 0;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 1;
        }
    }
    return 0;
}

/* Read what compaction needs of the record at `p`; where it ends, or NULL if it cannot be one. */
static inline const uint8_t *read_record(const uint8_t *p, const uint8_t *stop, Record *r)
{
    int64_t value;
    r->start = p;
    if (!read_varint(&p, stop, 32, &value) || value < 1 || value > stop - p)
        return NULL;
    r->body = p;
    r->end = stop = p + value;
    p++; /* attributes */
    if (!read_varint(&p, stop, 64, &r->timestamp_delta))
        return NULL;
    r->after_timestamp = p;
    if (!read_varint(&p, stop, 32, &value) || value < 0)
        return NULL;
    r->offset_delta = (int32_t)value;
    if (!read_varint(&p, stop, 32, &value) || value < -1 || value > stop - p)
        return NULL;
    r->key = value < 0 ? NULL : p;
    r->key_size = (int32_t)value;
    if (value > 0)
        p += value;
    if (!read_varint(&p, stop, 32, &value) || value < -1 || value > stop - p)
        return NULL;
    r->has_value = value >= 0;
    return r->end;
}

/* --- batches ------------------------------------------------------------------------------------------------ */

/* Look at the batch at `p`; END if it does not end before `end`, else its size in `size` and FULL for a batch
 * whose records lie there as they are, SPECIAL for any other, BAD for bytes that are none. */
static inline enum stop look(const uint8_t *p, const uint8_t *end, Py_ssize_t *size)
{
    if (end - p < HEADER_SIZE)
        return END;
    int32_t length = (int32_t)read_be32(p + LENGTH);
    if (p[MAGIC] != 2)
        return SPECIAL;
    if (length < HEADER_SIZE - LOG_OVERHEAD)
        return BAD;
    *size = (Py_ssize_t)length + LOG_OVERHEAD;
    if (*size > end - p)
        return END;
    if (crc32c(p + ATTRIBUTES, (size_t)(*size - ATTRIBUTES)) != read_be32(p + CRC))
        return BAD;
    if ((int32_t)read_be32(p + LAST_DELTA) < 0 || (int32_t)read_be32(p + RECORD_COUNT) < 0)
        return BAD;
    return p[ATTRIBUTES + 1] & (CODEC | TRANSACTIONAL | CONTROL) ? SPECIAL : FULL;
}

#endif
