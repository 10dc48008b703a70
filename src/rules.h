/* The catalogue of rules as data. See rules.def. */
#ifndef MRG_RULES_H
#define MRG_RULES_H

enum rule {
    RULE_NONE, /* nothing is wrong */
#define RULE(id, name, error, where, sentence, hint) RULE_##id,
#include "rules.def"
#undef RULE
    RULE_COUNT
};

struct rule_text {
    const char *name;
    int error; /* what a refused call sets errno to; 0: the kernel's own, or report only */
    const char *where;
    const char *sentence;
    const char *hint;
};

extern const struct rule_text rule_texts[RULE_COUNT];

#endif
