/* Every scenario there is: one file and one line here each. */
#ifndef MRG_WALK_SCENARIOS_H
#define MRG_WALK_SCENARIOS_H

#include "walk.h"

#define SCENARIOS(EACH) \
    EACH(channel)       \
    EACH(endpoint)      \
    EACH(refusal)       \
    EACH(verbs)         \
    EACH(windows)       \
    EACH(datagram)      \
    EACH(handmade)      \
    EACH(adopted)

#define DECLARE(name) extern const struct scenario name##_scenario;
SCENARIOS(DECLARE)
#undef DECLARE

#endif
