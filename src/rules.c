#include "rules.h"

#include <errno.h>

const struct rule_text rule_texts[RULE_COUNT] = {
    [RULE_NONE] = {"none", 0, "", "", ""},
#define RULE(id, name, error, where, sentence, hint) [RULE_##id] = {name, error, where, sentence, hint},
#include "rules.def"
#undef RULE
};
