// The open connections. libmicrohttpd 0.9.75 waits for edges of epoll, and loses the end of a
// connection that comes together with a part of a request: it reads the part, sees no further edge,
// and keeps the socket until its timeout. So the watch looks at connections without a whole request.
#include "http/inside.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { CLIENTS_BATCH = 256 };  // sockets in one call of poll()

struct client {
    client *next, *previous;
    int socket;
    bool answering;  // a whole request waits for the end of its answer
    bool ended;      // the last look found that the client had left
};

static void add(http_server *s, client *c) {
    pthread_mutex_lock(&s->clients.lock);
    c->next = s->clients.first;
    if (c->next) c->next->previous = c;
    s->clients.first = c;
    pthread_mutex_unlock(&s->clients.lock);
}

static void drop(http_server *s, client *c) {
    pthread_mutex_lock(&s->clients.lock);
    if (c->next) c->next->previous = c->previous;
    if (c->previous) c->previous->next = c->next;
    if (s->clients.first == c) s->clients.first = c->next;
    pthread_mutex_unlock(&s->clients.lock);
    free(c);
}

// libmicrohttpd closes the socket after this call.
void clients_notify(void *server, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode code) {
    client *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (c) drop(server, c);
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = c = info ? calloc(1, sizeof *c) : NULL;
    if (!c) return;
    c->socket = info->connect_fd;
    add(server, c);
}

void client_answering(http_server *s, struct MHD_Connection *connection, bool answering) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    client *c = info ? info->socket_context : NULL;
    if (!c) return;
    pthread_mutex_lock(&s->clients.lock);
    c->answering = answering;
    c->ended = false;
    pthread_mutex_unlock(&s->clients.lock);
}

// Between two looks libmicrohttpd has had time to read what a client sent before it left. The
// shutdown is an event that it does not lose.
static void look_at(struct pollfd *sockets, client **found, nfds_t count) {
    if (poll(sockets, count, 0) <= 0) return;
    for (nfds_t i = 0; i < count; i++) {
        if (!(sockets[i].revents & (POLLRDHUP | POLLHUP | POLLERR))) continue;
        if (found[i]->ended) shutdown(found[i]->socket, SHUT_RDWR);
        found[i]->ended = true;
    }
}

void clients_look(http_server *s) {
    struct pollfd sockets[CLIENTS_BATCH];
    client *found[CLIENTS_BATCH];
    nfds_t count = 0;
    pthread_mutex_lock(&s->clients.lock);
    for (client *c = s->clients.first; c; c = c->next) {
        if (c->answering) continue;
        sockets[count] = (struct pollfd){.fd = c->socket, .events = POLLRDHUP};
        found[count++] = c;
        if (count < CLIENTS_BATCH) continue;
        look_at(sockets, found, count);
        count = 0;
    }
    if (count > 0) look_at(sockets, found, count);
    pthread_mutex_unlock(&s->clients.lock);
}
