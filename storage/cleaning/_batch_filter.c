/* The compiled twin of batch_filter.py: copies what an offset map lets stay of batches.
 *
 * A batch that needs more than its bytes to be judged is left to the caller, as in _key_index.c. The GIL is given up
 * while a buffer is walked.
 */

#include <stdlib.h>

#include "_records.h"

typedef struct {
    char *data;
    size_t size, capacity;
} Bytes;

/* Room for `more` bytes after the last; NULL without memory. Called without the GIL. */
static uint8_t *extend(Bytes *bytes, size_t more)
{
    if (bytes->capacity - bytes->size < more) {
        size_t capacity = bytes->capacity * 2 + more + 256;
        char *data = realloc(bytes->data, capacity);
        if (data == NULL)
            return NULL;
        bytes->data = data;
        bytes->capacity = capacity;
    }
    uint8_t *place = (uint8_t *)bytes->data + bytes->size;
    bytes->size += more;
    return place;
}

/* As an object of Python; NULL with an exception without memory. */
static PyObject *as_bytes(const Bytes *bytes)
{
    return PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
}

typedef struct {
    PyObject_HEAD
    Py_buffer slots;
    int has_slots;
    char busy; /* a thread is in run() or filter_records() */
    Map map;
    int64_t last_offset;   /* of the map: what lies above stays */
    int64_t now;           /* milliseconds, against delete horizons */
    int64_t new_horizon;   /* for tombstones that have none */
    int64_t base_offset;   /* of the segment that is written */
    int64_t low, high;     /* offsets that the next batch may have, `high` excluded */
    int64_t round_end;     /* the offset where this pass ends */
    int64_t interval;      /* bytes between index entries */
    int64_t *producers;    /* pairs: producer id, last offset; by producer id */
    Py_ssize_t producer_count;
    Bytes kept; /* a flag for each record of the current batch */
    /* What was written so far. */
    int64_t position, last_entry;
    int64_t max_timestamp, max_timestamp_offset, last_time_entry;
    Bytes offset_entries, time_entries;
    /* What was seen so far. */
    int64_t records_read, records_kept, records_without_key;
} Filter;

/* What is to stay of a batch. */
typedef struct {
    int32_t kept;
    int tombstones;
    int64_t max_timestamp;
} Choice;

enum verdict { WHOLE, PART, NOTHING };

/* Choose among the records of a batch; 0 where they cannot be records, -1 without memory. */
static int choose(Filter *f, const uint8_t *p, const uint8_t *stop, int64_t base_offset, int64_t base_timestamp,
                  int32_t count, int past_horizon, Choice *choice)
{
    Record r;
    uint8_t hash[HASH_SIZE];
    if ((int64_t)count > stop - p)
        return 0;
    f->kept.size = 0;
    uint8_t *kept = extend(&f->kept, (size_t)count + 1);
    if (kept == NULL)
        return -1;
    choice->kept = 0;
    choice->tombstones = 0;
    choice->max_timestamp = NO_TIMESTAMP;
    int64_t without_key = 0;
    for (int32_t i = 0; i < count; i++) {
        p = read_record(p, stop, &r);
        if (p == NULL)
            return 0;
        int64_t offset = base_offset + r.offset_delta;
        kept[i] = 0;
        if (offset <= f->last_offset) {
            if (r.key == NULL) {
                without_key++;
                continue;
            }
            md5(r.key, (size_t)r.key_size, hash);
            int64_t stored;
            memcpy(&stored, find_slot(&f->map, hash) + HASH_SIZE, sizeof stored);
            if (offset < stored - 1 || (!r.has_value && past_horizon))
                continue;
        }
        kept[i] = 1;
        choice->kept++;
        choice->tombstones |= !r.has_value;
        int64_t timestamp = (int64_t)((uint64_t)base_timestamp + (uint64_t)r.timestamp_delta);
        if (timestamp > choice->max_timestamp)
            choice->max_timestamp = timestamp;
    }
    if (p != stop)
        return 0;
    f->records_read += count;
    f->records_kept += choice->kept;
    f->records_without_key += without_key;
    return 1;
}

static uint8_t *write_varint(uint8_t *out, int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; raw >= 0x80; raw >>= 7)
        *out++ = (uint8_t)(raw | 0x80);
    *out++ = (uint8_t)raw;
    return out;
}

/* Copy the chosen records to `out`, which has room: 11 bytes a record more than they have. Their timestamps are
 * written anew if the base timestamp changes. Where it ends. */
static uint8_t *copy_chosen(const Filter *f, const uint8_t *p, const uint8_t *stop, int32_t count,
                            int64_t base_timestamp, int64_t new_base_timestamp, uint8_t *out)
{
    Record r;
    uint8_t delta[10];
    const uint8_t *kept = (const uint8_t *)f->kept.data;
    const uint8_t *from = NULL; /* records that stay as they are, side by side */
    for (int32_t i = 0; i < count; i++) {
        p = read_record(p, stop, &r);
        if (base_timestamp == new_base_timestamp) {
            if (kept[i] && from == NULL)
                from = r.start;
            if (from != NULL && (!kept[i] || i == count - 1)) {
                size_t size = (size_t)((kept[i] ? r.end : r.start) - from);
                memcpy(out, from, size);
                out += size;
                from = NULL;
            }
        } else if (kept[i]) {
            uint64_t timestamp = (uint64_t)base_timestamp + (uint64_t)r.timestamp_delta;
            size_t delta_size = (size_t)(write_varint(delta, (int64_t)(timestamp - (uint64_t)new_base_timestamp)) - delta);
            size_t rest = (size_t)(r.end - r.after_timestamp);
            out = write_varint(out, (int64_t)(1 + delta_size + rest));
            *out++ = *r.body;
            memcpy(out, delta, delta_size);
            memcpy(out + delta_size, r.after_timestamp, rest);
            out += delta_size + rest;
        }
    }
    return out;
}

/* Take note of a batch that was written: index entries as a log gets them that is appended to batch by batch.
 * -1 without memory. */
static int note(Filter *f, int64_t size, int64_t last_offset, int64_t max_timestamp)
{
    if (max_timestamp > f->max_timestamp) {
        f->max_timestamp = max_timestamp;
        f->max_timestamp_offset = last_offset;
    }
    if (f->position - f->last_entry > f->interval) {
        uint8_t *entry = extend(&f->offset_entries, 8);
        if (entry == NULL)
            return -1;
        write_be32(entry, (uint32_t)(last_offset - f->base_offset));
        write_be32(entry + 4, (uint32_t)f->position);
        if (f->max_timestamp > f->last_time_entry) {
            entry = extend(&f->time_entries, 12);
            if (entry == NULL)
                return -1;
            write_be64(entry, (uint64_t)f->max_timestamp);
            write_be32(entry + 8, (uint32_t)(f->max_timestamp_offset - f->base_offset));
            f->last_time_entry = f->max_timestamp;
        }
        f->last_entry = f->position;
    }
    f->position += size;
    return 0;
}

/* Whether the batch that ends at `last_offset` holds its producer's last sequence number. */
static int is_last_of_producer(const Filter *f, int64_t producer_id, int64_t last_offset)
{
    Py_ssize_t low = 0, high = f->producer_count;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (f->producers[2 * middle] < producer_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->producer_count && f->producers[2 * low] == producer_id && f->producers[2 * low + 1] == last_offset;
}

/* Whether a batch with these offsets may come next; then the one after it comes next. */
static int accept(Filter *f, int64_t base_offset, int64_t last_offset)
{
    if (base_offset < f->low || last_offset < base_offset || last_offset >= f->high)
        return 0;
    f->low = last_offset + 1;
    return 1;
}

static void seal(uint8_t *batch, size_t size)
{
    write_be32(batch + LENGTH, (uint32_t)(size - LOG_OVERHEAD));
    write_be32(batch + CRC, crc32c(batch + ATTRIBUTES, size - ATTRIBUTES));
}

enum { NO_ROOM = -2, NO_MEMORY = -1, NO_RECORDS = 0, WRITTEN = 1 };

/* Write what is to stay of a plain batch to `out`. */
static int filter_batch(Filter *f, const uint8_t *p, Py_ssize_t size, int keep_empty, uint8_t **out, const uint8_t *out_end)
{
    int64_t base_offset = (int64_t)read_be64(p + BASE_OFFSET);
    int64_t last_offset = (int64_t)((uint64_t)base_offset + (uint64_t)(int32_t)read_be32(p + LAST_DELTA));
    int64_t base_timestamp = (int64_t)read_be64(p + BASE_TIMESTAMP);
    int64_t max_timestamp = (int64_t)read_be64(p + MAX_TIMESTAMP);
    int64_t producer_id = (int64_t)read_be64(p + PRODUCER_ID);
    int32_t count = (int32_t)read_be32(p + RECORD_COUNT);
    int has_horizon = p[ATTRIBUTES + 1] & DELETE_HORIZON;
    const uint8_t *records = p + HEADER_SIZE, *stop = p + size;
    Choice choice;
    /* Before anything is counted: a batch that must wait for room is read again. A record
     * grows by at most 11 bytes when its timestamp is written anew. */
    if (out_end - *out < size + 11 * (int64_t)count)
        return NO_ROOM;
    if (!accept(f, base_offset, last_offset))
        return NO_RECORDS;
    int good = choose(f, records, stop, base_offset, base_timestamp, count, has_horizon && f->now >= base_timestamp, &choice);
    if (good != 1)
        return good;
    uint8_t *batch = *out;
    size_t written = (size_t)size;
    if (choice.kept == 0) {
        int keep_producer =
            last_offset + 1 == f->round_end || (producer_id >= 0 && is_last_of_producer(f, producer_id, last_offset));
        if (!keep_producer && !keep_empty)
            return WRITTEN;
        memcpy(batch, p, HEADER_SIZE);
        if (!keep_producer)
            memset(batch + PRODUCER_ID, 0xFF, RECORD_COUNT - PRODUCER_ID); /* id, epoch and sequence -1 */
        batch[ATTRIBUTES] = 0;
        batch[ATTRIBUTES + 1] &= LOG_APPEND_TIME;
        write_be64(batch + BASE_TIMESTAMP, (uint64_t)NO_TIMESTAMP);
        write_be32(batch + RECORD_COUNT, 0);
        written = HEADER_SIZE;
        seal(batch, written);
    } else if (choice.kept == count && (has_horizon || !choice.tombstones)) {
        memcpy(batch, p, written);
    } else {
        int set_horizon = choice.tombstones && !has_horizon;
        int64_t new_base_timestamp = set_horizon ? f->new_horizon : base_timestamp;
        if (!(p[ATTRIBUTES + 1] & LOG_APPEND_TIME))
            max_timestamp = choice.max_timestamp;
        memcpy(batch, p, HEADER_SIZE);
        if (set_horizon)
            batch[ATTRIBUTES + 1] |= DELETE_HORIZON;
        write_be64(batch + BASE_TIMESTAMP, (uint64_t)new_base_timestamp);
        write_be64(batch + MAX_TIMESTAMP, (uint64_t)max_timestamp);
        write_be32(batch + RECORD_COUNT, (uint32_t)choice.kept);
        written = (size_t)(copy_chosen(f, records, stop, count, base_timestamp, new_base_timestamp, batch + HEADER_SIZE) - batch);
        seal(batch, written);
    }
    *out += written;
    return note(f, (int64_t)written, last_offset, max_timestamp) < 0 ? NO_MEMORY : WRITTEN;
}

/* FULL: the output has no room for the next batch. */
static enum stop filter_all(Filter *f, const uint8_t **at, const uint8_t *end, uint8_t **out, const uint8_t *out_end,
                            int final, int *no_memory)
{
    Py_ssize_t size;
    for (;;) {
        enum stop found = look(*at, end, &size);
        if (found != FULL)
            return found;
        switch (filter_batch(f, *at, size, final && *at + size == end, out, out_end)) {
        case NO_MEMORY:
            *no_memory = 1;
            return BAD;
        case NO_ROOM:
            return FULL;
        case NO_RECORDS:
            return BAD;
        }
        *at += size;
    }
}

static int become_busy(Filter *f)
{
    if (f->busy || !f->has_slots) {
        PyErr_SetString(PyExc_RuntimeError, "another thread uses this filter");
        return 0;
    }
    f->busy = 1;
    return 1;
}

PyDoc_STRVAR(run_doc, "run(data, at, end, final, out, out_at) -> (at, out_at, stop)");

static PyObject *filter_run(PyObject *self, PyObject *args)
{
    Filter *f = (Filter *)self;
    Py_buffer data, out;
    Py_ssize_t at, end, out_at;
    int final;
    if (!PyArg_ParseTuple(args, "y*nnpw*n:run", &data, &at, &end, &final, &out, &out_at))
        return NULL;
    PyObject *result = NULL;
    if (at < 0 || at > end || end > data.len || out_at < 0 || out_at > out.len) {
        PyErr_SetString(PyExc_ValueError, "the batches do not lie in the data");
    } else if (become_busy(f)) {
        const uint8_t *start = data.buf, *p = start + at;
        uint8_t *out_start = out.buf, *q = out_start + out_at;
        enum stop stop;
        int no_memory = 0;
        Py_BEGIN_ALLOW_THREADS
        stop = filter_all(f, &p, start + end, &q, out_start + out.len, final, &no_memory);
        Py_END_ALLOW_THREADS
        f->busy = 0;
        if (no_memory)
            PyErr_NoMemory();
        else
            result = Py_BuildValue("(nni)", (Py_ssize_t)(p - start), (Py_ssize_t)(q - out_start), (int)stop);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&out);
    return result;
}

PyDoc_STRVAR(filter_records_doc,
             "filter_records(records, base_offset, base_timestamp, count, has_horizon)\n"
             "    -> (verdict, kept, records, base_timestamp, max_timestamp, has_horizon), or None for a bad batch");

static PyObject *filter_records(PyObject *self, PyObject *args)
{
    Filter *f = (Filter *)self;
    Py_buffer data;
    long long base_offset, base_timestamp;
    int count, has_horizon;
    if (!PyArg_ParseTuple(args, "y*LLip:filter_records", &data, &base_offset, &base_timestamp, &count, &has_horizon))
        return NULL;
    if (!become_busy(f)) {
        PyBuffer_Release(&data);
        return NULL;
    }
    const uint8_t *p = data.buf, *stop = p + data.len;
    Choice choice;
    Bytes chosen = {0};
    enum verdict verdict = WHOLE;
    int64_t new_base_timestamp = base_timestamp;
    int good;
    Py_BEGIN_ALLOW_THREADS
    good = count < 0 ? 0
                     : choose(f, p, stop, base_offset, base_timestamp, count, has_horizon && f->now >= base_timestamp, &choice);
    if (good == 1 && choice.kept == 0) {
        verdict = NOTHING;
    } else if (good == 1 && (choice.kept < count || (choice.tombstones && !has_horizon))) {
        verdict = PART;
        if (choice.tombstones && !has_horizon) {
            has_horizon = 1;
            new_base_timestamp = f->new_horizon;
        }
        uint8_t *out = extend(&chosen, (size_t)data.len + 11 * (size_t)count);
        if (out == NULL)
            good = -1;
        else
            chosen.size = (size_t)(copy_chosen(f, p, stop, count, base_timestamp, new_base_timestamp, out) - out);
    }
    Py_END_ALLOW_THREADS
    f->busy = 0;
    PyBuffer_Release(&data);
    PyObject *result = NULL;
    if (good < 0)
        PyErr_NoMemory();
    else if (good == 0)
        result = Py_NewRef(Py_None);
    else
        result = Py_BuildValue("(iiNLLO)", (int)verdict, (int)choice.kept, as_bytes(&chosen),
                               (long long)new_base_timestamp, (long long)choice.max_timestamp,
                               has_horizon ? Py_True : Py_False);
    free(chosen.data);
    return result;
}

PyDoc_STRVAR(note_doc, "note(size, last_offset, max_timestamp): the caller has put a batch into the output.");

static PyObject *filter_note(PyObject *self, PyObject *args)
{
    long long size, last_offset, max_timestamp;
    if (!PyArg_ParseTuple(args, "LLL:note", &size, &last_offset, &max_timestamp))
        return NULL;
    if (note((Filter *)self, size, last_offset, max_timestamp) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(accept_doc, "accept(base_offset, last_offset) -> whether a batch with these offsets may come next");

static PyObject *filter_accept(PyObject *self, PyObject *args)
{
    long long base_offset, last_offset;
    if (!PyArg_ParseTuple(args, "LL:accept", &base_offset, &last_offset))
        return NULL;
    return PyBool_FromLong(accept((Filter *)self, base_offset, last_offset));
}

PyDoc_STRVAR(written_doc,
             "written() -> (bytes, max timestamp, its offset, offset index entries, time index entries)");

static PyObject *filter_written(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Filter *f = (const Filter *)self;
    return Py_BuildValue("(LLLNN)", (long long)f->position, (long long)f->max_timestamp,
                         (long long)f->max_timestamp_offset, as_bytes(&f->offset_entries),
                         as_bytes(&f->time_entries));
}

PyDoc_STRVAR(seen_doc, "seen() -> (records read, records kept, records without a key)");

static PyObject *filter_seen(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Filter *f = (const Filter *)self;
    return Py_BuildValue("(LLL)", (long long)f->records_read, (long long)f->records_kept,
                         (long long)f->records_without_key);
}

static PyObject *filter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_buffer slots, producers;
    long long last_offset, now, new_horizon, base_offset, end_offset, round_end, interval;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "BatchFilter takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "w*LLLy*LLLL:BatchFilter", &slots, &last_offset, &now, &new_horizon, &producers,
                          &base_offset, &end_offset, &round_end, &interval))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Filter *f = (Filter *)alloc(type, 0); /* zeroed */
    int64_t *copy = malloc((size_t)producers.len + 1);
    if (f == NULL || copy == NULL || slots.len < SLOT_SIZE) {
        if (f != NULL && copy != NULL)
            PyErr_SetString(PyExc_ValueError, "the map has no slot");
        else if (f != NULL)
            PyErr_NoMemory();
        PyBuffer_Release(&slots);
        PyBuffer_Release(&producers);
        free(copy);
        Py_XDECREF((PyObject *)f);
        return NULL;
    }
    memcpy(copy, producers.buf, (size_t)producers.len);
    f->producers = copy;
    f->producer_count = producers.len / (Py_ssize_t)(2 * sizeof(int64_t));
    PyBuffer_Release(&producers);
    f->slots = slots;
    f->has_slots = 1;
    f->map.slots = slots.buf;
    f->map.count = (uint64_t)(slots.len / SLOT_SIZE);
    f->last_offset = last_offset;
    f->now = now;
    f->new_horizon = new_horizon;
    f->base_offset = f->low = base_offset;
    f->high = end_offset;
    f->round_end = round_end;
    f->interval = interval;
    f->max_timestamp = NO_TIMESTAMP;
    f->max_timestamp_offset = base_offset;
    f->last_time_entry = NO_TIMESTAMP;
    return (PyObject *)f;
}

static void filter_dealloc(PyObject *self)
{
    Filter *f = (Filter *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (f->has_slots)
        PyBuffer_Release(&f->slots);
    free(f->producers);
    free(f->kept.data);
    free(f->offset_entries.data);
    free(f->time_entries.data);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef filter_methods[] = {
    {"run", filter_run, METH_VARARGS, run_doc},
    {"filter_records", filter_records, METH_VARARGS, filter_records_doc},
    {"accept", filter_accept, METH_VARARGS, accept_doc},
    {"note", filter_note, METH_VARARGS, note_doc},
    {"written", filter_written, METH_NOARGS, written_doc},
    {"seen", filter_seen, METH_NOARGS, seen_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(filter_doc,
             "BatchFilter(slots, last_offset, now, new_horizon, producers, base_offset, end_offset,\n"
             "round_end, interval)\n\n"
             "Keeps the records of batches that the offset map says are the last of their keys.");

static PyType_Slot filter_slots[] = {
    {Py_tp_doc, (void *)filter_doc},
    {Py_tp_new, filter_new},
    {Py_tp_dealloc, filter_dealloc},
    {Py_tp_methods, filter_methods},
    {0, NULL},
};

PyType_Spec batch_filter_spec = {
    .name = "kafkapy.storage.cleaning._compactor.BatchFilter",
    .basicsize = sizeof(Filter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = filter_slots,
};
