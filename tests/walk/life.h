/* Between the walker and a life. */
#ifndef MRG_WALK_LIFE_H
#define MRG_WALK_LIFE_H

#include "walk.h"

enum kind { NOTHING, SEAM, ALLOCATION, KINDS };

/* What fails in a run: the n-th call of a kind on a side. */
struct fault {
    enum side side;
    enum kind kind;
    int n;
};

#define CALLS_MAX 1000

/*
 * What a life tells the walker, in memory that they share, so it can be read however the life ends. Both are the same
 * image: strings are passed as pointers.
 */
struct diary {
    const char *text; /* the call of mrguard's under way, and its place */
    const char *file;
    int line;
    const char *struck;                  /* what failed by our doing */
    bool swallowed;                      /* nobody was told, by design */
    int counts[KINDS];                   /* how many calls there were */
    const char *names[KINDS][CALLS_MAX]; /* which, in order */
    int descriptors;                     /* open at the end */
    char complaint[1000];
};

/* A life failed only because the other side did. */
#define STATUS_ALONE 3

/* One life from begin to end. Returns the exit status. peer: a socket to the other side. */
int life(const struct scenario *scenario, enum side side, const struct fault *fault, struct diary *diary, int peer);

/* talk.c: the socket to the other side. The sides meet: each waits here for the other. */
void talk_begin(int peer);
void talk_meet(void);

/* fault.c. Counting begins with fault_arm and ends with fault_disarm. kind NOTHING: only counts. */
void fault_arm(enum kind kind, int n, struct diary *diary);
void fault_disarm(void);
const char *fault_struck(void); /* the call that failed; NULL: none yet */
int fault_errno(enum kind kind);

/* fault.c: what await_send and await_recv_asleep do to the verbs below mrguard. */
void fault_poll_patiently(bool patiently);
void fault_when_asleep(void (*then)(void));

/* left.c: fails the life if the kernel or mrguard still holds anything of this process. */
void expect_nothing_left(void);
int open_descriptors(void);

#endif
