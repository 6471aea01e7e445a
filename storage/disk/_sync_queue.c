/* The compiled twin of PureSyncQueue in sync_queue.py, with the same methods.
 *
 * A thread that waits in get(), syncs a file and hands it back does not hold the GIL meanwhile, so it neither waits for
 * the event loop nor makes it wait. The rings have room for every job that put() admits: nothing is allocated in
 * threads, and nothing can fail there but the sync itself.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define CAPACITY 64

typedef struct {
    PyObject *work; /* a reference */
    int fd;         /* the file to sync; below 0: the work is more than that */
    double seconds; /* how long the sync took */
} Job;

typedef struct {
    Job jobs[CAPACITY];
    unsigned first, count;
} Ring;

typedef struct {
    PyObject_HEAD
    int read_fd, write_fd; /* the event loop is woken through them */
    pthread_mutex_t mutex; /* guards all below; no Python code runs while it is held */
    pthread_cond_t changed;
    Ring waiting, ended;
    unsigned admitted; /* jobs that were put, and neither taken nor returned by get() */
    int error;         /* the errno of the first sync that failed */
    char closed;
} SyncQueue;

static void push(Ring *ring, const Job *job)
{
    ring->jobs[(ring->first + ring->count++) % CAPACITY] = *job;
}

static Job pop(Ring *ring)
{
    Job job = ring->jobs[ring->first];
    ring->first = (ring->first + 1) % CAPACITY;
    ring->count--;
    return job;
}

static void wake_loop(SyncQueue *q)
{
    static const uint64_t one = 1;
    while (write(q->write_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* As FileSystem.sync_data. */
static int sync_file(int fd)
{
    int result;
    do {
#if defined(F_FULLFSYNC)
        result = fcntl(fd, F_FULLFSYNC);
#else
        result = fdatasync(fd);
#endif
    } while (result < 0 && errno == EINTR);
    return result < 0 ? errno : 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Sync files, without the GIL, until there is other work or a sync fails: the work. NULL if the queue is closed. */
static PyObject *sync_until_other_work(SyncQueue *q)
{
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (!q->waiting.count && !q->closed)
            pthread_cond_wait(&q->changed, &q->mutex);
        if (!q->waiting.count) {
            pthread_mutex_unlock(&q->mutex);
            return NULL;
        }
        Job job = pop(&q->waiting);
        int error = q->error;
        if (job.fd >= 0 && !error) {
            pthread_mutex_unlock(&q->mutex);
            double began = now();
            error = sync_file(job.fd);
            job.seconds = now() - began;
            pthread_mutex_lock(&q->mutex);
        }
        if (!q->error)
            q->error = error;
        if (job.fd < 0 || error) {
            q->admitted--;
            pthread_mutex_unlock(&q->mutex);
            return job.work;
        }
        int is_first = !q->ended.count;
        push(&q->ended, &job);
        if (is_first) {
            pthread_mutex_unlock(&q->mutex);
            wake_loop(q);
            pthread_mutex_lock(&q->mutex);
        }
    }
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"read_fd", "write_fd", NULL};
    int read_fd, write_fd;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ii", names, &read_fd, &write_fd))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    SyncQueue *q = (SyncQueue *)allocate(type, 0);
    if (q != NULL) {
        q->read_fd = read_fd;
        q->write_fd = write_fd;
        pthread_mutex_init(&q->mutex, NULL);
        pthread_cond_init(&q->changed, NULL);
    }
    return (PyObject *)q;
}

/* No thread is in get(): it would hold a reference. */
static void queue_dealloc(PyObject *self)
{
    SyncQueue *q = (SyncQueue *)self;
    PyTypeObject *type = Py_TYPE(self);
    while (q->waiting.count)
        Py_DECREF(pop(&q->waiting).work);
    while (q->ended.count)
        Py_DECREF(pop(&q->ended).work);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(put_doc, "put(work, fd)\n\nQueue work; see sync_queue.py.");

static PyObject *queue_put(PyObject *self, PyObject *args)
{
    SyncQueue *q = (SyncQueue *)self;
    Job job = {0};
    if (!PyArg_ParseTuple(args, "Oi", &job.work, &job.fd))
        return NULL;
    pthread_mutex_lock(&q->mutex);
    int is_full = q->admitted == CAPACITY;
    if (!is_full) {
        Py_INCREF(job.work);
        q->admitted++;
        push(&q->waiting, &job);
    }
    pthread_mutex_unlock(&q->mutex);
    if (is_full) {
        PyErr_SetString(PyExc_OverflowError, "too many flushes");
        return NULL;
    }
    pthread_cond_signal(&q->changed);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_doc, "get()\n\nSync files; return other work, or None if the queue is closed; see sync_queue.py.");

static PyObject *queue_get(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *work;
    Py_BEGIN_ALLOW_THREADS
    work = sync_until_other_work((SyncQueue *)self);
    Py_END_ALLOW_THREADS
    if (work == NULL)
        Py_RETURN_NONE;
    return work;
}

PyDoc_STRVAR(take_doc, "take()\n\nThe syncs that have succeeded, as (work, seconds); see sync_queue.py.");

static PyObject *queue_take(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    SyncQueue *q = (SyncQueue *)self;
    uint64_t wakes;
    Ring ended;
    /* Before the syncs are taken: one that ends after that wakes the loop again. */
    (void)!read(q->read_fd, &wakes, sizeof wakes);
    pthread_mutex_lock(&q->mutex);
    ended = q->ended;
    q->ended.count = 0;
    pthread_mutex_unlock(&q->mutex);
    PyObject *result = PyList_New(ended.count);
    for (unsigned i = 0; result != NULL && i < ended.count; i++) {
        const Job *job = &ended.jobs[(ended.first + i) % CAPACITY];
        PyObject *item = Py_BuildValue("(Od)", job->work, job->seconds);
        if (item == NULL || PyList_SetItem(result, i, item) < 0)
            Py_CLEAR(result);
    }
    pthread_mutex_lock(&q->mutex);
    if (result != NULL)
        q->admitted -= ended.count;
    else
        for (unsigned i = 0; i < ended.count; i++)
            push(&q->ended, &ended.jobs[(ended.first + i) % CAPACITY]);
    pthread_mutex_unlock(&q->mutex);
    if (result == NULL)
        wake_loop(q); /* there is no memory: the loop tries again */
    else
        while (ended.count)
            Py_DECREF(pop(&ended).work);
    return result;
}

PyDoc_STRVAR(failed_doc, "failed()\n\nThe errno of the first sync that failed, or 0.");

static PyObject *queue_failed(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    SyncQueue *q = (SyncQueue *)self;
    pthread_mutex_lock(&q->mutex);
    int error = q->error;
    pthread_mutex_unlock(&q->mutex);
    return PyLong_FromLong(error);
}

PyDoc_STRVAR(close_doc, "close()\n\nEnd the threads in get() when nothing waits; see sync_queue.py.");

static PyObject *queue_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    SyncQueue *q = (SyncQueue *)self;
    pthread_mutex_lock(&q->mutex);
    q->closed = 1;
    pthread_mutex_unlock(&q->mutex);
    pthread_cond_broadcast(&q->changed);
    Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    {"put", queue_put, METH_VARARGS, put_doc},
    {"get", queue_get, METH_NOARGS, get_doc},
    {"failed", queue_failed, METH_NOARGS, failed_doc},
    {"take", queue_take, METH_NOARGS, take_doc},
    {"close", queue_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(queue_doc, "SyncQueue(read_fd, write_fd)\n\nThe queue between the event loop and the threads that sync.");

static PyType_Slot queue_slots[] = {
    {Py_tp_doc, (void *)queue_doc},
    {Py_tp_new, queue_new},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_methods, queue_methods},
    {0, NULL},
};

static PyType_Spec queue_spec = {
    .name = "kafkapy.storage.disk._sync_queue.SyncQueue",
    .basicsize = sizeof(SyncQueue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = queue_slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &queue_spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_sync_queue",
    .m_doc = "The compiled twin of PureSyncQueue in sync_queue.py.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__sync_queue(void)
{
    return PyModuleDef_Init(&module_definition);
}
