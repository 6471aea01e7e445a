/* The compiled twin of PureWalker in record_walker.py, with the same constructor, methods and verdicts. After it come
 * the twins of read_plain_batch and lay_out_plain_batch in plain_batch.py, of follow_lengths in
 * spark/log_source/record_starts.py, of find_time in record_times.py and of blank in codec.py.
 *
 * A walker is fed the decompressed records of one batch in pieces of any size. Between pieces it keeps only its
 * state: the stage within a record, a varint that spans pieces, the bytes still to skip. Every read is bounded
 * by `stop`, the end of the piece or of the record, whichever is nearer. No pointer outlives the call. The
 * format is described in records.py.
 *
 * feed() and finish() return None, or what is wrong. After an error a walker does not go on.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Larger pieces are walked without the GIL: 64 KiB take some 20 microseconds, about what releasing it costs. */
#define RELEASE_GIL_FROM (64 * 1024)

/* Attributes, timestamp and offset delta, null key, null value, header count. */
#define MIN_RECORD_LENGTH 6

#define NO_TIMESTAMP (-1)

enum stage { LENGTH, ATTRIBUTES, TIMESTAMP, OFFSET, KEY, VALUE, HEADER_COUNT, HEADER_KEY, HEADER_VALUE, END };

typedef struct {
    PyObject_HEAD
    /* From the header of the batch. */
    int64_t base_timestamp;
    int32_t record_count;
    /* The state of the walk. */
    enum stage stage;
    char busy;            /* a thread is in feed() */
    char in_header_key;   /* the bytes to skip are a header's key */
    uint64_t record_left; /* bytes of the current record that are still to be walked */
    uint64_t skip;        /* of those, bytes of a key or a value */
    int32_t headers_left;
    uint64_t varint; /* the bits so far of a varint that spans pieces, and the bit at which it goes on */
    unsigned shift;
    unsigned utf8_left; /* continuation bytes that must follow, and the range of the next one */
    uint8_t utf8_low, utf8_high;
    /* What was found. */
    int32_t records;
    int64_t max_timestamp;
    int32_t max_timestamp_at;
    int64_t min_timestamp;
    int32_t first_null_key;
    const char *error;
} Walker;

/* --- the walk ---------------------------------------------------------------------------------------------- */

/* Python's strict UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF), resumable. */
static int utf8_is_valid(Walker *w, const uint8_t *p, const uint8_t *end)
{
    for (; p < end; p++) {
        uint8_t byte = *p;
        if (w->utf8_left) {
            if (byte < w->utf8_low || byte > w->utf8_high)
                return 0;
            w->utf8_left--;
            w->utf8_low = 0x80;
            w->utf8_high = 0xBF;
        } else if (byte >= 0x80) {
            if (byte < 0xC2 || byte > 0xF4)
                return 0;
            w->utf8_left = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
            w->utf8_low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
            w->utf8_high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
        }
    }
    return 1;
}

enum varint { DONE, CUT, OVERLONG };

/* Go on reading a varint of at most `bits` bits. CUT: `stop` came first, and what was read is kept. */
static inline enum varint read_varint(Walker *w, const uint8_t **p, const uint8_t *stop, unsigned bits,
                                      int64_t *value)
{
    uint64_t raw = w->varint;
    unsigned shift = w->shift;
    while (*p < stop) {
        uint8_t byte = *(*p)++;
        /* In its last byte a varint of 32 bits has room for 4 more, one of 64 bits for 1. */
        if (shift + 7 > bits && byte >> (bits - shift))
            return OVERLONG;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            w->varint = 0;
            w->shift = 0;
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return DONE;
        }
        shift += 7;
    }
    w->varint = raw;
    w->shift = shift;
    return CUT;
}

/* Walk over a piece; return NULL, or what is wrong with it. */
static const char *walk(Walker *w, const uint8_t *p, const uint8_t *end)
{
    /* Where the walk of the current record (re)started in this piece, and how far it may read. */
    const uint8_t *start = p;
    const uint8_t *stop = end;
    int64_t value;

    if (w->stage != LENGTH && w->record_left < (uint64_t)(end - p))
        stop = p + w->record_left;

    for (;;) {
        if (w->skip) {
            uint64_t here = (uint64_t)(stop - p) < w->skip ? (uint64_t)(stop - p) : w->skip;
            if (w->in_header_key && !utf8_is_valid(w, p, p + here))
                return "a header key that is not UTF-8";
            p += here;
            w->skip -= here;
            if (w->skip)
                break; /* the end of the piece: the length was checked against the record's end */
        }
        if (w->in_header_key) {
            if (w->utf8_left)
                return "a header key that is not UTF-8";
            w->in_header_key = 0;
        }
        if (w->stage == END) {
            if (w->record_left != (uint64_t)(p - start))
                return "bytes after its last field";
            w->records++;
            w->stage = LENGTH;
            stop = end;
        }
        if (w->stage == ATTRIBUTES) {
            if (p == stop)
                break; /* the end of the piece: a record is longer than this */
            if (*p++ >= 0x80)
                return "attributes that some clients read as more than one byte";
            w->stage = TIMESTAMP;
        }

        switch (read_varint(w, &p, stop, w->stage == TIMESTAMP ? 64 : 32, &value)) {
        case OVERLONG:
            return "a varint that is too long";
        case CUT:
            if (w->stage == LENGTH)
                return NULL;
            if (w->record_left == (uint64_t)(p - start))
                return "a field that goes beyond its end";
            goto cut;
        case DONE:
            break;
        }

        switch (w->stage) {
        case LENGTH:
            if (w->records >= w->record_count)
                return "more records than the batch declares";
            if (value < MIN_RECORD_LENGTH)
                return "shorter than a record can be";
            w->record_left = (uint64_t)value;
            start = p;
            stop = w->record_left < (uint64_t)(end - p) ? p + w->record_left : end;
            w->stage = ATTRIBUTES;
            break;
        case ATTRIBUTES:
        case END:
            break; /* not read here */
        case TIMESTAMP: {
            int64_t timestamp;
            if (__builtin_add_overflow(w->base_timestamp, value, &timestamp))
                return "a timestamp out of range";
            if (timestamp > w->max_timestamp) {
                w->max_timestamp = timestamp;
                w->max_timestamp_at = w->records;
            }
            if (timestamp != NO_TIMESTAMP && (w->min_timestamp == NO_TIMESTAMP || timestamp < w->min_timestamp))
                w->min_timestamp = timestamp;
            w->stage = OFFSET;
            break;
        }
        case OFFSET:
            if (value != w->records)
                return "an offset that does not follow the one before it";
            w->stage = KEY;
            break;
        case HEADER_COUNT:
            if (value < 0 || (uint64_t)value > (w->record_left - (uint64_t)(p - start)) / 2)
                return "an impossible number of headers";
            w->headers_left = (int32_t)value;
            w->stage = HEADER_KEY;
            break;
        case KEY:
        case VALUE:
        case HEADER_KEY:
        case HEADER_VALUE:
            if (value < -1 || (value == -1 && w->stage == HEADER_KEY))
                return "a negative length";
            if (value > 0) {
                if ((uint64_t)value > w->record_left - (uint64_t)(p - start))
                    return "a field that goes beyond its end";
                w->skip = (uint64_t)value;
            }
            if (w->stage == KEY) {
                if (value == -1 && w->first_null_key == -1)
                    w->first_null_key = w->records;
                w->stage = VALUE;
            } else if (w->stage == VALUE) {
                w->stage = HEADER_COUNT;
            } else if (w->stage == HEADER_KEY) {
                w->in_header_key = 1;
                w->stage = HEADER_VALUE;
            } else {
                w->headers_left--;
                w->stage = HEADER_KEY;
            }
            break;
        }

        if (w->stage == HEADER_KEY && !w->headers_left)
            w->stage = END; /* once the field's bytes are skipped */
    }
cut:
    w->record_left -= (uint64_t)(p - start);
    return NULL;
}

static void begin(Walker *w, int64_t base_timestamp, int32_t record_count)
{
    w->base_timestamp = base_timestamp;
    w->record_count = record_count;
    w->max_timestamp = NO_TIMESTAMP;
    w->max_timestamp_at = -1;
    w->min_timestamp = NO_TIMESTAMP;
    w->first_null_key = -1;
}

/* After the last piece: NULL, or what is wrong with the batch. */
static const char *finish(const Walker *w)
{
    if (w->error != NULL)
        return w->error;
    if (w->stage != LENGTH || w->shift)
        return "cut short by the end of the batch";
    return w->records == w->record_count ? NULL : "missing";
}

/* --- the Python type --------------------------------------------------------------------------------------- */

static PyObject *verdict(const Walker *w)
{
    if (w->error == NULL)
        Py_RETURN_NONE;
    return PyUnicode_FromString(w->error);
}

static PyObject *walker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    long long base_timestamp;
    int record_count;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Walker takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "Li:Walker", &base_timestamp, &record_count))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Walker *w = (Walker *)alloc(type, 0); /* zeroed */
    if (w == NULL)
        return NULL;
    begin(w, base_timestamp, record_count);
    return (PyObject *)w;
}

static void walker_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(feed_doc, "feed(piece) -> what is wrong with the current record, or None");

static PyObject *walker_feed(PyObject *self, PyObject *piece)
{
    Walker *w = (Walker *)self;
    Py_buffer view;
    if (w->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is feeding this walker");
        return NULL;
    }
    if (w->error != NULL)
        return verdict(w);
    if (PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *p = view.buf;
    const uint8_t *end = p + view.len;
    if (view.len >= RELEASE_GIL_FROM) {
        w->busy = 1;
        Py_BEGIN_ALLOW_THREADS
        w->error = walk(w, p, end);
        Py_END_ALLOW_THREADS
        w->busy = 0;
    } else if (view.len > 0) {
        w->error = walk(w, p, end);
    }
    PyBuffer_Release(&view);
    return verdict(w);
}

PyDoc_STRVAR(finish_doc, "finish() -> what is wrong with the end of the batch, or None");

static PyObject *walker_finish(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Walker *w = (Walker *)self;
    if (w->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is feeding this walker");
        return NULL;
    }
    w->error = finish(w);
    return verdict(w);
}

PyDoc_STRVAR(summary_doc,
             "summary() -> (records, max timestamp, its index, min timestamp, index of the first null key)");

static PyObject *walker_summary(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Walker *w = (Walker *)self;
    return Py_BuildValue("(iLiLi)", w->records, (long long)w->max_timestamp, w->max_timestamp_at,
                         (long long)w->min_timestamp, w->first_null_key);
}

static PyMethodDef walker_methods[] = {
    {"feed", walker_feed, METH_O, feed_doc},
    {"finish", walker_finish, METH_NOARGS, finish_doc},
    {"summary", walker_summary, METH_NOARGS, summary_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(walker_doc, "Walker(base_timestamp, record_count): checks the framing of a batch's records.");

static PyType_Slot walker_slots[] = {
    {Py_tp_doc, (void *)walker_doc},
    {Py_tp_new, walker_new},
    {Py_tp_dealloc, walker_dealloc},
    {Py_tp_methods, walker_methods},
    {0, NULL},
};

static PyType_Spec walker_spec = {
    .name = "kafkapy.protocol._walker.Walker",
    .basicsize = sizeof(Walker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = walker_slots,
};

/* --- plain batches ------------------------------------------------------------------------------------------ */

#define HEADER_SIZE 61
#define LOG_OVERHEAD 12 /* base offset and length, which the length does not count */
#define MAGIC 2
#define TRANSACTIONAL 0x10

/* A big-endian number. */
static uint64_t number(const uint8_t *p, unsigned size)
{
    uint64_t value = 0;
    while (size--)
        value = value << 8 | *p++;
    return value;
}

PyDoc_STRVAR(read_plain_batch_doc,
             "read_plain_batch(data) -> (fields of the header, min timestamp, index of the first null key), or None.\n\n"
             "The twin of plain_batch.read_plain_batch_purely.");

static PyObject *read_plain_batch(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *p = view.buf;
    if (view.len < HEADER_SIZE)
        goto not_plain;
    int64_t base_offset = (int64_t)number(p, 8);
    int32_t length = (int32_t)number(p + 8, 4);
    int32_t leader_epoch = (int32_t)number(p + 12, 4);
    int8_t magic = (int8_t)p[16];
    uint32_t crc = (uint32_t)number(p + 17, 4);
    int16_t attributes = (int16_t)number(p + 21, 2);
    int32_t last_offset_delta = (int32_t)number(p + 23, 4);
    int64_t base_timestamp = (int64_t)number(p + 27, 8);
    int64_t max_timestamp = (int64_t)number(p + 35, 8);
    int64_t producer_id = (int64_t)number(p + 43, 8);
    int16_t producer_epoch = (int16_t)number(p + 51, 2);
    int32_t base_sequence = (int32_t)number(p + 53, 4);
    int32_t record_count = (int32_t)number(p + 57, 4);
    if (base_offset != 0 || length != view.len - LOG_OVERHEAD || magic != MAGIC || (attributes & ~TRANSACTIONAL) != 0
        || record_count <= 0 || last_offset_delta != record_count - 1)
        goto not_plain;
    Walker w = {0};
    begin(&w, base_timestamp, record_count);
    if (view.len >= RELEASE_GIL_FROM) {
        Py_BEGIN_ALLOW_THREADS
        w.error = walk(&w, p + HEADER_SIZE, p + view.len);
        Py_END_ALLOW_THREADS
    } else {
        w.error = walk(&w, p + HEADER_SIZE, p + view.len);
    }
    if (finish(&w) != NULL || w.max_timestamp != max_timestamp)
        goto not_plain;
    PyBuffer_Release(&view);
    return Py_BuildValue("((LiiiIiiLLLiii)Li)", (long long)base_offset, length, leader_epoch, magic, crc, attributes,
                         last_offset_delta, (long long)base_timestamp, (long long)max_timestamp,
                         (long long)producer_id, producer_epoch, base_sequence, record_count,
                         (long long)w.min_timestamp, w.first_null_key);
not_plain:
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static void put_number(uint8_t *p, unsigned size, uint64_t value)
{
    while (size--) {
        p[size] = (uint8_t)value;
        value >>= 8;
    }
}

/* The bytes of a zigzag varint. */
static unsigned varint_size(int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    unsigned size = 1;
    for (; raw > 0x7F; raw >>= 7)
        size++;
    return size;
}

static uint8_t *put_varint(uint8_t *p, int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; raw > 0x7F; raw >>= 7)
        *p++ = (uint8_t)(raw | 0x80);
    *p++ = (uint8_t)raw;
    return p;
}

/* The key and the value of a record, borrowed from its pair. */
typedef struct {
    char *key, *value;
    Py_ssize_t key_size, value_size; /* the value's is -1 if it is null */
} Pair;

static int read_pair(PyObject *pairs, Py_ssize_t at, Pair *pair)
{
    PyObject *item = PyList_GetItem(pairs, at), *value;
    if (item == NULL)
        return -1;
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
        PyErr_SetString(PyExc_TypeError, "a record is a pair of key and value");
        return -1;
    }
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(item, 0), &pair->key, &pair->key_size) < 0)
        return -1;
    value = PyTuple_GetItem(item, 1);
    pair->value = NULL;
    pair->value_size = -1;
    return value == Py_None ? 0 : PyBytes_AsStringAndSize(value, &pair->value, &pair->value_size);
}

/* The bytes of a plain record after its length. */
static Py_ssize_t body_size(Py_ssize_t delta, const Pair *pair)
{
    Py_ssize_t fixed = 3; /* attributes, timestamp delta, header count */
    return fixed + varint_size(delta) + varint_size(pair->key_size) + pair->key_size + varint_size(pair->value_size)
           + (pair->value_size > 0 ? pair->value_size : 0);
}

PyDoc_STRVAR(lay_out_plain_batch_doc,
             "lay_out_plain_batch(pairs, timestamp, producer id, producer epoch, attributes) -> the batch, its CRC 0.\n\n"
             "The twin of plain_batch.lay_out_plain_batch_purely.");

static PyObject *lay_out_plain_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "lay_out_plain_batch takes a list of pairs and four numbers");
        return NULL;
    }
    PyObject *pairs = args[0];
    Py_ssize_t count = PyList_Size(pairs), size = HEADER_SIZE;
    long long timestamp = PyLong_AsLongLong(args[1]);
    long long producer_id = PyLong_AsLongLong(args[2]);
    long producer_epoch = PyLong_AsLong(args[3]);
    long attributes = PyLong_AsLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (count == 0) {
        PyErr_SetString(PyExc_ValueError, "a batch needs a record");
        return NULL;
    }
    Pair pair;
    for (Py_ssize_t delta = 0; delta < count; delta++) {
        if (read_pair(pairs, delta, &pair) < 0)
            return NULL;
        Py_ssize_t body = body_size(delta, &pair);
        size += varint_size(body) + body;
    }
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a batch has at most 2 GiB");
        return NULL;
    }
    PyObject *batch = PyByteArray_FromStringAndSize(NULL, size);
    if (batch == NULL)
        return NULL;
    uint8_t *p = (uint8_t *)PyByteArray_AsString(batch);
    put_number(p, 8, 0);
    put_number(p + 8, 4, (uint64_t)(size - LOG_OVERHEAD));
    put_number(p + 12, 4, UINT32_MAX); /* no leader epoch */
    p[16] = MAGIC;
    put_number(p + 17, 4, 0);
    put_number(p + 21, 2, (uint64_t)attributes);
    put_number(p + 23, 4, (uint64_t)(count - 1));
    put_number(p + 27, 8, (uint64_t)timestamp);
    put_number(p + 35, 8, (uint64_t)timestamp);
    put_number(p + 43, 8, (uint64_t)producer_id);
    put_number(p + 51, 2, (uint64_t)producer_epoch);
    put_number(p + 53, 4, UINT32_MAX); /* no sequence */
    put_number(p + 57, 4, (uint64_t)count);
    p += HEADER_SIZE;
    for (Py_ssize_t delta = 0; delta < count; delta++) {
        if (read_pair(pairs, delta, &pair) < 0) { /* it could be read before: no Python code ran since */
            Py_DECREF(batch);
            return NULL;
        }
        p = put_varint(p, body_size(delta, &pair));
        *p++ = 0; /* attributes */
        *p++ = 0; /* timestamp delta */
        p = put_varint(p, delta);
        p = put_varint(p, pair.key_size);
        memcpy(p, pair.key, (size_t)pair.key_size);
        p = put_varint(p + pair.key_size, pair.value_size);
        if (pair.value_size > 0) {
            memcpy(p, pair.value, (size_t)pair.value_size);
            p += pair.value_size;
        }
        *p++ = 0; /* header count */
    }
    return batch;
}

/* --- where records begin ------------------------------------------------------------------------------------ */

/* Follow the lengths of `count` records from p; return whether they end exactly at stop. */
static int follow(const uint8_t *start, const uint8_t *p, const uint8_t *stop, Py_ssize_t count, char *out)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t place = p - start;
        uint32_t raw = 0;
        unsigned shift = 0;
        uint8_t byte;
        memcpy(out + i * (Py_ssize_t)sizeof place, &place, sizeof place);
        do {
            if (p == stop || shift > 28)
                return 0;
            byte = *p++;
            if (shift == 28 && byte >> 4)
                return 0;
            raw |= (uint32_t)(byte & 0x7F) << shift;
            shift += 7;
        } while (byte >= 0x80);
        /* Zigzag: an odd number is a negative length. */
        if (raw & 1 || (Py_ssize_t)(raw >> 1) > stop - p)
            return 0;
        p += raw >> 1;
    }
    return p == stop;
}

PyDoc_STRVAR(follow_lengths_doc,
             "follow_lengths(data, start, end, count, out) -> whether `count` records fill data[start:end].\n\n"
             "Writes the position of each record's length to `out`, a buffer of as many int64.");

static PyObject *follow_lengths(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data, out;
    Py_ssize_t start, end, count;
    int fit;
    if (!PyArg_ParseTuple(args, "y*nnnw*:follow_lengths", &data, &start, &end, &count, &out))
        return NULL;
    if (start < 0 || start > end || end > data.len || count < 0 || count != out.len / (Py_ssize_t)sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "the range is outside the data, or `out` has another size");
        PyBuffer_Release(&data);
        PyBuffer_Release(&out);
        return NULL;
    }
    const uint8_t *from = data.buf;
    if (end - start >= RELEASE_GIL_FROM) {
        Py_BEGIN_ALLOW_THREADS
        fit = follow(from, from + start, from + end, count, out.buf);
        Py_END_ALLOW_THREADS
    } else {
        fit = follow(from, from + start, from + end, count, out.buf);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&out);
    return PyBool_FromLong(fit);
}

/* --- times ------------------------------------------------------------------------------------------------- */

/* What find_time has been asked, where it stands, and what it found. */
typedef struct {
    int64_t timestamp, offset; /* the least deltas that count */
    int newest;                /* go on, for a higher timestamp */
    Py_ssize_t count;          /* records walked over */
    int found;
    int64_t found_timestamp, found_offset;
    const char *error;
} TimeSearch;

/* Read a zigzag varint; -1 where `stop` comes first, -2 where it has more than `bits` bits. */
static inline int read_whole_varint(const uint8_t **p, const uint8_t *stop, unsigned bits, int64_t *value)
{
    uint64_t raw = 0;
    for (unsigned shift = 0; *p < stop; shift += 7) {
        uint8_t byte = *(*p)++;
        if (shift + 7 > bits && byte >> (bits - shift))
            return -2;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 0;
        }
    }
    return -1;
}

/* Walk over the heads that lie whole before `end`; how many bytes after `p` the next one begins, which may be
 * after `end`. */
static Py_ssize_t search_times(TimeSearch *s, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *from = p;
    Py_ssize_t next = 0, size = end - p;
    while (next < size) {
        int64_t length, timestamp, offset;
        int stopped;
        p = from + next;
        if ((stopped = read_whole_varint(&p, end, 32, &length)) == 0) {
            Py_ssize_t start = p - from;
            if (p == end)
                return next;
            p++; /* attributes */
            if ((stopped = read_whole_varint(&p, end, 64, &timestamp)) == 0
                && (stopped = read_whole_varint(&p, end, 32, &offset)) == 0) {
                if (length < MIN_RECORD_LENGTH || p - from > start + length) {
                    s->error = "a record is shorter than a record can be";
                    return next;
                }
                next = start + (Py_ssize_t)length;
                s->count++;
                if (timestamp >= s->timestamp && offset >= s->offset) {
                    s->found = 1;
                    s->found_timestamp = timestamp;
                    s->found_offset = offset;
                    if (!s->newest || timestamp == INT64_MAX)
                        return next;
                    s->timestamp = timestamp + 1;
                }
                continue;
            }
        }
        if (stopped == -2)
            s->error = "a varint has too many bits";
        return next;
    }
    return next;
}

PyDoc_STRVAR(find_time_doc,
             "find_time(data, timestamp, offset, newest) -> (next, count, timestamp, offset), the last two None.\n\n"
             "The twin of record_times.find_time_purely.");

static PyObject *find_time(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    long long timestamp, offset;
    TimeSearch s = {0};
    Py_ssize_t next;
    if (!PyArg_ParseTuple(args, "y*LLp:find_time", &data, &timestamp, &offset, &s.newest))
        return NULL;
    s.timestamp = timestamp;
    s.offset = offset;
    const uint8_t *from = data.buf;
    if (data.len >= RELEASE_GIL_FROM) {
        Py_BEGIN_ALLOW_THREADS
        next = search_times(&s, from, from + data.len);
        Py_END_ALLOW_THREADS
    } else {
        next = search_times(&s, from, from + data.len);
    }
    PyBuffer_Release(&data);
    if (s.error != NULL) {
        PyErr_SetString(PyExc_ValueError, s.error);
        return NULL;
    }
    if (!s.found)
        return Py_BuildValue("nnOO", next, s.count, Py_None, Py_None);
    return Py_BuildValue("nnLL", next, s.count, (long long)s.found_timestamp, (long long)s.found_offset);
}

PyDoc_STRVAR(blank_doc, "blank(class) -> an object of a class without a constructor in C, with nothing set.\n\n"
                        "The twin of object.__new__.");

static PyObject *blank(PyObject *Py_UNUSED(module), PyObject *class)
{
    if (!PyType_Check(class)
        || PyType_GetSlot((PyTypeObject *)class, Py_tp_new) != PyType_GetSlot(&PyBaseObject_Type, Py_tp_new)) {
        PyErr_SetString(PyExc_TypeError, "blank takes a class without a constructor in C");
        return NULL;
    }
    return PyType_GenericAlloc((PyTypeObject *)class, 0);
}

PyDoc_STRVAR(blanks_doc, "blanks(class, count) -> a list of so many objects, each as `blank` makes it.\n\n"
                         "The twin of codec.blanks_purely.");

static PyObject *blanks(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "blanks takes a class and a count");
        return NULL;
    }
    Py_ssize_t count = PyLong_AsSsize_t(args[1]);
    if (count < 0 && PyErr_Occurred())
        return NULL;
    PyObject *list = PyList_New(count < 0 ? 0 : count);
    if (list == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = blank(module, args[0]);
        if (object == NULL || PyList_SetItem(list, i, object) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyMethodDef module_methods[] = {
    {"blank", blank, METH_O, blank_doc},
    {"blanks", (PyCFunction)(void (*)(void))blanks, METH_FASTCALL, blanks_doc},
    {"find_time", find_time, METH_VARARGS, find_time_doc},
    {"follow_lengths", follow_lengths, METH_VARARGS, follow_lengths_doc},
    {"lay_out_plain_batch", (PyCFunction)(void (*)(void))lay_out_plain_batch, METH_FASTCALL, lay_out_plain_batch_doc},
    {"read_plain_batch", read_plain_batch, METH_O, read_plain_batch_doc},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &walker_spec, NULL);
    if (type == NULL)
        return -1;
    int result = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return result;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_walker",
    .m_doc = "The compiled twins of the record walker, of plain batches, of follow_lengths and of find_time.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__walker(void)
{
    return PyModuleDef_Init(&module_definition);
}
