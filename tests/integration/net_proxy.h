// A slow connection: accepts TCP connections and passes their bytes on to a port of this machine,
// each piece after a random delay, in order. So messages of two peers really cross in transit.
#ifndef BRAID_TESTS_NET_PROXY_H
#define BRAID_TESTS_NET_PROXY_H

#include "base/rng.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

typedef struct road {
    uv_tcp_t listener;
    uint16_t port, to_port;
    uint64_t most_delay_ms;
    rng *random;
    unsigned passing;  // connections
} road;

typedef struct piece {
    struct piece *next;
    uv_write_t write;
    uint64_t due;
    size_t count;  // 0: the end
    char bytes[];
} piece;

typedef struct passage passage;

typedef struct lane {  // from one socket to the other
    passage *of;
    uv_tcp_t from;
    uv_timer_t timer;
    piece *first, *last;
    struct lane *other;
} lane;

struct passage {
    road *road;
    uv_connect_t connect;
    lane lane[2];
    bool connected, closing;
    unsigned handles;
};

static inline void passage_closed(uv_handle_t *handle) {
    passage *p = handle->data;
    if (--p->handles > 0) return;
    for (int i = 0; i < 2; i++) {
        for (piece *q = p->lane[i].first; q != NULL;) {
            piece *next = q->next;
            free(q);
            q = next;
        }
    }
    p->road->passing--;
    free(p);
}

static inline void passage_close(passage *p) {
    if (p->closing) return;
    p->closing = true;
    for (int i = 0; i < 2; i++) {
        uv_close((uv_handle_t *)&p->lane[i].from, passage_closed);
        uv_close((uv_handle_t *)&p->lane[i].timer, passage_closed);
    }
}

static inline void piece_written(uv_write_t *write, int status) {
    (void)status;
    free(write->data);
}

static inline void lane_due(uv_timer_t *timer) {
    passage *p = timer->data;
    lane *l = &p->lane[timer == &p->lane[1].timer];
    uint64_t now = uv_now(timer->loop);
    while (l->first != NULL && l->first->due <= now && p->connected) {
        piece *q = l->first;
        if (q->count == 0) {
            passage_close(p);
            return;
        }
        l->first = q->next;
        uv_buf_t buffer = uv_buf_init(q->bytes, (unsigned)q->count);
        q->write.data = q;
        if (uv_write(&q->write, (uv_stream_t *)&l->other->from, &buffer, 1, piece_written) == 0) continue;
        free(q);
        passage_close(p);
        return;
    }
    if (l->first != NULL) uv_timer_start(&l->timer, lane_due, l->first->due > now ? l->first->due - now : 1, 0);
}

static inline void lane_add(lane *l, const char *bytes, size_t count) {
    piece *q = malloc(sizeof *q + count);
    uint64_t due = uv_now(l->timer.loop) + rng_below(l->of->road->random, l->of->road->most_delay_ms + 1);
    if (l->first == NULL) l->last = NULL;
    if (l->last != NULL && due < l->last->due) due = l->last->due;
    *q = (piece){.due = due, .count = count};
    if (count > 0) memcpy(q->bytes, bytes, count);
    if (l->first == NULL) {
        l->first = q;
    } else {
        l->last->next = q;
    }
    l->last = q;
    if (!uv_is_active((uv_handle_t *)&l->timer)) uv_timer_start(&l->timer, lane_due, due - uv_now(l->timer.loop), 0);
}

static inline void lane_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    static char bytes[65536];
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(bytes, sizeof bytes);
}

static inline void lane_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    passage *p = stream->data;
    lane *l = &p->lane[stream == (uv_stream_t *)&p->lane[1].from];
    if (count == 0 || p->closing) return;
    if (count < 0) uv_read_stop(stream);
    lane_add(l, buffer->base, count < 0 ? 0 : (size_t)count);
}

static inline void passage_connected(uv_connect_t *connect, int status) {
    passage *p = connect->data;
    p->connected = status == 0;
    if (status < 0 || uv_read_start((uv_stream_t *)&p->lane[1].from, lane_room, lane_read) != 0) passage_close(p);
}

static inline void road_connection(uv_stream_t *listener, int status) {
    road *r = listener->data;
    if (status < 0) return;
    passage *p = calloc(1, sizeof *p);
    p->road = r;
    r->passing++;
    for (int i = 0; i < 2; i++) {
        lane *l = &p->lane[i];
        l->of = p;
        l->other = &p->lane[1 - i];
        uv_tcp_init(listener->loop, &l->from);
        uv_timer_init(listener->loop, &l->timer);
        l->from.data = l->timer.data = p;
        uv_tcp_nodelay(&l->from, 1);
        p->handles += 2;
    }
    struct sockaddr_in to;
    uv_ip4_addr("127.0.0.1", r->to_port, &to);
    p->connect.data = p;
    if (uv_accept(listener, (uv_stream_t *)&p->lane[0].from) != 0 ||
        uv_read_start((uv_stream_t *)&p->lane[0].from, lane_room, lane_read) != 0 ||
        uv_tcp_connect(&p->connect, &p->lane[1].from, (struct sockaddr *)&to, passage_connected) != 0) {
        passage_close(p);
    }
}

// Passes on to `to_port`, which may be changed later.
static inline bool road_open(road *r, uv_loop_t *loop, rng *random, uint64_t most_delay_ms) {
    struct sockaddr_in at;
    *r = (road){.random = random, .most_delay_ms = most_delay_ms};
    uv_ip4_addr("127.0.0.1", 0, &at);
    uv_tcp_init(loop, &r->listener);
    r->listener.data = r;
    if (uv_tcp_bind(&r->listener, (struct sockaddr *)&at, 0) != 0) return false;
    if (uv_listen((uv_stream_t *)&r->listener, 128, road_connection) != 0) return false;
    if (uv_tcp_getsockname(&r->listener, (struct sockaddr *)&at, &(int){sizeof at}) != 0) return false;
    r->port = ntohs(at.sin_port);
    return true;
}

static inline void road_close(road *r) { uv_close((uv_handle_t *)&r->listener, NULL); }

#endif
