/* A paced OpenAI-style streaming server that logs when each chunk really left: the truth a client is checked against.
 *
 *   paced PORT INTERVAL_US FIRST_US TOKENS_PER_CHUNK        (PORT 0: any; the port is printed on stdout)
 *
 * POST anything      -> an SSE stream in SGLang's shape: a role chunk at once, the first tokens after FIRST_US, then a
 *                       chunk each INTERVAL_US until the body's "max_tokens" (or "max_completion_tokens") are out; finish
 *                       chunk, usage chunk, [DONE]. "seed" in the body names the stream in the log; without one, the number
 *                       after the first "stream #" in it does (for clients that can send a prompt, but no seed), else 0.
 * GET /log           -> the log so far and empties it: records of int32 seed, int32 chunk, int64 CLOCK_MONOTONIC ns.
 *                       chunk -1: the request had arrived; 0..: just before the chunk was given to the kernel.
 * GET anything else  -> {"data":[{"id":"paced"}]}
 *
 * One thread, epoll, a heap of due times; a chunk costs a few microseconds, most of it send(). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_FD 8192
#define MAX_REQUEST (1 << 20)

typedef struct { int32_t seed, chunk; int64_t ns; } Entry;
typedef struct {
    char *in;
    size_t in_len;
    int fd, seed, chunk, max_tokens, streaming;
    int64_t due_ns;
} Stream;

static Stream streams[MAX_FD];
static Stream *heap[MAX_FD];
static int heap_len;
static Entry *entries;
static size_t n_entries, cap_entries;
static int64_t interval_ns, first_ns;
static int tokens_per_chunk, epoll_fd;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(int seed, int chunk, int64_t ns) {
    if (n_entries == cap_entries) {
        cap_entries = cap_entries ? cap_entries * 2 : 1 << 16;
        entries = realloc(entries, cap_entries * sizeof(Entry));
        if (!entries) exit(3);
    }
    entries[n_entries++] = (Entry){seed, chunk, ns};
}

static void heap_push(Stream *s) {
    int i = heap_len++;
    while (i && heap[(i - 1) / 2]->due_ns > s->due_ns) { heap[i] = heap[(i - 1) / 2]; i = (i - 1) / 2; }
    heap[i] = s;
}

static Stream *heap_pop(void) {
    Stream *top = heap[0], *last = heap[--heap_len];
    int i = 0, child;
    while ((child = 2 * i + 1) < heap_len) {
        if (child + 1 < heap_len && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= last->due_ns) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void hang_up(Stream *s) {
    close(s->fd);
    free(s->in);
    s->in = NULL;
    s->in_len = 0;
    s->fd = -1;   /* if it is still on the heap, it is dropped there */
}

static int send_all(Stream *s, const char *data, size_t len) {
    while (len) {
        ssize_t n = send(s->fd, data, len, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) { usleep(50); continue; }   /* a client that does not read */
            return -1;
        }
        data += n;
        len -= n;
    }
    return 0;
}

static size_t frame(char *out, const char *data, size_t len) {
    size_t n = sprintf(out, "%zx\r\n", len);
    memcpy(out + n, data, len);
    memcpy(out + n + len, "\r\n", 2);
    return n + len + 2;
}

static const char *HEAD =
    "{\"id\":\"a07c1bc2a0a540deb617d84f17666771\",\"object\":\"chat.completion.chunk\",\"created\":1795956303,"
    "\"model\":\"paced\",\"choices\":[";
static const char *USAGE =
    "\"usage\":{\"prompt_tokens\":39,\"total_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":null,"
    "\"reasoning_tokens\":0}}\n\n";

static int send_start(Stream *s) {
    char data[512], out[1024];
    int n = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                         "transfer-encoding: chunked\r\n\r\n");
    int d = sprintf(data, "data: %s{\"index\":0,\"delta\":{\"reasoning_content\":null,\"role\":\"assistant\",\"content\":\"\"},"
                          "\"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}]}\n\n", HEAD);
    n += frame(out + n, data, d);
    return send_all(s, out, n);
}

static int send_chunk(Stream *s) {
    char data[1024], out[1200];
    int tokens = (s->chunk + 1) * tokens_per_chunk;
    if (tokens > s->max_tokens) tokens = s->max_tokens;
    int d = sprintf(data, "data: %s{\"index\":0,\"delta\":{\"reasoning_content\":null,\"content\":\"some words\"},"
                          "\"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}],", HEAD);
    d += sprintf(data + d, USAGE, 39 + tokens, tokens);
    size_t n = frame(out, data, d);
    note(s->seed, s->chunk, now_ns());
    return send_all(s, out, n);
}

static int send_end(Stream *s) {
    char data[2048], out[2400];
    int d = sprintf(data, "data: %s{\"index\":0,\"delta\":{\"reasoning_content\":null},\"logprobs\":null,"
                          "\"finish_reason\":\"length\",\"matched_stop\":null}]}\n\n", HEAD);
    d += sprintf(data + d, "data: %s],", HEAD);
    d += sprintf(data + d, USAGE, 39 + s->max_tokens, s->max_tokens);
    d += sprintf(data + d, "data: [DONE]\n\n");
    size_t n = frame(out, data, d);
    n += sprintf(out + n, "0\r\n\r\n");
    return send_all(s, out, n);
}

static int number_after(const char *text, const char *key, int otherwise) {
    const char *at = strstr(text, key);
    return at ? atoi(at + strlen(key)) : otherwise;
}

static void answer(Stream *s) {
    char out[256];
    if (!strncmp(s->in, "GET /log", 8)) {
        size_t len = n_entries * sizeof(Entry);
        int n = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n", len);
        if (send_all(s, out, n) || send_all(s, (char *)entries, len)) hang_up(s);
        n_entries = 0;
    } else if (!strncmp(s->in, "GET ", 4)) {
        const char *body = "{\"object\":\"list\",\"data\":[{\"id\":\"paced\",\"object\":\"model\"}]}";
        int n = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                        strlen(body), body);
        if (send_all(s, out, n)) hang_up(s);
    } else {
        s->seed = number_after(s->in, "\"seed\":", number_after(s->in, "stream #", 0));
        s->max_tokens = number_after(s->in, "\"max_tokens\":", number_after(s->in, "\"max_completion_tokens\":", 64));
        s->chunk = 0;
        s->streaming = 1;
        int64_t now = now_ns();
        note(s->seed, -1, now);
        s->due_ns = now + first_ns;
        if (send_start(s)) { hang_up(s); return; }
        heap_push(s);
    }
}

static void readable(Stream *s) {
    if (!s->in) s->in = malloc(MAX_REQUEST + 1);
    ssize_t n = recv(s->fd, s->in + s->in_len, MAX_REQUEST - s->in_len, 0);
    if (n <= 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        hang_up(s);
        return;
    }
    s->in_len += n;
    s->in[s->in_len] = 0;
    char *end = strstr(s->in, "\r\n\r\n");
    if (!end) return;
    char *length = strcasestr(s->in, "\r\ncontent-length:");
    size_t need = end + 4 - s->in + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (s->in_len < need) return;
    s->in_len = 0;
    answer(s);
}

static void pump(void) {
    int64_t now = now_ns();
    while (heap_len && heap[0]->due_ns <= now) {
        Stream *s = heap_pop();
        if (s->fd < 0) { s->streaming = 0; continue; }
        int failed = send_chunk(s);
        s->chunk++;
        if (!failed && s->chunk * tokens_per_chunk >= s->max_tokens) {
            s->streaming = 0;
            if (send_end(s)) hang_up(s);
        } else if (failed) {
            s->streaming = 0;
            hang_up(s);
        } else {
            s->due_ns += interval_ns;
            heap_push(s);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "usage: paced PORT INTERVAL_US FIRST_US TOKENS_PER_CHUNK\n"); return 2; }
    interval_ns = atoll(argv[2]) * 1000;
    first_ns = atoll(argv[3]) * 1000;
    tokens_per_chunk = atoi(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) { perror("paced"); return 1; }
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = timer;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event);
    for (;;) {
        struct itimerspec next = {0};
        if (heap_len) {
            next.it_value.tv_sec = heap[0]->due_ns / 1000000000LL;
            next.it_value.tv_nsec = heap[0]->due_ns % 1000000000LL;
        }
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &next, NULL);
        int n = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == timer) {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) < 0) continue;
            } else if (fd == listener) {
                int peer;
                while ((peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (peer >= MAX_FD || streams[peer].streaming) { close(peer); continue; }
                    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    streams[peer] = (Stream){.fd = peer};
                    event.data.fd = peer;
                    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, peer, &event);
                }
            } else {
                readable(&streams[fd]);
            }
        }
        pump();
    }
}
