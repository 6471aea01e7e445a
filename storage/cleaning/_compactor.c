/* The module of the compiled twins of key_index.py and batch_filter.py. */

#include "_records.h"

static int module_exec(PyObject *module)
{
    crc_prepare();
    PyObject *type = PyType_FromModuleAndSpec(module, &batch_filter_spec, NULL);
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
    .m_name = "_compactor",
    .m_doc = "The compiled twins of key_index.py and batch_filter.py.",
    .m_methods = key_index_functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__compactor(void)
{
    return PyModuleDef_Init(&module_definition);
}
