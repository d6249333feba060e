// The maximum of every length and count in src/session.
#ifndef BRAID_SESSION_LIMITS_H
#define BRAID_SESSION_LIMITS_H

#include "wire/limits.h"

enum {
    SESSION_VERSION = 3,           // first byte of each message
    SESSION_MAX_PEERS = 512,       // of a serving swarm
    SESSION_MAX_HOPS = 64,         // spans of a path
    SESSION_MAX_LAYERS = 1024,     // of a model
    SESSION_MAX_TOKENS = 1 << 24,  // of a session
    SESSION_MAX_CARDS = 8,         // in one message
    SESSION_MAX_CARD_HOPS = 16,    // measured links in a card
    SESSION_MAX_ADAPTERS = 16,     // that a peer has for its layers
    SESSION_MAX_HELD = 64,         // sessions in one HELD or KEPT
    SESSION_MAX_SLOTS = 4096,      // sessions, of other origins and its own, that a peer computes for
    SESSION_MAX_OWN = 4096,        // sessions of which a peer is the origin
    SESSION_MAX_ROWS = 4096,       // rows in one ROWS message, tokens in one CACHE message
    SESSION_QUEUE = 16,            // ROWS messages that wait for the computation, a session
    SESSION_CUTS = 8,              // remembered truncations, a session
    SESSION_MAX_KEYS = 256,        // pages of a text's beginning that OPEN names
    SESSION_MAX_NAMES = 16,        // pages in one NAMES message
    SESSION_MAX_PIECE = 1 << 18,   // bytes of one PIECE message
    SESSION_MAX_MESSAGE_BYTES = 8 * 1024,
};

#endif
