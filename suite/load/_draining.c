/* The loop of draining.py in C, to the same contract: see there. What it saves is not system calls but the interpreter
 * between them. Nothing here blocks, so the interpreter's lock is kept. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define CONTRACT 1        /* as in draining.py */
#define READY 1024        /* sockets looked at in one call; the others are still ready in the next */
#define READ_BYTES 65536
#define BELIEVED_S 60.0   /* as in draining.py */

#ifndef SCM_TIMESTAMPNS
#define SCM_TIMESTAMPNS 35
#endif

static const char EVENT_START[] = "\r\ndata: ";   /* the end of an HTTP chunk's head, and how its event starts */
static const char CHUNK_END[] = "\n\n\r\n";
#define START_BYTES ((Py_ssize_t)sizeof EVENT_START - 1)
#define END_BYTES ((Py_ssize_t)sizeof CHUNK_END - 1)

static PyObject *name_pieces, *name_stamps, *name_whole, *name_read, *name_append;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);   /* what time.perf_counter reads on Linux */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Where the event's data begins if these bytes are one HTTP chunk with one event, written as every server here writes
 * it ("<size>\r\ndata: ...\n\n\r\n", the size in lower-case hexadecimal without leading zeros); else 0. */
static Py_ssize_t data_in_chunk(const char *bytes, Py_ssize_t count) {
    Py_ssize_t digits = 0, size = 0;
    for (; digits < count && digits < 8; digits++) {
        char c = bytes[digits];
        if (c >= '0' && c <= '9') size = size * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f') size = size * 16 + (c - 'a' + 10);
        else break;
    }
    if (digits == 0 || bytes[0] == '0' || count != digits + 2 + size + 2) return 0;
    if (count < digits + START_BYTES + END_BYTES) return 0;
    if (memcmp(bytes + digits, EVENT_START, START_BYTES)) return 0;
    if (memcmp(bytes + count - END_BYTES, CHUNK_END, END_BYTES)) return 0;
    return digits + START_BYTES;
}

/* When the kernel received the last packet of what was read, on its wall clock; 0 if it does not say. */
static int stamp_of(struct msghdr *message, struct timespec *stamp) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS
            && c->cmsg_len >= CMSG_LEN(sizeof *stamp)) {
            memcpy(stamp, CMSG_DATA(c), sizeof *stamp);
            return 1;
        }
    return 0;
}

static int put_aside(PyObject *stream, const char *data, Py_ssize_t count, double arrived) {
    int failed = -1;
    PyObject *stamp = PyFloat_FromDouble(arrived), *piece = PyBytes_FromStringAndSize(data, count);
    PyObject *stamps = PyObject_GetAttr(stream, name_stamps), *pieces = PyObject_GetAttr(stream, name_pieces);
    PyObject *nothing = NULL;
    if (stamp && piece && stamps && pieces && PyList_Check(pieces)) {
        nothing = PyObject_CallMethodOneArg(stamps, name_append, stamp);
        if (nothing) failed = PyList_Append(pieces, piece);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "a stream's pieces must be a list");
    }
    Py_XDECREF(nothing);
    Py_XDECREF(pieces);
    Py_XDECREF(stamps);
    Py_XDECREF(piece);
    Py_XDECREF(stamp);
    return failed;
}

static int hand_over(PyObject *stream, const char *data, Py_ssize_t count, double arrived) {
    PyObject *stamp = PyFloat_FromDouble(arrived), *bytes = PyBytes_FromStringAndSize(data, count);
    PyObject *nothing = NULL;
    if (stamp && bytes) nothing = PyObject_CallMethodObjArgs(stream, name_read, stamp, bytes, NULL);
    Py_XDECREF(bytes);
    Py_XDECREF(stamp);
    Py_XDECREF(nothing);
    return nothing ? 0 : -1;
}

static int end(PyObject *ended, int fd, int error) {
    PyObject *nothing = PyObject_CallFunction(ended, "ii", fd, error);
    Py_XDECREF(nothing);
    return nothing ? 0 : -1;
}

typedef struct { long long base_s; double ahead_s, oldest, newest; long unstamped; } Clock;

static double arrival(struct msghdr *message, Clock *clock) {
    struct timespec stamp;
    if (stamp_of(message, &stamp)) {
        double at = (double)(stamp.tv_sec - clock->base_s) + (double)stamp.tv_nsec * 1e-9 - clock->ahead_s;
        if (clock->oldest < at && at < clock->newest) return at;
    }
    clock->unstamped++;
    return now_s();
}

/* Read one socket as far as its event says there is something. */
static int read_one(int fd, uint32_t events, PyObject *watched, PyObject *ended, Clock *clock) {
    static _Thread_local char buffer[READ_BYTES];
    PyObject *key = PyLong_FromLong(fd);
    int failed = key ? 0 : -1;
    while (!failed) {
        PyObject *stream = PyDict_GetItemWithError(watched, key);   /* NULL: forgotten by a callback of this turn */
        if (!stream) {
            failed = PyErr_Occurred() ? -1 : 0;
            break;
        }
        char control[CMSG_SPACE(sizeof(struct timespec)) + 64];
        struct iovec into = {buffer, sizeof buffer};
        struct msghdr message = {
            .msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t count = recvmsg(fd, &message, MSG_DONTWAIT);
        if (count < 0 && errno == EINTR) {
            failed = PyErr_CheckSignals();
            continue;
        }
        if (count <= 0) {
            if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
                failed = end(ended, fd, count ? errno : 0);
            break;
        }
        double arrived = arrival(&message, clock);
        Py_INCREF(stream);
        PyObject *whole = PyObject_GetAttr(stream, name_whole);
        Py_ssize_t start = whole == Py_True ? data_in_chunk(buffer, count) : 0;
        if (!whole) failed = -1;
        else if (start) failed = put_aside(stream, buffer + start, count - start - END_BYTES, arrived);
        else failed = hand_over(stream, buffer, count, arrived);
        Py_XDECREF(whole);
        Py_DECREF(stream);
        if (events == EPOLLIN && count < READ_BYTES) break;   /* nothing is left, and what comes now is a new event */
    }
    Py_XDECREF(key);
    return failed;
}

static PyObject *drain(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *epoll, *watched, *ended;
    Clock clock = {0};
    if (!PyArg_ParseTuple(args, "OO!OLd", &epoll, &PyDict_Type, &watched, &ended, &clock.base_s, &clock.ahead_s))
        return NULL;
    int fd = PyObject_AsFileDescriptor(epoll);
    if (fd < 0) return NULL;
    struct epoll_event ready[READY];
    int count = epoll_wait(fd, ready, READY, 0);
    if (count < 0) return errno == EINTR ? PyLong_FromLong(0) : PyErr_SetFromErrno(PyExc_OSError);
    clock.newest = now_s();
    clock.oldest = clock.newest - BELIEVED_S;
    clock.newest += 1.0;
    for (int i = 0; i < count; i++)
        if (read_one(ready[i].data.fd, ready[i].events, watched, ended, &clock)) return NULL;
    return PyLong_FromLong(clock.unstamped);
}

static PyMethodDef methods[] = {
    {"drain", drain, METH_VARARGS, "drain(epoll, watched, ended, wall_base_s, wall_ahead_s): see draining.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_draining", "The loop of draining.py in C.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__draining(void) {
    name_pieces = PyUnicode_InternFromString("pieces");
    name_stamps = PyUnicode_InternFromString("stamps");
    name_whole = PyUnicode_InternFromString("whole");
    name_read = PyUnicode_InternFromString("read");
    name_append = PyUnicode_InternFromString("append");
    if (!name_pieces || !name_stamps || !name_whole || !name_read || !name_append) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "CONTRACT", CONTRACT)) Py_CLEAR(made);
    return made;
}
