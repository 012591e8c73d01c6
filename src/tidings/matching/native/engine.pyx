# cython: language_level=3, boundscheck=False, cdivision=True
"""The matching engine: subscriptions as records in immutable segments, and one evaluator of them.

One extension module, in the files that are included below, each of which opens with its rules.
"""

cimport cython
cimport cython.view
from cpython.dict cimport PyDict_GetItem, PyDict_Next
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.list cimport PyList_GET_ITEM, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLong, PyLong_FromLong
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.math cimport INFINITY, exp2, log2, pow
from libc.stdint cimport (
    INT64_MAX, SIZE_MAX, UINT32_MAX, UINT64_MAX,
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

import sys
from collections.abc import Mapping
from os import urandom
from threading import RLock

import numpy as np

from tidings.language.dialects import DIALECTS
from tidings.language.errors import EventError
from tidings.language.event import MAX_EVENT_BYTES, Event, read as read_event
from tidings.language.expression import conjoin
from tidings.language.folding import _fold_character as fold_character, fold
from tidings.language.values import MAX_EVENT_DEPTH, elements_of, scalar as scalar_of
from tidings.language.wildcard import MANY as WILDCARD_MANY, ONE as WILDCARD_ONE
from tidings.language.wildcard import tokens as wildcard_tokens
from tidings.language.text import read as read_expression
from tidings.matching.contract import names_of
from tidings.matching.residuals import shared_check

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    bint PyUnicode_IS_ASCII(object text)
    long long PyLong_AsLongLongAndOverflow(object integer, int *overflow) except? -1

cdef extern from "low.h" nogil:
    void tidings_check(bint condition)
    void tidings_prefetch(const void *address)
    void tidings_large_pages(void *at, size_t size)
    uint64_t tidings_load(const void *at)
    uint64_t tidings_mix(uint64_t a, uint64_t b)
    uint64_t tidings_hash(const void *data, size_t size, uint64_t seed)
    uint64_t tidings_order_of_double(double value)
    uint64_t tidings_order_of_text(const uint8_t *text, size_t size, uint8_t fill)
    int tidings_lowest(uint64_t bits)
    const void *tidings_find(const void *inside, size_t size, const void *what, size_t n)
    uint64_t tidings_meet(const uint8_t *codes, uint8_t low, uint8_t high)
    bint tidings_decimal(uint64_t digits, int exponent, double *value)

ctypedef struct Span:
    const uint8_t *at
    size_t size

cdef int MAX_DEPTH = MAX_EVENT_DEPTH
cdef Py_ssize_t MAX_BYTES = MAX_EVENT_BYTES
MAX_TEXT = 1 << 30
MOST_LEFT = 1 << 62
MOST_NUMBERS = 1 << 31
# Statistics know no share of what is found by less than the whole test.
UNKNOWN_SHARE = frozenset({"!=", "i!=", "like", "ilike", "matches", "imatches", "holds"})
cdef Span NO_TEXT
NO_TEXT.at = <const uint8_t *> b""
NO_TEXT.size = 0

cdef void *enlarged(void *old, size_t size) except NULL nogil:
    """Memory of a new size with the content of the old; the old stays if there is none."""
    cdef void *new = realloc(old, size if size else 1)
    if new == NULL:
        with gil:
            raise MemoryError
    tidings_large_pages(new, size)
    return new

cdef void *zeroed(size_t size) except NULL nogil:
    cdef void *new = calloc(size if size else 1, 1)
    if new == NULL:
        with gil:
            raise MemoryError
    tidings_large_pages(new, size)
    return new

include "record.pxi"
include "names.pxi"
include "event.pxi"
include "evaluate.pxi"
include "segment.pxi"
include "build.pxi"
include "pack.pxi"
include "json.pxi"
include "arrow.pxi"
include "state.pxi"
include "index.pxi"
