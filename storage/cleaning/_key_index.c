/* The compiled twin of key_index.py: puts the keys of batches into an offset map.
 *
 * A batch that needs more than its bytes to be judged (compressed, transactional, control, another format) is left
 * to the caller. The GIL is given up while a buffer is walked.
 */

#include "_records.h"

typedef struct {
    Map map;
    int64_t size;  /* keys in the map */
    int64_t limit; /* as many as it takes */
    int64_t low, high; /* offsets that the next batch may have, `high` excluded */
    int64_t first_offset;
    int64_t last_offset; /* all keys up to here are in the map */
    int64_t records;     /* looked at */
} Index;

/* Put the keys of a batch's records into the map. FULL where one has no room: those before it are in. */
static enum stop index_batch(Index *x, const uint8_t *p, const uint8_t *stop, int64_t base_offset, int32_t count)
{
    Record r;
    uint8_t hash[HASH_SIZE];
    for (int32_t i = 0; i < count; i++) {
        p = read_record(p, stop, &r);
        if (p == NULL)
            return BAD;
        int64_t offset = base_offset + r.offset_delta;
        if (r.key == NULL || offset < x->first_offset)
            continue;
        md5(r.key, (size_t)r.key_size, hash);
        uint8_t *slot = find_slot(&x->map, hash);
        int64_t stored;
        memcpy(&stored, slot + HASH_SIZE, sizeof stored);
        if (stored == 0) {
            if (x->size >= x->limit) {
                x->last_offset = offset - 1;
                return FULL;
            }
            x->size++;
            memcpy(slot, hash, HASH_SIZE);
        }
        stored = offset + 1;
        memcpy(slot + HASH_SIZE, &stored, sizeof stored);
        x->records++;
    }
    return p == stop ? END : BAD;
}

static enum stop index_all(Index *x, const uint8_t **at, const uint8_t *end)
{
    Py_ssize_t size;
    for (;;) {
        const uint8_t *p = *at;
        enum stop found = look(p, end, &size);
        if (found != FULL)
            return found;
        int64_t base_offset = (int64_t)read_be64(p + BASE_OFFSET);
        int64_t last_offset = (int64_t)((uint64_t)base_offset + (uint64_t)(int32_t)read_be32(p + LAST_DELTA));
        if (base_offset < x->low || last_offset < base_offset || last_offset >= x->high)
            return BAD;
        enum stop stop = index_batch(x, p + HEADER_SIZE, p + size, base_offset, (int32_t)read_be32(p + RECORD_COUNT));
        if (stop != END)
            return stop;
        if (last_offset > x->last_offset)
            x->last_offset = last_offset;
        x->low = last_offset + 1;
        *at = p + size;
    }
}

static int index_arguments(Index *x, Py_buffer *slots)
{
    x->map.slots = slots->buf;
    x->map.count = (uint64_t)(slots->len / SLOT_SIZE);
    if (x->size < 0 || x->limit < 0 || (uint64_t)x->limit >= x->map.count) {
        PyErr_SetString(PyExc_ValueError, "the map has to keep an empty slot");
        return 0;
    }
    return 1;
}

PyDoc_STRVAR(index_batches_doc,
             "index_batches(slots, size, limit, first_offset, last_offset, data, at, end, low, high)\n"
             "    -> (size, last_offset, records, at, low, stop)");

static PyObject *index_batches(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer slots, data;
    Py_ssize_t at, end;
    long long size, limit, first_offset, last_offset, low, high;
    if (!PyArg_ParseTuple(args, "w*LLLLy*nnLL:index_batches", &slots, &size, &limit, &first_offset, &last_offset,
                          &data, &at, &end, &low, &high))
        return NULL;
    PyObject *result = NULL;
    Index x = {.size = size, .limit = limit, .first_offset = first_offset, .last_offset = last_offset};
    x.low = low;
    x.high = high;
    if (at < 0 || at > end || end > data.len) {
        PyErr_SetString(PyExc_ValueError, "the batches do not lie in the data");
    } else if (index_arguments(&x, &slots)) {
        const uint8_t *start = data.buf, *p = start + at;
        enum stop stop;
        Py_BEGIN_ALLOW_THREADS
        stop = index_all(&x, &p, start + end);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("(LLLnLi)", (long long)x.size, (long long)x.last_offset, (long long)x.records,
                               (Py_ssize_t)(p - start), (long long)x.low, (int)stop);
    }
    PyBuffer_Release(&slots);
    PyBuffer_Release(&data);
    return result;
}

PyDoc_STRVAR(index_records_doc,
             "index_records(slots, size, limit, first_offset, last_offset, records, base_offset, count)\n"
             "    -> (size, last_offset, records, stop)");

static PyObject *index_records(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer slots, data;
    long long size, limit, first_offset, last_offset, base_offset;
    int count;
    if (!PyArg_ParseTuple(args, "w*LLLLy*Li:index_records", &slots, &size, &limit, &first_offset, &last_offset, &data,
                          &base_offset, &count))
        return NULL;
    PyObject *result = NULL;
    Index x = {.size = size, .limit = limit, .first_offset = first_offset, .last_offset = last_offset};
    if (index_arguments(&x, &slots)) {
        const uint8_t *p = data.buf;
        enum stop stop;
        Py_BEGIN_ALLOW_THREADS
        stop = index_batch(&x, p, p + data.len, base_offset, count);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("(LLLi)", (long long)x.size, (long long)x.last_offset, (long long)x.records, (int)stop);
    }
    PyBuffer_Release(&slots);
    PyBuffer_Release(&data);
    return result;
}

PyMethodDef key_index_functions[] = {
    {"index_batches", index_batches, METH_VARARGS, index_batches_doc},
    {"index_records", index_records, METH_VARARGS, index_records_doc},
    {NULL, NULL, 0, NULL},
};
