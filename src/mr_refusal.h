/* Why the kernel may have refused a registration. */
#ifndef MRG_MR_REFUSAL_H
#define MRG_MR_REFUSAL_H

#include <stddef.h>

/*
 * Writes the likely cause in words: the limit and how much the process holds, or what the mapping is. Looks at
 * /proc; only for findings.
 */
void mr_explain_refusal(char *buf, size_t size, int error, const void *addr, size_t length, int access);

#endif
