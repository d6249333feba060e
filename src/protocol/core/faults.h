// Settings of tests only: mutations of the protocol's rules, and relayed transfers on fast links.
#ifndef BRAID_PROTOCOL_CORE_FAULTS_H
#define BRAID_PROTOCOL_CORE_FAULTS_H

#include "braid/peer.h"

// Mutation testing: each breaks one rule of the protocol, and the simulator must notice.
typedef enum peer_mutant {
    PEER_MUTANT_MOVES_ON_SUSPICION,   // a holder that was sent a COMMIT is replaced before its removal
    PEER_MUTANT_FREES_AT_COMMIT,      // the slot is free before the weight gradient is computed
    PEER_MUTANT_COMPLETE_ENDS_GUARD,  // no peer guards a forward after it was computed
    PEER_MUTANT_COMMITS_TWICE,        // a second COMMIT adds a second time
    PEER_MUTANT_SAME_NAME,            // a part is served under a name that is not its set's
    PEER_MUTANT_NO_EVICTION,          // a repair waits for a slot and evicts none
    PEER_MUTANT_FREES_AT_FINAL,       // slots stay taken until FINAL
    PEER_MUTANT_REFUSES_SILENTLY,     // a COMMIT that cannot be kept is not answered
    PEER_MUTANT_ROUTES_ACROSS_FALLS,  // a link between routers that fell goes on as if nothing had been lost
    PEER_MUTANT_ROUTES_TO_THE_GONE,   // the router is not told that a neighbour was expelled
    PEER_MUTANT_ROUTES_TOO_MUCH,      // the router may carry more than the relay says
    PEER_MUTANT_COMMITS_UNANSWERED,   // a new owner gives orders when one member has answered, not all
    PEER_MUTANT_OBEYS_OLDER_OWNER,    // a COMMIT of any sender is obeyed
    PEER_MUTANT_FORGETS_COMMITTED,    // a new owner forgets committed holders
    PEER_MUTANT_KEEPS_ITS_NUMBER,     // a peer that restarts keeps its member id
    PEER_MUTANT_KEEPS_ITS_SUM,        // an expelled peer keeps what it had counted
    PEER_MUTANT_ONE_ROUND,            // another manifest bears the number of the one before
    PEER_MUTANT_LENDS_SHARES,         // slots of private data are given to any data peer
    PEER_MUTANT_PROMOTES_EARLY,       // a standby does the work of a stage that has others
    PEER_MUTANT_COUNTS_SHADOWS,       // FINAL waits for standbys as for members
    PEER_MUTANT_ROUND_BEFORE_CLOSE,   // a round is adopted before the log says what it closes
    PEER_MUTANT_KEEPS_LOSERS,         // a stash that waits does not report: a lost CANCEL is never repaired
    PEER_MUTANT_RECORDS_ARE_TRUTH,    // a live holder that has nothing left is not replaced
    PEER_MUTANT_OLD_RESULTS,          // in fast mode a new round keeps what the one before had added up
    PEER_MUTANT_TRUSTS_DONORS,        // state is accepted without comparing content hashes
    PEER_MUTANT_WAITS_FOR_THE_DEAD,   // pulls of a dead source are not repeated elsewhere
    PEER_MUTANT_FORWARDS_ANYTHING,    // blocks that are not at its version are taken to be brought forward, too
    PEER_MUTANT_KEEPS_LEFT_OUT,       // microbatches that CLOSE leaves out stay in the sum
    PEER_MUTANT_DIVIDES_BY_ALL,       // N has the tokens of what is left out, too
    PEER_MUTANT_HEARS_THE_PAST,       // messages from before a rollback count after it
    PEER_MUTANT_KEEPS_THE_PAST,       // a rollback keeps the gradient sum
    PEER_MUTANT_LETS_THE_LAST_GO,     // a leaving member is released even if it has the last copy
    PEER_MUTANT_GOES_BACK_FOR_ONE,    // the run rolls back when one member of a stage lacks the state
    PEER_MUTANT_EVICTS_COMMITTED,     // a slot is taken from a committed microbatch
    PEER_MUTANT_MOVES_WITH_SUM,       // a relay moves between CLOSE and FINAL, and its sum is lost
    PEER_MUTANT_MOVES_AT_WORK,        // a relay moves within an iteration, and its microbatches are computed twice
    PEER_MUTANT_MOVES_TO_THE_FULL,    // a relay moves to a stage that has as many members
    PEER_MUTANT_MOVES_SEVERAL,        // a relay moves while another is on its way
    PEER_MUTANT_MOVES_AGAIN,          // a relay that has just moved moves again
    PEER_MUTANT_READY_EARLY,          // a member works before its last chunk of state has arrived
} peer_mutant;

// Mutations in the choice of neighbours (route_view.c).
typedef enum peer_view_mutant {
    PEER_VIEW_WORKS,
    PEER_VIEW_SLEEPS,       // no gossip: neighbours in a large stage never change
    PEER_VIEW_GROWS_STALE,  // from iteration 5 on a view does not hear of joins and leaves
} peer_view_mutant;

typedef struct peer_faults {
    uint64_t mutants;  // bit i: peer_mutant i
    peer_view_mutant view;
    uint8_t carried_percent;  // of tensors: they take a relayed transfer, however fast the direct link is
} peer_faults;

// Call it between peer_init and the first event.
void peer_inject(peer *p, peer_faults faults);

#endif
