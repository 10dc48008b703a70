/* MRGUARD_OPTIONS=name=value,name=value: read once, at the first finding or object, with secure_getenv. */
#ifndef MRG_OPTIONS_H
#define MRG_OPTIONS_H

#include <stdbool.h>

enum policy { POLICY_REFUSE, POLICY_ABORT, POLICY_OBSERVE };

struct options {
    enum policy policy;
    int output; /* file descriptor */
    int exitcode;
    bool help;
};

/* Never fails: what cannot be understood is said in one line on stderr, and left at its default. */
const struct options *options(void);

/* For tests: parses text into *ret as options() would the environment's. Returns how many words were bad. */
int options_parse(struct options *ret, const char *text);

#endif
