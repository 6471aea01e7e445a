/* The compiled twin of PureWriteProbe in write_probe.py, with the same methods.
 *
 * The thread that probes holds no GIL, and neither does the event loop while it waits for it.
 */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOK_SECONDS 0.005 /* between two looks whether the thread is in its system call */

typedef struct {
    pthread_mutex_t mutex; /* guards all below; no Python code runs while it is held */
    pthread_cond_t asked, answered;
    pthread_t thread;
    int fd;
    char has_thread, is_wanted, is_out, is_late, closed;
    int owners;     /* the Python object, and the thread: a stuck thread may outlive the object */
    double entered; /* when the thread entered its system call; 0: not yet */
    double proven;  /* when a write passed */
} Probe;

typedef struct {
    PyObject_HEAD
    Probe *probe;
    double fresh, patience;
} WriteProbe;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void disown(Probe *p)
{
    int left = --p->owners;
    pthread_mutex_unlock(&p->mutex);
    if (!left) {
        pthread_cond_destroy(&p->asked);
        pthread_cond_destroy(&p->answered);
        pthread_mutex_destroy(&p->mutex);
        free(p);
    }
}

static void *probe_when_asked(void *argument)
{
    Probe *p = argument;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->is_wanted && !p->closed)
            pthread_cond_wait(&p->asked, &p->mutex);
        if (!p->is_wanted)
            break;
        p->is_wanted = 0;
        p->entered = now();
        pthread_mutex_unlock(&p->mutex);
        while (pwrite(p->fd, "", 0, 0) < 0 && errno == EINTR)
            ;
        pthread_mutex_lock(&p->mutex);
        p->is_out = p->is_late = 0;
        p->proven = now();
        pthread_cond_signal(&p->answered);
    }
    disown(p);
    return NULL;
}

/* Ask the thread for a probe, and start it first if necessary; 0 if no thread can be started. */
static int ask(Probe *p)
{
    if (!p->has_thread) {
        if (pthread_create(&p->thread, NULL, probe_when_asked, p) != 0)
            return 0;
        p->has_thread = 1;
        p->owners++;
    }
    p->entered = 0;
    p->is_wanted = p->is_out = 1;
    pthread_cond_signal(&p->asked);
    return 1;
}

/* Wait until the probe has passed, or has been in its system call for too long. */
static void await_answer(Probe *p, double patience)
{
    while (p->is_out && !(p->entered && now() - p->entered > patience)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(LOOK_SECONDS * 1e9);
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&p->answered, &p->mutex, &until);
    }
    p->is_late = p->is_out;
}

static PyObject *probe_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"fd", "fresh", "patience", NULL};
    int fd;
    double fresh, patience;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "idd", names, &fd, &fresh, &patience))
        return NULL;
    Probe *p = calloc(1, sizeof *p);
    if (p == NULL)
        return PyErr_NoMemory();
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    WriteProbe *self = (WriteProbe *)allocate(type, 0);
    if (self == NULL) {
        free(p);
        return NULL;
    }
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->asked, NULL);
    pthread_cond_init(&p->answered, NULL);
    p->fd = fd;
    p->owners = 1;
    self->probe = p;
    self->fresh = fresh;
    self->patience = patience;
    return (PyObject *)self;
}

/* End the thread. One that is stuck ends later, and has nobody to tell. */
static void end_thread(Probe *p)
{
    pthread_mutex_lock(&p->mutex);
    int has_thread = p->has_thread, is_stuck = p->is_late;
    pthread_t thread = p->thread;
    p->has_thread = 0;
    p->closed = 1;
    pthread_cond_signal(&p->asked);
    pthread_mutex_unlock(&p->mutex);
    if (has_thread && is_stuck)
        pthread_detach(thread);
    else if (has_thread)
        pthread_join(thread, NULL);
}

static void probe_dealloc(PyObject *self)
{
    Probe *p = ((WriteProbe *)self)->probe;
    PyTypeObject *type = Py_TYPE(self);
    end_thread(p);
    pthread_mutex_lock(&p->mutex);
    disown(p);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(passes_doc, "passes()\n\nWhether a write would pass now; see write_probe.py.");

static PyObject *probe_passes(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    WriteProbe *self = (WriteProbe *)object;
    Probe *p = self->probe;
    double time = now();
    int passes = 1;
    pthread_mutex_lock(&p->mutex);
    if (p->closed || (!p->is_out && time - p->proven < self->fresh))
        p->proven = time;
    else if (p->is_late)
        passes = 0;
    else if (p->is_out || ask(p)) {
        Py_BEGIN_ALLOW_THREADS
        await_answer(p, self->patience);
        passes = !p->is_late;
        pthread_mutex_unlock(&p->mutex);
        Py_END_ALLOW_THREADS
        return PyBool_FromLong(passes);
    }
    pthread_mutex_unlock(&p->mutex);
    return PyBool_FromLong(passes);
}

PyDoc_STRVAR(close_doc, "close()\n\nEnd the thread; see write_probe.py.");

static PyObject *probe_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    Py_BEGIN_ALLOW_THREADS
    end_thread(((WriteProbe *)self)->probe);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef probe_methods[] = {
    {"passes", probe_passes, METH_NOARGS, passes_doc},
    {"close", probe_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(probe_doc, "WriteProbe(fd, fresh, patience)\n\nFinds out whether a file system takes writes.");

static PyType_Slot probe_slots[] = {
    {Py_tp_doc, (void *)probe_doc},
    {Py_tp_new, probe_new},
    {Py_tp_dealloc, probe_dealloc},
    {Py_tp_methods, probe_methods},
    {0, NULL},
};

static PyType_Spec probe_spec = {
    .name = "kafkapy.storage.disk._write_probe.WriteProbe",
    .basicsize = sizeof(WriteProbe),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = probe_slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &probe_spec, NULL);
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
    .m_name = "_write_probe",
    .m_doc = "The compiled twin of PureWriteProbe in write_probe.py.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__write_probe(void)
{
    return PyModuleDef_Init(&module_definition);
}
