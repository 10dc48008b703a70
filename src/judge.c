#include "judge.h"

#include <errno.h>
#include <inttypes.h>

#include "ah.h"
#include "mw.h"

/* What a WR uses */

static bool opcode_known(enum ibv_wr_opcode opcode)
{
    const unsigned int known = PLAIN_OPCODES | 1U << IBV_WR_LOCAL_INV | 1U << IBV_WR_BIND_MW;
    return (unsigned int)opcode < 32 && (known >> opcode & 1);
}

static void use(struct also *also, const void *handle, enum type type)
{
    also->at[also->count].handle = handle_token(handle);
    also->at[also->count++].type = type;
}

/* The window, what it will be bound to, and, while the WR is in flight, what it was bound to. */
static void use_window(struct also *also, const mrg_send_wr *wr)
{
    use(also, wr->bind_mw.mw, TYPE_MW);
    if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.bind_info.mr)
        use(also, wr->bind_mw.bind_info.mr, TYPE_MR);
    const struct slot *mw = slot_find(wr->bind_mw.mw, TYPE_MW);
    token before = mw ? mw_bound_to(slot_at(handle_token(wr->bind_mw.mw))) : 0;
    if (before) {
        use(also, (void *)(uintptr_t)before, TYPE_MR);
        also->optional = 1;
    }
}

static const char *fault_of_list(const mrg_sge *sgl, int count)
{
    return count < 0 ? "a negative number of pieces" : count && !sgl ? "its list of pieces is NULL" : NULL;
}

static const char *fault_of_send(const mrg_send_wr *wr, const struct qp *qp)
{
    if (!opcode_known(wr->opcode))
        return "an opcode that cannot be posted";
    if (qp->raw->qp_type == IBV_QPT_UD && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        return "an opcode that a QP of datagrams does not have";
    if (wr->send_flags & ~(PLAIN_FLAGS | (unsigned int)IBV_SEND_INLINE))
        return "flags that a post does not know";
    if ((wr->send_flags & IBV_SEND_INLINE) && access_of_send(qp, wr->opcode))
        return "IBV_SEND_INLINE where the device writes: only what is sent goes inline";
    return fault_of_list(wr->sg_list, wr->num_sge);
}

void odd_send(struct odd *odd, const struct qp *qp, const mrg_send_wr *wr, bool type_1)
{
    *odd = (struct odd){.send = wr, .type_1 = type_1, .malformed = fault_of_send(wr, qp)};
    if (odd->malformed)
        return;
    if (changes_window(wr))
        use_window(&odd->also, wr);
    else if (qp->raw->qp_type == IBV_QPT_UD && wr->wr.ud.ah)
        use(&odd->also, wr->wr.ud.ah, TYPE_AH);
}

void odd_recv(struct odd *odd, const mrg_recv_wr *wr)
{
    *odd = (struct odd){.malformed = fault_of_list(wr->sg_list, wr->num_sge)};
}

/* Judgement */

/* True if the rule is none. */
static bool whole(struct verdict *verdict, enum rule rule, const char *words)
{
    if (rule == RULE_NONE)
        return true;
    *verdict = (struct verdict){.rule = rule, .piece = -1, .words = words};
    return false;
}

/* A range of an MR that a window is to open: as check_sge, and what the window grants must be the MR's to give. */
static bool judge_bind(const struct odd *odd, const struct queues *queues, struct verdict *v)
{
    const mrg_mw_bind_info *bind = &odd->send->bind_mw.bind_info;
    const struct mw *mw = mw_of(slot_at(handle_token(odd->send->bind_mw.mw)));
    if (mw->pd != queues->pd)
        return whole(v, RULE_WRONG_PD, "the MW is on another PD than the QP");
    if (mw->raw->type == IBV_MW_TYPE_2 && !bind->length)
        return whole(v, RULE_BAD_ARGUMENT, "a window of type 2 is bound to no bytes: IBV_WR_LOCAL_INV closes it");
    if (!bind->mr)
        return whole(v, bind->length ? RULE_UNREGISTERED_POST : RULE_NONE,
                     "a window is bound to a range without an MR");
    struct mr_facts mr = mr_facts(slot_at(handle_token(bind->mr)));
    if (mr.pd != queues->pd)
        return whole(v, RULE_WRONG_PD, "the MR is on another PD than the QP");
    if (!range_within(bind->addr, bind->length, mr.addr, mr.length))
        return whole(v, RULE_OUT_OF_RANGE, "the window reaches outside the MR");
    if (!(mr.access & IBV_ACCESS_MW_BIND))
        return whole(v, RULE_MISSING_ACCESS, "the MR was registered without IBV_ACCESS_MW_BIND");
    if ((bind->mw_access_flags & ACCESS_PEER_WRITES) && !(mr.access & IBV_ACCESS_LOCAL_WRITE))
        return whole(v, RULE_MISSING_ACCESS, "the window lets a peer write into an MR without IBV_ACCESS_LOCAL_WRITE");
    if (mw->raw->type == IBV_MW_TYPE_2 && (odd->send->bind_mw.rkey ^ mw->rkey) >> 8)
        return whole(v, RULE_BAD_ARGUMENT, "a window's new rkey is mrg_inc_rkey of its old one");
    return whole(v, RULE_NONE, NULL);
}

static bool judge_window(const struct odd *odd, const struct queues *queues, struct verdict *v)
{
    bool type_1 = mw_of(slot_at(handle_token(odd->send->bind_mw.mw)))->raw->type == IBV_MW_TYPE_1;
    if (type_1 != odd->type_1)
        return whole(v, RULE_BAD_ARGUMENT,
                     type_1 ? "a window of type 1 is bound by mrg_bind_mw, and not invalidated"
                            : "a window of type 2 is bound by a WR of mrg_ibv_post_send");
    return odd->send->opcode == IBV_WR_LOCAL_INV || judge_bind(odd, queues, v);
}

static bool judge_datagram(const struct odd *odd, const struct queues *queues, struct verdict *v)
{
    if (!odd->send->wr.ud.ah)
        return whole(v, RULE_BAD_ARGUMENT, "a datagram is posted without an AH");
    if (ah_of(slot_at(handle_token(odd->send->wr.ud.ah)))->pd != queues->pd)
        return whole(v, RULE_WRONG_PD, "the AH is on another PD than the QP");
    return true;
}

bool judge_odd(const struct odd *odd, const struct qp *qp, const struct queues *queues, struct verdict *v)
{
    if (odd->malformed)
        return whole(v, RULE_BAD_ARGUMENT, odd->malformed);
    if (changes_window(odd->send))
        return judge_window(odd, queues, v);
    return qp->raw->qp_type != IBV_QPT_UD || judge_datagram(odd, queues, v);
}

/* Refusals */

#define NEAR (UINT64_C(1) << 30)

static int refuse_range(const struct here *here, const mrg_sge *piece, const struct slot *mr)
{
    uint64_t addr = (uintptr_t)piece->addr, start = mr->hot.addr, size = mr->hot.length;
    if (addr < start ? start - addr > NEAR : addr - start > size && addr - start - size > NEAR)
        return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p are nowhere near the MR: is it another buffer's?",
                      piece->length, piece->addr);
    if (addr < start)
        return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p begin %" PRIu64 " bytes before the MR",
                      piece->length, piece->addr, start - addr);
    uint64_t beyond =
        addr - start > size ? addr - start - size + piece->length : piece->length - (size - (addr - start));
    return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p reach %" PRIu64 " byte%s beyond the MR", piece->length,
                  piece->addr, beyond, beyond == 1 ? "" : "s");
}

static int refuse_piece(enum rule rule, const struct here *here, const mrg_send_wr *send, uint32_t access,
                        const mrg_sge *piece)
{
    const struct slot *mr = piece->mr ? slot_find(piece->mr, TYPE_MR) : NULL;
    if (rule == RULE_OUT_OF_RANGE && !mr) /* it went meanwhile */
        return refuse_handle(piece->mr, TYPE_MR, here);
    switch (rule) {
    case RULE_UNREGISTERED_POST:
        return refuse(rule, here, NULL, "%zu bytes at %p come without an MR", piece->length, piece->addr);
    case RULE_LENGTH_TRUNCATED:
        return refuse(rule, here, mr, "%zu bytes do not fit the 32-bit length of an SGE", piece->length);
    case RULE_WRONG_PD:
        return refuse(rule, here, mr, "the MR is on another PD than the %s", send ? "QP" : "QP or SRQ");
    case RULE_OUT_OF_RANGE:
        return refuse_range(here, piece, mr);
    default:
        if (access & IBV_ACCESS_REMOTE_WRITE)
            return refuse(rule, here, mr, "over iWARP a READ needs an MR registered with IBV_ACCESS_REMOTE_WRITE too");
        return refuse(rule, here, mr, "the device would write into an MR registered without IBV_ACCESS_LOCAL_WRITE");
    }
}

int refuse_verdict(const struct verdict *verdict, const mrg_send_wr *send, const mrg_sge *sgl, const struct slot *owner,
                   const struct here *here)
{
    if (verdict->words) {
        bool binds = send && send->opcode == IBV_WR_BIND_MW;
        const struct slot *mr = binds ? slot_find(send->bind_mw.bind_info.mr, TYPE_MR) : NULL;
        return refuse(verdict->rule, here, mr ? mr : owner, "%s", verdict->words);
    }
    if (verdict->piece >= 0) {
        uint32_t access = send ? access_of_send(qp_of(owner), send->opcode) : (uint32_t)IBV_ACCESS_LOCAL_WRITE;
        return refuse_piece(verdict->rule, here, send, access, &sgl[verdict->piece]);
    }
    if (verdict->rule == RULE_INLINE_TOO_LONG)
        return refuse(verdict->rule, here, NULL, "%" PRIu64 " bytes inline, where the QP was granted %" PRIu32,
                      verdict->bytes, qp_of(owner)->max_inline);
    return refuse(verdict->rule, here, NULL, "%" PRIu64 " bytes in one WR, where a message holds 2 GiB",
                  verdict->bytes);
}
